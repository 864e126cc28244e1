//! How calls reach the store: what must be carried out although its caller hangs up,
//! what waits, and until when. State changes never live in an rpc's own future, which
//! is dropped when the caller leaves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reprise_domain::command::{Answer, Outcome};
use reprise_domain::reading::View;
use reprise_domain::{Policy, Reading, RecordName, Refusal, Request};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::convert::Until;
use super::layers::Deadline;
use super::policies::Policies;
use super::status::Error;
use super::waiting::{Guest, Rooms, Seen, Woken};
use crate::store::{Delivery, Store, Target, answer_to_reading};
use crate::tasks::Mismatches;
use crate::telemetry::call;

/// What was reported is tried for at least this long, whatever the caller's deadline is.
const REPORT_TIME: Duration = Duration::from_secs(10);
/// A call that brings no deadline past the layers that give it one.
const DEADLINE_DEFAULT: Duration = Duration::from_secs(10);

/// What all services share.
pub(crate) struct Calls {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) policies: Arc<Policies>,
    pub(crate) rooms: Rooms,
    /// Repeats with another payload, until they are written down.
    pub(crate) mismatches: Arc<Mismatches>,
    /// Changes of policies, which are carried out on their own.
    pub(crate) policy_changes: TaskTracker,
    /// No calls are taken any more; whoever waits is answered.
    pub(crate) draining: CancellationToken,
}

/// When the caller stops waiting.
pub(crate) fn deadline<T>(request: &tonic::Request<T>) -> Instant {
    let set = request.extensions().get::<Deadline>();
    set.map_or_else(|| Instant::now() + DEADLINE_DEFAULT, |deadline| deadline.0)
}

impl Calls {
    /// The policy that rules the record that the call is about.
    pub(crate) fn policy(&self, name: &RecordName) -> Arc<Policy> {
        call::note_record(name);
        self.policy_of(name)
    }

    /// As [`Calls::policy`], for one of many records.
    pub(crate) fn policy_of(&self, name: &RecordName) -> Arc<Policy> {
        self.policies.of(name.tenant(), name.operation())
    }

    /// Has a report decided, also when the caller hangs up after it arrived: the store takes it
    /// in at once.
    pub(crate) fn carry_out(
        &self,
        request: Request,
        deadline: Instant,
    ) -> impl Future<Output = Result<Delivery, Error>> {
        let deadline = deadline.max(Instant::now() + REPORT_TIME);
        let executed = self.store.execute(request, deadline);
        async { Ok(executed.await?) }
    }

    /// Has a Reserve decided, and waits while somebody else holds the record. Counts
    /// those with another payload.
    pub(crate) async fn reserve(
        &self,
        request: Box<Request>,
        wait: Duration,
        deadline: Instant,
    ) -> Result<Delivery, Error> {
        let delivery = self.decide_or_wait(&request, wait, deadline).await?;
        if let Ok(Answer::Outcome(Outcome::Mismatch(_), _)) = delivery.answer() {
            self.mismatches.note(&request);
        }
        Ok(delivery)
    }

    async fn decide_or_wait(
        &self,
        request: &Request,
        wait: Duration,
        deadline: Instant,
    ) -> Result<Delivery, Error> {
        match wait_end(wait, &request.policy, deadline) {
            None => self.execute(request, deadline).await,
            // In a box, which those that do not wait have no use for.
            Some(until) => Box::pin(self.wait(request, until, deadline)).await,
        }
    }

    /// Has a Reserve decided under the policies in force.
    async fn execute(&self, request: &Request, deadline: Instant) -> Result<Delivery, Error> {
        self.policies.fresh().await?;
        let executed = self.store.execute(self.as_of_now(request), deadline);
        Ok(executed.await?)
    }

