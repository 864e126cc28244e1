//! Reserve: who may run, and what everybody else is told.

use std::time::Duration;

use reprise_fingerprint::Fingerprint;

use super::{AuditAction, Decision, Ending, NOT_DELIVERED, Scene, Trace};
use crate::Reading;
use crate::command::{Answer, MismatchReason, Outcome, Refusal, Reserve};
use crate::content::Content;
use crate::policy::OnLapse;
use crate::record::{
    Attempt, AttemptId, EARLIER_IDS_MAX, Ended, GivenBack, GrantReason, Record, ReportKind, State,
};
use crate::time::Timestamp;

/// Who asks, seen from the record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asker {
    New,
    Newest,
    Earlier,
}

/// What a new attempt brings with it.
pub(super) struct Candidate<'a> {
    pub(super) attempt_id: AttemptId,
    pub(super) lease: Option<Duration>,
    pub(super) owner: &'a str,
    pub(super) correlation_id: &'a str,
    pub(super) instruction: &'a bytes::Bytes,
}

impl Scene<'_> {
    pub(super) fn reserve(&self, record: Option<&Record>, reserve: &Reserve) -> Decision {
        let Some(record) = record.filter(|found| self.reading(found) != Reading::Over) else {
            return self.first(record, reserve);
        };
        if let Err(reason) = compare(&record.fingerprint, &reserve.fingerprints) {
            let view = self.view(record.clone());
            return Self::keep(Answer::Outcome(Outcome::Mismatch(reason), view));
        }
        self.ask(record, &Candidate::of(reserve))
    }

    /// Answers a caller with the right payload about a record whose memory is not over.
    pub(super) fn ask(&self, record: &Record, candidate: &Candidate<'_>) -> Decision {
        let asker = asker(record, candidate.attempt_id);
        match self.reading(record) {
            Reading::Running { .. } => self.while_running(record, candidate, asker),
            Reading::Takeable => match asker {
                Asker::New => self.take_over(record, candidate),
                Asker::Newest if !record.attempt.used => self.again(record, candidate.lease),
                Asker::Newest | Asker::Earlier => Self::refuse(Refusal::AttemptOver),
            },
            Reading::Pending(_) => self.pending(record, asker),
            Reading::FailedRetryable => {
                let back = record.attempt.given_back == Some(GivenBack::Server);
                match asker {
                    Asker::New => self.after_failure(record, candidate),
                    Asker::Newest if back => self.after_failure(record, candidate),
                    Asker::Newest | Asker::Earlier => Self::refuse(Refusal::AttemptOver),
                }
            }
            Reading::Completed { .. } | Reading::FailedFinal { .. } => {
                let view = self.view(record.clone());
                Self::keep(Answer::Outcome(Outcome::Recorded, view))
            }
            Reading::Over => unreachable!("callers filter it"),
        }
    }

    fn while_running(&self, record: &Record, candidate: &Candidate<'_>, asker: Asker) -> Decision {
        if asker != Asker::Newest || record.attempt.used {
            let view = self.view(record.clone());
            return Self::keep(Answer::Outcome(Outcome::Processing, view));
        }
        if record.contradicted {
            return self.pending(record, asker);
        }
        self.again(record, candidate.lease)
    }

    /// The same attempt, token and fence. The revision rises, so that a give-back of the
    /// first answer and this one cannot cross. A lease that runs is not prolonged.
    fn again(&self, record: &Record, lease: Option<Duration>) -> Decision {
        let mut next = self.next(record);
        if self.now >= record.attempt.lease_end {
            let lease = lease.unwrap_or(record.attempt.lease);
            next.attempt.lease_end = self.lease_end(record, lease);
        }
        self.write(next, |view| {
            Answer::Outcome(Outcome::Acquired { again: true }, view)
        })
    }

    fn pending(&self, record: &Record, asker: Asker) -> Decision {
        let reason = match self.reading(record) {
            Reading::Pending(uncertain) => uncertain.reason,
            _ => crate::record::PendingReason::ContradictoryReports,
        };
        let yours = asker == Asker::Newest;
        let view = self.view(record.clone());
        Self::keep(Answer::Outcome(Outcome::Pending { reason, yours }, view))
    }

    fn take_over(&self, record: &Record, candidate: &Candidate<'_>) -> Decision {
        if let Some(held) = self.held(Some(record)) {
            return held;
        }
        let mut next = self.grant(record, candidate, GrantReason::AfterLapsedLease);
        // The attempt before may have sent; without a mark to look at, nobody knows.
        if record.attempt.on_lapse == OnLapse::TakeOver && !record.unaccounted {
            next.unaccounted = true;
            next.attempt.repeat_until = record.attempt.repeat_until;
            next.attempt.lease_end = self.lease_end(&next, next.attempt.lease);
        }
        let audit = self.audit(&next, AuditAction::TakenOver);
        self.granted(record, next, Ending::Lapsed).traced(audit)
    }

    fn after_failure(&self, record: &Record, candidate: &Candidate<'_>) -> Decision {
        if let Some(held) = self.held(Some(record)) {
            return held;
        }
        let next = self.grant(record, candidate, GrantReason::AfterRetryableFailure);
        let ending = match (record.attempt.given_back, &record.attempt.report) {
            (Some(_), _) => Ending::GivenBack,
            (None, Some(report)) if report.kind == ReportKind::FailedRetryable => {
                Ending::FailedRetryable
            }
            (None, _) => Ending::Resolved,
        };
        self.granted(record, next, ending)
    }

    /// Answers a grant that followed `before`, which ended as `ending`.
    pub(super) fn granted(&self, before: &Record, next: Record, ending: Ending) -> Decision {
        let attempt = &before.attempt;
        // FAILED retryable, also when it was written down that it reads as PENDING.
        let failed = before.state == State::FailedRetryable
            || attempt.report.is_some()
            || attempt.given_back.is_some();
        let error = before.failure().filter(|_| failed);
        let history = Trace::History {
            attempt: attempt.number,
            attempt_id: attempt.id,
            owner: attempt.owner.clone(),
            granted_at: attempt.granted_at,
            ended_at: attempt.lease_end.min(self.now),
            ending,
            code: error.map(|error| error.code).unwrap_or_default(),
            provider_reference: before.provider_reference.clone(),
        };
        self.write(next, |view| {
            Answer::Outcome(Outcome::Acquired { again: false }, view)
        })
        .traced(history)
    }

    /// The attempt after `record`'s newest one.
    pub(super) fn grant(
        &self,
        record: &Record,
        candidate: &Candidate<'_>,
        why: GrantReason,
    ) -> Record {
        let before = &record.attempt;
        let mut next = self.next(record);
        next.state = State::Processing;
        next.pending = None;
        next.correlation_id = candidate.correlation_id.to_owned();
        if record.key_spent {
            // A new effect key is a new request at the provider.
            next.generation = record.generation.saturating_add(1);
            next.key_spent = false;
            next.instruction = bytes::Bytes::new();
            next.provider_reference = String::new();
        }
        if next.instruction.is_empty() {
            next.instruction = candidate.instruction.clone();
        }
        // A grant that reached nobody left nothing.
        let nothing = Content::of_code(NOT_DELIVERED);
        next.outcome = next.outcome.filter(|left| left.content != nothing);
        next.resolution = record
            .resolution
            .filter(|resolution| resolution.attempt >= before.number);
        next.previous = Some(Ended {
            number: before.number,
            fence: before.fence,
            report: before.report,
            pending_digests: before.pending_digests.clone(),
        });
        let why = match before.given_back {
            Some(_) => before.why,
            None => why,
        };
        next.attempt = self.attempt(before.number.saturating_add(1), candidate, why);
        next.attempt.fence = next
            .attempt
            .fence
            .max(record.last_fence().saturating_add(1));
        next.claim = None;
        next.attempt.earlier_ids = earlier_ids(before, candidate.attempt_id);
        if record.unaccounted {
            next.attempt.repeat_until = before.repeat_until;
        }
        next.attempt.lease_end = self.lease_end(&next, next.attempt.lease);
        next
    }

    fn attempt(&self, number: u32, candidate: &Candidate<'_>, why: GrantReason) -> Attempt {
        let policy = &self.request.policy;
        let lease = candidate.lease.unwrap_or(policy.lease);
        Attempt {
            number,
            id: candidate.attempt_id,
            earlier_ids: Vec::new(),
            fence: u64::try_from(self.now.0).unwrap_or(0),
            granted_at: self.now,
            lease_end: self.now.after(lease),
            lease,
            on_lapse: policy.on_lapse,
            repeat_until: policy.repeat_within.map(|within| self.now.after(within)),
            why,
            owner: candidate.owner.to_owned(),
            sent: false,
            used: false,
            given_back: None,
            report: None,
            pending_digests: Vec::new(),
        }
    }

    /// The end of a lease that begins now. While an attempt is unaccounted, none reaches
    /// beyond the moment after which nobody may be granted.
    pub(super) fn lease_end(&self, record: &Record, lease: Duration) -> Timestamp {
        let end = self.now.after(lease);
        match record.attempt.repeat_until {
            Some(until) if record.unaccounted => end.min(until),
            _ => end,
        }
    }

    /// No record, or one whose memory is over and whose row is used again: its revision
    /// and fence go on rising.
    fn first(&self, over: Option<&Record>, reserve: &Reserve) -> Decision {
        let policy = &self.request.policy;
        // At the very end of the memory its record may just have been forgotten.
        if reserve
            .intent_time
            .is_some_and(|made| self.now >= made.after(policy.memory_retention))
        {
            return Self::refuse(Refusal::IntentTooOld);
        }
        if let Some(held) = self.held(None) {
            return held;
        }
        let [fingerprint, ..] = reserve.fingerprints.as_slice() else {
            unreachable!("a Reserve carries at least one fingerprint");
        };
        let mut attempt = self.attempt(1, &Candidate::of(reserve), GrantReason::First);
        if let Some(over) = over {
            attempt.fence = attempt.fence.max(over.last_fence().saturating_add(1));
        }
        let record = Record {
            name: self.request.name.clone(),
            revision: over.map_or(1, |over| over.revision + 1),
            created_at: self.now,
            updated_at: self.now,
            fingerprint: fingerprint.clone(),
            state: State::Processing,
            generation: 1,
            key_spent: false,
            unaccounted: false,
            contradicted: false,
            attempt,
            previous: None,
            correlation_id: reserve.correlation_id.clone(),
            provider_reference: String::new(),
            resource_id: String::new(),
            instruction: reserve.instruction.clone(),
            pending: None,
            outcome: None,
            resolution: None,
            claim: None,
        };
        self.write(record, |view| {
            Answer::Outcome(Outcome::Acquired { again: false }, view)
        })
    }
}

