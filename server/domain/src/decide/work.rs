//! When somebody has to look at a record though nobody calls about it: the service itself,
//! to write down what time has done, or whoever finds out.

use std::time::Duration;

use super::{Decision, Scene};
use crate::Reading;
use crate::command::{Answer, Refusal};
use crate::record::{ClaimId, PendingReason, Record, State};
use crate::time::Timestamp;

/// How often a record is looked at that anybody may take over, and nobody does.
const LOOK_AGAIN: Duration = Duration::from_hours(24);

/// What becomes of a record's entry on the worklist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The service itself looks at the record then, by a Sweep.
    Look {
        /// When time may have done something.
        at: Timestamp,
    },
    /// Somebody has to find out.
    FindOut {
        /// From when on.
        due: Timestamp,
        /// Since when it is not known.
        since: Timestamp,
        /// Why.
        reason: PendingReason,
        /// Who is at it, and until when.
        claim: Option<(ClaimId, Timestamp)>,
    },
    /// Nothing is open.
    Close,
}

impl Scene<'_> {
    /// What a change means for the worklist. Grants need no entry: the service walks over
    /// all of them soon after. It leaves an entry that is there, so that of an attempt before
    /// must be gone: it may lie later than the end of the new lease, and hide its lapse.
    pub(super) fn work(&self, before: Option<&Record>, after: &Record) -> Option<Work> {
        match after.state {
            State::Pending => Some(self.find_out(after)),
            State::Processing => {
                let before = before?;
                let (former, attempt) = (&before.attempt, &after.attempt);
                if former.number != attempt.number || former.fence != attempt.fence {
                    return Some(Work::Close);
                }
                // The walk's entry, if there is one, is of the former end.
                let looked_at = self.now >= former.lease_end;
                let at = attempt.lease_end;
                (looked_at || at < former.lease_end).then_some(Work::Look { at })
            }
            State::FailedRetryable if after.unaccounted => Some(self.until_too_late(after)),
            State::FailedRetryable | State::Completed | State::FailedFinal => before
                .is_some_and(|before| before.state == State::Pending)
                .then_some(Work::Close),
        }
    }

    /// Writes down that a record reads as PENDING, and says when to look again.
    pub(super) fn sweep(&self, record: Option<&Record>) -> Decision {
        let Some(record) = record else {
            return Decision {
                work: Some(Work::Close),
                ..Self::refuse(Refusal::RecordNotFound)
            };
        };
        let work = match self.reading(record) {
            Reading::Pending(uncertain) if record.state != State::Pending => {
                let mut next = self.next(record);
                self.pend(&mut next, uncertain.reason);
                return self.write(next, Answer::Closed);
            }
            Reading::Pending(_) => self.find_out(record),
            Reading::Running { .. } => Work::Look {
                at: record.attempt.lease_end,
            },
            Reading::Takeable => self.until_too_late(record),
            Reading::FailedRetryable if record.unaccounted => self.until_too_late(record),
            Reading::FailedRetryable
            | Reading::Completed { .. }
            | Reading::FailedFinal { .. }
            | Reading::Over => Work::Close,
        };
        Decision {
            work: Some(work),
            ..Self::keep(Answer::Closed(self.view(record.clone())))
        }
    }

    /// What is free until `repeat_until` reads as PENDING after it. Where nothing limits it, it
    /// stays free, and is looked at from time to time: a late Complete tells nobody.
    fn until_too_late(&self, record: &Record) -> Work {
        let until = record.attempt.repeat_until;
        Work::Look {
            at: until.unwrap_or_else(|| self.now.after(LOOK_AGAIN)),
        }
    }

    fn find_out(&self, record: &Record) -> Work {
        let Reading::Pending(uncertain) = self.reading(record) else {
            unreachable!("only called for what is PENDING");
        };
        let claim = record.running_claim(self.now);
        Work::FindOut {
            due: uncertain.next_check.max(record.attempt.lease_end),
            since: uncertain.since,
            reason: uncertain.reason,
            claim: claim.map(|claim| (claim.id, claim.lease_end)),
        }
    }
}
