//! Renew by the newest token, in each row of the report table.

use std::time::Duration;

use super::calls::*;
use super::fixture::*;
use crate::Reading;
use crate::command::{Finding, Refusal};
use crate::record::{PendingReason, State};

fn renews(mut row: Row, state: State) {
    let token = row.token();
    row.pass(LEASE / 3);
    assert!(row.ask(renew(token, None)).is_leased());
    assert_eq!(row.lease_left(), LEASE, "the attempt's own length");
    assert!(row.ask(renew(token, Duration::from_secs(5))).is_leased());
    assert_eq!(row.lease_left(), Duration::from_secs(5), "also earlier");
    assert_eq!(row.state(), state);
    assert!(row.record().attempt.used && !row.record().attempt.sent);
}

fn refused(mut row: Row, refusal: Refusal) {
    let token = row.token();
    let told = row.ask(renew(token, LEASE)).changes_nothing();
    assert_eq!(told.refusal(), refusal);
}

fn closed(mut row: Row) {
    let token = row.token();
    assert!(row.ask(renew(token, LEASE)).changes_nothing().is_closed());
}

#[test]
fn renewal_under_a_running_lease_moves_its_end() {
    renews(running(), State::Processing);
}

#[test]
fn renewal_after_a_lapse_runs_again_while_nobody_took_over() {
    renews(takeable(), State::Processing);
    let mut row = running_under(take_over());
    row.lapse();
    renews(row, State::Processing);
}

#[test]
fn renewal_after_a_lapse_that_reads_as_pending_is_refused() {
    refused(lapsed(), Refusal::LeaseExpired);
}

#[test]
fn renewal_on_pending_is_good_while_the_lease_runs() {
    renews(pending(), State::Pending);
    let mut row = pending();
    row.lapse();
    refused(row, Refusal::LeaseExpired);
    refused(pending_unused(), Refusal::LeaseExpired);
}

#[test]
fn renewal_on_a_contradicted_record() {
    closed(contradictory());
    refused(contradicted(), Refusal::Contradicted);
    let mut lapsed = contradicted();
    lapsed.lapse();
    closed(lapsed);
}

#[test]
fn renewal_after_a_retryable_failure_is_closed() {
    for row in [
        failed_retryable(),
        undelivered_grant(),
        given_back(),
        freed(),
    ] {
        closed(row);
    }
}

#[test]
fn renewal_after_a_final_outcome_is_closed() {
    for row in [completed(), failed_final()] {
        closed(row.clone());
        closed(tombstone(row));
    }
    let mut row = lapsed();
    row.override_with(applied("done"));
    closed(row);
}

#[test]
fn renewal_after_the_tokens_own_report_is_closed_in_every_state() {
    let (mut row, _) = unaccounted();
    let token = row.token();
    row.ask(failed(token, "declined"));
    closed(row);
    let mut row = failed_retryable();
    let first = row.token();
    row.grant(2);
    assert!(row.ask(renew(first, LEASE)).changes_nothing().is_closed());
    row.override_with(still_unknown());
    assert!(row.ask(renew(first, LEASE)).changes_nothing().is_closed());
    let second = row.token();
    row.ask(retryable(second, "busy"));
    row.grant(3);
    let told = row.ask(renew(first, LEASE)).changes_nothing();
    assert_eq!(told.refusal(), Refusal::StaleToken, "two grants later");
}

#[test]
fn renewal_by_an_older_token_without_a_report_is_stale() {
    let mut row = takeable();
    let first = row.token();
    row.grant(2);
    let told = row.ask(renew(first, LEASE)).changes_nothing();
    assert_eq!(told.refusal(), Refusal::StaleToken);
}

#[test]
fn renewal_with_zero_ends_the_lease_at_once() {
    let mut row = running_under(take_over());
    let token = row.token();
    assert!(row.ask(renew(token, Duration::ZERO)).is_leased());
    assert_eq!(row.reads(), Reading::Takeable);
    let mut row = running();
    let token = row.token();
    row.ask(renew(token, Duration::ZERO));
    assert_eq!(row.uncertain(), Some(PendingReason::LeaseExpired));
    row.override_with(Finding::NotApplied);
    assert_eq!(row.state(), State::FailedRetryable);
}
