//! Complete by the newest token, in each row of the report table.

use super::calls::*;
use super::fixture::*;
use crate::Reading;
use crate::command::{Disposition, Finding, Refusal};
use crate::content::{Body, Content};
use crate::decide::{AuditAction, Decision};
use crate::reading::StartOver;
use crate::record::{PendingReason, State};

fn completes(mut row: Row) -> Decision {
    let token = row.token();
    let told = row.ask(complete(token, "done"));
    assert_eq!(told.disposition(), Disposition::Recorded);
    assert!(!told.has_evidence());
    let outcome = row.record().outcome.clone().expect("an outcome");
    assert_eq!(outcome.content.code, "done");
    assert_eq!(outcome.recorded_at, row.now);
    assert_eq!(
        (row.state(), row.record().pending.clone()),
        (State::Completed, None)
    );
    told
}

/// Refused with evidence; the row afterwards.
fn refused(mut row: Row, code: &str) -> Row {
    let token = row.token();
    let told = row.ask(complete(token, code));
    assert_eq!(told.refusal(), Refusal::OutcomeAlreadyRecorded);
    assert!(told.has_evidence());
    row
}

#[test]
fn complete_under_a_running_lease_is_recorded() {
    completes(running());
}

#[test]
fn complete_after_a_lapse_is_recorded_while_nobody_took_over() {
    completes(takeable());
    let mut row = running_under(take_over());
    row.lapse();
    completes(row);
}

#[test]
fn complete_after_a_lapse_that_reads_as_pending_is_recorded() {
    completes(lapsed());
}

#[test]
fn complete_ends_pending() {
    completes(pending());
    completes(pending_unused());
    let mut row = pending();
    row.lapse().pass(SETTLE);
    completes(row);
}

#[test]
fn complete_on_a_contradicted_record_is_refused_and_kept_as_evidence() {
    let row = contradictory();
    let revision = row.revision();
    let row = refused(row, "done");
    assert_eq!(row.revision(), revision);
    let mut lapsed = contradicted();
    lapsed.lapse();
    let lapsed = refused(lapsed, "done");
    assert_eq!(
        lapsed.uncertain(),
        Some(PendingReason::ContradictoryReports)
    );
}

#[test]
fn complete_after_its_own_failure_turns_the_record_pending() {
    let row = refused(failed_retryable(), "done");
    assert_eq!(row.state(), State::Pending);
    assert_eq!(row.uncertain(), Some(PendingReason::ContradictoryReports));
    let token = row.token();
    assert!(
        failed_retryable()
            .ask(complete(token, "done"))
            .audits(AuditAction::Contradicted)
    );
}

#[test]
fn complete_of_a_grant_that_was_given_back_turns_the_record_pending() {
    for row in [undelivered_grant(), given_back()] {
        let row = refused(row, "done");
        assert_eq!(row.uncertain(), Some(PendingReason::ContradictoryReports));
    }
}

#[test]
fn complete_after_a_resolution_freed_the_key_wins_and_is_audited() {
    assert!(completes(freed()).audits(AuditAction::ContradictsResolution));
}

#[test]
fn complete_after_its_own_failure_contradicts_in_pending_too() {
    let (mut row, _) = unaccounted();
    let token = row.token();
    row.ask(failed(token, "declined"));
    assert_eq!(row.uncertain(), Some(PendingReason::EarlierAttemptUnknown));
    let row = refused(row, "done");
    assert_eq!(row.uncertain(), Some(PendingReason::ContradictoryReports));
}

#[test]
fn complete_after_its_own_failure_contradicts_even_after_a_resolution() {
    let mut row = contradictory();
    row.override_with(Finding::NotApplied);
    let row = refused(row, "done");
    assert_eq!(row.uncertain(), Some(PendingReason::ContradictoryReports));
}

#[test]
fn complete_is_repeated_with_the_same_content_and_refused_with_other() {
    for mut row in [completed(), tombstone(completed())] {
        let token = row.token();
        let told = row
            .ask(complete_with(token, done_with_body()))
            .changes_nothing();
        assert_eq!(told.disposition(), Disposition::Repeated);
        let before = row.revision();
        let row = refused(row, "other");
        assert_eq!((row.revision(), row.record().contradicted), (before, false));
    }
}

#[test]
fn body_and_its_omitted_form_are_the_same_content() {
    let mut row = completed();
    let (size, sha256) = Body::Data("receipt".into()).measure();
    let omitted = Content {
        body: Some(Body::Omitted { size, sha256 }),
        ..done_with_body()
    };
    let token = row.token();
    let told = row.ask(complete_with(token, omitted));
    assert_eq!(told.disposition(), Disposition::Repeated);
}

#[test]
fn complete_against_a_final_failure_makes_starting_over_doubtful() {
    for row in [failed_final(), tombstone(failed_final())] {
        let view =
            |row: &Row| crate::View::of(row.record().clone(), &row.policy, row.now).start_over();
        assert_eq!(view(&row), StartOver::Yes);
        let row = refused(row, "done");
        assert_eq!(row.state(), State::FailedFinal);
        assert!(matches!(row.reads(), Reading::FailedFinal { .. }));
        assert_eq!(view(&row), StartOver::Unknown);
    }
}

#[test]
fn result_as_sent_is_compared_with_what_a_resolution_recorded() {
    let applied_with = |content: Content| {
        let mut row = lapsed();
        row.override_with(Finding::Applied(found(content)));
        row
    };
    let mut row = applied_with(done_with_body());
    let token = row.token();
    let told = row
        .ask(complete_with(token, done_with_body()))
        .changes_nothing();
    assert_eq!(told.disposition(), Disposition::Repeated);
    let told = row.ask(complete(token, "done")).changes_nothing();
    assert_eq!(told.disposition(), Disposition::AlreadyRecorded);
    assert!(!told.has_evidence());
    let with_headers = Content {
        headers: vec![("etag".to_owned(), "7".into())],
        ..Content::of_code("done")
    };
    let told = row.ask(complete_with(token, with_headers));
    assert_eq!(told.disposition(), Disposition::AlreadyRecorded);
    refused(row, "other");
}

#[test]
fn references_of_the_result_are_kept_beside_it() {
    let mut row = running();
    let token = row.token();
    row.ask(complete_with(
        token,
        Content {
            resource_id: "charge-7".to_owned(),
            provider_reference: "ch_7".to_owned(),
            ..Content::of_code("done")
        },
    ));
    assert_eq!(row.record().resource_id, "charge-7");
    assert_eq!(row.record().provider_reference, "ch_7");
}
