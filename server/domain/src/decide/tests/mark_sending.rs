//! MarkSending by the newest token, in each row of the report table.

use std::time::Duration;

use super::calls::*;
use super::fixture::*;
use crate::Reading;
use crate::command::{Finding, MarkSending, Refusal};
use crate::decide::Trace;
use crate::record::{PendingReason, State};

fn sends(mut row: Row) -> Row {
    let token = row.token();
    row.pass(LEASE / 3);
    assert!(row.ask(mark_sending(token)).is_leased());
    assert_eq!(row.state(), State::Processing);
    assert!(matches!(row.reads(), Reading::Running { .. }));
    assert!(row.record().attempt.sent && row.record().attempt.used);
    assert_eq!(row.lease_left(), LEASE);
    row
}

fn refused(mut row: Row, refusal: Refusal) {
    let token = row.token();
    let told = row.ask(mark_sending(token)).changes_nothing();
    assert_eq!(told.refusal(), refusal);
    assert!(told.traces.is_empty());
}

#[test]
fn mark_under_a_running_lease_is_stored_and_moves_its_end() {
    sends(running());
    let mut row = running();
    let token = row.token();
    let shorter = Some(Duration::from_secs(1));
    row.ask(MarkSending {
        lease: shorter,
        ..mark_sending(token)
    });
    assert_eq!(row.lease_left(), Duration::from_secs(1));
}

#[test]
fn mark_after_a_lapse_runs_again_while_nobody_took_over() {
    sends(takeable());
    let mut row = running_under(take_over());
    row.lapse();
    sends(row);
}

#[test]
fn mark_after_a_lapse_that_reads_as_pending_is_refused() {
    refused(lapsed(), Refusal::LeaseExpired);
    let mut row = sends(running_under(unless_sent()));
    row.lapse();
    refused(row, Refusal::LeaseExpired);
}

#[test]
fn mark_after_the_last_moment_to_repeat_is_refused() {
    let (mut row, _) = unaccounted();
    row.pass(WITHIN);
    assert_eq!(row.uncertain(), Some(PendingReason::EarlierAttemptUnknown));
    refused(row.clone(), Refusal::LeaseExpired);
    row.override_with(still_unknown());
    assert_eq!(row.state(), State::Pending);
    refused(row, Refusal::LeaseExpired);
}

#[test]
fn mark_on_pending_is_refused() {
    refused(pending(), Refusal::RecordPending);
    let (mut row, _) = unaccounted();
    let token = row.token();
    row.ask(failed(token, "declined"));
    refused(row, Refusal::RecordPending);
}

#[test]
fn mark_on_a_contradicted_record_is_refused() {
    refused(contradictory(), Refusal::RecordPending);
    refused(contradicted(), Refusal::Contradicted);
}

#[test]
fn mark_after_a_retryable_failure_is_over() {
    for row in [
        failed_retryable(),
        undelivered_grant(),
        given_back(),
        freed(),
    ] {
        refused(row, Refusal::AttemptOver);
    }
}

#[test]
fn mark_on_a_final_outcome_is_refused() {
    for row in [completed(), failed_final()] {
        refused(row.clone(), Refusal::OutcomeAlreadyRecorded);
        refused(tombstone(row), Refusal::OutcomeAlreadyRecorded);
    }
}

#[test]
fn mark_by_an_older_token_is_stale() {
    let mut row = takeable();
    let first = row.token();
    row.grant(2);
    let told = row.ask(mark_sending(first)).changes_nothing();
    assert_eq!(told.refusal(), Refusal::StaleToken);
    assert!(told.traces.is_empty());
}

#[test]
fn mark_may_be_repeated_and_newer_values_replace_older_ones() {
    let mut row = running();
    let token = row.token();
    let mark = |reference: &str| MarkSending {
        provider_reference: reference.to_owned(),
        instruction: format!("send {reference}").into(),
        ..mark_sending(token)
    };
    assert!(row.ask(mark("ch_1")).traces.is_empty());
    assert!(row.ask(mark("ch_1")).traces.is_empty());
    let told = row.ask(mark("ch_2"));
    let replaced = Trace::Replaced {
        attempt: 1,
        provider_reference: "ch_1".to_owned(),
        instruction: "send ch_1".into(),
        at: row.now,
    };
    assert_eq!(told.traces, [replaced]);
    assert_eq!(row.record().provider_reference, "ch_2");
}

#[test]
fn mark_leaves_a_lapse_that_says_so() {
    for policy in [crate::Policy::default(), unless_sent()] {
        let mut row = sends(running_under(policy));
        row.lapse();
        assert_eq!(
            row.uncertain(),
            Some(PendingReason::LeaseExpiredAfterSending)
        );
    }
}

#[test]
fn mark_does_not_outlive_its_attempt() {
    let mut row = sends(running());
    let token = row.token();
    row.ask(retryable(token, "busy"));
    row.grant(2);
    assert!(!row.record().attempt.sent);
    row.lapse();
    row.override_with(Finding::NotApplied);
    assert!(!row.record().attempt.sent);
}
