//! What happens to every call before and after its method, whatever the method is: what its
//! log lines say, admission, the deadline, the size of the message, and errors in our form.
//! Knows nothing of records.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header};
use http_body_util::{BodyExt, Collected, Either, LengthLimitError, Limited};
use reprise_domain::text::FieldError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};
use tower::Service;

use super::handover;
use super::status::Error;
use super::unary::{MESSAGE_BYTES_MAX, PREFIX_BYTES, Reply, too_large, unreadable};
use crate::telemetry::call;

const OURS: &str = "/reprise.v1.";

/// Bounds of calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Calls under way at once.
    pub(crate) calls_max: usize,
    /// For calls that bring no deadline.
    pub(crate) deadline_default: Duration,
    /// Longer deadlines are cut to this.
    pub(crate) deadline_max: Duration,
}

/// Lets calls in, until the server drains.
#[derive(Debug)]
pub(crate) struct Gate {
    bounds: Bounds,
    room: Arc<Semaphore>,
    draining: CancellationToken,
}

impl Gate {
    pub(crate) fn new(bounds: Bounds, draining: CancellationToken) -> Self {
        let calls_max = bounds.calls_max.min(Semaphore::MAX_PERMITS);
        Self {
            bounds,
            room: Arc::new(Semaphore::new(calls_max)),
            draining,
        }
    }

    fn admit(&self) -> Result<OwnedSemaphorePermit, Error> {
        if self.draining.is_cancelled() {
            return Err(Error::ShuttingDown);
        }
        Arc::clone(&self.room)
            .try_acquire_owned()
            .map_err(|_| Error::Overloaded)
    }

    /// Returns when no call is under way. To be asked once the server drains.
    pub(crate) async fn idle(&self) {
        let all = u32::try_from(self.bounds.calls_max).unwrap_or(u32::MAX);
        // The semaphore is never closed, so this waits and cannot fail.
        drop(self.room.acquire_many(all).await);
    }

    fn deadline(&self, headers: &HeaderMap) -> Result<Instant, Error> {
        let asked = match headers.get("grpc-timeout") {
            None => self.bounds.deadline_default,
            Some(value) => value.to_str().ok().and_then(timeout).ok_or_else(|| {
                FieldError::new("grpc-timeout", "1 to 8 digits and one of H M S m u n")
            })?,
        };
        let deadline = Instant::now() + asked.min(self.bounds.deadline_max);
        match deadline > Instant::now() {
            true => Ok(deadline),
            false => Err(Error::DeadlineExceeded),
        }
    }
}

/// Reads a `grpc-timeout` (gRPC over HTTP/2, "Requests").
fn timeout(text: &str) -> Option<Duration> {
    let (at, unit) = text.char_indices().next_back()?;
    let digits = &text[..at];
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        'H' => Duration::from_secs(count * 3600),
        'M' => Duration::from_secs(count * 60),
        'S' => Duration::from_secs(count),
        'm' => Duration::from_millis(count),
        'u' => Duration::from_micros(count),
        'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

/// When the caller stops waiting; in the extensions of every request to our services.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(pub(crate) Instant);

/// The service that nearly all calls are for.
pub(crate) trait Usual: Clone + Send + Sync + 'static {
    /// As it stands in paths.
    const NAME: &'static str;

    /// Answers a call.
    fn answer(
        &self,
        method: &str,
        body: Bytes,
        deadline: Instant,
    ) -> impl Future<Output = Result<Reply, Error>> + Send;
}

/// The body of an answer: of the usual service, or of any other.
type Answer = Either<Reply, Body>;

/// All methods, with what happens around each of them: the service that nearly all calls are
/// for, called directly, and a router for the others.
#[derive(Clone)]
pub(crate) struct Front<S> {
    usual: S,
    others: Router,
    gate: Arc<Gate>,
}

impl<S: Usual> Front<S> {
    /// Puts an answer behind every path that neither knows.
    pub(crate) fn new(usual: S, others: Router, gate: &Arc<Gate>) -> Self {
        let others = others
            .route_layer(axum::middleware::from_fn(refuse_others))
            .fallback(unknown_path);
        Self {
            usual,
            others,
            gate: Arc::clone(gate),
        }
    }

