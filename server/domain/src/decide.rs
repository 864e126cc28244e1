//! The only place that knows the contract's tables.
//!
//! [`decide`] is pure and total: the same record, request and moment give the same
//! decision, and every combination has one. It does not know who stores the record, how
//! a caller is reached, or whether anybody waits.

mod claim;
mod forget;
mod give_back;
mod report;
mod reserve;
mod resolve;
#[cfg(test)]
mod tests;
mod work;

pub use claim::may_deny;
pub use give_back::NOT_DELIVERED;
pub use resolve::NOT_APPLIED;
pub use work::Work;

use crate::command::{Answer, Authority, Command, Refusal, Request};
use crate::content::Sha;
use crate::policy::Mode;
use crate::reading::View;
use crate::record::{AttemptId, Pending, PendingReason, Record, ReportKind, State};
use crate::time::Timestamp;

/// What is to be written and answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The record to write, if the row is still the one that was decided on. A refusal
    /// may carry one too.
    pub change: Option<Box<Record>>,
    /// What the caller is told once the change is durable.
    pub answer: Result<Answer, Refusal>,
    /// Side rows to write with the change.
    pub traces: Vec<Trace>,
    /// What becomes of the record's entry on the worklist, with the change; none leaves it
    /// as it is.
    pub work: Option<Work>,
    /// Erase what the record's side rows hold of callers' bytes, but not these `traces`.
    pub erase: bool,
}

impl Decision {
    /// There is something to make durable.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.change.is_some() || !self.traces.is_empty() || self.work.is_some() || self.erase
    }
}

/// A side row: what is to be seen later, but rules nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trace {
    /// A report that was refused: possibly a second effect. One row for each (record,
    /// attempt, digest).
    Evidence {
        /// Number of the reporting attempt.
        attempt: u32,
        /// What it reported.
        reported: Reported,
        /// The reported code.
        code: String,
        /// Of the report as sent.
        digest: Sha,
        /// When it came.
        at: Timestamp,
    },
    /// An attempt that another one followed.
    History {
        /// Its number.
        attempt: u32,
        /// Its id.
        attempt_id: AttemptId,
        /// Its owner.
        owner: String,
        /// When it was granted.
        granted_at: Timestamp,
        /// When it was over.
        ended_at: Timestamp,
        /// How it ended.
        ending: Ending,
        /// The code on record.
        code: String,
        /// The provider's reference on record.
        provider_reference: String,
    },
    /// Values that newer ones replaced.
    Replaced {
        /// Number of the attempt that held them.
        attempt: u32,
        /// The former reference; empty when it stays.
        provider_reference: String,
        /// The former instruction; empty when it stays.
        instruction: bytes::Bytes,
        /// When.
        at: Timestamp,
    },
    /// Something that people want to see.
    Audit {
        /// Number of the newest attempt.
        attempt: u32,
        /// What happened.
        action: AuditAction,
        /// By what right.
        by: By,
        /// Who did it; the owner of the attempt, or a person.
        actor: String,
        /// Why.
        evidence: String,
        /// When.
        at: Timestamp,
    },
}

/// What a refused report said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reported {
    /// An outcome.
    Outcome(ReportKind),
    /// MarkPending.
    Pending,
}

/// How an attempt ended that another one followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Its lease ended without a word.
    Lapsed,
    /// It reported a retryable failure.
    FailedRetryable,
    /// Its grant reached nobody.
    GivenBack,
    /// A resolution ended it.
    Resolved,
}

/// What people want to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuditAction {
    /// A lapsed attempt was taken over.
    TakenOver,
    /// A report contradicts what is on record.
    Contradicted,
    /// A Complete overrode a resolution that had freed the key.
    ContradictsResolution,
    /// Resolved as applied.
    ResolvedApplied,
    /// Resolved as not applied.
    ResolvedNotApplied,
    /// Resolved by taking over.
    ResolvedTakeOver,
    /// Resolved as failed.
    ResolvedFailed,
    /// Looked at, and still unknown.
    ResolvedStillUnknown,
    /// A claim's *applied* overrode a report that had freed the key.
    ContradictsReport,
    /// What callers stored was erased.
    Forgotten,
}

/// By what right something was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// A caller's request or report.
    Caller,
    /// A claim.
    Claim,
    /// A person.
    Operator,
}

impl From<Authority> for By {
    fn from(authority: Authority) -> Self {
        match authority {
            Authority::Operator { .. } => Self::Operator,
            Authority::Claim(_) => Self::Claim,
        }
    }
}

