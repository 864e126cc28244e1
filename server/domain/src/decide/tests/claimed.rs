//! PENDING while a claim runs: what the holder's reports come to.

use super::calls::*;
use super::fixture::*;
use crate::Reading;
use crate::command::{Disposition, Refusal};
use crate::content::Content;
use crate::decide::AuditAction;
use crate::record::{PendingReason, State};

#[test]
fn complete_counts_and_ends_the_claim() {
    for (mut row, held) in [claimed(), claimed_after_doubt()] {
        let token = row.token();
        let told = row.ask(complete(token, "done"));
        assert_eq!(told.disposition(), Disposition::Recorded);
        assert!(told.traces.is_empty());
        assert_eq!(row.reads(), Reading::Completed { gone: false });
        let told = row.ask(renew_claim(held, CLAIM)).changes_nothing();
        let state = State::Completed;
        assert_eq!(told.refusal(), Refusal::ClaimOver { state });
    }
}

#[test]
fn failure_counts_and_ends_the_claim() {
    for (mut row, held) in [claimed(), claimed_after_doubt()] {
        let token = row.token();
        let mut retried = row.clone();
        let told = retried.ask(retryable(token, "busy"));
        assert_eq!(told.disposition(), Disposition::Recorded);
        assert_eq!(retried.reads(), Reading::FailedRetryable);
        assert!(retried.record().running_claim(retried.now).is_none());
        let told = retried.ask(renew_claim(held, CLAIM));
        let state = State::FailedRetryable;
        assert_eq!(told.refusal(), Refusal::ClaimOver { state });
        let told = row.ask(failed(token, "declined"));
        assert_eq!(told.disposition(), Disposition::Recorded);
        assert_eq!(row.reads(), Reading::FailedFinal { gone: false });
        let told = row.ask(renew_claim(held, CLAIM));
        let state = State::FailedFinal;
        assert_eq!(told.refusal(), Refusal::ClaimOver { state });
    }
}

#[test]
fn failure_that_leads_to_pending_leaves_the_claim() {
    let (mut row, _) = unaccounted();
    row.now = row.now.max(T0.after(WITHIN));
    let held = row.settle().claimed(1);
    let token = row.token();
    let told = row.ask(failed(token, "declined"));
    assert_eq!(told.disposition(), Disposition::Recorded);
    assert_eq!(row.uncertain(), Some(PendingReason::EarlierAttemptUnknown));
    assert!(row.ask(renew_claim(held, CLAIM)).is_claimed());
}

#[test]
fn mark_pending_adds_and_leaves_the_claim() {
    let (mut row, held) = claimed_after_doubt();
    let token = row.token();
    let told = row.ask(crate::command::MarkPending {
        provider_reference: "ch_7".to_owned(),
        ..mark_pending(token, "no answer")
    });
    assert_eq!(told.disposition(), Disposition::Recorded);
    let record = row.record();
    assert_eq!(record.provider_reference, "ch_7");
    assert_eq!(
        record.pending.as_ref().expect("pending").detail,
        "no answer"
    );
    assert!(row.ask(renew_claim(held, CLAIM)).is_claimed());
    assert!(row.ask(claim(2)).changes_nothing().is_closed());
}

#[test]
fn mark_sending_and_renewal_are_refused() {
    for (mut row, _) in [claimed(), claimed_after_doubt()] {
        let token = row.token();
        let told = row.ask(mark_sending(token)).changes_nothing();
        assert_eq!(told.refusal(), Refusal::Claimed);
        let told = row.ask(renew(token, LEASE)).changes_nothing();
        assert_eq!(told.refusal(), Refusal::Claimed);
        row.pass(CLAIM - MICRO);
        assert_eq!(row.ask(mark_sending(token)).refusal(), Refusal::Claimed);
        row.pass(MICRO);
        assert_ne!(row.ask(mark_sending(token)).refusal(), Refusal::Claimed);
    }
}

#[test]
fn renewal_after_the_tokens_own_report_is_closed_also_under_a_claim() {
    let (mut row, _) = unaccounted();
    let token = row.token();
    row.ask(failed(token, "declined"));
    row.settle().claimed(1);
    assert!(row.ask(renew(token, LEASE)).changes_nothing().is_closed());
}

#[test]
fn contradictory_reports_are_answered_as_such_also_under_a_claim() {
    let mut row = contradictory();
    let held = row.settle().claimed(1);
    let token = row.token();
    let told = row.ask(complete(token, "other")).changes_nothing();
    assert_eq!(told.refusal(), Refusal::OutcomeAlreadyRecorded);
    assert!(told.has_evidence());
    let told = row.ask(mark_sending(token)).changes_nothing();
    assert_eq!(told.refusal(), Refusal::RecordPending);
    assert!(row.ask(renew(token, LEASE)).changes_nothing().is_closed());
    assert!(row.ask(renew_claim(held, CLAIM)).is_claimed());
}

#[test]
fn give_back_by_attempt_id_frees_the_key_and_ends_the_claim() {
    let (mut row, held) = claimed();
    let told = row.ask(give_back(1));
    assert_eq!(told.disposition(), Disposition::Recorded);
    assert_eq!(row.reads(), Reading::FailedRetryable);
    let told = row.ask(renew_claim(held, CLAIM)).changes_nothing();
    let state = State::FailedRetryable;
    assert_eq!(told.refusal(), Refusal::ClaimOver { state });
    let (mut used, held) = claimed_after_doubt();
    let told = used.ask(give_back(1)).changes_nothing();
    assert_eq!(told.refusal(), Refusal::AttemptOver);
    assert!(used.ask(renew_claim(held, CLAIM)).is_claimed());
}

#[test]
fn late_give_back_by_the_server_leaves_the_claim() {
    let mut row = lapsed();
    let granted = row.revision();
    row.settle().claimed(1);
    assert!(row.ask(undelivered(granted)).changes_nothing().is_closed());
    let revision = row.revision();
    assert!(row.ask(undelivered(revision)).changes_nothing().is_closed());
}

#[test]
fn stale_complete_contradicts_and_leaves_the_claim() {
    let mut row = failed_retryable();
    let first = row.token();
    row.grant(2);
    let held = row.settle().claimed(1);
    let told = row.ask(complete(first, "done"));
    assert_eq!(told.refusal(), Refusal::StaleToken);
    assert!(told.audits(AuditAction::Contradicted));
    assert_eq!(row.uncertain(), Some(PendingReason::ContradictoryReports));
    assert!(row.ask(renew_claim(held, CLAIM)).is_claimed());
    let told = row.ask(resolve_by(held, applied("done")));
    assert_eq!(told.disposition(), Disposition::Recorded);
    assert!(!row.record().contradicted);
}

#[test]
fn reserve_is_answered_pending_whether_or_not_there_is_a_claim() {
    for (row, _) in [claimed(), claimed_after_doubt()] {
        let reason = row.uncertain().expect("pending");
        for (attempt, yours) in [(2, false), (1, true)] {
            let told = row.decide(reserve(attempt)).changes_nothing();
            assert_eq!(told.outcome(), pending_for(reason, yours));
        }
    }
}

#[test]
fn report_under_a_claim_is_what_is_replayed() {
    let (mut row, _) = claimed();
    let token = row.token();
    row.ask(complete_with(token, done_with_body()));
    let outcome = row.record().outcome.clone().expect("an outcome");
    assert_eq!(outcome.content, done_with_body());
    assert_ne!(outcome.content, Content::of_code("done"));
}
