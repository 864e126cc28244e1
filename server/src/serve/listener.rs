//! One port for HTTP/1.1 and HTTP/2, with an acceptor of its own: bounded connections
//! and streams, no delays, keepalive, an age limit, and a goodbye before the end.
//!
//! It knows connections and what answers on them, nothing of what is served.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rand::RngExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::grpc::Front;

/// For the first bytes of a connection, and for the head of an HTTP/1.1 request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// A peer that shows no sign of life is asked for one, and given up.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(60);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// How much may be under way to us on one stream and on one connection.
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;
const HEADER_LIST_BYTES_MAX: u32 = 32 * 1024;
/// When the system has no more sockets or memory, accepting again at once only burns.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// What every HTTP/2 connection begins with (RFC 9113, section 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Accepts connections and serves `front` on them.
pub(super) struct Listener {
    front: Front,
    http: auto::Builder<TokioExecutor>,
    room: Arc<Semaphore>,
    age: Duration,
    connections: TaskTracker,
    draining: CancellationToken,
    cut: CancellationToken,
}

impl Listener {
    /// Serves `front` until `draining`, within the bounds of `config`.
    pub(super) fn new(front: Front, config: &Config, draining: CancellationToken) -> Arc<Self> {
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME);
        // Callers whose deadlines run out reset their streams: as many at once as there
        // may be streams are no attack, and others share the connection.
        let resets_max = usize::try_from(config.streams_max).unwrap_or(usize::MAX);
        http.http2()
            .timer(TokioTimer::new())
            .auto_date_header(false)
            .max_pending_accept_reset_streams(resets_max)
            .max_local_error_reset_streams(resets_max)
            .max_concurrent_streams(config.streams_max)
            .keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEADER_LIST_BYTES_MAX);
        Arc::new(Self {
            front,
            http,
            room: Arc::new(Semaphore::new(config.connections_max)),
            age: config.connection_age,
            connections: TaskTracker::new(),
            draining,
            cut: CancellationToken::new(),
        })
    }

    /// Accepts until the server drains; then the port is free.
    pub(super) async fn accept(self: Arc<Self>, tcp: TcpListener) {
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.draining.cancelled() => break,
                accepted = tcp.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => self.take(stream),
                Err(error) if is_about_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        self.connections.close();
    }

    fn take(self: &Arc<Self>, stream: TcpStream) {
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            tracing::warn!("a connection over connections_max was closed");
            return;
        };
        let listener = Arc::clone(self);
        self.connections.spawn(async move {
            if let Err(error) = listener.serve(stream).await {
                tracing::debug!(error, "a connection ended badly");
            }
            drop(permit);
        });
    }

    async fn serve(
        &self,
        stream: TcpStream,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        stream.set_nodelay(true)?;
        tokio::select! {
            () = self.draining.cancelled() => return Ok(()),
            begun = tokio::time::timeout(HEAD_TIME, begun(&stream)) => begun??,
        }
        // Counts the calls of this connection that are not answered, and itself.
        let under_way = Arc::new(());
        let service = service_fn(|request: http::Request<Incoming>| {
            // In a box: what carries it moves it about several times.
            let answer = Box::pin(self.front.clone().answer(request));
            let under_way = Arc::clone(&under_way);
            async move {
                let answer = answer.await;
                drop(under_way);
                Ok::<_, Infallible>(answer)
            }
        });
        let connection = self.http.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let age = self.age.mul_f64(rand::rng().random_range(0.9..=1.1));
        let (mut leaving, mut in_turn) = (false, false);
        let aged = tokio::time::sleep(age);
        tokio::pin!(aged);
        loop {
            tokio::select! {
                ended = poll_fn(|context| {
                    // Calls that can be answered go first: what they answer is written at
                    // once, not each by itself. A lone call has none to wait for.
                    in_turn = !in_turn && Arc::strong_count(&under_way) > 2;
                    if in_turn {
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    connection.as_mut().poll(context)
                }) => return ended,
                () = self.cut.cancelled() => return Ok(()),
                () = self.draining.cancelled(), if !leaving => {}
                () = aged.as_mut(), if !leaving => {}
            }
            // GOAWAY: what is under way finishes, what comes goes elsewhere.
            leaving = true;
            connection.as_mut().graceful_shutdown();
        }
    }

    /// Returns when there are no connections any more. To be asked once the server drains.
    pub(super) async fn empty(&self) {
        self.connections.wait().await;
    }

    /// Ends the connections that are left.
    pub(super) async fn cut_off(&self) {
        self.cut.cancel();
        self.connections.wait().await;
    }
}

/// Waits until the first bytes tell HTTP/1.1 from HTTP/2: what reads them afterwards has
/// no time limit of its own.
async fn begun(stream: &TcpStream) -> io::Result<()> {
    let mut first = [0; HTTP2_PREFACE.len()];
    loop {
        let count = stream.peek(&mut first).await?;
        if count == 0 || count == first.len() || !HTTP2_PREFACE.starts_with(&first[..count]) {
            return Ok(());
        }
        // Part of a preface is there already, so waiting for readiness would not wait.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}
