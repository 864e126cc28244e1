//! Rows in each state that the tables name, and short words for what is expected.

use std::time::Duration;

use super::calls::*;
use crate::Reading;
use crate::command::{Answer, Disposition, Finding, Outcome, Refusal};
use crate::content::{Body, Content};
use crate::decide::{AuditAction, Decision, Trace};
use crate::policy::Policy;
use crate::record::{PendingReason, State};
use crate::token::Held;

pub(super) const LEASE: Duration = Duration::from_secs(30);
pub(super) const SETTLE: Duration = Duration::from_mins(1);
pub(super) const MICRO: Duration = Duration::from_micros(1);

/// What a decision says, in the words of the tables.
pub(super) trait Told {
    fn outcome(&self) -> Outcome;
    fn disposition(&self) -> Disposition;
    fn refusal(&self) -> Refusal;
    fn is_leased(&self) -> bool;
    fn is_closed(&self) -> bool;
    fn is_claimed(&self) -> bool;
    fn is_held(&self) -> bool;
    fn changes_nothing(self) -> Self;
    fn has_evidence(&self) -> bool;
    fn audits(&self, action: AuditAction) -> bool;
}

impl Told for Decision {
    fn outcome(&self) -> Outcome {
        match &self.answer {
            Ok(Answer::Outcome(outcome, _)) => *outcome,
            other => panic!("not an outcome of Reserve: {other:?}"),
        }
    }

    fn disposition(&self) -> Disposition {
        match &self.answer {
            Ok(Answer::Reported(disposition, _)) => *disposition,
            other => panic!("not an accepted report: {other:?}"),
        }
    }

    fn refusal(&self) -> Refusal {
        match &self.answer {
            Err(refusal) => *refusal,
            other => panic!("not refused: {other:?}"),
        }
    }

    fn is_leased(&self) -> bool {
        matches!(&self.answer, Ok(Answer::Leased(_)))
    }

    fn is_closed(&self) -> bool {
        matches!(&self.answer, Ok(Answer::Closed(_)))
    }

    fn is_claimed(&self) -> bool {
        matches!(&self.answer, Ok(Answer::Claimed(_)))
    }

    fn is_held(&self) -> bool {
        matches!(&self.answer, Ok(Answer::Held(_)))
    }

    fn changes_nothing(self) -> Self {
        assert_eq!(self.change, None);
        self
    }

    fn has_evidence(&self) -> bool {
        let evidence = |trace: &Trace| matches!(trace, Trace::Evidence { .. });
        self.traces.iter().any(evidence)
    }

    fn audits(&self, wanted: AuditAction) -> bool {
        let audit =
            |trace: &Trace| matches!(trace, Trace::Audit { action, .. } if *action == wanted);
        self.traces.iter().any(audit)
    }
}

impl Row {
    pub(super) fn under(mut self, policy: Policy) -> Self {
        self.policy = policy.into();
        self
    }

    /// Time passes.
    pub(super) fn pass(&mut self, time: Duration) -> &mut Self {
        self.now = self.now.after(time);
        self
    }

    /// The newest lease ends, to the microsecond.
    pub(super) fn lapse(&mut self) -> &mut Self {
        self.now = self.now.max(self.record().attempt.lease_end);
        self
    }

    pub(super) fn state(&self) -> State {
        self.record().state
    }

    pub(super) fn revision(&self) -> u64 {
        self.record().revision
    }

    /// Why it reads as PENDING, if it does.
    pub(super) fn uncertain(&self) -> Option<PendingReason> {
        match self.reads() {
            Reading::Pending(uncertain) => Some(uncertain.reason),
            _ => None,
        }
    }

    pub(super) fn lease_left(&self) -> Duration {
        self.record().attempt.lease_end.since(self.now)
    }

    /// A new grant, whose token is answered.
    pub(super) fn grant(&mut self, attempt: u8) -> Held {
        assert_eq!(self.ask(reserve(attempt)).outcome(), ACQUIRED);
        self.token()
    }

    /// The newest claim, as its holder presents it.
    pub(super) fn newest_claim(&self) -> Held {
        claim_of(self.record()).expect("the test made a claim")
    }

    /// To the moment at which a claim may first be taken and say everything.
    pub(super) fn settle(&mut self) -> &mut Self {
        self.lapse();
        if let Reading::Pending(uncertain) = self.reads() {
            self.now = self.now.max(uncertain.next_check);
        }
        let settled = self.record().attempt.lease_end.after(SETTLE);
        self.now = self.now.max(settled);
        self
    }

    /// A new claim, as its holder presents it.
    pub(super) fn claimed(&mut self, number: u8) -> Held {
        let told = self.ask(claim(number));
        assert!(told.is_claimed(), "{:?}", told.answer);
        self.newest_claim()
    }

