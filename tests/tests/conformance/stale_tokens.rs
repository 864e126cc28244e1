//! Reports by tokens that are not the newest.

use reprise_domain::command::{FailureKind, Finding, Refusal};
use reprise_domain::decide::Reported;
use reprise_domain::record::{ReportKind, State};
use reprise_domain::{Reading, Trace};

use super::case::{Case, error, new_id, other_error, result, secs, unless_sent};
use super::told::Grant;

stamp![
    a_former_owner_changes_nothing_of_the_new_one,
    a_stale_complete_is_evidence,
    a_stale_final_failure_is_evidence,
    a_stale_retryable_failure_is_no_evidence,
    a_stale_mark_pending_is_evidence,
    a_stale_mark_sending_and_renew_are_refused,
    a_forged_token_leaves_nothing,
    a_token_of_another_record_leaves_nothing,
    a_lost_failure_is_repeated_after_the_next_grant,
    a_lost_mark_pending_is_repeated_after_the_next_grant,
    another_failure_after_the_next_grant_is_stale,
    two_grants_later_a_lost_report_is_stale,
    a_renew_after_an_own_failure_is_closed_one_grant_later,
    a_stale_complete_on_a_completed_record_is_evidence_alone,
    a_token_of_a_forgotten_life_is_stale,
];

/// A grant that lapsed unsent, and the one that took over.
pub(super) async fn taken_over(case: &Case) -> (Case, Grant, Grant) {
    let case = case.under(unless_sent());
    let first = case.reserve("k").await.granted();
    case.advance(secs(30));
    let second = case.reserve("k").await.granted();
    (case, first, second)
}

async fn a_former_owner_changes_nothing_of_the_new_one(case: &Case) {
    let (case, first, second) = taken_over(case).await;
    let stale = Refusal::StaleToken;
    case.renew(&first, None).await.refused(stale);
    let told = case.fail(&first, FailureKind::Retryable, error()).await;
    told.refused(stale);
    assert_eq!(case.record("k").await, *second.record());
    case.complete(&first, result()).await.refused(stale);
    let theirs = super::case::other_result();
    case.complete(&second, theirs.clone()).await.recorded();
    let outcome = case.record("k").await.outcome.expect("an outcome");
    assert_eq!(outcome.content, theirs);
}

async fn a_stale_complete_is_evidence(case: &Case) {
    let (case, first, _) = taken_over(case).await;
    let told = case.complete(&first, result()).await;
    told.refused(Refusal::StaleToken);
    let expected = Trace::Evidence {
        attempt: 1,
        reported: Reported::Outcome(ReportKind::Completed),
        code: "PAID".to_owned(),
        digest: result().digest(),
        at: case.now(),
    };
    assert_eq!(case.evidence("k").await, [expected]);
}

async fn a_stale_final_failure_is_evidence(case: &Case) {
    let (case, first, _) = taken_over(case).await;
    let told = case.fail(&first, FailureKind::Final, error()).await;
    told.refused(Refusal::StaleToken);
    assert_eq!(case.evidence("k").await.len(), 1);
    assert!(!case.record("k").await.contradicted);
}

async fn a_stale_retryable_failure_is_no_evidence(case: &Case) {
    let (case, first, _) = taken_over(case).await;
    let told = case.fail(&first, FailureKind::Retryable, error()).await;
    told.refused(Refusal::StaleToken);
    assert_eq!(case.evidence("k").await, []);
}

async fn a_stale_mark_pending_is_evidence(case: &Case) {
    let (case, first, second) = taken_over(case).await;
    let told = case.mark_pending(&first, "timed out").await;
    told.refused(Refusal::StaleToken);
    assert_eq!(case.evidence("k").await.len(), 1);
    assert_eq!(case.record("k").await, *second.record());
}

async fn a_stale_mark_sending_and_renew_are_refused(case: &Case) {
    let (case, first, second) = taken_over(case).await;
    case.mark_sending(&first).await.refused(Refusal::StaleToken);
    let told = case.renew(&first, None).await;
    told.refused(Refusal::StaleToken);
    assert_eq!(case.record("k").await, *second.record());
}

