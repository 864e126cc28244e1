//! Forget: what callers stored is erased, what protects the key stays.

use bytes::Bytes;

use super::{AuditAction, By, Decision, Scene, Trace};
use crate::Reading;
use crate::command::{Answer, Disposition, Forget, Refusal};
use crate::record::Record;

impl Scene<'_> {
    pub(super) fn forget(&self, record: Option<&Record>, forget: &Forget) -> Decision {
        let Some(record) = record.filter(|found| self.reading(found) != Reading::Over) else {
            return Self::refuse(Refusal::RecordNotFound);
        };
        match self.reading(record) {
            Reading::Running { .. } | Reading::Takeable => {
                return Self::refuse(Refusal::LeaseRunning);
            }
            Reading::Pending(_) => return Self::refuse(Refusal::RecordPending),
            Reading::Completed { .. }
            | Reading::FailedFinal { .. }
            | Reading::FailedRetryable
            | Reading::Over => {}
        }
        // Side rows may hold bytes where the record has none: erasing them twice is no harm.
        if !record.has_bytes() && record.revision != forget.revision {
            return Decision {
                erase: true,
                ..self.repeated(record, Disposition::Repeated)
            };
        }
        if record.revision != forget.revision {
            return Self::refuse(Refusal::RevisionChanged);
        }
        let mut next = self.next(record);
        next.instruction = Bytes::new();
        if let Some(outcome) = &mut next.outcome {
            outcome.content = std::mem::take(&mut outcome.content).stripped();
            outcome.result_until = outcome.result_until.min(self.now);
        }
        let erased = self.write(next, |view| Answer::Reported(Disposition::Recorded, view));
        Decision {
            erase: true,
            ..erased.traced(Trace::Audit {
                attempt: record.attempt.number,
                action: AuditAction::Forgotten,
                by: By::Operator,
                actor: forget.actor.clone(),
                evidence: forget.reason.clone(),
                at: self.now,
            })
        }
    }
}