/// Decides on `request` for the record that a store found, or for none, at the store's
/// `now`.
#[must_use]
pub fn decide(record: Option<&Record>, request: &Request, now: Timestamp) -> Decision {
    let scene = Scene { request, now };
    let mut decision = match &request.command {
        Command::Reserve(reserve) => scene.reserve(record, reserve),
        Command::MarkSending(mark) => scene.mark_sending(record, mark),
        Command::Complete(complete) => scene.complete(record, complete),
        Command::Fail(fail) => scene.fail(record, fail),
        Command::MarkPending(mark) => scene.mark_pending(record, mark),
        Command::Renew(renew) => scene.renew(record, renew),
        Command::GiveBack(back) => scene.give_back_undelivered(record, back),
        Command::Claim(claim) => scene.claim(record, claim),
        Command::Resolve(resolve) => scene.resolve(record, resolve),
        Command::Forget(forget) => scene.forget(record, forget),
        Command::Sweep => scene.sweep(record),
    };
    if let Some(after) = &decision.change {
        decision.work = scene.work(record, after);
        let former = record.and_then(|before| scene.former_reference(before, after));
        if let Some(former) = former.filter(|it| !decision.traces.contains(it)) {
            decision.traces.push(former);
        }
    }
    decision
}

/// What every rule can see beside the record.
#[derive(Clone, Copy)]
struct Scene<'a> {
    request: &'a Request,
    now: Timestamp,
}

impl Scene<'_> {
    fn view(&self, record: Record) -> View {
        View::of(record, &self.request.policy, self.now)
    }

    fn reading(&self, record: &Record) -> crate::Reading {
        crate::Reading::of(record, &self.request.policy, self.now)
    }

    /// A copy to change, one revision on.
    fn next(&self, record: &Record) -> Record {
        let mut next = record.clone();
        next.revision += 1;
        next.updated_at = self.now;
        next
    }

    fn keep(answer: Answer) -> Decision {
        Decision {
            change: None,
            answer: Ok(answer),
            traces: Vec::new(),
            work: None,
            erase: false,
        }
    }

    fn refuse(refusal: Refusal) -> Decision {
        Decision {
            change: None,
            answer: Err(refusal),
            traces: Vec::new(),
            work: None,
            erase: false,
        }
    }

    /// Writes `record` and answers about it. What leaves PENDING ends the claim.
    fn write(&self, mut record: Record, answer: impl FnOnce(View) -> Answer) -> Decision {
        if record.state != State::Pending
            && let Some(claim) = &mut record.claim
        {
            claim.over = true;
        }
        let view = self.view(record.clone());
        Decision {
            change: Some(Box::new(record)),
            answer: Ok(answer(view)),
            traces: Vec::new(),
            work: None,
            erase: false,
        }
    }

    /// Puts `record` into PENDING. A reason that was there, or read from a lapse, stays:
    /// whether somebody wrote a lapse down must not change what callers are told.
    fn pend(&self, record: &mut Record, reason: PendingReason) {
        if let crate::Reading::Pending(uncertain) = self.reading(record) {
            let detail = record.pending.take().map(|pending| pending.detail);
            record.pending = Some(Pending {
                reason: uncertain.reason,
                detail: detail.unwrap_or_default(),
                since: uncertain.since,
                next_check: uncertain.next_check,
            });
        } else {
            record.pending = Some(Pending {
                reason,
                detail: String::new(),
                since: self.now,
                next_check: self.now.after(self.request.policy.settle_after),
            });
        }
        record.state = State::Pending;
    }

    /// Nobody may be granted an attempt at present; an answer in place of a grant.
    fn held(&self, record: Option<&Record>) -> Option<Decision> {
        (self.request.policy.mode == Mode::Hold).then(|| {
            let view = record.map(|record| Box::new(self.view(record.clone())));
            Self::keep(Answer::Held(view))
        })
    }

    /// The provider reference that an outcome replaced: it may be that of a real effect.
    fn former_reference(&self, before: &Record, after: &Record) -> Option<Trace> {
        let former = &before.provider_reference;
        let replaced = !former.is_empty()
            && *former != after.provider_reference
            && before.attempt.fence == after.attempt.fence
            && after.outcome != before.outcome;
        replaced.then(|| Trace::Replaced {
            attempt: before.attempt.number,
            provider_reference: former.clone(),
            instruction: bytes::Bytes::new(),
            at: self.now,
        })
    }

    /// About what a caller did.
    fn audit(&self, record: &Record, action: AuditAction) -> Trace {
        Trace::Audit {
            attempt: record.attempt.number,
            action,
            by: By::Caller,
            actor: record.attempt.owner.clone(),
            evidence: String::new(),
            at: self.now,
        }
    }
}

impl Trace {
    /// Erases callers' bytes, but not why something was erased; answers whether anything
    /// is left to keep.
    #[must_use]
    pub fn erase(&mut self) -> bool {
        match self {
            Self::Replaced { .. } => return false,
            Self::Audit {
                action, evidence, ..
            } if *action != AuditAction::Forgotten => evidence.clear(),
            // Its code is the caller's own words.
            Self::Evidence { reported, code, .. } if *reported == Reported::Pending => code.clear(),
            Self::Audit { .. } | Self::Evidence { .. } | Self::History { .. } => {}
        }
        true
    }
}

impl Decision {
    fn traced(mut self, trace: Trace) -> Self {
        self.traces.push(trace);
        self
    }
}