    async fn wait(
        &self,
        request: &Request,
        until: Instant,
        deadline: Instant,
    ) -> Result<Delivery, Error> {
        let execute = || self.execute(request, deadline);
        let mut guest = self.rooms.enter(request.name.id());
        let first = execute().await?;
        let Some(view) = held_by_other(&first) else {
            return Ok(first);
        };
        if !guest.sit(request.name.tenant()) {
            return Ok(first);
        }
        guest.seen(view.record.revision);
        let mut turns_at = turn(view);
        while guest.wait(turns_at, until, &self.draining).await == Woken::News {
            let seen = self
                .seen(&mut guest, request.name.tenant(), deadline)
                .await?;
            // One has read for all who wait: what needs no write is answered from that, under
            // the policies in force as well.
            self.policies.fresh().await?;
            let answer = seen.and_then(|seen| {
                let (record, now) = &*seen;
                answer_to_reading(record, &self.as_of_now(request), *now)
            });
            if let Some(answer) = answer {
                let Some(held) = held_by_other(&answer) else {
                    return Ok(answer);
                };
                turns_at = turn(held);
                continue;
            }
            let Some(_turn) = guest.turn().await else {
                continue;
            };
            let answer = execute().await?;
            let Some(held) = held_by_other(&answer) else {
                return Ok(answer);
            };
            // Another server was faster than the look.
            turns_at = turn(held);
            guest.tell_all();
        }
        execute().await
    }

    /// The request under the mode in force, which is judged at the moment of asking: who
    /// waited while it was changed is not granted what is held now.
    fn as_of_now(&self, request: &Request) -> Request {
        let mut request = request.clone();
        let mode = self.policy_of(&request.name).mode;
        if request.policy.mode != mode {
            Arc::make_mut(&mut request.policy).mode = mode;
        }
        request
    }

    /// How a record reads, and waits until it reads as asked.
    pub(crate) async fn lookup(
        &self,
        (tenant, target): (String, Target),
        wait: Duration,
        until: Until,
        deadline: Instant,
    ) -> Result<View, Error> {
        let found = self.store.find(&tenant, target, deadline).await?;
        let (record, now) = found.ok_or(Refusal::RecordNotFound)?;
        let policy = self.policy(&record.name);
        let id = record.name.id();
        let mut view = present(View::of(record, &policy, now))?;
        let Some(end) = wait_end(wait, &policy, deadline) else {
            return Ok(view);
        };
        if until.holds(&view.reading) {
            return Ok(view);
        }
        let mut guest = self.rooms.enter(id);
        if !guest.sit(&tenant) {
            return Ok(view);
        }
        loop {
            // The first look is for what changed before the room was entered.
            let seen = self.seen(&mut guest, &tenant, deadline).await?;
            let (record, now) = &*seen.ok_or(Refusal::RecordNotFound)?;
            view = present(View::of(record.clone(), &policy, *now))?;
            if until.holds(&view.reading) {
                return Ok(view);
            }
            if guest.wait(turn(&view), end, &self.draining).await == Woken::Over {
                break;
            }
        }
        let found = self.store.find(&tenant, Target::Id(id), deadline).await?;
        let (record, now) = found.ok_or(Refusal::RecordNotFound)?;
        present(View::of(record, &policy, now))
    }

    /// The record as it is after the news that its guest knows.
    async fn seen(
        &self,
        guest: &mut Guest,
        tenant: &str,
        deadline: Instant,
    ) -> Result<Seen, Error> {
        let id = guest.id();
        let read = async || self.store.find(tenant, Target::Id(id), deadline).await;
        Ok(guest.look(read).await?)
    }
}

/// A record whose memory is over is none.
pub(crate) fn present(view: View) -> Result<View, Error> {
    match view.reading {
        Reading::Over => Err(Refusal::RecordNotFound.into()),
        _ => Ok(view),
    }
}

/// When a wait ends, so that the caller still receives the state before its deadline;
/// none where nobody waits.
fn wait_end(wait: Duration, policy: &Policy, deadline: Instant) -> Option<Instant> {
    let now = Instant::now();
    let left = deadline.saturating_duration_since(now);
    let margin = (left / 10).clamp(Duration::from_millis(50), Duration::from_millis(500));
    let wait = wait.min(policy.wait_max).min(left.saturating_sub(margin));
    (!wait.is_zero()).then(|| now + wait)
}

/// The view of a record that somebody else holds.
fn held_by_other(delivery: &Delivery) -> Option<&View> {
    match delivery.answer() {
        Ok(Answer::Outcome(Outcome::Processing, view)) => Some(view),
        _ => None,
    }
}

/// When a record reads differently by itself.
fn turn(view: &View) -> Option<Instant> {
    let attempt = &view.record.attempt;
    let after = match &view.reading {
        Reading::Running { remaining } => Some(*remaining),
        Reading::Takeable => attempt.repeat_until.map(|until| until.since(view.now)),
        _ => None,
    };
    after.map(|after| Instant::now() + after)
}
