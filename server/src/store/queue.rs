//! Group commit, as far as it is the same for every store: commands queue up while a batch
//! is under way, the next takes what is there ([`Batches`]), and commands for one record are
//! folded through `decide` in order, so that a record is written once a batch.
//!
//! It does not know how a batch is made durable.

use std::sync::Arc;
use std::time::Instant;

use reprise_domain::command::{Answer, Command, GiveBack, Outcome, Refusal};
use reprise_domain::{Record, RecordId, Request, Timestamp, Trace, Work, decide};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::Error;

mod batches;
pub(crate) use batches::{Batches, Group};

/// Bounds of a queue and of its batches.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Commands that wait for a batch. More wait outside, where a
    /// caller that hangs up leaves nothing, except for reports, which are always taken in.
    pub queued_max: usize,
    /// Commands of one batch.
    pub batch_max: usize,
    /// Bytes of bodies and instructions of one batch.
    pub batch_bytes_max: usize,
    /// Commands of one tenant in one batch while others wait.
    pub tenant_share_max: usize,
    /// Reserves and Claims of one record in one batch: many callers of one key must not keep
    /// those of other keys waiting. Its reports do not count, and pass them by.
    pub record_share_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queued_max: 16_384,
            batch_max: 256,
            batch_bytes_max: 4 * 1024 * 1024,
            tenant_share_max: 128,
            record_share_max: 32,
        }
    }
}

/// Where commands are handed in.
#[derive(Clone)]
pub(crate) struct Intake {
    jobs: mpsc::UnboundedSender<Job>,
    room: Arc<Semaphore>,
    closing: CancellationToken,
}

impl Intake {
    pub(crate) fn new(limits: Limits) -> (Self, Batches) {
        let closing = CancellationToken::new();
        let (sender, jobs) = mpsc::unbounded_channel();
        let intake = Self {
            jobs: sender,
            room: Arc::new(Semaphore::new(limits.queued_max)),
            closing: closing.clone(),
        };
        (intake, Batches::new(jobs, limits, closing))
    }

    /// Hands a command in and waits for its answer. What was handed in is carried out although
    /// nobody waits for it any more, except for a Reserve or a Claim; all others are handed in
    /// when this is first polled.
    ///
    /// # Errors
    /// What the writer answered; [`Error::Closed`] when there is none any more, and
    /// [`Error::Unavailable`] when it ended before it answered or `deadline` passed.
    pub(crate) fn execute(
        &self,
        request: Request,
        deadline: Instant,
    ) -> impl Future<Output = Result<Delivery, Error>> {
        self.execute_boxed(Box::new(request), deadline)
    }

    /// Boxed before: what is handed to it keeps its place while it waits.
    async fn execute_boxed(
        &self,
        request: Box<Request>,
        deadline: Instant,
    ) -> Result<Delivery, Error> {
        let late = || Error::unavailable("the deadline passed before the outcome was known");
        let until = tokio::time::Instant::from_std(deadline);
        let permit = match Arc::clone(&self.room).try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(TryAcquireError::Closed) => return Err(Error::Closed),
            // Where a caller that hangs up would leave nothing, a report does not wait.
            Err(TryAcquireError::NoPermits) if !may_be_dropped(&request.command) => None,
            Err(TryAcquireError::NoPermits) => {
                let room = Arc::clone(&self.room).acquire_owned();
                let permit = tokio::time::timeout_at(until, room).await;
                Some(permit.map_err(|_| late())?.map_err(|_| Error::Closed)?)
            }
        };
        let (reply, answer) = oneshot::channel();
        self.send(Job {
            request,
            deadline,
            reply: Some(reply),
            _room: permit,
        })?;
        match tokio::time::timeout_at(until, answer).await {
            Ok(Ok(settled)) => settled,
            Ok(Err(_)) => Err(Error::unavailable("the writer ended before it answered")),
            Err(_) => Err(late()),
        }
    }

    fn send(&self, job: Job) -> Result<(), Error> {
        self.jobs.send(job).map_err(|_| Error::Closed)
    }

    /// No more commands from callers; what is queued is still carried out, and then the
    /// batches end.
    pub(crate) fn close(&self) {
        self.room.close();
        self.closing.cancel();
    }

    fn give_back(&self, request: &Request, revision: u64) {
        let job = Job {
            request: Box::new(Request {
                command: Command::GiveBack(GiveBack { revision }),
                ..request.clone()
            }),
            deadline: Instant::now() + std::time::Duration::from_secs(30),
            reply: None,
            _room: None,
        };
        if self.send(job).is_err() {
            tracing::warn!("a grant that reached nobody was not given back; it will lapse");
        }
    }
}

