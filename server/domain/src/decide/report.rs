//! Reports by holders of tokens: Complete, Fail, MarkPending, MarkSending, Renew.

use std::time::Duration;

use bytes::Bytes;

use super::{AuditAction, Decision, Reported, Scene, Trace};
use crate::Reading;
use crate::command::{
    Answer, Complete, Disposition, Fail, Holder, Lessee, MarkPending, MarkSending, Refusal, Renew,
};
use crate::content::{Content, Sha};
use crate::record::{
    Ended, Outcome, PENDING_DIGESTS_MAX, PendingReason, Record, Report, ReportKind, State,
};
use crate::token::Held;

/// Where a presented token stands.
enum Standing<'a> {
    /// It holds the newest attempt.
    Newest(&'a Record),
    /// It held the attempt before; what that one reported is remembered.
    Previous(&'a Record, &'a Ended),
    /// Others have been granted since.
    Stale(&'a Record),
}

/// What a token reports.
struct Said<'a> {
    reported: Reported,
    code: &'a str,
    digest: Sha,
}

impl Scene<'_> {
    fn standing<'a>(
        &self,
        record: Option<&'a Record>,
        held: Held,
    ) -> Result<Standing<'a>, Refusal> {
        let record = record
            .filter(|found| self.reading(found) != Reading::Over)
            .ok_or(Refusal::RecordNotFound)?;
        if !held.authentic {
            return Err(Refusal::StaleToken);
        }
        let is = |number, fence| held.attempt == number && held.fence == fence;
        if is(record.attempt.number, record.attempt.fence) {
            return Ok(Standing::Newest(record));
        }
        match &record.previous {
            Some(ended) if is(ended.number, ended.fence) => Ok(Standing::Previous(record, ended)),
            _ => Ok(Standing::Stale(record)),
        }
    }

    pub(super) fn complete(&self, record: Option<&Record>, complete: &Complete) -> Decision {
        let said = Said {
            reported: Reported::Outcome(ReportKind::Completed),
            code: &complete.result.code,
            digest: complete.digest,
        };
        let record = match self.newest_or_late(record, complete.held, &said) {
            Ok(record) => record,
            Err(decision) => return *decision,
        };
        let attempt = &record.attempt;
        let failed_before = attempt.given_back.is_some()
            || attempt
                .report
                .is_some_and(|report| report.kind != ReportKind::Completed);
        match self.reading(record) {
            Reading::Completed { .. } => self.complete_again(record, complete, &said),
            Reading::FailedFinal { .. } => self.contradict(record, &said),
            Reading::Pending(_) if record.contradicted || failed_before => {
                self.contradict(record, &said)
            }
            Reading::FailedRetryable if failed_before => self.contradict(record, &said),
            Reading::FailedRetryable => {
                let audit = self.audit(record, AuditAction::ContradictsResolution);
                self.completed(record, complete).traced(audit)
            }
            Reading::Running { .. } | Reading::Takeable | Reading::Pending(_) => {
                self.completed(record, complete)
            }
            Reading::Over => Self::refuse(Refusal::RecordNotFound),
        }
    }

    fn completed(&self, record: &Record, complete: &Complete) -> Decision {
        let mut next = self.next(record);
        next.attempt.report = Some(Report {
            kind: ReportKind::Completed,
            digest: complete.digest,
        });
        next.unaccounted = false;
        self.record_outcome(&mut next, State::Completed, complete.result.clone());
        next.attempt.used = true;
        self.write(next, |view| Answer::Reported(Disposition::Recorded, view))
    }

    fn complete_again(&self, record: &Record, complete: &Complete, said: &Said<'_>) -> Decision {
        let own = record.attempt.report.is_some_and(|report| {
            report.kind == ReportKind::Completed && report.digest == said.digest
        });
        let resolution = record.resolution.as_ref();
        if own || resolution.is_some_and(|found| found.content == Some(complete.digest)) {
            return self.repeated(record, Disposition::Repeated);
        }
        if resolution.is_some_and(|found| found.core == Some(complete.core)) {
            return self.repeated(record, Disposition::AlreadyRecorded);
        }
        self.refuse_with_evidence(record, said)
    }

    pub(super) fn fail(&self, record: Option<&Record>, fail: &Fail) -> Decision {
        let held = match fail.holder {
            Holder::Token(held) => held,
            Holder::AttemptId(id) => return self.give_back_by_client(record, id),
        };
        let kind = ReportKind::from(fail.kind);
        let said = Said {
            reported: Reported::Outcome(kind),
            code: &fail.error.code,
            digest: fail.digest,
        };
        let record = match self.newest_or_late(record, held, &said) {
            Ok(record) => record,
            Err(decision) => return *decision,
        };
        let report = Report {
            kind,
            digest: fail.digest,
        };
        if record.attempt.report == Some(report) {
            return self.repeated(record, Disposition::Repeated);
        }
        match self.reading(record) {
            Reading::FailedFinal { .. } if self.resolved_alike(record, fail) => {
                self.repeated(record, Disposition::Repeated)
            }
            Reading::Completed { .. } | Reading::FailedFinal { .. } => {
                self.refuse_with_evidence(record, &said)
            }
            Reading::Pending(uncertain)
                if uncertain.reason == PendingReason::ContradictoryReports =>
            {
                self.refuse_with_evidence(record, &said)
            }
            Reading::Pending(_) | Reading::FailedRetryable
                if record.attempt.report.is_some() || record.attempt.given_back.is_some() =>
            {
                Self::refuse(Refusal::OutcomeAlreadyRecorded)
            }
            Reading::Over => Self::refuse(Refusal::RecordNotFound),
            Reading::Running { .. }
            | Reading::Takeable
            | Reading::Pending(_)
            | Reading::FailedRetryable => self.failed(record, fail, report),
        }
    }

    /// A resolution recorded this very error as final.
    fn resolved_alike(&self, record: &Record, fail: &Fail) -> bool {
        let as_final = |digest| {
            [false, true].map(|spent| {
                Fail::digest_of_content(crate::command::FailureKind::Final, spent, digest)
            })
        };
        record
            .resolution
            .and_then(|resolution| resolution.content)
            .is_some_and(|content| as_final(content).contains(&fail.digest))
    }

    fn failed(&self, record: &Record, fail: &Fail, report: Report) -> Decision {
        let mut next = self.next(record);
        next.attempt.used = true;
        next.attempt.report = Some(report);
        next.attempt.lease_end = record.attempt.lease_end.min(self.now);
        if fail.effect_key_spent {
            next.key_spent = true;
            next.unaccounted = false;
        }
        let is_final = report.kind == ReportKind::FailedFinal;
        let uncertain = if next.contradicted && !(is_final && fail.effect_key_spent) {
            Some(PendingReason::ContradictoryReports)
        } else if is_final && next.unaccounted {
            Some(PendingReason::EarlierAttemptUnknown)
        } else {
            None
        };
        let state = if is_final {
            State::FailedFinal
        } else {
            State::FailedRetryable
        };
        self.record_outcome(&mut next, state, fail.error.clone());
        if let Some(reason) = uncertain {
            next.state = record.state;
            next.pending.clone_from(&record.pending);
            self.pend(&mut next, reason);
            if let Some(pending) = &mut next.pending {
                pending.reason = reason;
            }
        }
        self.write(next, |view| Answer::Reported(Disposition::Recorded, view))
    }

    pub(super) fn mark_pending(&self, record: Option<&Record>, mark: &MarkPending) -> Decision {
        let said = Said {
            reported: Reported::Pending,
            code: &mark.detail,
            digest: mark.digest,
        };
        let record = match self.newest_or_late(record, mark.held, &said) {
            Ok(record) => record,
            Err(decision) => return *decision,
        };
        let attempt = &record.attempt;
        if attempt.pending_digests.contains(&mark.digest) {
            return self.repeated(record, Disposition::Repeated);
        }
        match self.reading(record) {
            Reading::Completed { .. } | Reading::FailedFinal { .. } => {
                Self::refuse(Refusal::OutcomeAlreadyRecorded)
            }
            Reading::FailedRetryable
                if attempt.report.is_some() || attempt.given_back.is_some() =>
            {
                Self::refuse(Refusal::AttemptOver)
            }
            Reading::Over => Self::refuse(Refusal::RecordNotFound),
            Reading::Running { .. }
            | Reading::Takeable
            | Reading::Pending(_)
            | Reading::FailedRetryable => self.pended(record, mark),
        }
    }

    fn pended(&self, record: &Record, mark: &MarkPending) -> Decision {
        let settle = self.request.policy.settle_after;
        let first = !matches!(self.reading(record), Reading::Pending(_));
        let mut next = self.next(record);
        next.attempt.used = true;
        self.pend(&mut next, PendingReason::Reported);
        if let Some(pending) = &mut next.pending {
            if !mark.detail.is_empty() {
                pending.detail.clone_from(&mark.detail);
            }
            if first || mark.check_after.is_some() {
                pending.next_check = self.now.after(mark.check_after.unwrap_or(settle));
            }
        }
        let digests = &mut next.attempt.pending_digests;
        digests.push(mark.digest);
        if digests.len() > PENDING_DIGESTS_MAX {
            digests.remove(0);
        }
        let replaced = self.replace(&mut next, &mark.provider_reference, &mark.instruction);
        let mut decision = self.write(next, |view| Answer::Reported(Disposition::Recorded, view));
        decision.traces.extend(replaced);
        decision
    }

    pub(super) fn mark_sending(&self, record: Option<&Record>, mark: &MarkSending) -> Decision {
        let record = match self.standing(record, mark.held) {
            Ok(Standing::Newest(record)) => record,
            Ok(Standing::Previous(..) | Standing::Stale(_)) => {
                return Self::refuse(Refusal::StaleToken);
            }
            Err(refusal) => return Self::refuse(refusal),
        };
        match self.reading(record) {
            Reading::Running { .. } if record.contradicted => Self::refuse(Refusal::Contradicted),
            Reading::Pending(uncertain)
                if uncertain.reason != PendingReason::ContradictoryReports
                    && record.running_claim(self.now).is_some() =>
            {
                Self::refuse(Refusal::Claimed)
            }
            Reading::Running { .. } | Reading::Takeable => {
                let mut next = self.extended(record, mark.lease);
                next.attempt.sent = true;
                let replaced = self.replace(&mut next, &mark.provider_reference, &mark.instruction);
                let mut decision = self.write(next, Answer::Leased);
                decision.traces.extend(replaced);
                decision
            }
            Reading::Pending(uncertain) => Self::refuse(match uncertain.reason {
                PendingReason::LeaseExpired | PendingReason::LeaseExpiredAfterSending => {
                    Refusal::LeaseExpired
                }
                // A lapse, whether or not it was written down; not the attempt's own word.
                PendingReason::EarlierAttemptUnknown
                    if record.state != State::FailedRetryable
                        && record.attempt.report.is_none()
                        && record.attempt.given_back.is_none() =>
                {
                    Refusal::LeaseExpired
                }
                PendingReason::Reported
                | PendingReason::EarlierAttemptUnknown
                | PendingReason::ContradictoryReports => Refusal::RecordPending,
            }),
            Reading::FailedRetryable => Self::refuse(Refusal::AttemptOver),
            Reading::Completed { .. } | Reading::FailedFinal { .. } => {
                Self::refuse(Refusal::OutcomeAlreadyRecorded)
            }
            Reading::Over => Self::refuse(Refusal::RecordNotFound),
        }
    }

    pub(super) fn renew(&self, record: Option<&Record>, renew: &Renew) -> Decision {
        let held = match renew.lessee {
            Lessee::Attempt(held) => held,
            Lessee::Claim(held) => return self.renew_claim(record, renew, held),
        };
        let record = match self.standing(record, held) {
            Ok(Standing::Newest(record)) => record,
            Ok(Standing::Previous(record, ended)) if ended.report.is_some() => {
                return Self::keep(Answer::Closed(self.view(record.clone())));
            }
            Ok(Standing::Previous(..) | Standing::Stale(_)) => {
                return Self::refuse(Refusal::StaleToken);
            }
            Err(refusal) => return Self::refuse(refusal),
        };
        let closed = || Self::keep(Answer::Closed(self.view(record.clone())));
        if record.attempt.report.is_some() {
            return closed();
        }
        match self.reading(record) {
            Reading::Running { .. } if record.contradicted => Self::refuse(Refusal::Contradicted),
            Reading::Running { .. } | Reading::Takeable => {
                self.write(self.extended(record, renew.lease), Answer::Leased)
            }
            Reading::Pending(uncertain)
                if uncertain.reason == PendingReason::ContradictoryReports =>
            {
                closed()
            }
            Reading::Pending(_) if record.running_claim(self.now).is_some() => {
                Self::refuse(Refusal::Claimed)
            }
            Reading::Pending(_)
                if record.state == State::Pending && self.now < record.attempt.lease_end =>
            {
                self.write(self.extended(record, renew.lease), Answer::Leased)
            }
            Reading::Pending(_) => Self::refuse(Refusal::LeaseExpired),
            Reading::FailedRetryable | Reading::Completed { .. } | Reading::FailedFinal { .. } => {
                closed()
            }
            Reading::Over => Self::refuse(Refusal::RecordNotFound),
        }
    }

    /// The lease runs anew, under a token that somebody evidently holds.
    fn extended(&self, record: &Record, lease: Option<Duration>) -> Record {
        let mut next = self.next(record);
        let lease = lease.unwrap_or(record.attempt.lease);
        next.attempt.lease_end = self.lease_end(record, lease);
        next.attempt.used = true;
        next
    }

    /// The record under its newest token; else the decision about a late report.
    fn newest_or_late<'a>(
        &self,
        record: Option<&'a Record>,
        held: Held,
        said: &Said<'_>,
    ) -> Result<&'a Record, Box<Decision>> {
        let late = match self.standing(record, held) {
            Ok(Standing::Newest(record)) => return Ok(record),
            Ok(Standing::Previous(record, ended)) => {
                let remembered = match said.reported {
                    Reported::Outcome(kind) => {
                        ended.report
                            == Some(Report {
                                kind,
                                digest: said.digest,
                            })
                    }
                    Reported::Pending => ended.pending_digests.contains(&said.digest),
                };
                if remembered {
                    self.repeated(record, Disposition::Repeated)
                } else {
                    self.stale(record, held, said)
                }
            }
            Ok(Standing::Stale(record)) => self.stale(record, held, said),
            Err(refusal) => Self::refuse(refusal),
        };
        Err(Box::new(late))
    }

    /// A report by an attempt that others followed. One that says that the effect took
    /// place makes the record contradicted, before it is answered.
    fn stale(&self, record: &Record, held: Held, said: &Said<'_>) -> Decision {
        let mut decision = Self::refuse(Refusal::StaleToken);
        if said.reported == Reported::Outcome(ReportKind::FailedRetryable) {
            return decision;
        }
        decision.traces.push(self.evidence(held.attempt, said));
        if said.reported == Reported::Outcome(ReportKind::Completed) {
            let audit = self.audit(record, AuditAction::Contradicted);
            self.set_contradicted(record, &mut decision, audit);
        }
        decision
    }

    /// A Complete by the newest token against its own word, or against a failure that is
    /// on record.
    fn contradict(&self, record: &Record, said: &Said<'_>) -> Decision {
        let mut decision = self.refuse_with_evidence(record, said);
        let audit = self.audit(record, AuditAction::Contradicted);
        self.set_contradicted(record, &mut decision, audit);
        decision
    }

    pub(super) fn set_contradicted(&self, record: &Record, decision: &mut Decision, audit: Trace) {
        if record.contradicted || record.state == State::Completed {
            return;
        }
        let mut next = self.next(record);
        // Once contradicted, an unwritten lapse would no longer say since when.
        let lapsed = record.state == State::Processing
            && matches!(self.reading(record), Reading::Pending(_));
        if record.state == State::FailedRetryable || lapsed {
            self.pend(&mut next, PendingReason::ContradictoryReports);
        }
        next.contradicted = true;
        decision.change = Some(Box::new(next));
        decision.traces.push(audit);
    }

    fn refuse_with_evidence(&self, record: &Record, said: &Said<'_>) -> Decision {
        let evidence = self.evidence(record.attempt.number, said);
        Self::refuse(Refusal::OutcomeAlreadyRecorded).traced(evidence)
    }

    fn evidence(&self, attempt: u32, said: &Said<'_>) -> Trace {
        Trace::Evidence {
            attempt,
            reported: said.reported,
            code: said.code.to_owned(),
            digest: said.digest,
            at: self.now,
        }
    }

    pub(super) fn repeated(&self, record: &Record, disposition: Disposition) -> Decision {
        Self::keep(Answer::Reported(disposition, self.view(record.clone())))
    }

    /// Fixes the outcome and, with it, retention.
    pub(super) fn record_outcome(&self, record: &mut Record, state: State, content: Content) {
        let policy = &self.request.policy;
        record.state = state;
        record.pending = None;
        record.resource_id.clone_from(&content.resource_id);
        if !content.provider_reference.is_empty() {
            record
                .provider_reference
                .clone_from(&content.provider_reference);
        }
        record.outcome = Some(Outcome {
            content,
            recorded_at: self.now,
            result_until: self.now.after(policy.result_retention),
            memory_until: self.now.after(policy.memory_retention),
        });
    }

    /// Newer values replace older ones; the replaced go to the history.
    fn replace(
        &self,
        record: &mut Record,
        provider_reference: &str,
        instruction: &Bytes,
    ) -> Option<Trace> {
        let mut former = (String::new(), Bytes::new());
        if !provider_reference.is_empty() && record.provider_reference != provider_reference {
            let newer = provider_reference.to_owned();
            former.0 = std::mem::replace(&mut record.provider_reference, newer);
        }
        if !instruction.is_empty() && record.instruction != *instruction {
            former.1 = std::mem::replace(&mut record.instruction, instruction.clone());
        }
        (!former.0.is_empty() || !former.1.is_empty()).then(|| Trace::Replaced {
            attempt: record.attempt.number,
            provider_reference: former.0,
            instruction: former.1,
            at: self.now,
        })
    }
}
