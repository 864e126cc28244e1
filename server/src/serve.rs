//! The server's life: open the store, listen, serve, drain. It knows the order in which
//! things begin and end, and nothing of calls or records.

mod listener;
mod storage;

use std::fmt::Write as _;
use std::future::Future;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::grpc::{self, Bounds, Calls, Gate, Health, Policies, Rooms};
use crate::store::Store;
use crate::tasks::{Figures, Mismatches, Upkeep};
use crate::telemetry;
use listener::Listener;

/// Time for the store to finish what was handed in, once nobody calls it any more. With
/// the drain it bounds the end of a server.
const CLOSE_TIME: Duration = Duration::from_secs(2);

/// Serves until `shutdown`, then drains. Says on standard output where it listens.
///
/// # Errors
/// When it cannot start: a setting, the store, the port.
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
    let running = start(&config).await?;
    // Who closed standard output does not want to know.
    let _ = writeln!(
        std::io::stdout(),
        "{}",
        first_screen(&config, running.addr())
    );
    shutdown.await;
    tracing::info!("draining: no new calls, at most {:?}", config.drain);
    running.shutdown();
    running.stopped().await
}

/// Ends when the process is asked to end: SIGTERM or SIGINT. They are listened for from
/// the call on, so that one that comes during the start is not missed.
///
/// # Panics
/// Outside a runtime, and when the system takes no signal handlers.
pub fn shutdown_signal() -> impl Future<Output = ()> {
    let handler = |kind| signal(kind).expect("a process may handle SIGTERM and SIGINT");
    let (mut term, mut int) = (
        handler(SignalKind::terminate()),
        handler(SignalKind::interrupt()),
    );
    async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    }
}

/// Opens the store that `config` names and serves on it.
///
/// # Errors
/// As [`run`].
pub async fn start(config: &Config) -> anyhow::Result<Running> {
    config.check()?;
    let rooms = Rooms::new(config.waiters);
    // Before the store: a second server on a taken port must not touch the data.
    let tcp = listen(config.listen).await?;
    let store = storage::open(config, &rooms).await?;
    serve(config, tcp, store, rooms).await
}

/// Serves on a store that is already open. It must tell `rooms` about its changes (see
/// [`Rooms::on_change`]), and is closed at the end.
///
/// # Errors
/// When the port is taken or the store does not answer.
pub async fn start_on(
    config: &Config,
    store: Arc<dyn Store>,
    rooms: Rooms,
) -> anyhow::Result<Running> {
    let tcp = listen(config.listen).await?;
    serve(config, tcp, store, rooms).await
}

async fn listen(addr: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(addr).await.with_context(|| {
        format!("cannot listen on {addr}; another address is chosen by --listen ADDR:PORT")
    })
}

async fn serve(
    config: &Config,
    tcp: TcpListener,
    store: Arc<dyn Store>,
    rooms: Rooms,
) -> anyhow::Result<Running> {
    let addr = tcp.local_addr()?;
    let draining = CancellationToken::new();
    let built_in = Arc::new(config.policy.clone());
    let policies = Policies::load(Arc::clone(&store), built_in)
        .await
        .context("the policies cannot be read")?;
    let calls = Arc::new(Calls {
        store: Arc::clone(&store),
        policies: Arc::new(policies),
        rooms,
        mismatches: Arc::new(Mismatches::default()),
        policy_changes: TaskTracker::new(),
        draining: draining.clone(),
    });
    let bounds = Bounds {
        calls_max: config.calls_max,
        deadline_default: config.deadline_default,
        deadline_max: config.deadline_max,
    };
    let gate = Arc::new(Gate::new(bounds, draining.clone()));
    let figures = Arc::new(Figures::default());
    let (front, health) = grpc::front(&calls, &gate, &figures).await?;

    let upkeep = TaskTracker::new();
    let policies = Arc::clone(&calls.policies).keep_fresh(draining.clone());
    vital(upkeep.spawn(policies), "the reader of policies");
    let watch = calls
        .rooms
        .clone()
        .watch(Arc::clone(&store), draining.clone());
    vital(upkeep.spawn(watch), "the watch over waited-for records");
    let mismatches = Arc::clone(&calls.mismatches);
    let written = mismatches.keep_written(Arc::clone(&store), draining.clone());
    vital(upkeep.spawn(written), "the writer of mismatches");
    if config.upkeep {
        let on_records = Upkeep {
            store: Arc::clone(&store),
            policies: Arc::clone(&calls.policies),
            figures,
            closing: draining.clone(),
        };
        for work in on_records.spawn(&upkeep) {
            vital(work, "the work behind the calls");
        }
    }
    upkeep.close();
    let listener = Listener::new(front, config, draining.clone());
    let accepting = tokio::spawn(Arc::clone(&listener).accept(tcp));
    vital(accepting, "the task that accepts connections");
    let life = Life {
        listener,
        gate,
        health,
        calls,
        upkeep,
        drain: config.drain,
    };
    let stopped = tokio::spawn(life.end(draining.clone()));
    Ok(Running {
        addr,
        draining,
        stopped: Some(stopped),
    })
}

