//! HOLD: nobody is granted an attempt, nothing is written, and all else goes on.

use std::time::Duration;

use super::calls::*;
use super::fixture::*;
use crate::Reading;
use crate::command::{Answer, Disposition, Finding, Outcome, Refusal, Reserve};
use crate::policy::Policy;
use crate::record::{PendingReason, State};
use crate::time::Timestamp;

fn held(row: Row) -> Row {
    let policy = (*row.policy).clone();
    row.under(holding(policy))
}

/// A Reserve by `attempt` would be a grant, is held, and is a grant again after.
fn is_held(row: Row, attempt: u8) {
    let enforced = (*row.policy).clone();
    let mut row = held(row);
    let before = row.record.clone();
    let told = row.ask(reserve(attempt)).changes_nothing();
    assert!(told.is_held(), "{:?}", told.answer);
    assert!(told.traces.is_empty() && told.work.is_none());
    let Ok(Answer::Held(view)) = told.answer else {
        unreachable!("just seen");
    };
    let kept = before.filter(|_| row.reads() != Reading::Over);
    assert_eq!(view.map(|view| *view.record), kept);
    let mut row = row.under(enforced);
    assert_eq!(row.ask(reserve(attempt)).outcome(), ACQUIRED);
}

#[test]
fn first_grant_is_held() {
    let mut row = Row::new(holding(Policy::default()));
    let told = row.ask(reserve(1)).changes_nothing();
    assert!(matches!(told.answer, Ok(Answer::Held(None))));
    assert!(row.record.is_none());
    let mut over = completed();
    over.pass(over.policy.memory_retention);
    is_held(over, 2);
}

#[test]
fn grant_after_a_failure_a_give_back_and_a_resolution_is_held() {
    for row in [failed_retryable(), given_back(), freed()] {
        is_held(row, 2);
    }
    is_held(undelivered_grant(), 1);
    is_held(undelivered_grant(), 2);
}

#[test]
fn take_over_is_held() {
    is_held(takeable(), 2);
    let mut row = running_under(take_over());
    row.lapse();
    is_held(row, 2);
}

#[test]
fn take_over_by_a_resolver_is_held_and_leaves_the_claim() {
    let (row, claim) = claimed();
    let mut row = held(row);
    let before = row.record().clone();
    let told = row.ask(resolve_by(claim, resolver_takes_over(7)));
    assert!(told.is_held());
    assert!(told.changes_nothing().traces.is_empty());
    let told = row.override_with(resolver_takes_over(7));
    assert!(told.is_held());
    assert_eq!(*row.record(), before);
    let mut row = row.under(Policy::default());
    let told = row.ask(resolve_by(claim, resolver_takes_over(7)));
    assert_eq!(told.outcome(), ACQUIRED);
}

#[test]
fn resolver_that_was_granted_is_answered_again() {
    let (mut row, claim) = claimed();
    row.ask(resolve_by(claim, resolver_takes_over(7)));
    let mut row = held(row);
    let told = row.ask(resolve_by(claim, resolver_takes_over(7)));
    assert_eq!(told.outcome(), AGAIN);
    let revision = row.revision();
    row.ask(undelivered(revision));
    let told = row.ask(resolve_by(claim, resolver_takes_over(7)));
    assert!(told.is_held(), "once given back it would be a grant");
}

#[test]
fn the_newest_attempt_is_answered_again() {
    let mut row = held(running());
    assert_eq!(row.ask(reserve(1)).outcome(), AGAIN);
    let mut lapsed = held(takeable());
    assert_eq!(lapsed.ask(reserve(1)).outcome(), AGAIN);
    assert_eq!(lapsed.lease_left(), LEASE);
}

#[test]
fn what_would_be_no_grant_is_answered_as_ever() {
    let answers = |row: Row, attempt: u8| {
        let told = row.decide(reserve(attempt)).changes_nothing().answer;
        let held = held(row).decide(reserve(attempt)).answer;
        assert_eq!(told, held);
        told
    };
    answers(running(), 2).expect("processing");
    answers(pending(), 2).expect("pending");
    answers(lapsed(), 2).expect("pending");
    answers(contradicted(), 3).expect("processing");
    for row in [completed(), failed_final(), tombstone(completed())] {
        let told = answers(row, 2);
        assert!(matches!(told, Ok(Answer::Outcome(Outcome::Recorded, _))));
    }
    let over = answers(failed_retryable(), 1);
    assert_eq!(over, Err(Refusal::AttemptOver));
}

#[test]
fn mismatch_is_told_before_the_hold() {
    let row = held(failed_retryable());
    let told = row.decide(Reserve {
        fingerprints: vec![payload(2)],
        ..reserve(2)
    });
    assert!(matches!(told.outcome(), Outcome::Mismatch(_)));
}

#[test]
fn intent_that_is_too_old_is_told_before_the_hold() {
    let row = Row::new(holding(Policy::default()));
    let made = |at: i64| Reserve {
        intent_time: Some(Timestamp(at)),
        ..reserve(1)
    };
    let memory = crate::time::micros(row.policy.memory_retention);
    let told = row.decide(made(T0.0 - memory));
    assert_eq!(told.refusal(), Refusal::IntentTooOld);
    assert!(row.decide(made(T0.0 - memory + 1)).is_held());
}

#[test]
fn reports_renewals_and_resolutions_go_on() {
    let row = held(running());
    let token = row.token();
    for mut row in [row.clone(), {
        let mut row = row;
        row.ask(mark_pending(token, "timeout"));
        row
    }] {
        assert!(row.ask(renew(token, LEASE)).is_leased());
        let mut done = row.clone();
        let told = done.ask(complete(token, "done"));
        assert_eq!(told.disposition(), Disposition::Recorded);
        let told = row.ask(failed(token, "declined"));
        assert_eq!(told.disposition(), Disposition::Recorded);
    }
    let mut marked = held(running());
    assert!(marked.ask(mark_sending(token)).is_leased());
    for finding in [applied("done"), Finding::NotApplied, still_unknown()] {
        assert!(held(lapsed()).override_with(finding).answer.is_ok());
    }
    let mut forgotten = held(completed());
    let revision = forgotten.revision();
    let told = forgotten.ask(forget(revision));
    assert_eq!(told.disposition(), Disposition::Recorded);
}

#[test]
fn lapse_during_a_hold_means_what_it_means() {
    let mut row = held(running());
    row.lapse();
    assert_eq!(row.uncertain(), Some(PendingReason::LeaseExpired));
    row.ask(crate::Command::Sweep);
    assert_eq!(row.state(), State::Pending);
    let mut row = held(running_under(take_over()));
    row.pass(WITHIN);
    assert_eq!(row.uncertain(), Some(PendingReason::LeaseExpired));
}

#[test]
fn holder_may_let_go_and_go_on_during_a_hold() {
    let mut row = held(running_under(unless_sent()));
    let token = row.token();
    row.ask(renew(token, Duration::ZERO));
    assert_eq!(row.reads(), Reading::Takeable);
    assert!(row.ask(reserve(2)).is_held());
    assert!(row.ask(mark_sending(token)).is_leased());
}
