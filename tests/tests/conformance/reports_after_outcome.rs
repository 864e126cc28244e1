//! Reports by the newest token when an outcome is on record: COMPLETED, FAILED final, and
//! what is left of them.

use reprise_domain::Reading;
use reprise_domain::command::{FailureKind, Refusal};
use reprise_domain::reading::StartOver;
use reprise_domain::record::State;

use super::case::{Case, error, other_error, other_result, result};
use super::told::Grant;

stamp![
    completed_then_the_same_complete,
    completed_then_another_complete,
    completed_then_fail,
    completed_then_mark_pending,
    completed_then_mark_sending,
    completed_then_renew,
    failed_final_then_complete,
    failed_final_then_the_same_fail,
    failed_final_then_another_fail,
    failed_final_then_mark_pending,
    failed_final_then_mark_sending,
    failed_final_then_renew,
    gone_then_the_same_complete,
    gone_then_another_complete,
    gone_then_fail,
    gone_then_mark_pending,
    gone_then_mark_sending,
    gone_then_renew,
    gone_failure_then_the_same_fail,
    forgotten_then_any_report,
    content_is_compared_as_sent,
];

const TAKEN: Refusal = Refusal::OutcomeAlreadyRecorded;

/// A completed record whose result is no longer kept.
async fn gone(case: &Case) -> Grant {
    let grant = case.completed("k").await;
    case.advance(case.policy.result_retention);
    assert_eq!(case.reading("k").await, Reading::Completed { gone: true });
    grant
}

/// The first outcome stays, and so many reports are kept as evidence.
async fn stays(case: &Case, state: State, evidence: usize) {
    let record = case.record("k").await;
    assert_eq!((record.state, record.revision), (state, 2));
    assert_eq!(case.evidence("k").await.len(), evidence);
}

async fn completed_then_the_same_complete(case: &Case) {
    let grant = case.completed("k").await;
    let view = case.complete(&grant, result()).await.repeated();
    assert_eq!(*view.record, case.record("k").await);
    stays(case, State::Completed, 0).await;
}

async fn completed_then_another_complete(case: &Case) {
    let grant = case.completed("k").await;
    case.complete(&grant, other_result()).await.refused(TAKEN);
    stays(case, State::Completed, 1).await;
}

async fn completed_then_fail(case: &Case) {
    let grant = case.completed("k").await;
    for kind in [FailureKind::Retryable, FailureKind::Final] {
        case.fail(&grant, kind, error()).await.refused(TAKEN);
    }
    stays(case, State::Completed, 2).await;
}

async fn completed_then_mark_pending(case: &Case) {
    let grant = case.completed("k").await;
    case.mark_pending(&grant, "late").await.refused(TAKEN);
    stays(case, State::Completed, 0).await;
}

async fn completed_then_mark_sending(case: &Case) {
    let grant = case.completed("k").await;
    case.mark_sending(&grant).await.refused(TAKEN);
    stays(case, State::Completed, 0).await;
}

async fn completed_then_renew(case: &Case) {
    let grant = case.completed("k").await;
    case.renew(&grant, None).await.closed();
    stays(case, State::Completed, 0).await;
}

async fn failed_final_then_complete(case: &Case) {
    let grant = case.failed("k", FailureKind::Final).await;
    case.complete(&grant, result()).await.refused(TAKEN);
    assert_eq!(case.evidence("k").await.len(), 1);
    let view = case.reserve("k").await.replayed();
    assert_eq!(view.reading, Reading::FailedFinal { gone: false });
    assert_eq!(view.start_over(), StartOver::Unknown);
}

async fn failed_final_then_the_same_fail(case: &Case) {
    let grant = case.failed("k", FailureKind::Final).await;
    let told = case.fail(&grant, FailureKind::Final, error()).await;
    told.repeated();
    stays(case, State::FailedFinal, 0).await;
}

async fn failed_final_then_another_fail(case: &Case) {
    let grant = case.failed("k", FailureKind::Final).await;
    let told = case.fail(&grant, FailureKind::Final, other_error()).await;
    told.refused(TAKEN);
    let told = case.fail(&grant, FailureKind::Retryable, error()).await;
    told.refused(TAKEN);
    stays(case, State::FailedFinal, 2).await;
}

async fn failed_final_then_mark_pending(case: &Case) {
    let grant = case.failed("k", FailureKind::Final).await;
    case.mark_pending(&grant, "late").await.refused(TAKEN);
    stays(case, State::FailedFinal, 0).await;
}

async fn failed_final_then_mark_sending(case: &Case) {
    let grant = case.failed("k", FailureKind::Final).await;
    case.mark_sending(&grant).await.refused(TAKEN);
    stays(case, State::FailedFinal, 0).await;
}

async fn failed_final_then_renew(case: &Case) {
    let grant = case.failed("k", FailureKind::Final).await;
    case.renew(&grant, None).await.closed();
    stays(case, State::FailedFinal, 0).await;
}

async fn gone_then_the_same_complete(case: &Case) {
    let grant = gone(case).await;
    case.complete(&grant, result()).await.repeated();
    stays(case, State::Completed, 0).await;
}

async fn gone_then_another_complete(case: &Case) {
    let grant = gone(case).await;
    case.complete(&grant, other_result()).await.refused(TAKEN);
    stays(case, State::Completed, 1).await;
}

async fn gone_then_fail(case: &Case) {
    let grant = gone(case).await;
    let told = case.fail(&grant, FailureKind::Final, error()).await;
    told.refused(TAKEN);
    stays(case, State::Completed, 1).await;
}

async fn gone_then_mark_pending(case: &Case) {
    let grant = gone(case).await;
    case.mark_pending(&grant, "late").await.refused(TAKEN);
}

async fn gone_then_mark_sending(case: &Case) {
    let grant = gone(case).await;
    case.mark_sending(&grant).await.refused(TAKEN);
}

async fn gone_then_renew(case: &Case) {
    let grant = gone(case).await;
    case.renew(&grant, None).await.closed();
}

async fn gone_failure_then_the_same_fail(case: &Case) {
    let grant = case.failed("k", FailureKind::Final).await;
    case.advance(case.policy.result_retention);
    let told = case.fail(&grant, FailureKind::Final, error()).await;
    told.repeated();
    stays(case, State::FailedFinal, 0).await;
}

async fn forgotten_then_any_report(case: &Case) {
    let grant = case.completed("k").await;
    case.advance(case.policy.memory_retention);
    let missing = Refusal::RecordNotFound;
    case.complete(&grant, result()).await.refused(missing);
    let told = case.fail(&grant, FailureKind::Final, error()).await;
    told.refused(missing);
    case.mark_pending(&grant, "").await.refused(missing);
    case.mark_sending(&grant).await.refused(missing);
    case.renew(&grant, None).await.refused(missing);
    let told = case.fail_by_attempt_id("k", grant.id).await;
    told.refused(missing);
}

async fn content_is_compared_as_sent(case: &Case) {
    let grant = case.reserve("k").await.granted();
    let mut cut = result();
    cut.headers.push(("set-cookie".into(), "secret".into()));
    case.complete(&grant, cut.clone()).await.recorded();
    let kept = case.record("k").await.outcome.expect("an outcome");
    assert_eq!(kept.content, result(), "the cookie was not kept");
    case.complete(&grant, cut).await.repeated();
    case.complete(&grant, result()).await.refused(TAKEN);
}
