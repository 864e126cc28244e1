//! ClaimPending: takes due records, one claim each, beside others who do the same.

use std::sync::Arc;
use std::time::Instant;

use rand::RngExt;
use reprise_domain::command::{Answer, Command};
use reprise_domain::reading::View;
use reprise_domain::{Policy, Reading, RecordName, Refusal, Request};
use tokio::task::JoinSet;

use super::calls::Calls;
use super::convert::Claims;
use super::status::Error;
use crate::store::{PendingQuery, Target};
use crate::telemetry::call;

/// Candidates that are read for each record wanted, so that many workers who read the
/// same ones find some that are left.
const CANDIDATES_EACH: usize = 3;
/// Pages of candidates that one call goes through while others are faster.
const PAGES_MAX: usize = 8;

/// A record that was claimed, and the policy under which it was.
pub(crate) type Taken = (View, Arc<Policy>);

impl Calls {
    /// The claims of this call that still run; where there are none, those that can be
    /// taken now. A caller that hangs up leaves what was under way by then: it is
    /// answered when the call is repeated, and runs out if not.
    pub(crate) async fn claim(
        &self,
        asked: &Claims,
        deadline: Instant,
    ) -> Result<Vec<Taken>, Error> {
        let mut claimed = self.still_claimed(asked, deadline).await?;
        if claimed.is_empty() {
            claimed = self.take(asked, deadline).await?;
        }
        claimed.sort_by_key(|(view, _)| {
            let since = match &view.reading {
                Reading::Pending(uncertain) => uncertain.since,
                _ => view.now,
            };
            (since, view.record.name.id())
        });
        Ok(claimed)
    }

    async fn still_claimed(&self, asked: &Claims, deadline: Instant) -> Result<Vec<Taken>, Error> {
        let names = self.store.claimed(&asked.tenant, asked.claim.id).await?;
        let mut claimed = Vec::new();
        for name in names {
            let target = Target::Id(name.id());
            let found = self.store.find(&asked.tenant, target, deadline).await?;
            let Some((record, now)) = found else {
                continue;
            };
            let runs = record.running_claim(now);
            if runs.is_some_and(|claim| claim.id == asked.claim.id) {
                let policy = self.policies.of(name.tenant(), name.operation());
                claimed.push((View::of(record, &policy, now), policy));
            }
        }
        Ok(claimed)
    }

    async fn take(&self, asked: &Claims, deadline: Instant) -> Result<Vec<Taken>, Error> {
        let mut race = Race::default();
        let mut query = PendingQuery {
            tenant: asked.tenant.clone(),
            operation: asked.operation.clone(),
            only_due: true,
            after: None,
            max: asked.max * CANDIDATES_EACH,
        };
        for _ in 0..PAGES_MAX {
            let page = match self.store.pending(query.clone()).await {
                Ok(page) => page,
                // What was taken is not lost for that.
                Err(error) => {
                    race.failed = Some(error.into());
                    break;
                }
            };
            query.after = page.next;
            let entries = page.entries.into_iter();
            let mut names: Vec<RecordName> = entries.map(|(_, record)| record.name).collect();
            // The longest due first, until it shows that others are at the same ones.
            if race.lost && !names.is_empty() {
                let begin = rand::rng().random_range(0..names.len());
                names.rotate_left(begin);
            }
            self.run(asked, names, deadline, &mut race).await;
            if race.taken.len() >= asked.max || query.after.is_none() {
                break;
            }
        }
        match race.failed {
            Some(error) if race.taken.is_empty() => Err(error),
            _ => Ok(race.taken),
        }
    }

    /// Has claims decided until enough are taken: never more at once than are wanted
    /// still, so that none is taken for nobody.
    async fn run(
        &self,
        asked: &Claims,
        names: Vec<RecordName>,
        deadline: Instant,
        race: &mut Race,
    ) {
        let mut names = names.into_iter();
        // Dropped with this future, which drops what has not entered a batch.
        let mut under_way = JoinSet::new();
        loop {
            while race.taken.len() + under_way.len() < asked.max
                && let Some(name) = names.next()
            {
                let policy = self.policies.of(name.tenant(), name.operation());
                let request = Request {
                    name,
                    policy: Arc::clone(&policy),
                    command: Command::Claim(asked.claim.clone()),
                };
                let store = Arc::clone(&self.store);
                let decided = async move {
                    let delivery = store.execute(request, deadline).await?;
                    Ok((delivery.accept(), policy))
                };
                under_way.spawn(call::part(decided));
            }
            let Some(done) = under_way.join_next().await else {
                return;
            };
            match done.map_err(Error::internal).and_then(|decided| decided) {
                Ok((Ok(Answer::Claimed(view)), policy)) => race.taken.push((view, policy)),
                // Somebody else was faster, or it is not pending any more.
                Ok((Ok(Answer::Closed(_)) | Err(Refusal::RecordNotFound), _)) => race.lost = true,
                Ok((Ok(_), _)) => race.failed = Some(Error::internal("no answer to a claim")),
                Ok((Err(refusal), _)) => race.failed = Some(refusal.into()),
                Err(error) => race.failed = Some(error),
            }
        }
    }
}

/// What came of it so far.
#[derive(Default)]
struct Race {
    taken: Vec<Taken>,
    /// Others were faster.
    lost: bool,
    /// The last failure; counts only when nothing was taken.
    failed: Option<Error>,
}
