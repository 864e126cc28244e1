//! Filing what is open: the walk over new grants, and looking at records when time may
//! have done something.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reprise_domain::command::Command;
use reprise_domain::{RecordName, Request};
use tokio::task::JoinSet;

use super::{Pace, Upkeep, add};
use crate::store::{self, Walked};

/// Between two rounds that found nothing more to do.
const IDLE: Duration = Duration::from_secs(1);
/// Records that are asked for at once.
const LOOK_MAX: usize = 256;
/// Of them, decided at once: a share of a batch, so that calls are not held up.
const AT_ONCE: usize = 32;
/// For each decision. What was not decided by then is answered by the store again later.
const LOOK_TIME: Duration = Duration::from_secs(10);

impl Upkeep {
    /// Walks over new grants.
    pub(super) async fn walk(&self) {
        let then = |walked: Walked| {
            add(&self.figures.visited, walked.visited);
            walked.more.then_some(Pace::AtOnce)
        };
        self.repeat("the walk over grants", IDLE, || self.store.walk(), then)
            .await;
    }

    /// Looks at records that are due for it.
    pub(super) async fn look(&self) {
        let step = || async {
            let names = self.store.to_look_at(LOOK_MAX).await?;
            let more = names.len() >= LOOK_MAX;
            self.sweep(names).await?;
            Ok(more)
        };
        let then = |more: bool| more.then_some(Pace::AtOnce);
        self.repeat("looking at open records", IDLE, step, then)
            .await;
    }

    /// Has each of `names` decided on. One that fails does not keep the others from it.
    async fn sweep(&self, names: Vec<RecordName>) -> Result<(), store::Error> {
        let deadline = Instant::now() + LOOK_TIME;
        let mut under_way = JoinSet::new();
        let mut failed = None;
        let mut names = names.into_iter();
        loop {
            while under_way.len() < AT_ONCE
                && let Some(name) = names.next()
            {
                let store = Arc::clone(&self.store);
                let request = Request {
                    policy: self.policies.of(name.tenant(), name.operation()),
                    name,
                    command: Command::Sweep,
                };
                under_way.spawn(async move { store.execute(request, deadline).await });
            }
            let Some(done) = under_way.join_next().await else {
                break;
            };
            match done.map_err(store::Error::internal).and_then(|done| done) {
                // Also that there is no such record any more: its entry is closed then.
                Ok(_decided) => add(&self.figures.looked_at, 1),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }
}
