//! Fail by the newest token, in each row of the report table.

use super::calls::*;
use super::fixture::*;
use crate::command::{Disposition, Finding, Refusal};
use crate::record::{PendingReason, State};

/// Both kinds are recorded, and end the lease.
fn fails(row: &Row) {
    for (state, is_final) in [(State::FailedRetryable, false), (State::FailedFinal, true)] {
        let mut row = row.clone();
        let token = row.token();
        let fail = if is_final { failed } else { retryable };
        let told = row.ask(fail(token, "no"));
        assert_eq!(told.disposition(), Disposition::Recorded);
        assert!(!told.has_evidence());
        assert_eq!((row.state(), row.record().pending.clone()), (state, None));
        let outcome = row.record().outcome.clone().expect("an outcome");
        assert_eq!(
            (outcome.content.code.as_str(), outcome.recorded_at),
            ("no", row.now)
        );
        assert!(row.record().attempt.lease_end <= row.now);
        let repeated = row.ask(fail(token, "no")).changes_nothing();
        assert_eq!(repeated.disposition(), Disposition::Repeated);
    }
}

fn refused(row: &mut Row, code: &str, evidence: bool) {
    let token = row.token();
    for fail in [retryable(token, code), failed(token, code)] {
        let told = row.ask(fail).changes_nothing();
        assert_eq!(told.refusal(), Refusal::OutcomeAlreadyRecorded);
        assert_eq!(told.has_evidence(), evidence);
    }
}

#[test]
fn failure_under_a_running_lease_is_recorded() {
    fails(&running());
}

#[test]
fn failure_after_a_lapse_is_recorded_while_nobody_took_over() {
    fails(&takeable());
    let mut row = running_under(take_over());
    fails(row.lapse());
}

#[test]
fn failure_after_a_lapse_that_reads_as_pending_is_recorded() {
    fails(&lapsed());
}

#[test]
fn failure_ends_pending() {
    fails(&pending());
    fails(&pending_unused());
    fails(pending().lapse());
}

#[test]
fn failure_on_a_contradicted_record_repeats_its_own_words_only() {
    let mut row = contradictory();
    let token = row.token();
    let told = row.ask(retryable(token, "busy")).changes_nothing();
    assert_eq!(told.disposition(), Disposition::Repeated);
    assert_eq!(row.uncertain(), Some(PendingReason::ContradictoryReports));
    refused(&mut row, "other", true);
}

#[test]
fn failure_after_its_own_retryable_failure_is_repeated_or_refused() {
    let mut row = failed_retryable();
    let token = row.token();
    let told = row.ask(retryable(token, "busy")).changes_nothing();
    assert_eq!(told.disposition(), Disposition::Repeated);
    refused(&mut row, "other", false);
    let told = row.ask(spent(retryable(token, "busy"))).changes_nothing();
    assert_eq!(told.refusal(), Refusal::OutcomeAlreadyRecorded);
}

#[test]
fn failure_of_a_grant_that_was_given_back_is_refused() {
    for mut row in [undelivered_grant(), given_back()] {
        refused(&mut row, "busy", false);
    }
}

#[test]
fn failure_after_a_resolution_freed_the_key_counts() {
    fails(&freed());
}

#[test]
fn failure_against_a_final_outcome_is_refused_with_evidence() {
    for mut row in [completed(), tombstone(completed())] {
        refused(&mut row, "declined", true);
        assert_eq!(row.state(), State::Completed);
    }
    for mut row in [failed_final(), tombstone(failed_final())] {
        refused(&mut row, "other", true);
        let token = row.token();
        let told = row.ask(failed(token, "declined")).changes_nothing();
        assert_eq!(told.disposition(), Disposition::Repeated);
    }
}

#[test]
fn final_failure_that_a_resolution_recorded_is_repeated_by_its_holder() {
    let mut row = lapsed();
    row.override_with(found_failed("declined"));
    let token = row.token();
    let told = row.ask(failed(token, "declined")).changes_nothing();
    assert_eq!(told.disposition(), Disposition::Repeated);
    let told = row.ask(spent(failed(token, "declined"))).changes_nothing();
    assert_eq!(told.disposition(), Disposition::Repeated);
    refused(&mut row, "other", true);
}

#[test]
fn final_failure_while_an_attempt_is_unaccounted_is_pending_and_ends_the_lease() {
    let (mut row, _) = unaccounted();
    let token = row.token();
    let told = row.ask(failed(token, "declined"));
    assert_eq!(told.disposition(), Disposition::Recorded);
    assert_eq!(row.state(), State::Pending);
    assert_eq!(row.uncertain(), Some(PendingReason::EarlierAttemptUnknown));
    assert_eq!(row.record().attempt.lease_end, row.now);
    let told = row.ask(failed(token, "declined")).changes_nothing();
    assert_eq!(told.disposition(), Disposition::Repeated);
    assert!(row.ask(renew(token, LEASE)).is_closed());
}

#[test]
fn final_failure_that_spent_the_key_is_final_although_an_attempt_is_unaccounted() {
    let (mut row, _) = unaccounted();
    let token = row.token();
    row.ask(spent(failed(token, "declined")));
    assert_eq!(row.state(), State::FailedFinal);
    assert!(!row.record().unaccounted);
}

#[test]
fn retryable_failure_keeps_an_earlier_attempt_unaccounted() {
    let (mut row, _) = unaccounted();
    let token = row.token();
    row.ask(retryable(token, "busy"));
    assert_eq!(row.state(), State::FailedRetryable);
    assert!(row.record().unaccounted);
}

#[test]
fn failure_on_a_contradicted_attempt_is_pending() {
    for is_final in [false, true] {
        let mut row = contradicted();
        let token = row.token();
        let fail = if is_final { failed } else { retryable };
        assert_eq!(
            row.ask(fail(token, "no")).disposition(),
            Disposition::Recorded
        );
        assert_eq!(row.uncertain(), Some(PendingReason::ContradictoryReports));
        assert_eq!(row.state(), State::Pending);
        assert!(row.record().attempt.lease_end <= row.now);
    }
}

#[test]
fn final_failure_that_spent_the_key_of_a_contradicted_record_is_final_but_doubtful() {
    let mut row = contradicted();
    let token = row.token();
    row.ask(spent(failed(token, "declined")));
    assert_eq!(row.state(), State::FailedFinal);
    let view = crate::View::of(row.record().clone(), &row.policy, row.now);
    assert_eq!(view.start_over(), crate::reading::StartOver::Unknown);
}

#[test]
fn retryable_failure_that_spent_the_key_grants_nothing_while_contradicted() {
    let mut row = contradicted();
    let token = row.token();
    row.ask(spent(retryable(token, "no")));
    assert_eq!(row.uncertain(), Some(PendingReason::ContradictoryReports));
    row.override_with(Finding::NotApplied);
    row.grant(3);
    assert_eq!(row.record().generation, 2);
}
