//! Grants that nobody received, given back by the server or by attempt id; and keys that
//! are older than memory.

use std::time::Duration;

use super::calls::*;
use super::fixture::*;
use crate::command::{Answer, Disposition, Finding, Refusal, Reserve};
use crate::decide::{Ending, NOT_DELIVERED, Trace};
use crate::record::{GivenBack, GrantReason, PendingReason, State};

/// FAILED retryable, `NOT_DELIVERED`, the lease over.
fn returned(row: &Row, by: GivenBack) {
    let record = row.record();
    assert_eq!(record.state, State::FailedRetryable);
    assert_eq!(record.attempt.given_back, Some(by));
    assert!(record.attempt.lease_end <= row.now);
    let error = record.failure().expect("an error");
    assert_eq!(error.code, NOT_DELIVERED);
}

#[test]
fn give_back_leaves_what_earlier_attempts_left() {
    let mut row = running();
    let token = row.token();
    row.ask(retryable(token, "busy"));
    row.grant(2);
    row.ask(give_back(2));
    returned(&row, GivenBack::Client);
    row.grant(3);
    let left = row.record().outcome.as_ref().expect("what was left");
    assert_eq!(left.content.code, "busy");

    let mut row = running();
    row.ask(give_back(1));
    row.grant(2);
    assert_eq!(row.record().outcome, None, "nobody left anything");
}

#[test]
fn undelivered_grant_is_given_back_by_the_server() {
    let row = undelivered_grant();
    returned(&row, GivenBack::Server);
    let mut late = running();
    let revision = late.revision();
    late.lapse().ask(undelivered(revision));
    returned(&late, GivenBack::Server);
}

#[test]
fn asking_again_and_a_give_back_of_the_first_answer_do_not_cross() {
    let mut row = running();
    let revision = row.revision();
    assert_eq!(row.ask(reserve(1)).outcome(), AGAIN);
    assert!(row.ask(undelivered(revision)).changes_nothing().is_closed());
    assert_eq!(row.state(), State::Processing);
}

#[test]
fn server_gives_back_only_the_grant_that_it_made() {
    for mut row in [completed(), pending(), failed_retryable(), freed()] {
        let newest = row.revision();
        for revision in [1, newest] {
            assert!(row.ask(undelivered(revision)).changes_nothing().is_closed());
        }
    }
    let mut none = Row::new(unless_sent());
    assert_eq!(none.ask(undelivered(1)).refusal(), Refusal::RecordNotFound);
}

#[test]
fn next_grant_ignores_the_one_that_was_given_back() {
    for mut row in [undelivered_grant(), given_back()] {
        let (fence, fingerprint) = (row.record().attempt.fence, row.record().fingerprint.clone());
        let told = row.ask(reserve(2));
        let returned = |trace: &Trace| {
            matches!(
                trace,
                Trace::History {
                    ending: Ending::GivenBack,
                    ..
                }
            )
        };
        assert!(told.traces.iter().any(returned));
        let record = row.record();
        assert_eq!(record.attempt.why, GrantReason::First);
        assert_eq!(record.attempt.number, 2, "its number is not used again");
        assert!(record.attempt.fence > fence);
        assert_eq!(
            (record.fingerprint.clone(), record.outcome.clone()),
            (fingerprint, None)
        );
        assert!(!record.unaccounted);
    }
    let mut row = failed_retryable();
    row.grant(2);
    row.ask(give_back(2));
    row.grant(3);
    assert_eq!(row.record().attempt.why, GrantReason::AfterRetryableFailure);
}

#[test]
fn grant_given_back_is_never_unaccounted() {
    let mut row = running_under(take_over());
    row.lapse().ask(give_back(1));
    let granted = row.now;
    row.grant(2);
    assert!(!row.record().unaccounted);
    assert_eq!(
        row.record().attempt.repeat_until,
        Some(granted.after(WITHIN))
    );
}

#[test]
fn give_back_keeps_an_earlier_attempt_unaccounted() {
    let (mut row, _) = unaccounted();
    let until = row.record().attempt.repeat_until;
    row.ask(give_back(2));
    row.grant(3);
    assert!(row.record().unaccounted);
    assert_eq!(row.record().attempt.repeat_until, until);
}