    /// Answers a request. What is logged meanwhile says of which call it is.
    pub(crate) fn answer<B>(
        self,
        request: http::Request<B>,
    ) -> impl Future<Output = Response<Answer>>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        // Paths come from callers: only those of our services are bounded.
        let path = request.uri().path_and_query();
        let ours = path.filter(|path| path.path().starts_with(OURS) && path.path().len() < 100);
        call::scope(ours.cloned(), self.answer_boxed(Box::new(request)))
    }

    /// In a box: every step on its way would keep a place for it while the call waits.
    async fn answer_boxed<B>(self, request: Box<http::Request<B>>) -> Response<Answer>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        let began = Instant::now();
        let response = self.routed(request).await;
        tracing::debug!(
            code = ?Status::from_header_map(response.headers()).map_or(Code::Ok, |s| s.code()),
            http = response.status().as_u16(),
            elapsed = ?began.elapsed(),
            "answered"
        );
        response
    }

    async fn routed<B>(self, request: Box<http::Request<B>>) -> Response<Answer>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        let (mut head, body) = request.into_parts();
        let service = head.uri.path().strip_prefix('/');
        let is_usual = service
            .and_then(|service| service.strip_prefix(S::NAME))
            .is_some_and(|method| method.starts_with('/'));
        if !is_usual {
            let request = Request::from_parts(head, Body::new(body));
            return self.other(request).await.map(Either::Right);
        }
        if let Some(refusal) = refusal(&head.headers) {
            return refusal.map(Either::Right);
        }
        // The rest of the head is gone while the call waits, and no future is given a name on
        // its way here: it would have its place twice.
        let deadline = self.gate.deadline(&head.headers);
        let uri = std::mem::take(&mut head.uri);
        drop(head);
        let answered = match deadline {
            Ok(deadline) => {
                bound(&self.gate, deadline, body, async |body| {
                    let method = &uri.path()[S::NAME.len() + 2..];
                    self.usual.answer(method, body, deadline).await
                })
                .await
            }
            Err(error) => Err(error),
        };
        match answered {
            Ok(reply) => reply.into_response().map(Either::Left),
            Err(error) => refuse(error).map(Either::Right),
        }
    }

    /// Health, reflection and the like pass: they are asked while the server drains, and may
    /// stream.
    async fn other(mut self, request: Request) -> Response<Body> {
        if !request.uri().path().starts_with(OURS) {
            let Ok(answer) = self.others.call(request).await;
            return answer;
        }
        let deadline = match self.gate.deadline(request.headers()) {
            Ok(deadline) => deadline,
            Err(error) => return refuse(error),
        };
        let (mut head, body) = request.into_parts();
        let answered = bound(&self.gate, deadline, body, async move |body| {
            head.extensions.insert(Deadline(deadline));
            let request = Request::from_parts(head, Body::from(body));
            let Ok(answer) = self.others.call(request).await;
            Ok(handover::tied(dressed(answer)))
        });
        answered.await.unwrap_or_else(refuse)
    }
}

/// Refuses what a browser can send to a loopback address on behalf of any web page: simple
/// requests, whose content type needs no leave, and requests from an origin, of which
/// none is configured.
fn refusal(headers: &HeaderMap) -> Option<Response<Body>> {
    if headers.contains_key(header::ORIGIN) {
        return Some(plain(StatusCode::FORBIDDEN, NO_ORIGINS));
    }
    (!is_grpc(headers)).then(|| plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, GRPC_ALONE))
}

/// As [`refusal`], of what the router has a method for: no gRPC reaches no method, and
/// nothing of it is read.
async fn refuse_others(request: Request, next: Next) -> Response<Body> {
    match refusal(request.headers()) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    }
}

/// Is the content type `application/grpc`, with a message format or parameters perhaps
/// (gRPC over HTTP/2, "Requests")? gRPC-Web is another protocol.
fn is_grpc(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(only), None) = (types.next(), types.next()) else {
        return false;
    };
    let rest = only.as_bytes().strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// Admission, size and deadline of a call to our services.
async fn bound<T, B>(
    gate: &Gate,
    deadline: Instant,
    body: B,
    next: impl AsyncFnOnce(Bytes) -> Result<T, Error>,
) -> Result<T, Error>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<axum::BoxError>,
{
    tokio::select! {
        biased;
        () = tokio::time::sleep_until(deadline.into()) => Err(Error::DeadlineExceeded),
        answered = async {
            let admitted = gate.admit();
            // Some clients lose an answer that comes before their message was read.
            let body = read(body).await?;
            let _permit = admitted?;
            next(body).await
        } => answered,
    }
}

async fn read<B>(body: B) -> Result<Bytes, Error>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<axum::BoxError>,
{
    let limited = Limited::new(body, MESSAGE_BYTES_MAX + PREFIX_BYTES);
    let read = limited.collect().await;
    read.map(Collected::to_bytes).map_err(|error| {
        if error.is::<LengthLimitError>() {
            too_large()
        } else {
            unreadable()
        }
    })
}

