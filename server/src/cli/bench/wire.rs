//! A small gRPC client over HTTP/2, for unary calls alone: it spends as little as it can,
//! since the load shares its machine with what it measures. Knows messages as bytes that
//! encode and decode, not what they mean.

use std::cell::RefCell;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::RecvStream;
use h2::client::{self, SendRequest};
use http::header::{CONTENT_TYPE, TE, USER_AGENT};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version,
};
use prost::Message;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::spawn_local;
use tokio::time::{Sleep, sleep_until, timeout};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::cli::input;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// After a connection could not be made: so that a server that is away is not asked for
/// one by every operation.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);
/// What the server may send ahead on one stream, in bytes: one message of any size.
const STREAM_WINDOW: u32 = 8 << 20;
/// And on one connection.
const CONNECTION_WINDOW: u32 = 64 << 20;
/// What the caller waits longer than the server is told, so that its word comes first.
const GRACE: Duration = Duration::from_secs(1);
/// Connections that may end one after another before a request of one call was read.
const GOODBYES_MAX: u32 = 3;
/// Before each message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// Why a call has no answer: a status code and a reason, e.g.
/// `UNAVAILABLE STORE_UNAVAILABLE`. Reasons of this side are `NOT_CONNECTED`,
/// `CONNECTION_LOST`, `NO_ANSWER` (within the deadline), `NOT_GRPC`, and the name of an
/// HTTP/2 error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure(pub(super) String);

impl Failure {
    fn new(code: Code, reason: &str) -> Failure {
        match reason {
            "" => Failure(code_name(code).to_owned()),
            reason => Failure(format!("{} {reason}", code_name(code))),
        }
    }

    /// The connection is over, or one stream of it.
    fn broken(error: &h2::Error) -> Failure {
        match error.reason() {
            Some(reason) if reason != h2::Reason::NO_ERROR => {
                Failure::new(Code::Unavailable, &format!("{reason:?}"))
            }
            _ => Failure::new(Code::Unavailable, "CONNECTION_LOST"),
        }
    }

    fn not_grpc() -> Failure {
        Failure::new(Code::Internal, "NOT_GRPC")
    }

    /// The same call may go well a moment later.
    pub(super) fn may_pass(&self) -> bool {
        self.0.starts_with("UNAVAILABLE") || self.0.starts_with("RESOURCE_EXHAUSTED")
    }
}

/// A server, and how it is called.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    /// Host and port.
    authority: String,
    headers: HeaderMap,
    deadline: Duration,
}

impl Endpoint {
    /// A server at `url` whose calls end after `deadline`.
    ///
    /// # Errors
    /// Says which form of address is allowed.
    pub(super) fn new(url: &str, deadline: Duration) -> Result<Endpoint, String> {
        let form = || format!("{url:?} must be http://HOST:PORT");
        let uri: Uri = url.parse().map_err(|_| form())?;
        let plain = uri.scheme_str() == Some("http") && matches!(uri.path(), "" | "/");
        let authority = uri.authority().filter(|it| plain && !it.host().is_empty());
        let authority = authority.ok_or_else(form)?;
        let authority = match authority.port() {
            Some(_) => authority.to_string(),
            None => format!("{authority}:80"),
        };
        let mut headers = HeaderMap::new();
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        let agent = concat!("reprise-bench/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        let limit = HeaderValue::from_str(&format!("{}m", deadline.as_millis()));
        let limit = limit.map_err(|error| error.to_string())?;
        headers.insert(HeaderName::from_static("grpc-timeout"), limit);
        Ok(Endpoint {
            authority,
            headers,
            deadline,
        })
    }

    /// The address of one rpc, e.g. `/reprise.v1.RepriseService/Reserve`.
    pub(super) fn uri(&self, path: &str) -> Result<Uri, http::Error> {
        let uri = Uri::builder().scheme("http");
        uri.authority(self.authority.as_str())
            .path_and_query(path)
            .build()
    }
}

/// One connection, made again after it ended.
#[derive(Debug)]
pub(super) struct Connection {
    endpoint: Endpoint,
    open: RefCell<Option<SendRequest<Bytes>>>,
    /// Held while it is made, so that only one caller does.
    opening: Mutex<()>,
}

impl Connection {
    /// One to `endpoint`, not made yet.
    pub(super) fn new(endpoint: Endpoint) -> Connection {
        Connection {
            endpoint,
            open: RefCell::new(None),
            opening: Mutex::new(()),
        }
    }