#[test]
fn client_gives_back_what_it_never_used() {
    let mut lapsed_row = lapsed();
    let mut takeable_row = takeable();
    let mut pending_row = pending_unused();
    let mut running_row = running();
    for row in [
        &mut running_row,
        &mut takeable_row,
        &mut lapsed_row,
        &mut pending_row,
    ] {
        assert_eq!(row.ask(give_back(1)).disposition(), Disposition::Recorded);
        returned(row, GivenBack::Client);
        assert_eq!(row.record().pending, None);
        let told = row.ask(give_back(1)).changes_nothing();
        assert_eq!(told.disposition(), Disposition::Repeated);
    }
}

#[test]
fn client_may_repeat_what_the_server_gave_back() {
    let mut row = undelivered_grant();
    let told = row.ask(give_back(1)).changes_nothing();
    assert_eq!(told.disposition(), Disposition::Repeated);
}

#[test]
fn used_token_is_not_given_back() {
    for mut row in [running(), takeable(), running_under(take_over())] {
        let token = row.token();
        row.ask(renew(token, LEASE));
        let told = row.ask(give_back(1)).changes_nothing();
        assert_eq!(told.refusal(), Refusal::AttemptOver);
        row.lapse();
        let told = row.ask(give_back(1)).changes_nothing();
        assert_eq!(told.refusal(), Refusal::AttemptOver);
    }
    let told = pending().ask(give_back(1)).changes_nothing();
    assert_eq!(told.refusal(), Refusal::AttemptOver);
}

#[test]
fn give_back_of_any_other_id_or_beside_an_outcome_is_closed() {
    let closed = |row: &mut Row, attempt| {
        let told = row.ask(give_back(attempt)).changes_nothing();
        assert_eq!(told.disposition(), Disposition::Closed);
    };
    for mut row in [running(), pending(), given_back(), completed()] {
        closed(&mut row, 9);
    }
    for row in [completed(), failed_final()] {
        closed(&mut row.clone(), 1);
        closed(&mut tombstone(row), 1);
    }
    closed(&mut failed_retryable(), 1);
    closed(&mut freed(), 1);
    let mut row = failed_retryable();
    row.grant(2);
    closed(&mut row, 1);
}

#[test]
fn give_back_on_a_contradicted_record_is_pending() {
    let mut row = contradicted();
    assert_eq!(row.ask(give_back(2)).disposition(), Disposition::Recorded);
    assert_eq!(row.state(), State::Pending);
    assert_eq!(row.uncertain(), Some(PendingReason::ContradictoryReports));
    let told = row.ask(give_back(2)).changes_nothing();
    assert_eq!(told.disposition(), Disposition::Repeated);
    row.override_with(Finding::NotApplied);
    assert_eq!(row.ask(reserve(3)).outcome(), ACQUIRED);
}

#[test]
fn key_older_than_memory_is_refused_where_nothing_is_remembered() {
    let made_before = |row: &Row, margin| Reserve {
        intent_time: Some(crate::Timestamp(
            row.now.0 - crate::time::micros(row.policy.memory_retention - margin),
        )),
        ..reserve(9)
    };
    let mut row = Row::new(unless_sent());
    let too_old = made_before(&row, Duration::ZERO);
    let told = row.ask(too_old).changes_nothing();
    assert_eq!(told.refusal(), Refusal::IntentTooOld);
    let just_in_time = made_before(&row, MICRO);
    assert_eq!(row.ask(just_in_time).outcome(), ACQUIRED);

    let mut forgotten = completed();
    forgotten.now = forgotten
        .record()
        .outcome
        .clone()
        .expect("an outcome")
        .memory_until;
    let too_old = made_before(&forgotten, Duration::ZERO);
    assert_eq!(forgotten.ask(too_old).refusal(), Refusal::IntentTooOld);

    let mut remembered = completed();
    let too_old = made_before(&remembered, Duration::ZERO);
    assert!(matches!(
        remembered.ask(too_old).answer,
        Ok(Answer::Outcome(..))
    ));
}
