//! The right to an attempt, from the grant to its report. Whatever way it ends, something
//! true is said about the attempt: dropped before the effect began, that nothing happened
//! (by a resolver, that it is still to be done); dropped after, that nobody knows.

use std::thread;
use std::time::Duration;

use bytes::Bytes;
use reprise_proto::v1::{
    CompleteRequest, Content, FailRequest, FailureKind, MarkPendingRequest, MarkSendingRequest,
    OnLapse, RecordName, RenewRequest, fail_request::Holder, renew_request,
};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::Client;
use crate::effect::{LeaseLost, Uncertainty, Verdict};
use crate::error::{Error, Reason};
use crate::lease::Lease;
use crate::outcome::{Acquired, Marked, omit_over};
use crate::renewal::Renewal;
use crate::report::{Delivery, Report};
use crate::reserve::wire_duration;
use crate::run::Sending;

/// Words kept about an unknown end; the server would cut them anyway.
const REASON_BYTES_MAX: usize = 255;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The effect has not begun.
    Granted,
    /// The effect may have taken place.
    Begun,
    /// The report is on its way, or there is nothing to say.
    Over,
}

pub(crate) struct Holding {
    client: Client,
    record: RecordName,
    token: Bytes,
    on_lapse: OnLapse,
    result_bytes_max: u64,
    /// Not begun, the record stays pending: nobody but the next resolver may ever ask.
    resolver: bool,
    runtime: Handle,
    stage: Stage,
    renewal: Option<Renewal>,
}

impl Holding {
    /// Of a grant. To be made inside the runtime, as soon as the grant is known.
    pub(crate) fn granted(client: &Client, record: &RecordName, acquired: &Acquired) -> Holding {
        let mut holding = Holding::lapsed(client, record, &acquired.token);
        holding.on_lapse = acquired.on_lapse;
        holding.result_bytes_max = acquired.result_bytes_max;
        holding
    }

    /// Of a grant to a resolver who took over.
    pub(crate) fn taken_over(client: &Client, record: &RecordName, acquired: &Acquired) -> Holding {
        let mut holding = Holding::granted(client, record, acquired);
        holding.resolver = true;
        holding
    }

    /// Of a grant that lapsed before it was known; all that is left is to free it.
    pub(crate) fn lapsed(client: &Client, record: &RecordName, token: &Bytes) -> Holding {
        Holding {
            client: client.clone(),
            record: record.clone(),
            token: token.clone(),
            on_lapse: OnLapse::Pending,
            result_bytes_max: 0,
            resolver: false,
            runtime: Handle::current(),
            stage: Stage::Granted,
            renewal: None,
        }
    }

    /// Says MarkSending. After an error the effect must not begin; the attempt is freed
    /// where that is still this holder's to do.
    pub(crate) async fn mark(mut self, sending: &Sending) -> Result<(Holding, Marked), Error> {
        let request = MarkSendingRequest {
            record: Some(self.record.clone()),
            token: self.token.clone(),
            provider_reference: sending.provider_reference.clone(),
            instruction: sending.instruction.clone(),
            lease: sending.lease.map(wire_duration),
        };
        match self.client.mark_sending(request).await {
            Ok(marked) => Ok((self, marked)),
            Err(error) => {
                if nothing_to_free(&error) {
                    self.stage = Stage::Over;
                }
                Err(error)
            }
        }
    }