/// Ends the process when `task` panics: without it the server is half dead.
fn vital(task: JoinHandle<()>, what: &'static str) {
    tokio::spawn(async move {
        if task.await.is_err_and(|error| error.is_panic()) {
            telemetry::abort(&format!("{what} panicked"));
        }
    });
}

/// A server that runs in this process. Dropped, it drains on its own.
#[derive(Debug)]
pub struct Running {
    addr: SocketAddr,
    draining: CancellationToken,
    stopped: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Running {
    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Begins to drain: no new calls, those who wait are answered with the state, calls
    /// under way finish.
    pub fn shutdown(&self) {
        self.draining.cancel();
    }

    /// Returns when it has drained and its store is closed, or left because that took too
    /// long: what is stored is safe either way.
    ///
    /// # Errors
    /// When the store closed with a fault.
    pub async fn stopped(mut self) -> anyhow::Result<()> {
        match self.stopped.take() {
            Some(stopped) => stopped.await?,
            None => Ok(()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.stopped.is_some() {
            self.draining.cancel();
        }
    }
}

/// What ends in order.
struct Life {
    listener: Arc<Listener>,
    gate: Arc<Gate>,
    health: Health,
    calls: Arc<Calls>,
    upkeep: TaskTracker,
    drain: Duration,
}

impl Life {
    async fn end(mut self, draining: CancellationToken) -> anyhow::Result<()> {
        draining.cancelled().await;
        self.health.not_serving().await;
        self.calls.policy_changes.close();
        let drained = tokio::time::timeout(self.drain, async {
            self.gate.idle().await;
            self.health.end().await;
            self.listener.empty().await;
            self.calls.policy_changes.wait().await;
            self.upkeep.wait().await;
            // What the last calls left.
            let store = self.calls.store.as_ref();
            self.calls.mismatches.write(store, true).await;
        });
        if drained.await.is_err() {
            tracing::warn!(
                "calls were under way after {:?} and are cut off",
                self.drain
            );
        }
        self.listener.cut_off().await;
        match tokio::time::timeout(CLOSE_TIME, self.calls.store.close()).await {
            Ok(closed) => closed.context("the store did not close well"),
            // What was acknowledged is stored; the rest was cut off, and its callers know.
            Err(_) => {
                tracing::warn!("the store did not close within {CLOSE_TIME:?} and is left");
                // Dropped, it would wait for what is stuck.
                std::mem::forget(Arc::clone(&self.calls.store));
                Ok(())
            }
        }
    }
}

fn first_screen(config: &Config, addr: SocketAddr) -> String {
    let mut screen = format!(
        "reprise {} listening on {addr}\n",
        env!("CARGO_PKG_VERSION")
    );
    let data = match &config.database_url {
        Some(url) => url.place(),
        None => {
            let dir = std::path::absolute(&config.data_dir);
            dir.unwrap_or_else(|_| config.data_dir.clone())
                .display()
                .to_string()
        }
    };
    // As it was started, so that what is shown can be pasted.
    let program = std::env::args().next();
    let program = program.as_deref().unwrap_or("reprise");
    // Writing to a string does not fail.
    let _ = write!(
        screen,
        "  records  {data}\n\
         \x20 speaks   gRPC, with reflection and health\n\
         \n\
         Try next, in another terminal:\n\
         \x20 {program} demo\n\
         \x20 {program} reserve --tenant t1 --operation charge --key order-1 --payload 42\n\
         \x20 {program} --help\n\
         Ctrl-C ends it; calls under way finish first."
    );
    screen
}
