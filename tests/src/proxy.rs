//! A TCP proxy that loses answers, stalls, cuts and refuses on command.
//!
//! It moves bytes and knows no protocol. What is held back stays in the sockets
//! and in one buffer for each direction, so its memory is bounded.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, watch};
use tokio::task::{AbortHandle, JoinSet};

const BUFFER_BYTES: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Pass,
    SwallowAnswers,
    Freeze,
    Refuse,
}

#[derive(Clone, Copy, Debug)]
enum Direction {
    Request,
    Answer,
}

impl Mode {
    fn lets_pass(self, direction: Direction) -> bool {
        match self {
            Self::Pass | Self::Refuse => true,
            Self::SwallowAnswers => matches!(direction, Direction::Request),
            Self::Freeze => false,
        }
    }
}

/// A proxy on a port of its own of 127.0.0.1; it ends, with its connections, on
/// drop.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    target: watch::Sender<SocketAddr>,
    mode: watch::Sender<Mode>,
    shared: Arc<Shared>,
    acceptor: AbortHandle,
}

#[derive(Debug, Default)]
struct Shared {
    connections: Mutex<JoinSet<()>>,
    accepted: AtomicUsize,
    open: AtomicUsize,
    held_answer_bytes: AtomicUsize,
}

impl Proxy {
    /// Starts to pass connections on to `target`.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let (target, aim) = watch::channel(target);
        let (mode, watcher) = watch::channel(Mode::Pass);
        let shared = Arc::new(Shared::default());
        let accepting = accept(listener, aim, watcher, Arc::clone(&shared));
        let acceptor = tokio::spawn(accepting).abort_handle();
        Ok(Self {
            addr,
            target,
            mode,
            shared,
            acceptor,
        })
    }

    /// Where clients connect to.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// New connections go to `target` from now on; open ones stay where they are.
    pub fn aim(&self, target: SocketAddr) {
        self.target.send_replace(target);
    }

    /// Everything passes, starting with what was held back.
    pub fn pass(&self) {
        self.mode.send_replace(Mode::Pass);
    }

    /// What clients send passes, what the target answers is held back. A
    /// [`Proxy::cut`] then loses it for good.
    pub fn swallow_answers(&self) {
        self.shared.held_answer_bytes.store(0, Ordering::Relaxed);
        self.mode.send_replace(Mode::SwallowAnswers);
    }

    /// Nothing passes either way, the end of a connection included. New
    /// connections are accepted and stall.
    pub fn freeze(&self) {
        self.mode.send_replace(Mode::Freeze);
    }

    /// New connections are closed as soon as they are accepted; open ones go on.
    pub fn refuse(&self) {
        self.mode.send_replace(Mode::Refuse);
    }

    /// Drops all connections and what is held back. New ones follow the mode.
    pub async fn cut(&self) {
        self.shared.connections.lock().await.shutdown().await;
    }

    /// How many connections were accepted so far, refused ones included.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// How many connections are open now.
    #[must_use]
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// How many bytes of answers were read from the target and held back since
    /// [`Proxy::swallow_answers`]; what does not fit the buffers is not counted.
    #[must_use]
    pub fn held_answer_bytes(&self) -> usize {
        self.shared.held_answer_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The connections end with the set that the acceptor shares.
        self.acceptor.abort();
    }
}

async fn accept(
    listener: TcpListener,
    target: watch::Receiver<SocketAddr>,
    mode: watch::Receiver<Mode>,
    shared: Arc<Shared>,
) {
    // A failed accept is the client's loss, as on a real network.
    loop {
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        shared.accepted.fetch_add(1, Ordering::Relaxed);
        let refused = *mode.borrow() == Mode::Refuse;
        if refused {
            continue;
        }
        let open = Open::new(&shared);
        let mut connections = shared.connections.lock().await;
        while connections.try_join_next().is_some() {}
        let target = *target.borrow();
        connections.spawn(serve(client, target, mode.clone(), open));
    }
}

/// Counts a connection while it lives, however it ends.
struct Open(std::sync::Weak<Shared>);

impl Open {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.open.fetch_add(1, Ordering::Relaxed);
        // Weak: the connections live in what they would keep alive.
        Self(Arc::downgrade(shared))
    }

    fn hold(&self, bytes: usize) {
        if let Some(shared) = self.0.upgrade() {
            shared.held_answer_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Carries one connection until either side fails or both have ended; both
/// sockets close with it, so neither side waits for a peer that is gone.
async fn serve(client: TcpStream, target: SocketAddr, mode: watch::Receiver<Mode>, open: Open) {
    let Ok(server) = TcpStream::connect(target).await else {
        return;
    };
    if client.set_nodelay(true).is_err() || server.set_nodelay(true).is_err() {
        return;
    }
    let (client_reads, client_writes) = client.into_split();
    let (server_reads, server_writes) = server.into_split();
    let requests = pump(
        client_reads,
        server_writes,
        Direction::Request,
        mode.clone(),
        &open,
    );
    let answers = pump(server_reads, client_writes, Direction::Answer, mode, &open);
    // An error is the end of the connection, which is all that a proxy can do.
    let _ended = tokio::try_join!(requests, answers);
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    direction: Direction,
    mut mode: watch::Receiver<Mode>,
    open: &Open,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let length = from.read(&mut buffer).await?;
        // The mode counts that holds when the bytes are here.
        if *mode.borrow() == Mode::SwallowAnswers && matches!(direction, Direction::Answer) {
            open.hold(length);
        }
        mode.wait_for(|mode| mode.lets_pass(direction))
            .await
            .map_err(io::Error::other)?;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..length]).await?;
    }
}
