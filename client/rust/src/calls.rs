//! One method for each rpc: send, repeat, read the answer. No call decides anything about
//! an effect; that is `run`'s.

mod finding_out;
mod operating;
mod wire;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use reprise_proto::v1::{
    CompleteRequest, FailRequest, LookupRequest, MarkPendingRequest, MarkSendingRequest,
    RenewRequest,
};

use crate::Client;
use crate::error::Error;
use crate::give_back::Unanswered;
use crate::outcome::{Found, Marked, Reader, Renewed, Reported, Reserved};
use crate::reserve::{AttemptId, Reserve};
use crate::retry::Limits;

/// Each call is repeated while that may help: the same content, with growing pauses, until
/// the deadline. All of them are safe to repeat, except [`Client::put_policy`].
impl Client {
    /// Asks for an attempt under a new attempt id. If the call ends without an answer, or
    /// its future is dropped, what may have been granted is given back in the background.
    ///
    /// # Errors
    /// See [`Error`]; only [`Outcome::Acquired`](crate::Outcome::Acquired) permits the
    /// effect.
    pub async fn reserve(&self, reserve: &Reserve) -> Result<Reserved, Error> {
        let attempt_id = AttemptId::random();
        let unanswered = Unanswered::new(self, &reserve.record, attempt_id);
        let answer = self
            .reserve_under(reserve, attempt_id, &unanswered.maybe_sent)
            .await;
        let lost = matches!(&answer, Err(error) if error.outcome_unknown());
        if !lost {
            unanswered.answered();
        }
        answer
    }

    /// Asks for an attempt under an id of the caller's, who repeats it after
    /// [`Error::OutcomeUnknown`], or gives it back with [`Client::give_back`], and never
    /// does both. This call gives nothing back.
    ///
    /// # Errors
    /// As [`Client::reserve`].
    pub async fn reserve_as(
        &self,
        reserve: &Reserve,
        attempt_id: AttemptId,
    ) -> Result<Reserved, Error> {
        self.reserve_under(reserve, attempt_id, &AtomicBool::new(false))
            .await
    }

    async fn reserve_under(
        &self,
        reserve: &Reserve,
        attempt_id: AttemptId,
        maybe_sent: &AtomicBool,
    ) -> Result<Reserved, Error> {
        let limits = Limits::repeatable(self.deadline, reserve.wait);
        let answer = self
            .call(
                reserve.message(attempt_id),
                limits,
                maybe_sent,
                wire::reserve,
            )
            .await?;
        Reader("Reserve").reserved(attempt_id, reserve.lease, answer)
    }

    /// Says that the effect may begin. Who gets an error must not begin it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn mark_sending(&self, request: MarkSendingRequest) -> Result<Marked, Error> {
        let asked = request.lease.and_then(|lease| lease.try_into().ok());
        let answer = self
            .call(request, self.limits(), &unsent(), wire::mark_sending)
            .await?;
        Reader("MarkSending").marked(asked, answer)
    }

    /// Reports that the effect took place. See [`omit_over`](crate::omit_over) for bodies
    /// over the grant's limit.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn complete(&self, request: CompleteRequest) -> Result<Reported, Error> {
        let answer = self
            .call(request, self.limits(), &unsent(), wire::complete)
            .await?
            .message;
        Reader("Complete").reported(answer.disposition(), answer.record, answer.adjusted)
    }

    /// Reports that this attempt had no effect.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn fail(&self, request: FailRequest) -> Result<Reported, Error> {
        self.fail_within(request, self.limits()).await
    }

    pub(crate) async fn fail_within(
        &self,
        request: FailRequest,
        limits: Limits,
    ) -> Result<Reported, Error> {
        let answer = self
            .call(request, limits, &unsent(), wire::fail)
            .await?
            .message;
        Reader("Fail").reported(answer.disposition(), answer.record, answer.adjusted)
    }

    /// Reports that the effect may have taken place.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn mark_pending(&self, request: MarkPendingRequest) -> Result<Reported, Error> {
        let answer = self
            .call(request, self.limits(), &unsent(), wire::mark_pending)
            .await?
            .message;
        Reader("MarkPending").reported(answer.disposition(), answer.record, answer.adjusted)
    }

    /// Moves the end of the lease of an attempt or of a claim; zero ends it at once.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn renew(&self, request: RenewRequest) -> Result<Renewed, Error> {
        let answer = self
            .call(request, self.limits(), &unsent(), wire::renew)
            .await?;
        Reader("Renew").renewed(answer)
    }

    /// Reads a record strongly and changes nothing.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn lookup(&self, request: LookupRequest) -> Result<Found, Error> {
        let wait = request.wait.and_then(|wait| wait.try_into().ok());
        let limits = Limits::repeatable(self.deadline, wait.unwrap_or_default());
        let answer = self
            .call(request, limits, &unsent(), wire::lookup)
            .await?
            .message;
        Reader("Lookup").found(answer)
    }

    /// A call without a wait that is safe to repeat.
    fn limits(&self) -> Limits {
        Limits::repeatable(self.deadline, Duration::ZERO)
    }
}

fn unsent() -> AtomicBool {
    AtomicBool::new(false)
}