/// A command that waits for its batch.
pub(crate) struct Job {
    pub(crate) request: Box<Request>,
    /// Past it the caller has been told that the outcome is unknown.
    pub(crate) deadline: Instant,
    reply: Option<oneshot::Sender<Result<Delivery, Error>>>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Job {
    pub(crate) fn id(&self) -> RecordId {
        self.request.name.id()
    }

    fn abandoned(&self) -> bool {
        may_be_dropped(&self.request.command)
            && self.reply.as_ref().is_some_and(oneshot::Sender::is_closed)
    }

    fn bytes(&self) -> usize {
        match &self.request.command {
            Command::Reserve(reserve) => reserve.instruction.len(),
            Command::MarkSending(mark) => mark.instruction.len(),
            Command::MarkPending(mark) => mark.instruction.len(),
            Command::Complete(complete) => content_bytes(&complete.result),
            Command::Fail(fail) => content_bytes(&fail.error),
            Command::Resolve(resolve) => resolve.evidence.len(),
            Command::Renew(_)
            | Command::GiveBack(_)
            | Command::Claim(_)
            | Command::Forget(_)
            | Command::Sweep => 0,
        }
    }

    /// Answers the caller, once the change is durable. A grant whose caller is gone is
    /// given back.
    pub(crate) fn settle(self, answer: Result<Result<Answer, Refusal>, Error>, intake: &Intake) {
        let Some(reply) = self.reply else {
            if let Err(error) = answer {
                tracing::warn!(%error, "a grant that reached nobody was not given back; it will lapse");
            }
            return;
        };
        let delivery = answer.map(|answer| {
            let undelivered = granted_revision(&answer)
                .map(|revision| Undelivered(intake.clone(), self.request, revision));
            Delivery {
                answer,
                undelivered,
            }
        });
        // A delivery that comes back is dropped, which gives its grant back.
        drop(reply.send(delivery));
    }
}

/// A Reserve or a Claim that nobody waits for begins nothing. A report is never dropped.
fn may_be_dropped(command: &Command) -> bool {
    matches!(command, Command::Reserve(_) | Command::Claim(_))
}

fn content_bytes(content: &reprise_domain::Content) -> usize {
    match &content.body {
        Some(reprise_domain::content::Body::Data(data)) => data.len(),
        Some(reprise_domain::content::Body::Omitted { .. }) | None => 0,
    }
}

/// Only a new grant is given back: one that is answered again may have reached its caller
/// the first time.
fn granted_revision(answer: &Result<Answer, Refusal>) -> Option<u64> {
    match answer {
        Ok(Answer::Outcome(Outcome::Acquired { again: false }, view)) => Some(view.record.revision),
        _ => None,
    }
}

/// An answer on its way to its caller. A grant that is dropped before it was accepted has
/// reached nobody and is given back.
pub struct Delivery {
    answer: Result<Answer, Refusal>,
    undelivered: Option<Undelivered>,
}

struct Undelivered(Intake, Box<Request>, u64);

impl Delivery {
    /// Takes the answer to hand it to the transport, with nothing in between that could
    /// be cancelled.
    ///
    /// # Errors
    /// The refusal that was decided.
    pub fn accept(mut self) -> Result<Answer, Refusal> {
        self.undelivered = None;
        self.take()
    }

    /// Takes the answer out, to make a message of it; the grant stays undelivered until
    /// [`Delivery::accept`].
    ///
    /// # Errors
    /// The refusal that was decided.
    pub fn take(&mut self) -> Result<Answer, Refusal> {
        std::mem::replace(&mut self.answer, Err(Refusal::RecordNotFound))
    }

    /// Looks at the answer without taking it.
    pub fn answer(&self) -> &Result<Answer, Refusal> {
        &self.answer
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some(Undelivered(intake, request, revision)) = self.undelivered.take() {
            intake.give_back(&request, revision);
        }
    }
}

/// The answer to a command about a record as it was read at the moment `now`; none where
/// something is to be written.
pub(crate) fn answer_to_reading(
    record: &Record,
    request: &Request,
    now: Timestamp,
) -> Option<Delivery> {
    let decision = decide(Some(record), request, now);
    (!decision.writes()).then_some(Delivery {
        answer: decision.answer,
        undelivered: None,
    })
}

/// The commands of one record in one batch, decided in order.
pub(crate) struct Folded {
    /// The record to write; none when nothing changed.
    pub(crate) change: Option<Box<Record>>,
    /// Side rows of all steps.
    pub(crate) traces: Vec<Trace>,
    /// What becomes of the record's entry on the worklist; none leaves it.
    pub(crate) work: Option<Work>,
    /// Erase what the stored side rows hold of callers' bytes, before `traces` are written.
    pub(crate) erase: bool,
    /// What to answer once the change is durable.
    pub(crate) answers: Vec<(Job, Result<Answer, Refusal>)>,
    /// What waits for the next batch: a second grant, and all behind it.
    pub(crate) postponed: Vec<Job>,
}

impl Folded {
    /// The row is used again by a new life of its key, whose story begins empty: the memory of
    /// the one that was `found` was over, and it was not removed yet.
    pub(crate) fn begins_anew(&self, found: Option<&Record>) -> bool {
        let change = self.change.as_deref();
        found
            .zip(change)
            .is_some_and(|(found, change)| found.created_at != change.created_at)
    }

    /// There is something to make durable.
    pub(crate) fn writes(&self) -> bool {
        self.change.is_some() || !self.traces.is_empty() || self.work.is_some() || self.erase
    }
}

/// Folds the commands of one record through `decide`.
pub(crate) fn fold(record: Option<&Record>, jobs: Vec<Job>, now: Timestamp) -> Folded {
    let mut folded = Folded {
        change: None,
        traces: Vec::new(),
        work: None,
        erase: false,
        answers: Vec::with_capacity(jobs.len()),
        postponed: Vec::new(),
    };
    let mut granted = false;
    let mut jobs = jobs.into_iter();
    while let Some(job) = jobs.next() {
        let current = folded.change.as_deref().or(record);
        let decision = decide(current, &job.request, now);
        let grants = granted_revision(&decision.answer).is_some();
        if grants && granted {
            folded.postponed.push(job);
            folded.postponed.extend(jobs);
            break;
        }
        granted |= grants;
        if decision.change.is_some() {
            folded.change = decision.change;
        }
        folded.work = decision.work.or(folded.work);
        if decision.erase {
            folded.erase = true;
            folded.traces.retain_mut(Trace::erase);
        }
        folded.traces.extend(decision.traces);
        folded.answers.push((job, decision.answer));
    }
    folded
}

#[cfg(test)]
mod tests;
