//! Giving back a grant whose answer reached nobody: by the server, guarded by the revision,
//! or by the client, by attempt id.

use super::{Decision, Scene};
use crate::Reading;
use crate::command::{Answer, Disposition, GiveBack, Refusal};
use crate::content::Content;
use crate::record::{AttemptId, GivenBack, PendingReason, Record, State};

/// Code of the error of a grant that reached nobody.
pub const NOT_DELIVERED: &str = "NOT_DELIVERED";

impl Scene<'_> {
    pub(super) fn give_back_by_client(&self, record: Option<&Record>, id: AttemptId) -> Decision {
        let Some(record) = record.filter(|found| self.reading(found) != Reading::Over) else {
            return Self::refuse(Refusal::RecordNotFound);
        };
        let attempt = &record.attempt;
        let closed = || {
            Self::keep(Answer::Reported(
                Disposition::Closed,
                self.view(record.clone()),
            ))
        };
        if attempt.id != id {
            return closed();
        }
        if attempt.given_back.is_some() {
            return self.repeated(record, Disposition::Repeated);
        }
        match record.state {
            State::Completed | State::FailedFinal | State::FailedRetryable => closed(),
            // FAILED retryable that is too late for another grant, written down.
            State::Pending if attempt.report.is_some() => closed(),
            State::Processing | State::Pending if attempt.used => {
                Self::refuse(Refusal::AttemptOver)
            }
            State::Processing | State::Pending => self.give_back(record, GivenBack::Client),
        }
    }

    pub(super) fn give_back_undelivered(
        &self,
        record: Option<&Record>,
        back: &GiveBack,
    ) -> Decision {
        let Some(record) = record else {
            return Self::refuse(Refusal::RecordNotFound);
        };
        if record.revision != back.revision || record.state != State::Processing {
            return Self::keep(Answer::Closed(self.view(record.clone())));
        }
        self.give_back(record, GivenBack::Server)
    }

    fn give_back(&self, record: &Record, by: GivenBack) -> Decision {
        let mut next = self.next(record);
        next.attempt.given_back = Some(by);
        next.attempt.lease_end = record.attempt.lease_end.min(self.now);
        if next.contradicted {
            self.pend(&mut next, PendingReason::ContradictoryReports);
        } else {
            // What an earlier attempt left stays for the next one; [`Record::failure`]
            // says that this one reached nobody.
            let earlier = record
                .outcome
                .as_ref()
                .map(|outcome| outcome.content.clone());
            let error = earlier.unwrap_or_else(|| Content::of_code(NOT_DELIVERED));
            self.record_outcome(&mut next, State::FailedRetryable, error);
        }
        self.write(next, |view| Answer::Reported(Disposition::Recorded, view))
    }
}
