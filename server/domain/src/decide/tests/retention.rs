//! Ends of retention: facts about time, fixed with the outcome.

use super::calls::*;
use super::fixture::*;
use crate::Reading;
use crate::command::Outcome;
use crate::policy::Policy;
use crate::record::State;
use crate::time::Timestamp;

/// `row` one microsecond before `until`.
fn before(row: &Row, until: Timestamp) -> Row {
    let mut row = row.clone();
    row.now = Timestamp(until.0 - 1);
    row
}

#[test]
fn result_is_replayed_until_its_retention_ends_and_known_until_memory_ends() {
    for row in [completed(), failed_final()] {
        let reads_gone = |row: &Row| match row.reads() {
            Reading::Completed { gone } | Reading::FailedFinal { gone } => gone,
            other => panic!("reads as {other:?}"),
        };
        let policy = Policy::default();
        let outcome = row.record().outcome.clone().expect("an outcome");
        assert_eq!(outcome.result_until, T0.after(policy.result_retention));
        assert_eq!(outcome.memory_until, T0.after(policy.memory_retention));
        let mut row = before(&row, outcome.result_until);
        assert!(!reads_gone(&row));
        row.pass(MICRO);
        assert!(reads_gone(&row));
        let mut row = before(&row, outcome.memory_until);
        assert!(reads_gone(&row));
        assert_eq!(row.ask(reserve(9)).outcome(), Outcome::Recorded);
        row.pass(MICRO);
        assert_eq!(row.reads(), Reading::Over);
    }
}

#[test]
fn retryable_failure_is_forgotten_after_memory_retention_of_its_last_report() {
    let mut row = failed_retryable();
    row.pass(LEASE).grant(2);
    let token = row.token();
    row.ask(retryable(token, "busy"));
    let until = row.now.after(row.policy.memory_retention);
    let mut row = before(&row, until);
    assert_eq!(row.reads(), Reading::FailedRetryable);
    row.pass(MICRO);
    assert_eq!(row.reads(), Reading::Over);
}

#[test]
fn retention_is_fixed_with_the_outcome() {
    let short = Policy {
        result_retention: LEASE,
        memory_retention: LEASE * 2,
        ..Policy::default()
    };
    let until = completed().record().outcome.clone().expect("an outcome");
    let mut row = completed().under(short.clone());
    row.pass(LEASE * 3);
    assert_eq!(row.reads(), Reading::Completed { gone: false });
    let mut row = running().under(short);
    let token = row.token();
    row.ask(complete(token, "done"));
    let mut row = row.under(Policy::default());
    row.pass(LEASE * 2);
    assert_eq!(row.reads(), Reading::Over);
    assert!(until.memory_until > row.now);
}

#[test]
fn retention_never_removes_what_is_open() {
    for mut row in [
        running(),
        takeable(),
        lapsed(),
        pending(),
        contradictory(),
        contradicted(),
    ] {
        row.now = Timestamp::FAR;
        assert_ne!(row.reads(), Reading::Over);
    }
}

#[test]
fn earlier_outcome_does_not_make_a_later_attempt_forgotten() {
    let mut row = failed_retryable();
    row.grant(2);
    assert!(row.record().outcome.is_some());
    row.now = Timestamp::FAR;
    assert!(matches!(row.reads(), Reading::Pending(_)));
    let token = row.token();
    row.ask(mark_pending(token, "timeout"));
    assert_eq!(row.state(), State::Pending);
    assert!(matches!(row.reads(), Reading::Pending(_)));
}