/// Gives errors that tonic made by itself our reasons.
fn dressed(response: Response<Body>) -> Response<Body> {
    let Some(status) = Status::from_header_map(response.headers()) else {
        return response;
    };
    if !status.details().is_empty() {
        return response;
    }
    match status.code() {
        Code::OutOfRange => refuse(too_large()),
        Code::Internal => refuse(unreadable()),
        Code::Unimplemented if status.message().is_empty() => refuse(Error::UnknownMethod),
        Code::Unimplemented => refuse(Error::Compressed),
        _ => response,
    }
}

fn refuse(error: Error) -> Response<Body> {
    Status::from(error).into_http()
}

async fn unknown_path(request: Request) -> Response<Body> {
    if is_grpc(request.headers()) {
        return refuse(Error::UnknownMethod);
    }
    if request.uri().path() == "/" {
        plain(StatusCode::OK, ABOUT)
    } else {
        plain(StatusCode::NOT_FOUND, NOTHING_HERE)
    }
}

/// For people, and for programs that do not speak gRPC.
fn plain(code: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

const ABOUT: &str = concat!(
    "Reprise ",
    env!("CARGO_PKG_VERSION"),
    ": run a side effect once.\n\
     This port speaks gRPC; reflection lists the services. Try `reprise demo`.\n"
);
const NOTHING_HERE: &str = "There is nothing here. This port speaks gRPC.\n";
const GRPC_ALONE: &str = "This port speaks gRPC: content-type application/grpc.\n";
const NO_ORIGINS: &str = "No web page may call this server.\n";

#[cfg(test)]
mod tests {
    use super::*;

    /// A service that nobody calls.
    #[derive(Clone)]
    struct Absent;

    impl Usual for Absent {
        const NAME: &'static str = "reprise.v1.AbsentService";

        async fn answer(&self, _: &str, _: Bytes, _: Instant) -> Result<Reply, Error> {
            std::future::pending().await
        }
    }

    async fn asked(gate: &Arc<Gate>, path: &str) -> Response<Answer> {
        let answered = || async { "answered" };
        let router = Router::new().route(path, axum::routing::post(answered));
        let request = Request::post(path)
            .header(header::CONTENT_TYPE, "application/grpc")
            .body(Body::empty())
            .unwrap();
        Front::new(Absent, router, gate).answer(request).await
    }

    #[tokio::test]
    async fn while_the_server_drains_our_calls_are_refused_and_health_is_not() {
        let bounds = Bounds {
            calls_max: 1,
            deadline_default: Duration::from_secs(10),
            deadline_max: Duration::from_secs(10),
        };
        let gate = Arc::new(Gate::new(bounds, CancellationToken::new()));
        let ours = "/reprise.v1.RepriseService/Lookup";
        assert!(Status::from_header_map(asked(&gate, ours).await.headers()).is_none());
        gate.draining.cancel();
        let refused = asked(&gate, ours).await;
        let status = Status::from_header_map(refused.headers()).unwrap();
        assert_eq!(status.code(), Code::Unavailable);
        let info = tonic_types::StatusExt::get_details_error_info(&status);
        assert_eq!(info.unwrap().reason, "SHUTTING_DOWN");
        let health = asked(&gate, "/grpc.health.v1.Health/Check").await;
        assert!(Status::from_header_map(health.headers()).is_none());
    }

    #[test]
    fn grpc_is_told_from_what_begins_like_it() {
        let is = |types: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in types {
                headers.append(header::CONTENT_TYPE, value.parse().unwrap());
            }
            is_grpc(&headers)
        };
        for grpc in [
            "application/grpc",
            "application/grpc+proto",
            "application/grpc;x=y",
        ] {
            assert!(is(&[grpc]), "{grpc}");
        }
        for other in [
            "",
            "text/plain",
            "application/grpc-web",
            "application/grpcx",
        ] {
            assert!(!is(&[other]), "{other}");
        }
        assert!(!is(&[]));
        assert!(!is(&["application/grpc", "text/plain"]));
    }

    #[test]
    fn timeouts_are_read_in_every_unit_and_nothing_else_is() {
        for (text, expected) in [
            ("1H", Duration::from_secs(3600)),
            ("2M", Duration::from_secs(120)),
            ("99999999S", Duration::from_secs(99_999_999)),
            ("250m", Duration::from_millis(250)),
            ("7u", Duration::from_micros(7)),
            ("0n", Duration::ZERO),
        ] {
            assert_eq!(timeout(text), Some(expected), "{text}");
        }
        for text in ["", "S", "1", "1s", "-1S", "123456789S", "1.5S", "1\u{20ac}"] {
            assert_eq!(timeout(text), None, "{text}");
        }
    }
}