    /// Makes it. Says in words what went wrong.
    pub(super) async fn open(&self) -> Result<SendRequest<Bytes>, String> {
        let authority = self.endpoint.authority.as_str();
        let told = |error: &dyn std::error::Error| format!("{authority}: {error}");
        let connect = async {
            let tcp = TcpStream::connect(authority).await;
            let tcp = tcp.map_err(|error| told(&error))?;
            tcp.set_nodelay(true).map_err(|error| told(&error))?;
            let mut settings = client::Builder::new();
            settings
                .initial_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .enable_push(false);
            let (sender, connection) = settings
                .handshake::<_, Bytes>(tcp)
                .await
                .map_err(|error| told(&error))?;
            // Ends with the connection; what went wrong is told to each call on it.
            spawn_local(async move {
                let _told_to_calls = connection.await;
            });
            // Waits for nothing: HTTP/2 says nothing before the first request is answered.
            *self.open.borrow_mut() = Some(sender.clone());
            Ok(sender)
        };
        timeout(CONNECT_TIMEOUT, connect)
            .await
            .unwrap_or_else(|_| Err(format!("{authority}: no connection within 2 s")))
    }

    /// A sender that takes a request now.
    async fn ready(&self) -> Result<SendRequest<Bytes>, Failure> {
        let open = self.open.borrow().clone();
        if let Some(open) = open
            && let Ok(ready) = open.ready().await
        {
            return Ok(ready);
        }
        // Never made, or ended, also in good order after its time: one caller makes it
        // anew, nothing was sent yet.
        let _turn = self.opening.lock().await;
        let open = self.open.borrow().clone();
        if let Some(open) = open
            && let Ok(ready) = open.ready().await
        {
            return Ok(ready);
        }
        let Ok(open) = self.open().await else {
            tokio::time::sleep(CONNECT_PAUSE).await;
            return Err(Failure::new(Code::Unavailable, "NOT_CONNECTED"));
        };
        open.ready().await.map_err(|error| Failure::broken(&error))
    }

    /// Calls the rpc at `uri`.
    pub(super) async fn call<A: Message + Default>(
        &self,
        uri: &Uri,
        request: &impl Message,
        clock: &mut Deadline,
    ) -> Result<A, Failure> {
        clock.start(self.endpoint.deadline + GRACE);
        let answer = clock.bound(self.exchange(uri, request)).await;
        let answer =
            answer.unwrap_or_else(|| Err(Failure::new(Code::DeadlineExceeded, "NO_ANSWER")))?;
        A::decode(answer).map_err(|_| Failure::not_grpc())
    }

    async fn exchange(&self, uri: &Uri, message: &impl Message) -> Result<Bytes, Failure> {
        let mut goodbyes = 0;
        let response = loop {
            match self.sent(uri, message).await? {
                Ok(response) => break response,
                Err(error) if is_goodbye(&error) && goodbyes < GOODBYES_MAX => goodbyes += 1,
                Err(error) => return Err(Failure::broken(&error)),
            }
        };
        let (head, body) = response.into_parts();
        if head.status != StatusCode::OK {
            let status = format!("HTTP_{}", head.status.as_u16());
            return Err(Failure::new(Code::Unknown, &status));
        }
        if head.headers.contains_key(Status::GRPC_STATUS) {
            ended(&head.headers)?;
        }
        unary(body).await
    }

    async fn sent(
        &self,
        uri: &Uri,
        message: &impl Message,
    ) -> Result<Result<Response<RecvStream>, h2::Error>, Failure> {
        let mut sender = self.ready().await?;
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.version_mut() = Version::HTTP_2;
        uri.clone_into(request.uri_mut());
        self.endpoint.headers.clone_into(request.headers_mut());
        Ok(match sender.send_request(request, false) {
            Ok((response, mut stream)) => {
                // Why a stream takes nothing any more is told by its answer.
                let _told_by_the_answer = stream.send_data(framed(message), true);
                response.await
            }
            Err(error) => Err(error),
        })
    }
}

/// Did the server end the connection in good order before it read this request? Then nothing
/// of it happened (RFC 9113, section 6.8).
fn is_goodbye(error: &h2::Error) -> bool {
    error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR)
}