async fn a_forged_token_leaves_nothing(case: &Case) {
    let grant = case.reserve("k").await.granted();
    let token_key = case.store.token_key();
    let id = grant.name.id();
    let mut token = token_key.issue(&id, grant.number(), grant.fence());
    token[28] ^= 1;
    let held = token_key.read(&id, &token).expect("the form of a token");
    let forged = Grant {
        held,
        ..grant.clone()
    };
    let stale = Refusal::StaleToken;
    case.complete(&forged, result()).await.refused(stale);
    let told = case.fail(&forged, FailureKind::Final, error()).await;
    told.refused(stale);
    case.mark_pending(&forged, "").await.refused(stale);
    case.mark_sending(&forged).await.refused(stale);
    case.renew(&forged, None).await.refused(stale);
    assert_eq!(case.traces("k").await, []);
    assert_eq!(case.record("k").await, *grant.record());
}

async fn a_token_of_another_record_leaves_nothing(case: &Case) {
    let other = case.reserve("other").await.granted();
    let grant = case.reserve("k").await.granted();
    let token_key = case.store.token_key();
    let token = token_key.issue(&other.name.id(), other.number(), other.fence());
    let held = token_key.read(&grant.name.id(), &token);
    let held = held.expect("the form of a token");
    assert!(!held.authentic);
    let foreign = Grant {
        held,
        ..grant.clone()
    };
    let told = case.complete(&foreign, result()).await;
    told.refused(Refusal::StaleToken);
    assert_eq!(case.record("k").await, *grant.record());
}

async fn a_lost_failure_is_repeated_after_the_next_grant(case: &Case) {
    let (first, second) = case.followed("k").await;
    let told = case.fail(&first, FailureKind::Retryable, error()).await;
    told.repeated();
    assert_eq!(case.record("k").await, *second.record());
}

async fn a_lost_mark_pending_is_repeated_after_the_next_grant(case: &Case) {
    let first = case.pending("k").await;
    case.advance(secs(100));
    case.resolve("k", Finding::NotApplied).await.recorded();
    case.reserve("k").await.granted();
    case.mark_pending(&first, "timed out").await.repeated();
}

async fn another_failure_after_the_next_grant_is_stale(case: &Case) {
    let (first, _) = case.followed("k").await;
    let told = case.fail(&first, FailureKind::Final, other_error()).await;
    told.refused(Refusal::StaleToken);
}

async fn two_grants_later_a_lost_report_is_stale(case: &Case) {
    let (first, second) = case.followed("k").await;
    let told = case
        .fail(&second, FailureKind::Retryable, other_error())
        .await;
    told.recorded();
    case.reserve("k").await.granted();
    let told = case.fail(&first, FailureKind::Retryable, error()).await;
    told.refused(Refusal::StaleToken);
    let told = case
        .fail(&second, FailureKind::Retryable, other_error())
        .await;
    told.repeated();
}

async fn a_renew_after_an_own_failure_is_closed_one_grant_later(case: &Case) {
    let (first, _) = case.followed("k").await;
    case.renew(&first, None).await.closed();
}

async fn a_stale_complete_on_a_completed_record_is_evidence_alone(case: &Case) {
    let (first, second) = case.followed("k").await;
    case.complete(&second, result()).await.recorded();
    let told = case.complete(&first, result()).await;
    told.refused(Refusal::StaleToken);
    let record = case.record("k").await;
    assert_eq!(
        (record.state, record.contradicted),
        (State::Completed, false)
    );
    assert_eq!(case.evidence("k").await.len(), 1);
}

async fn a_token_of_a_forgotten_life_is_stale(case: &Case) {
    let old = case.completed("k").await;
    case.advance(case.policy.memory_retention);
    let new = case.reserve("k").by(new_id()).await.granted();
    assert_eq!(new.number(), old.number(), "numbers begin anew");
    assert_ne!(new.held, old.held, "and the fence tells them apart");
    let told = case.complete(&old, result()).await;
    told.refused(Refusal::StaleToken);
    assert!(matches!(case.reading("k").await, Reading::Running { .. }));
}
