//! Gives back, in the background, what a Reserve without an answer may have been granted.
//! Knows only Fail by attempt id: it must never touch an attempt whose token was used.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reprise_proto::v1::{
    FailRequest, FailureKind, RecordName, ReportDisposition, fail_request::Holder,
};
use tokio::runtime::Handle;

use crate::Client;
use crate::error::{Error, Reason};
use crate::outcome::Reported;
use crate::reserve::AttemptId;
use crate::retry::Limits;

/// How long a give-back is repeated. A lease of default length is over by then.
const GIVE_BACK_LIMIT: Duration = Duration::from_secs(30);
const GIVE_BACK_TRY: Duration = Duration::from_secs(5);
/// A Reserve that is still under way may be granted after the give-back found nothing.
/// One more look after this pause meets it; what comes later lapses.
const SECOND_LOOK_AFTER: Duration = Duration::from_secs(2);

/// Stands for a Reserve under way. Dropped before its answer, it gives the attempt back,
/// unless no try can have reached the server.
pub(crate) struct Unanswered {
    client: Client,
    record: RecordName,
    attempt_id: AttemptId,
    runtime: Handle,
    pub(crate) maybe_sent: AtomicBool,
}

impl Unanswered {
    /// To be made inside the runtime, before the first try.
    pub(crate) fn new(client: &Client, record: &RecordName, attempt_id: AttemptId) -> Unanswered {
        Unanswered {
            client: client.clone(),
            record: record.clone(),
            attempt_id,
            runtime: Handle::current(),
            maybe_sent: AtomicBool::new(false),
        }
    }

    /// Nothing is to be given back.
    pub(crate) fn answered(self) {
        self.maybe_sent.store(false, Ordering::Relaxed);
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if !self.maybe_sent.load(Ordering::Relaxed) {
            return;
        }
        let client = self.client.clone();
        let (record, attempt_id) = (self.record.clone(), self.attempt_id);
        let work = async move {
            if let Err(error) = client.give_back(record, attempt_id).await {
                tracing::warn!(%error, "a grant could not be given back; its lease will lapse");
            }
        };
        self.client.background().spawn_on(work, &self.runtime);
    }
}

impl Client {
    /// Gives back what a Reserve under `attempt_id` may have been granted without the
    /// answer having arrived, repeating itself for up to 30 s. Never to be mixed with
    /// repeating that Reserve. [`Client::reserve`] does this by itself.
    ///
    /// # Errors
    /// See [`Error`]. The grant then lapses as its policy says.
    pub async fn give_back(&self, record: RecordName, attempt_id: AttemptId) -> Result<(), Error> {
        let request = FailRequest {
            record: Some(record),
            holder: Some(Holder::AttemptId(attempt_id.to_bytes())),
            kind: FailureKind::Retryable.into(),
            ..FailRequest::default()
        };
        let limits = Limits {
            deadline: GIVE_BACK_LIMIT,
            per_try: GIVE_BACK_TRY,
        };
        let first = self.fail_within(request.clone(), limits).await;
        if !found_nothing(&first) {
            return first.map(drop);
        }
        tokio::time::sleep(SECOND_LOOK_AFTER).await;
        match self.fail_within(request, limits).await {
            Err(error) if error.reason() == Some(Reason::RecordNotFound) => Ok(()),
            second => second.map(drop),
        }
    }
}

fn found_nothing(answer: &Result<Reported, Error>) -> bool {
    match answer {
        Ok(reported) => reported.disposition == ReportDisposition::Closed,
        Err(error) => error.reason() == Some(Reason::RecordNotFound),
    }
}
