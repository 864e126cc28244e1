//! Resolve: what a person found out. A resolution speaks for all attempts.

use std::time::Duration;

use bytes::Bytes;

use super::claim::freed;
use super::reserve::Candidate;
use super::{AuditAction, Decision, Ending, Scene, Trace};
use crate::Reading;
use crate::command::{Answer, Authority, Disposition, Finding, Refusal, Resolve};
use crate::content::Content;
use crate::record::{AttemptId, GivenBack, GrantReason, PendingReason, Record, Resolution, State};

/// Code of the error of an attempt that was found to have had no effect.
pub const NOT_APPLIED: &str = "NOT_APPLIED";

static NO_INSTRUCTION: Bytes = Bytes::new();

impl Scene<'_> {
    pub(super) fn resolve(&self, record: Option<&Record>, resolve: &Resolve) -> Decision {
        let Some(record) = record.filter(|found| self.reading(found) != Reading::Over) else {
            return Self::refuse(Refusal::RecordNotFound);
        };
        if let Some(decision) = self.resolved_before(record, resolve) {
            return decision;
        }
        match resolve.authority {
            Authority::Operator { revision } => {
                if let Err(refusal) = self.may_override(record, resolve, revision) {
                    return Self::refuse(refusal);
                }
            }
            Authority::Claim(held) => {
                if let Some(decision) = self.under_claim(record, resolve, held) {
                    return decision;
                }
            }
        }
        let audit = |action| self.audit_of(record, action, resolve);
        match &resolve.finding {
            Finding::Applied(found) => {
                let claimed = matches!(resolve.authority, Authority::Claim(_));
                let against = claimed
                    && record.claim.as_ref().is_some_and(|claim| claim.over)
                    && freed(record, &self.reading(record));
                let mut decision = self
                    .settled(record, resolve, State::Completed, found.content.clone())
                    .traced(audit(AuditAction::ResolvedApplied));
                if against {
                    let audit = audit(AuditAction::ContradictsReport);
                    decision = decision.traced(audit);
                }
                decision
            }
            Finding::NotApplied => {
                let error = Content::of_code(NOT_APPLIED);
                self.settled(record, resolve, State::FailedRetryable, error)
                    .traced(audit(AuditAction::ResolvedNotApplied))
            }
            Finding::Failed(found) => self
                .settled(record, resolve, State::FailedFinal, found.content.clone())
                .traced(audit(AuditAction::ResolvedFailed)),
            Finding::TakeOver { attempt_id, .. } => {
                if self.had_its_turn(record, *attempt_id) {
                    return Self::refuse(Refusal::AttemptOver);
                }
                if let Some(held) = self.held(Some(record)) {
                    return held;
                }
                self.taken_over(record, resolve)
                    .traced(audit(AuditAction::ResolvedTakeOver))
            }
            Finding::StillUnknown { .. } => self
                .still_unknown(record, resolve)
                .traced(audit(AuditAction::ResolvedStillUnknown)),
        }
    }

    /// The answer to a resolution that was recorded before: the same one sent again, or
    /// the same outcome found by somebody else.
    fn resolved_before(&self, record: &Record, resolve: &Resolve) -> Option<Decision> {
        let same = record
            .resolution
            .is_some_and(|before| before.digest == resolve.digest());
        let repeated = || {
            let view = self.view(record.clone());
            Self::keep(Answer::Reported(Disposition::Repeated, view))
        };
        if let Finding::TakeOver { attempt_id, lease } = &resolve.finding {
            // Whoever asks with the id of a take-over that was granted asks again, whatever
            // revision it has read meanwhile.
            let attempt = &record.attempt;
            let granted = attempt.id == *attempt_id && attempt.why == GrantReason::AfterResolution;
            let candidate = Candidate::of_resolver(record, resolve, *attempt_id, *lease);
            return (same || granted).then(|| self.ask(record, &candidate));
        }
        if same {
            return Some(repeated());
        }
        let resolved = record.resolution.and_then(|resolution| resolution.content);
        let reported = record.attempt.report.map(|report| report.digest);
        let alike = match (&resolve.finding, self.reading(record)) {
            (Finding::Applied(found), Reading::Completed { .. }) => {
                [resolved, reported].contains(&Some(found.digest))
            }
            (Finding::Failed(found), Reading::FailedFinal { .. }) => resolved == Some(found.digest),
            _ => false,
        };
        alike.then(repeated)
    }

    fn had_its_turn(&self, record: &Record, id: AttemptId) -> bool {
        let attempt = &record.attempt;
        let back = attempt.given_back == Some(GivenBack::Server);
        (attempt.id == id && !back) || attempt.earlier_ids.contains(&id)
    }

    fn may_override(
        &self,
        record: &Record,
        resolve: &Resolve,
        revision: u64,
    ) -> Result<(), Refusal> {
        let mild = matches!(
            resolve.finding,
            Finding::Applied(_) | Finding::StillUnknown { .. }
        );
        match self.reading(record) {
            Reading::Completed { .. } | Reading::FailedFinal { gone: true } => {
                return Err(Refusal::OutcomeAlreadyRecorded);
            }
            Reading::FailedFinal { gone: false } if !mild => {
                return Err(Refusal::OutcomeAlreadyRecorded);
            }
            _ => {}
        }
        if record.revision != revision {
            return Err(Refusal::RevisionChanged);
        }
        let lease_runs = self.now < record.attempt.lease_end;
        if lease_runs && (record.state == State::Processing || !mild) {
            return Err(Refusal::LeaseRunning);
        }
        Ok(())
    }

    fn settled(
        &self,
        record: &Record,
        resolve: &Resolve,
        state: State,
        content: Content,
    ) -> Decision {
        let mut next = self.concluded(record, resolve);
        self.record_outcome(&mut next, state, content);
        self.write(next, |view| Answer::Reported(Disposition::Recorded, view))
    }

    fn taken_over(&self, record: &Record, resolve: &Resolve) -> Decision {
        let Finding::TakeOver { attempt_id, lease } = &resolve.finding else {
            unreachable!("only called for a take-over");
        };
        let settled = self.concluded(record, resolve);
        let candidate = Candidate::of_resolver(record, resolve, *attempt_id, *lease);
        let mut next = self.grant(&settled, &candidate, GrantReason::AfterResolution);
        next.attempt.why = GrantReason::AfterResolution;
        // `concluded` and `grant` are one step to everybody else.
        next.revision = record.revision + 1;
        self.granted(record, next, Ending::Resolved)
    }

    /// Knowledge about all attempts ends what was uncertain.
    fn concluded(&self, record: &Record, resolve: &Resolve) -> Record {
        let mut next = self.next(record);
        next.unaccounted = false;
        next.contradicted = false;
        next.key_spent |= resolve.effect_key_spent;
        next.resolution = Some(remembered(record, resolve));
        end_claim(&mut next);
        next
    }

    fn still_unknown(&self, record: &Record, resolve: &Resolve) -> Decision {
        let Finding::StillUnknown {
            check_after,
            provider_reference,
        } = &resolve.finding
        else {
            unreachable!("only called for still unknown");
        };
        let mut next = self.next(record);
        let reason = match self.reading(record) {
            Reading::Takeable if record.attempt.sent => PendingReason::LeaseExpiredAfterSending,
            Reading::Takeable => PendingReason::LeaseExpired,
            _ => PendingReason::Reported,
        };
        self.pend(&mut next, reason);
        end_claim(&mut next);
        if let Some(pending) = &mut next.pending {
            let wait = check_after.unwrap_or(self.request.policy.settle_after);
            pending.next_check = self.now.after(wait);
        }
        let mut former = String::new();
        if !provider_reference.is_empty() && next.provider_reference != *provider_reference {
            former = std::mem::replace(&mut next.provider_reference, provider_reference.clone());
        }
        next.resolution = Some(remembered(record, resolve));
        let decision = self.write(next, |view| Answer::Reported(Disposition::Recorded, view));
        if former.is_empty() {
            return decision;
        }
        decision.traced(Trace::Replaced {
            attempt: record.attempt.number,
            provider_reference: former,
            instruction: Bytes::new(),
            at: self.now,
        })
    }
}

impl<'a> Candidate<'a> {
    /// A resolver sends what the record's generation sent; a new one begins without.
    fn of_resolver(
        record: &'a Record,
        resolve: &'a Resolve,
        attempt_id: AttemptId,
        lease: Option<Duration>,
    ) -> Self {
        Self {
            attempt_id,
            lease,
            owner: &resolve.actor,
            correlation_id: &record.correlation_id,
            instruction: &NO_INSTRUCTION,
        }
    }
}

fn end_claim(record: &mut Record) {
    if let Some(claim) = &mut record.claim {
        claim.over = true;
    }
}

fn remembered(record: &Record, resolve: &Resolve) -> Resolution {
    let found = match &resolve.finding {
        Finding::Applied(found) | Finding::Failed(found) => Some(found),
        Finding::NotApplied | Finding::TakeOver { .. } | Finding::StillUnknown { .. } => None,
    };
    let applied = matches!(resolve.finding, Finding::Applied(_));
    Resolution {
        attempt: record.attempt.number,
        digest: resolve.digest(),
        content: found.map(|found| found.digest),
        core: found.filter(|_| applied).map(|found| found.core),
    }
}