impl<'a> Candidate<'a> {
    fn of(reserve: &'a Reserve) -> Self {
        Self {
            attempt_id: reserve.attempt_id,
            lease: reserve.lease,
            owner: &reserve.owner,
            correlation_id: &reserve.correlation_id,
            instruction: &reserve.instruction,
        }
    }
}

fn asker(record: &Record, id: AttemptId) -> Asker {
    if record.attempt.id == id {
        Asker::Newest
    } else if record.attempt.earlier_ids.contains(&id) {
        Asker::Earlier
    } else {
        Asker::New
    }
}

/// The ids before `newest`, the latest first, each once.
fn earlier_ids(before: &Attempt, newest: AttemptId) -> Vec<AttemptId> {
    std::iter::once(before.id)
        .chain(before.earlier_ids.iter().copied())
        .filter(|id| *id != newest)
        .take(EARLIER_IDS_MAX)
        .collect()
}

/// A record is compared under its own scheme and rule.
fn compare(stored: &Fingerprint, offered: &[Fingerprint]) -> Result<(), MismatchReason> {
    let same_kind =
        |offer: &&Fingerprint| offer.scheme == stored.scheme && offer.rule == stored.rule;
    match offered.iter().find(same_kind) {
        None => Err(MismatchReason::NotComparable),
        Some(offer) if offer.digest != stored.digest => Err(MismatchReason::DifferentPayload),
        Some(_) => Ok(()),
    }
}