    /// The lease, counted anew. None when it could not be renewed.
    pub(crate) async fn renewed(&self, asked: Option<Duration>) -> Option<Lease> {
        match self.client.renew(self.renewal(asked)).await {
            Ok(renewed) if !renewed.closed => Some(renewed.lease),
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(%error, "a waited-for lease could not be renewed");
                None
            }
        }
    }

    fn renewal(&self, asked: Option<Duration>) -> RenewRequest {
        RenewRequest {
            record: Some(self.record.clone()),
            holder: Some(renew_request::Holder::Token(self.token.clone())),
            lease: asked.map(wire_duration),
        }
    }

    /// From here on the effect may have taken place, and its lease is kept alive.
    pub(crate) fn begin(
        &mut self,
        lease: Lease,
        asked: Option<Duration>,
    ) -> watch::Receiver<Option<LeaseLost>> {
        let (renewal, lost) = Renewal::start(&self.client, self.renewal(asked), lease);
        self.renewal = Some(renewal);
        self.stage = Stage::Begun;
        lost
    }

    /// Reports that nothing happened, before the effect began; a resolver leaves the record
    /// pending instead.
    pub(crate) fn free(mut self, code: &str) -> Delivery {
        let report = self.not_begun(code);
        self.report(report)
    }

    /// Reports how the effect ended. Nothing is awaited between the verdict and the
    /// moment from which its report goes on by itself.
    pub(crate) fn settle(mut self, verdict: Verdict) -> Delivery {
        let report = match verdict {
            Verdict::Done(result) => Report::Complete(CompleteRequest {
                record: Some(self.record.clone()),
                token: self.token.clone(),
                result: Some(omit_over(result, self.result_bytes_max)),
            }),
            Verdict::NothingHappened(error) => self.failure(error, FailureKind::Retryable, false),
            Verdict::Refused {
                error,
                effect_key_spent,
            } => self.failure(error, FailureKind::Final, effect_key_spent),
            Verdict::Unknown(uncertainty) => self.pending(uncertainty),
        };
        self.report(report)
    }

    /// Reports that the effect ended in a way that says nothing about it.
    pub(crate) fn abandon(mut self, reason: &str) -> Delivery {
        let report = self.unknown(reason);
        self.report(report)
    }

    fn report(&mut self, report: Report) -> Delivery {
        self.stage = Stage::Over;
        report.deliver(&self.client, self.renewal.take(), &self.runtime)
    }

    fn not_begun(&self, code: &str) -> Report {
        if self.resolver {
            return self.pending(Uncertainty {
                reason: format!("{code}: taken over, and not begun"),
                ..Uncertainty::default()
            });
        }
        let error = Content {
            code: code.to_owned(),
            ..Content::default()
        };
        self.failure(error, FailureKind::Retryable, false)
    }

    fn failure(&self, error: Content, kind: FailureKind, effect_key_spent: bool) -> Report {
        Report::Fail(FailRequest {
            record: Some(self.record.clone()),
            holder: Some(Holder::Token(self.token.clone())),
            kind: kind.into(),
            effect_key_spent,
            error: Some(omit_over(error, self.result_bytes_max)),
        })
    }

    fn pending(&self, uncertainty: Uncertainty) -> Report {
        Report::MarkPending(MarkPendingRequest {
            record: Some(self.record.clone()),
            token: self.token.clone(),
            reason: uncertainty.reason,
            provider_reference: uncertainty.provider_reference,
            instruction: uncertainty.instruction,
            check_after: uncertainty.check_after.map(wire_duration),
        })
    }

    /// Where the provider deduplicates, the next caller may repeat the effect at once;
    /// elsewhere someone has to find out first.
    fn unknown(&self, reason: &str) -> Report {
        if self.on_lapse == OnLapse::TakeOver {
            return Report::EndLease(self.renewal(Some(Duration::ZERO)));
        }
        self.pending(Uncertainty {
            reason: cut(reason).to_owned(),
            ..Uncertainty::default()
        })
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let report = match self.stage {
            Stage::Over => return,
            Stage::Granted => self.not_begun("NOT_BEGUN"),
            Stage::Begun if thread::panicking() => self.unknown("the effect panicked"),
            Stage::Begun => self.unknown("the effect was cancelled while it ran"),
        };
        // Nobody is left to wait for it; it goes on in the background.
        drop(self.report(report));
    }
}

/// After these refusals of MarkSending the attempt is no longer this holder's, or is
/// settled: a Fail would contradict what is on record.
fn nothing_to_free(error: &Error) -> bool {
    matches!(
        error.reason(),
        Some(
            Reason::StaleToken
                | Reason::RecordNotFound
                | Reason::OutcomeAlreadyRecorded
                | Reason::AttemptOver
        )
    )
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(REASON_BYTES_MAX)]
}
