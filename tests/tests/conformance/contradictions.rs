//! Reports that contradict each other: what is on record then, and that nothing is
//! granted until a resolution.

use reprise_domain::Reading;
use reprise_domain::command::{FailureKind, Finding, Refusal};
use reprise_domain::reading::StartOver;
use reprise_domain::record::{PendingReason, State};

use super::case::{Case, error, other_error, result, secs, unless_sent};
use super::told::Grant;

stamp![
    contradictory_then_complete,
    contradictory_then_the_same_fail,
    contradictory_then_another_fail,
    contradictory_then_mark_pending,
    contradictory_then_mark_sending,
    contradictory_then_renew,
    a_stale_complete_sets_contradicted,
    contradicted_then_mark_sending_and_renew,
    contradicted_again_is_answered_pending,
    contradicted_lapse_is_pending,
    contradicted_then_fail_retryable,
    contradicted_then_fail_final,
    contradicted_then_fail_final_with_the_key_spent,
    contradicted_then_a_give_back,
    contradicted_then_complete,
    contradicted_then_mark_pending,
    a_complete_after_an_own_failure_contradicts_in_pending_too,
    a_resolution_ends_a_contradiction,
];

const WHY: PendingReason = PendingReason::ContradictoryReports;

/// PENDING, since its holder reported a failure and then a success.
async fn contradictory(case: &Case) -> Grant {
    let grant = case.failed("k", FailureKind::Retryable).await;
    let told = case.complete(&grant, result()).await;
    told.refused(Refusal::OutcomeAlreadyRecorded);
    grant
}

/// The second attempt, whose record was contradicted by the first one's late success.
async fn contradicted(case: &Case) -> Grant {
    let (first, second) = case.followed("k").await;
    let told = case.complete(&first, result()).await;
    told.refused(Refusal::StaleToken);
    second
}

async fn contradictory_then_complete(case: &Case) {
    let grant = contradictory(case).await;
    let told = case.complete(&grant, super::case::other_result()).await;
    told.refused(Refusal::OutcomeAlreadyRecorded);
    assert_eq!(case.evidence("k").await.len(), 2);
    case.reserve("k").await.pending(WHY);
}

async fn contradictory_then_the_same_fail(case: &Case) {
    let grant = contradictory(case).await;
    let told = case.fail(&grant, FailureKind::Retryable, error()).await;
    told.repeated();
    case.reserve("k").await.pending(WHY);
}

async fn contradictory_then_another_fail(case: &Case) {
    let grant = contradictory(case).await;
    let told = case.fail(&grant, FailureKind::Final, other_error()).await;
    told.refused(Refusal::OutcomeAlreadyRecorded);
    assert_eq!(case.evidence("k").await.len(), 2);
}

async fn contradictory_then_mark_pending(case: &Case) {
    let grant = contradictory(case).await;
    case.mark_pending(&grant, "unclear").await.recorded();
    let view = case.reserve("k").await.pending(WHY);
    let pending = view.record.pending.expect("pending, as answered");
    assert_eq!(pending.detail, "unclear");
}

async fn contradictory_then_mark_sending(case: &Case) {
    let grant = contradictory(case).await;
    let told = case.mark_sending(&grant).await;
    told.refused(Refusal::RecordPending);
}

async fn contradictory_then_renew(case: &Case) {
    let grant = contradictory(case).await;
    case.renew(&grant, None).await.closed();
}

async fn a_stale_complete_sets_contradicted(case: &Case) {
    contradicted(case).await;
    let record = case.record("k").await;
    assert!(record.contradicted);
    assert_eq!(record.state, State::Processing, "the holder goes on");
    assert_eq!(case.evidence("k").await.len(), 1);
}

async fn contradicted_then_mark_sending_and_renew(case: &Case) {
    let grant = contradicted(case).await;
    let told = case.mark_sending(&grant).await;
    told.refused(Refusal::Contradicted);
    let told = case.renew(&grant, None).await;
    told.refused(Refusal::Contradicted);
}

async fn contradicted_again_is_answered_pending(case: &Case) {
    let grant = contradicted(case).await;
    let told = case.reserve("k").by(grant.id).await;
    told.pending_yours(WHY);
}

async fn contradicted_lapse_is_pending(case: &Case) {
    let case = case.under(unless_sent());
    contradicted(&case).await;
    case.reserve("k").await.processing();
    case.advance(secs(30));
    case.reserve("k").await.pending(WHY);
}

async fn contradicted_then_fail_retryable(case: &Case) {
    let grant = contradicted(case).await;
    let told = case.fail(&grant, FailureKind::Retryable, error()).await;
    assert_eq!(told.recorded().record.state, State::Pending);
    case.reserve("k").await.pending(WHY);
}

async fn contradicted_then_fail_final(case: &Case) {
    let grant = contradicted(case).await;
    let told = case.fail(&grant, FailureKind::Final, error()).await;
    assert_eq!(told.recorded().record.state, State::Pending);
    case.reserve("k").await.pending(WHY);
}

async fn contradicted_then_fail_final_with_the_key_spent(case: &Case) {
    let grant = contradicted(case).await;
    let told = case.fail_spent(&grant, FailureKind::Final, error()).await;
    told.recorded();
    let view = case.reserve("k").await.replayed();
    assert_eq!(view.reading, Reading::FailedFinal { gone: false });
    assert_eq!(view.start_over(), StartOver::Unknown);
}

async fn contradicted_then_a_give_back(case: &Case) {
    let grant = contradicted(case).await;
    let told = case.fail_by_attempt_id("k", grant.id).await;
    assert_eq!(told.recorded().record.state, State::Pending);
    case.reserve("k").await.pending(WHY);
}

async fn contradicted_then_complete(case: &Case) {
    let grant = contradicted(case).await;
    case.complete(&grant, result()).await.recorded();
    let view = case.reserve("k").await.replayed();
    assert_eq!(view.reading, Reading::Completed { gone: false });
}

async fn contradicted_then_mark_pending(case: &Case) {
    let grant = contradicted(case).await;
    case.mark_pending(&grant, "timed out").await.recorded();
    case.reserve("k").await.pending(WHY);
}

async fn a_complete_after_an_own_failure_contradicts_in_pending_too(case: &Case) {
    let case = case.under(super::case::take_over());
    case.reserve("k").await.granted();
    case.advance(secs(30));
    // An attempt is unaccounted, so this failure leads to PENDING.
    let grant = case.reserve("k").await.granted();
    let told = case.fail(&grant, FailureKind::Final, error()).await;
    assert_eq!(told.recorded().record.state, State::Pending);
    let told = case.complete(&grant, result()).await;
    told.refused(Refusal::OutcomeAlreadyRecorded);
    case.reserve("k").await.pending(WHY);
}

async fn a_resolution_ends_a_contradiction(case: &Case) {
    contradictory(case).await;
    case.resolve("k", Finding::NotApplied).await.recorded();
    assert!(!case.record("k").await.contradicted);
    case.reserve("k").await.granted();
}
