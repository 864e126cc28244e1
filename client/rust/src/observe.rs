//! Observes without enforcing: the effect runs whatever the service says, and what enforcing
//! would have done is told. All that the service is asked and told runs in tasks of its own,
//! so that nothing of it can hold up, change or end the effect.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use reprise_proto::v1::{Mismatch, Pending, Processing, RecordName, ResultGone};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::Client;
use crate::effect::Verdict;
use crate::error::Error;
use crate::holding::Holding;
use crate::outcome::{Outcome, Recorded, Reserved};
use crate::reserve::Reserve;

/// What is added to the name of an operation that is observed.
pub const OBSERVE_SUFFIX: &str = ".observe";
/// Default of [`Observe::reserve_limit`].
pub const RESERVE_LIMIT_DEFAULT: Duration = Duration::from_secs(1);

const OPERATION_BYTES_MAX: usize = 128;

/// An intent to observe, under the operation's name with [`OBSERVE_SUFFIX`]. A policy of
/// that name with a short memory keeps little.
#[derive(Clone)]
#[must_use]
pub struct Observe {
    reserve: Reserve,
    reserve_limit: Duration,
    seen: Arc<dyn Fn(&Seen) + Send + Sync>,
}

/// What was seen of one call.
#[derive(Debug)]
#[non_exhaustive]
pub struct Seen {
    /// The record, under the observed operation's name.
    pub record: RecordName,
    /// What enforcing would have done.
    pub would: Would,
    /// How long the service took to answer.
    pub took: Duration,
}

/// What enforcing would have done.
#[derive(Debug)]
#[non_exhaustive]
pub enum Would {
    /// Run the effect, as was done.
    Run,
    /// Not run it: the grant came with less than a third of its lease left.
    TooLate,
    /// Replay this result.
    Replay(Recorded),
    /// Replay this error.
    ReplayFailure(Recorded),
    /// Wait, or answer that somebody else is at it.
    Wait(Processing),
    /// Nothing, since an operator holds the operation.
    Hold(Processing),
    /// Nothing, since an earlier effect may have taken place.
    LeavePending(Pending),
    /// Refuse: the key was used with another payload.
    Refuse(Mismatch),
    /// Answer that the outcome is known and its bytes are gone.
    ResultGone(ResultGone),
    /// Fail: the service was away, slow, or refused the call.
    Fail(Error),
}

/// In words, without anything that was stored.
impl fmt::Display for Would {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Would::Run => "run",
            Would::TooLate => "not run: too late",
            Would::Replay(_) => "replay a result",
            Would::ReplayFailure(_) => "replay an error",
            Would::Wait(_) => "wait for somebody else",
            Would::Hold(_) => "hold, as an operator said",
            Would::LeavePending(_) => "leave it pending",
            Would::Refuse(_) => "refuse another payload",
            Would::ResultGone(_) => "answer that the result is gone",
            Would::Fail(error) => return write!(f, "fail: {error}"),
        })
    }
}

impl Observe {
    /// Observes `reserve`, without its wait.
    ///
    /// # Errors
    /// [`Error::OperationTooLong`] when the operation's name has more than 120 bytes.
    pub fn new(mut reserve: Reserve) -> Result<Observe, Error> {
        reserve.record.operation.push_str(OBSERVE_SUFFIX);
        reserve.wait = Duration::ZERO;
        let bytes = reserve.record.operation.len();
        if bytes > OPERATION_BYTES_MAX {
            let limit = OPERATION_BYTES_MAX;
            return Err(Error::OperationTooLong { bytes, limit });
        }
        Ok(Observe {
            reserve,
            reserve_limit: RESERVE_LIMIT_DEFAULT,
            seen: Arc::new(|_| {}),
        })
    }

    /// How long the effect waits for the service's answer before it begins anyway.
    /// Default 1 s.
    pub fn reserve_limit(mut self, limit: Duration) -> Observe {
        self.reserve_limit = limit;
        self
    }

    /// Called once for each call with what was seen, in a task of its own.
    pub fn seen(mut self, tell: impl Fn(&Seen) + Send + Sync + 'static) -> Observe {
        self.seen = Arc::new(tell);
        self
    }
}

