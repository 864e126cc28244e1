//! Claims: the right to find out, and what was found out under it.

use super::{AuditAction, By, Decision, Reported, Scene, Trace};
use crate::Reading;
use crate::command::{Answer, Claim, Finding, Refusal, Renew, Resolve};
use crate::policy::Policy;
use crate::record::{self, PendingReason, Record, ReportKind, State};
use crate::time::Timestamp;
use crate::token::Held;

impl Scene<'_> {
    pub(super) fn claim(&self, record: Option<&Record>, claim: &Claim) -> Decision {
        let Some(record) = record.filter(|found| self.reading(found) != Reading::Over) else {
            return Self::refuse(Refusal::RecordNotFound);
        };
        let view = || self.view(record.clone());
        let Reading::Pending(uncertain) = self.reading(record) else {
            return Self::keep(Answer::Closed(view()));
        };
        if let Some(running) = record.running_claim(self.now) {
            return Self::keep(if running.id == claim.id {
                Answer::Claimed(view())
            } else {
                Answer::Closed(view())
            });
        }
        if self.now < uncertain.next_check.max(record.attempt.lease_end) {
            return Self::keep(Answer::Closed(view()));
        }
        let mut next = self.next(record);
        if record.state != State::Pending {
            self.pend(&mut next, uncertain.reason);
        }
        let clock = u64::try_from(self.now.0).unwrap_or(0);
        next.claim = Some(record::Claim {
            id: claim.id,
            fence: clock.max(record.last_fence().saturating_add(1)),
            taken_at: self.now,
            lease_end: self.now.after(claim.lease),
            lease: claim.lease,
            owner: claim.owner.clone(),
            over: false,
        });
        self.write(next, Answer::Claimed)
    }

    pub(super) fn renew_claim(
        &self,
        record: Option<&Record>,
        renew: &Renew,
        held: Held,
    ) -> Decision {
        let Some(record) = record.filter(|found| self.reading(found) != Reading::Over) else {
            return Self::refuse(Refusal::RecordNotFound);
        };
        let runs = newest(record, held).is_some_and(|claim| claim.runs(self.now));
        if !runs || record.state != State::Pending {
            return Self::refuse(self.claim_over(record));
        }
        let mut next = self.next(record);
        if let Some(claim) = &mut next.claim {
            claim.lease_end = self.now.after(renew.lease.unwrap_or(claim.lease));
        }
        self.write(next, Answer::Claimed)
    }

    /// May this be said under this claim? None where it may; else the whole decision.
    pub(super) fn under_claim(
        &self,
        record: &Record,
        resolve: &Resolve,
        held: Held,
    ) -> Option<Decision> {
        let applied = matches!(resolve.finding, Finding::Applied(_));
        let denies = !applied && !matches!(resolve.finding, Finding::StillUnknown { .. });
        let reading = self.reading(record);
        let claim = match newest(record, held) {
            Some(claim) if !claim.over && matches!(reading, Reading::Pending(_)) => claim,
            Some(_) if applied && freed(record, &reading) => return None,
            _ => return Some(self.too_late(record, resolve, held)),
        };
        if !denies {
            return None;
        }
        let policy = &self.request.policy;
        may_deny(record, claim, policy, resolve.effect_key_spent, self.now)
            .err()
            .map(Self::refuse)
    }

    /// What a claim that is over still tells: that the effect took place.
    fn too_late(&self, record: &Record, resolve: &Resolve, held: Held) -> Decision {
        let mut decision = Self::refuse(self.claim_over(record));
        let Finding::Applied(found) = &resolve.finding else {
            return decision;
        };
        if !held.authentic || record.state == State::Completed {
            return decision;
        }
        decision.traces.push(Trace::Evidence {
            attempt: held.attempt,
            reported: Reported::Outcome(ReportKind::Completed),
            code: found.content.code.clone(),
            digest: found.digest,
            at: self.now,
        });
        let audit = self.audit_of(record, AuditAction::Contradicted, resolve);
        self.set_contradicted(record, &mut decision, audit);
        decision
    }

    fn claim_over(&self, record: &Record) -> Refusal {
        Refusal::ClaimOver {
            state: match self.reading(record) {
                Reading::Running { .. } | Reading::Takeable => State::Processing,
                Reading::Pending(_) => State::Pending,
                Reading::Completed { .. } => State::Completed,
                Reading::FailedFinal { .. } => State::FailedFinal,
                Reading::FailedRetryable | Reading::Over => State::FailedRetryable,
            },
        }
    }

    pub(super) fn audit_of(
        &self,
        record: &Record,
        action: AuditAction,
        resolve: &Resolve,
    ) -> Trace {
        Trace::Audit {
            attempt: record.attempt.number,
            action,
            by: By::from(resolve.authority),
            actor: resolve.actor.clone(),
            evidence: resolve.evidence.clone(),
            at: self.now,
        }
    }
}

/// May it be said under `claim` that there was no effect? Mere absence at the provider
/// proves nothing while a request may be under way, nor once the provider has forgotten.
///
/// # Errors
/// [`Refusal::Settling`] or [`Refusal::TooLateToTell`].
pub fn may_deny(
    record: &Record,
    claim: &record::Claim,
    policy: &Policy,
    effect_key_spent: bool,
    now: Timestamp,
) -> Result<(), Refusal> {
    let attempt = &record.attempt;
    if claim.taken_at < attempt.lease_end.after(policy.settle_after) {
        return Err(Refusal::Settling);
    }
    match attempt.repeat_until {
        Some(until) if now >= until && !effect_key_spent => Err(Refusal::TooLateToTell),
        _ => Ok(()),
    }
}

/// The record's claim, if it is the one that is presented.
fn newest(record: &Record, held: Held) -> Option<&record::Claim> {
    record.claim.as_ref().filter(|claim| {
        held.authentic && held.attempt == record.attempt.number && held.fence == claim.fence
    })
}

/// A report or a resolution said that there was no effect, and nobody was granted the key
/// since.
pub(super) fn freed(record: &Record, reading: &Reading) -> bool {
    match reading {
        Reading::FailedRetryable => true,
        // FAILED retryable, too late for another grant; whether or not that was written.
        Reading::Pending(uncertain) => {
            uncertain.reason == PendingReason::EarlierAttemptUnknown
                && (record.attempt.given_back.is_some()
                    || record
                        .attempt
                        .report
                        .is_some_and(|report| report.kind == ReportKind::FailedRetryable))
        }
        _ => false,
    }
}