    /// An override by somebody who read the row just now.
    pub(super) fn override_with(&mut self, finding: Finding) -> Decision {
        let revision = self.revision();
        self.ask(resolve(revision, finding))
    }
}

pub(super) const ACQUIRED: Outcome = Outcome::Acquired { again: false };
pub(super) const AGAIN: Outcome = Outcome::Acquired { again: true };

pub(super) fn pending_for(reason: PendingReason, yours: bool) -> Outcome {
    Outcome::Pending { reason, yours }
}

/// PROCESSING, attempt id 1, the lease runs, the token is unused.
pub(super) fn running() -> Row {
    running_under(Policy::default())
}

pub(super) fn running_under(policy: Policy) -> Row {
    let mut row = Row::new(policy);
    row.grant(1);
    row
}

/// PROCESSING, lapsed before any mark; the next caller may take over.
pub(super) fn takeable() -> Row {
    let mut row = running_under(unless_sent());
    row.lapse();
    row
}

/// PROCESSING, lapsed; reads as PENDING.
pub(super) fn lapsed() -> Row {
    let mut row = running();
    row.lapse();
    row
}

/// PENDING by its holder's word; the lease runs.
pub(super) fn pending() -> Row {
    let mut row = running();
    let token = row.token();
    row.ask(mark_pending(token, "timeout"));
    row
}

/// PENDING, the lapse written down, under a claim that runs and may say everything.
pub(super) fn claimed() -> (Row, Held) {
    let mut row = lapsed();
    let claim = row.settle().claimed(1);
    (row, claim)
}

/// The same after the holder's MarkPending.
pub(super) fn claimed_after_doubt() -> (Row, Held) {
    let mut row = pending();
    let claim = row.settle().claimed(1);
    (row, claim)
}

/// PENDING, the token unused: a person looked after the lapse and knows nothing.
pub(super) fn pending_unused() -> Row {
    let mut row = lapsed();
    row.override_with(still_unknown());
    row
}

/// PENDING, `CONTRADICTORY_REPORTS`: its token said "no effect", then "effect".
pub(super) fn contradictory() -> Row {
    let mut row = failed_retryable();
    let token = row.token();
    row.ask(complete(token, "done"));
    row
}

/// PROCESSING under attempt 2, the lease runs, and the attempt before says that it had
/// its effect.
pub(super) fn contradicted() -> Row {
    contradicted_under(unless_sent())
}

pub(super) fn contradicted_under(policy: Policy) -> Row {
    let mut row = running_under(policy);
    let first = row.token();
    row.ask(retryable(first, "busy"));
    row.grant(2);
    row.ask(complete(first, "done"));
    assert!(row.record().contradicted);
    row
}

/// FAILED retryable by its token's word, code `busy`.
pub(super) fn failed_retryable() -> Row {
    let mut row = running();
    let token = row.token();
    row.ask(retryable(token, "busy"));
    row
}

/// FAILED retryable, the grant given back by the server.
pub(super) fn undelivered_grant() -> Row {
    let mut row = running();
    let revision = row.revision();
    row.ask(undelivered(revision));
    row
}

/// FAILED retryable, the grant given back by the client.
pub(super) fn given_back() -> Row {
    let mut row = running();
    row.ask(give_back(1));
    row
}

/// FAILED retryable, freed by a resolution; its token reported no outcome.
pub(super) fn freed() -> Row {
    let mut row = lapsed();
    row.override_with(Finding::NotApplied);
    assert_eq!(row.state(), State::FailedRetryable);
    row
}

/// COMPLETED by its token, code `done`, with a body.
pub(super) fn completed() -> Row {
    let mut row = running();
    let token = row.token();
    row.ask(complete_with(token, done_with_body()));
    row
}

pub(super) fn done_with_body() -> Content {
    Content {
        body: Some(Body::Data("receipt".into())),
        ..Content::of_code("done")
    }
}

/// FAILED final by its token, code `declined`.
pub(super) fn failed_final() -> Row {
    let mut row = running();
    let token = row.token();
    row.ask(failed(token, "declined"));
    row
}

/// The same row once its result's retention is over.
pub(super) fn tombstone(mut row: Row) -> Row {
    let outcome = row.record().outcome.clone();
    row.now = outcome.expect("an outcome on record").result_until;
    row
}

/// Under TAKE_OVER: attempt 1 lapsed and was taken over by attempt 2, whose lease runs.
/// Attempt 1 may have had its effect. Answers with attempt 1's token.
pub(super) fn unaccounted() -> (Row, Held) {
    let mut row = running_under(take_over());
    let first = row.token();
    row.lapse().grant(2);
    assert!(row.record().unaccounted);
    (row, first)
}
