//! What goes on behind the calls, on every server until it drains: filing what is open,
//! writing down what time has done, removing what is old, and writing down what calls
//! only counted. Any number of servers share the work through the store.
//!
//! It knows the store and when to go on, and no rule about records.

mod mismatches;
mod remove;
mod sweep;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::RngExt;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::grpc::{Causes, Policies};
use crate::store::{self, Store};

pub(crate) use mismatches::Mismatches;

/// What this server did behind the calls since its start.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Grants that the walk visited.
    pub(crate) visited: AtomicU64,
    /// Records that were looked at because time may have done something.
    pub(crate) looked_at: AtomicU64,
    /// Records that lost headers and body.
    pub(crate) bodies_removed: AtomicU64,
    /// Records that were removed whole.
    pub(crate) records_removed: AtomicU64,
    /// Steps that failed; each was tried again.
    pub(crate) failures: AtomicU64,
}

fn add(figure: &AtomicU64, count: u64) {
    figure.fetch_add(count, Ordering::Relaxed);
}

/// The work on records that lie where they are.
#[derive(Clone)]
pub(crate) struct Upkeep {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) policies: Arc<Policies>,
    pub(crate) figures: Arc<Figures>,
    pub(crate) closing: CancellationToken,
}

impl Upkeep {
    /// Spawns all of it on `tasks`; it ends by itself with `closing`.
    pub(crate) fn spawn(&self, tasks: &TaskTracker) -> [JoinHandle<()>; 3] {
        let (walk, look, remove) = (self.clone(), self.clone(), self.clone());
        [
            tasks.spawn(async move { walk.walk().await }),
            tasks.spawn(async move { look.look().await }),
            tasks.spawn(async move { remove.remove().await }),
        ]
    }

    /// Takes one step after the other: at the pace that `then` makes of what a step did,
    /// or after about `idle` when there is nothing more to do. A step that fails is said
    /// once, until one succeeds again, and tried again.
    async fn repeat<T, F>(
        &self,
        what: &'static str,
        idle: Duration,
        mut step: impl FnMut() -> F,
        mut then: impl FnMut(T) -> Option<Pace>,
    ) where
        F: Future<Output = Result<T, store::Error>>,
    {
        let mut well = true;
        // So that servers which begin together do not go on together.
        let mut pause = idle.mul_f64(rand::rng().random_range(0.0..1.0));
        loop {
            tokio::select! {
                biased;
                () = self.closing.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            let began = Instant::now();
            let stepped = tokio::select! {
                biased;
                () = self.closing.cancelled() => return,
                stepped = step() => stepped,
            };
            let pace = match stepped {
                Ok(done) => {
                    well = true;
                    then(done)
                }
                Err(error) => {
                    add(&self.figures.failures, 1);
                    if well {
                        tracing::warn!(what, causes = %Causes(&error), "work behind the calls failed; it is tried again");
                    }
                    well = false;
                    None
                }
            };
            pause = match pace {
                Some(Pace::AtOnce) => Duration::ZERO,
                Some(Pace::AQuarterOfTheTime) => 3 * began.elapsed(),
                None => idle.mul_f64(rand::rng().random_range(0.75..=1.0)),
            };
        }
    }
}

/// How steps follow each other while there is more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// What waits for it gets later.
    AtOnce,
    /// A pause of three times the step, so that callers hardly feel it.
    AQuarterOfTheTime,
}