/// A message behind its prefix, not compressed.
fn framed(message: &impl Message) -> Bytes {
    let bytes = message.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + bytes);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(bytes).unwrap_or(u32::MAX));
    message
        .encode(&mut frame)
        .expect("a buffer that grows takes any message");
    frame.freeze()
}

/// The one message of a body that ends well.
async fn unary(mut body: RecvStream) -> Result<Bytes, Failure> {
    let broken = |error: h2::Error| Failure::broken(&error);
    let mut frame = Bytes::new();
    while let Some(part) = body.data().await {
        let part = part.map_err(broken)?;
        let _unless_the_stream_is_over = body.flow_control().release_capacity(part.len());
        if frame.is_empty() {
            frame = part;
        } else {
            frame = [frame, part].concat().into();
        }
    }
    let trailers = body.trailers().await.map_err(broken)?;
    ended(&trailers.ok_or_else(Failure::not_grpc)?)?;
    message_in(frame).ok_or_else(Failure::not_grpc)
}

/// What is behind the prefix, when that is one whole message that is not compressed.
fn message_in(frame: Bytes) -> Option<Bytes> {
    let (prefix, message) = frame.split_first_chunk::<PREFIX_BYTES>()?;
    let [0, length @ ..] = *prefix else {
        return None;
    };
    let whole = usize::try_from(u32::from_be_bytes(length)) == Ok(message.len());
    whole.then(|| frame.slice(PREFIX_BYTES..))
}

/// Reads the status that ends a call.
fn ended(trailers: &HeaderMap) -> Result<(), Failure> {
    let code = trailers.get(Status::GRPC_STATUS);
    let code = code.ok_or_else(Failure::not_grpc)?.as_bytes();
    if code == b"0" {
        return Ok(());
    }
    let details = trailers.get("grpc-status-details-bin");
    let details = details.and_then(|it| it.to_str().ok());
    let details = details.and_then(input::base64).unwrap_or_default();
    let status = Status::with_details(Code::from_bytes(code), "", details);
    let reason = status.get_details_error_info().map(|it| it.reason);
    Err(Failure::new(status.code(), &reason.unwrap_or_default()))
}

/// The name of a code as the gRPC specification writes it.
fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// A timer that one caller uses for call after call. It is set anew only where it rang
/// too early, since setting one costs more than all else that a call does with time.
#[derive(Debug)]
pub(super) struct Deadline {
    rings: Pin<Box<Sleep>>,
    due: Instant,
}

impl Deadline {
    /// One that is not due.
    pub(super) fn new() -> Deadline {
        let due = Instant::now();
        Deadline {
            rings: Box::pin(sleep_until(due.into())),
            due,
        }
    }

    fn start(&mut self, after: Duration) {
        self.due = Instant::now() + after;
    }