impl Client {
    /// Runs `effect` in any case, and answers what it answers, unchanged. It begins as soon
    /// as the service has answered, at the latest after [`Observe::reserve_limit`], also
    /// when the service is away, slow or refuses.
    ///
    /// What enforcing would have done goes to [`Observe::seen`]. How the effect ends is
    /// reported in the background where it was granted, so that later calls see it;
    /// [`Client::close`] waits for that. The effect is not told any effect key: the one of
    /// the observed name is not the one that enforcing would hand out.
    pub async fn observe<F, E>(
        &self,
        observe: &Observe,
        effect: impl FnOnce() -> F,
    ) -> Result<Verdict, E>
    where
        F: Future<Output = Result<Verdict, E>>,
        E: fmt::Display,
    {
        let (answered, answer) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let watch = watch(self.clone(), observe.clone(), answered, ended);
        self.background().spawn(watch);
        // Answered or not, it is time to begin.
        let _in_time = timeout(observe.reserve_limit, answer).await;
        let verdict = effect().await;
        let told = match &verdict {
            Ok(verdict) => Ok(verdict.clone()),
            Err(error) => Err(error.to_string()),
        };
        // Nobody listens where nothing was granted.
        let _unheard = end.send(told);
        verdict
    }
}

/// How an effect ended: its verdict, or the words of its error.
type Told = Result<Verdict, String>;

async fn watch(
    client: Client,
    observe: Observe,
    answered: oneshot::Sender<()>,
    mut ended: oneshot::Receiver<Told>,
) {
    let asked = Instant::now();
    let reserved = client.reserve(&observe.reserve).await;
    let record = &observe.reserve.record;
    let mut held = granted(&client, &observe.reserve, &reserved);
    let seen = Seen {
        record: record.clone(),
        would: would(reserved),
        took: asked.elapsed(),
    };
    tracing::info!(operation = record.operation, would = %seen.would, took = ?seen.took, "observed");
    let tell = Arc::clone(&observe.seen);
    // In a task of its own: its panic must not lose the report.
    client.background().spawn(async move { tell(&seen) });
    // The effect may have given up waiting.
    let _waiting = answered.send(());
    let Some(holding) = held.take() else { return };
    let delivery = match (&mut ended).await {
        Ok(Ok(verdict)) => holding.settle(verdict),
        Ok(Err(words)) => holding.abandon(&format!("the effect ended in an error: {words}")),
        Err(_) => holding.abandon("the effect was cancelled or panicked"),
    };
    if let Err(error) = delivery.answer().await {
        tracing::debug!(%error, "an observed effect was not recorded");
    }
}

/// The right to report, with the lease kept alive from here on.
fn granted(
    client: &Client,
    reserve: &Reserve,
    reserved: &Result<Reserved, Error>,
) -> Option<Holding> {
    let Ok(Reserved {
        outcome: Outcome::Acquired(acquired),
        ..
    }) = reserved
    else {
        return None;
    };
    let mut holding = Holding::granted(client, &reserve.record, acquired);
    let _not_enforced = holding.begin(acquired.lease, reserve.lease);
    Some(holding)
}

fn would(reserved: Result<Reserved, Error>) -> Would {
    let outcome = match reserved {
        Ok(reserved) => reserved.outcome,
        Err(error) => return Would::Fail(error),
    };
    let is_held = outcome.is_held();
    match outcome {
        Outcome::Acquired(it) if it.lease.enough_to_begin() => Would::Run,
        Outcome::Acquired(_) => Would::TooLate,
        Outcome::Completed(it) => Would::Replay(it),
        Outcome::Failed(it) => Would::ReplayFailure(it),
        Outcome::Processing(it) if is_held => Would::Hold(it),
        Outcome::Processing(it) => Would::Wait(it),
        Outcome::Pending(it) => Would::LeavePending(it),
        Outcome::Mismatch(it) => Would::Refuse(it),
        Outcome::ResultGone(it) => Would::ResultGone(it),
    }
}

impl fmt::Debug for Observe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observe")
            .field("reserve", &self.reserve)
            .field("reserve_limit", &self.reserve_limit)
            .finish_non_exhaustive()
    }
}