    /// What `work` answers, or nothing where that takes too long.
    async fn bound<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        std::future::poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => self.poll(context).map(|()| None),
        })
        .await
    }

    /// One that rings late says that this process stood still, perhaps the whole machine.
    /// What arrived meanwhile was not read yet, so the call has some more time: it is not
    /// the server that let it wait.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.rings.as_mut().poll(context).is_ready() {
            match Instant::now().checked_duration_since(self.due) {
                None => {}
                Some(late) if late < GRACE => return Poll::Ready(()),
                Some(_) => self.due = Instant::now() + GRACE,
            }
            self.rings.as_mut().reset(self.due.into());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[test]
    fn an_address_is_plain_http_with_a_host() {
        let deadline = Duration::from_secs(5);
        for good in ["http://127.0.0.1:7077", "http://db/", "http://[::1]:1"] {
            assert!(Endpoint::new(good, deadline).is_ok(), "{good}");
        }
        for bad in ["https://a:1", "http://a/b", "a:1", "", "http://"] {
            let told = Endpoint::new(bad, deadline).expect_err(bad);
            assert!(told.contains("must be http://HOST:PORT"), "{told}");
        }
    }

    #[test]
    fn a_frame_is_one_whole_message() {
        let message = prost_types::Duration {
            seconds: 300,
            nanos: 0,
        };
        let frame = framed(&message);
        assert_eq!(frame[..6], [0, 0, 0, 0, 3, 8]);
        let inside = message_in(frame.clone()).expect("a message");
        assert_eq!(prost_types::Duration::decode(inside), Ok(message));
        assert_eq!(message_in(frame.slice(..frame.len() - 1)), None);
        assert_eq!(message_in(frame.slice(..4)), None);
        assert_eq!(message_in(Bytes::from_static(&[1, 0, 0, 0, 0])), None);
    }

    /// Reads frames up to the first HEADERS of a request, whose stream it answers with a goodbye
    /// that leaves it out.
    async fn goodbye(mut tcp: TcpStream) -> std::io::Result<()> {
        const HEADERS: u8 = 1;
        let mut preface = [0; 24];
        tcp.read_exact(&mut preface).await?;
        tcp.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await?;
        loop {
            let mut head = [0; 9];
            tcp.read_exact(&mut head).await?;
            let length = usize::from(head[1]) << 8 | usize::from(head[2]);
            tcp.read_exact(&mut vec![0; length]).await?;
            if head[3] == HEADERS {
                break;
            }
        }
        let goaway = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        tcp.write_all(&goaway).await
    }

    /// Answers one call with an empty message.
    async fn answer(tcp: TcpStream) -> Result<(), h2::Error> {
        let mut connection = h2::server::handshake(tcp).await?;
        while let Some(call) = connection.accept().await {
            let (_, mut respond) = call?;
            let mut stream = respond.send_response(Response::new(()), false)?;
            stream.send_data(Bytes::from_static(&[0; PREFIX_BYTES]), false)?;
            let mut trailers = HeaderMap::new();
            trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("0"));
            stream.send_trailers(trailers)?;
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_request_that_a_goodbye_left_out_is_sent_again() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let server = async {
            let first = listener.accept().await.expect("a connection").0;
            goodbye(first).await.expect("one request");
            let second = listener.accept().await.expect("another connection").0;
            answer(second).await
        };
        let endpoint = Endpoint::new(&url, Duration::from_secs(5)).expect("an address");
        let uri = endpoint.uri("/a/b").expect("a path");
        let connection = Connection::new(endpoint);
        let call = async {
            let message = prost_types::Duration::default();
            let mut clock = Deadline::new();
            connection
                .call::<prost_types::Duration>(&uri, &message, &mut clock)
                .await
        };
        let both = async {
            tokio::select! {
                answered = call => answered,
                ended = server => panic!("the server ended first: {ended:?}"),
            }
        };
        let answered = tokio::task::LocalSet::new().run_until(both).await;
        assert_eq!(answered, Ok(prost_types::Duration::default()));
    }

    /// Answers when it is polled for the second time, as a call does whose answer is still
    /// to be read.
    async fn unread() -> u8 {
        tokio::task::yield_now().await;
        7
    }

    #[tokio::test]
    async fn what_arrived_while_this_process_stood_still_is_an_answer() {
        let mut clock = Deadline::new();
        clock.due = Instant::now().checked_sub(GRACE).expect("a past");
        assert_eq!(clock.bound(unread()).await, Some(7));
    }

    #[tokio::test]
    async fn what_comes_after_the_deadline_is_none() {
        let mut clock = Deadline::new();
        assert_eq!(clock.bound(std::future::pending::<u8>()).await, None);
    }

    #[test]
    fn a_status_is_told_by_code_and_reason() {
        let mut trailers = HeaderMap::new();
        assert_eq!(ended(&trailers), Err(Failure::not_grpc()));
        trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("0"));
        assert_eq!(ended(&trailers), Ok(()));
        trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("14"));
        assert_eq!(ended(&trailers), Err(Failure("UNAVAILABLE".to_owned())));
        let details = tonic_types::ErrorDetails::with_error_info(
            "SHUTTING_DOWN",
            "reprise",
            std::collections::HashMap::new(),
        );
        let status = Status::with_error_details(Code::Unavailable, "", details);
        let sent = status.into_http::<()>();
        let failure = ended(sent.headers()).expect_err("an error");
        assert_eq!(failure.0, "UNAVAILABLE SHUTTING_DOWN");
        assert!(failure.may_pass());
    }
}
