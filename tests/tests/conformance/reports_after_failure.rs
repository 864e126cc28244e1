//! Reports by the newest token on FAILED retryable: said so itself, given back, or freed
//! by a resolution.

use reprise_domain::Reading;
use reprise_domain::Trace;
use reprise_domain::command::{FailureKind, Finding, Refusal};
use reprise_domain::decide::{AuditAction, By};
use reprise_domain::record::{PendingReason, State};

use super::case::{Case, error, other_error, result, secs};
use super::told::Grant;

stamp![
    own_failure_then_complete,
    own_failure_then_the_same_fail,
    own_failure_then_another_fail,
    own_failure_then_mark_pending,
    own_failure_then_mark_sending,
    own_failure_then_renew,
    given_back_then_complete,
    given_back_then_fail,
    given_back_then_mark_pending,
    given_back_then_mark_sending,
    given_back_then_renew,
    freed_then_complete,
    freed_then_fail_retryable,
    freed_then_fail_final,
    freed_then_mark_pending,
    freed_then_mark_sending,
    freed_then_renew,
];

async fn given_back(case: &Case) -> Grant {
    let grant = case.reserve("k").await.granted();
    case.fail_by_attempt_id("k", grant.id).await.recorded();
    grant
}

/// An attempt that said nothing and was resolved as not applied.
async fn freed(case: &Case) -> Grant {
    let grant = case.reserve("k").await.granted();
    case.advance(secs(100));
    case.resolve("k", Finding::NotApplied).await.recorded();
    assert_eq!(case.reading("k").await, Reading::FailedRetryable);
    grant
}

async fn turned_contradictory(case: &Case) {
    let record = case.record("k").await;
    assert!(record.contradicted);
    assert_eq!(record.state, State::Pending);
    assert_eq!(case.evidence("k").await.len(), 1);
    let told = case.reserve("k").await;
    told.pending(PendingReason::ContradictoryReports);
}

async fn stays_free(case: &Case) {
    assert_eq!(case.evidence("k").await, []);
    assert_eq!(case.reading("k").await, Reading::FailedRetryable);
}

async fn own_failure_then_complete(case: &Case) {
    let grant = case.failed("k", FailureKind::Retryable).await;
    let told = case.complete(&grant, result()).await;
    told.refused(Refusal::OutcomeAlreadyRecorded);
    turned_contradictory(case).await;
}

async fn own_failure_then_the_same_fail(case: &Case) {
    let grant = case.failed("k", FailureKind::Retryable).await;
    let told = case.fail(&grant, FailureKind::Retryable, error()).await;
    told.repeated();
    stays_free(case).await;
}

async fn own_failure_then_another_fail(case: &Case) {
    let grant = case.failed("k", FailureKind::Retryable).await;
    let told = case
        .fail(&grant, FailureKind::Retryable, other_error())
        .await;
    told.refused(Refusal::OutcomeAlreadyRecorded);
    let told = case.fail(&grant, FailureKind::Final, error()).await;
    told.refused(Refusal::OutcomeAlreadyRecorded);
    stays_free(case).await;
}

async fn own_failure_then_mark_pending(case: &Case) {
    let grant = case.failed("k", FailureKind::Retryable).await;
    let told = case.mark_pending(&grant, "late").await;
    told.refused(Refusal::AttemptOver);
    stays_free(case).await;
}

async fn own_failure_then_mark_sending(case: &Case) {
    let grant = case.failed("k", FailureKind::Retryable).await;
    case.mark_sending(&grant)
        .await
        .refused(Refusal::AttemptOver);
    stays_free(case).await;
}

async fn own_failure_then_renew(case: &Case) {
    let grant = case.failed("k", FailureKind::Retryable).await;
    case.renew(&grant, None).await.closed();
    stays_free(case).await;
}

async fn given_back_then_complete(case: &Case) {
    let grant = given_back(case).await;
    let told = case.complete(&grant, result()).await;
    told.refused(Refusal::OutcomeAlreadyRecorded);
    turned_contradictory(case).await;
}

async fn given_back_then_fail(case: &Case) {
    let grant = given_back(case).await;
    let told = case.fail(&grant, FailureKind::Retryable, error()).await;
    told.refused(Refusal::OutcomeAlreadyRecorded);
    stays_free(case).await;
}

async fn given_back_then_mark_pending(case: &Case) {
    let grant = given_back(case).await;
    let told = case.mark_pending(&grant, "late").await;
    told.refused(Refusal::AttemptOver);
    stays_free(case).await;
}

async fn given_back_then_mark_sending(case: &Case) {
    let grant = given_back(case).await;
    case.mark_sending(&grant)
        .await
        .refused(Refusal::AttemptOver);
    stays_free(case).await;
}

async fn given_back_then_renew(case: &Case) {
    let grant = given_back(case).await;
    case.renew(&grant, None).await.closed();
    stays_free(case).await;
}

async fn freed_then_complete(case: &Case) {
    let grant = freed(case).await;
    case.complete(&grant, result()).await.recorded();
    assert_eq!(case.reading("k").await, Reading::Completed { gone: false });
    let audited = case.traces("k").await.into_iter().any(|trace| {
        matches!(
            trace,
            Trace::Audit {
                action: AuditAction::ContradictsResolution,
                by: By::Caller,
                ..
            }
        )
    });
    assert!(audited, "that a report overrode a resolution is to be seen");
}

async fn freed_then_fail_retryable(case: &Case) {
    let grant = freed(case).await;
    let told = case.fail(&grant, FailureKind::Retryable, error()).await;
    told.recorded();
    let record = case.record("k").await;
    assert_eq!(record.state, State::FailedRetryable);
    assert_eq!(record.outcome.expect("its own outcome").content, error());
}

async fn freed_then_fail_final(case: &Case) {
    let grant = freed(case).await;
    let told = case.fail(&grant, FailureKind::Final, error()).await;
    told.recorded();
    let reading = case.reading("k").await;
    assert_eq!(reading, Reading::FailedFinal { gone: false });
}

async fn freed_then_mark_pending(case: &Case) {
    let grant = freed(case).await;
    case.mark_pending(&grant, "timed out").await.recorded();
    let told = case.reserve("k").await;
    told.pending(PendingReason::Reported);
}

async fn freed_then_mark_sending(case: &Case) {
    let grant = freed(case).await;
    case.mark_sending(&grant)
        .await
        .refused(Refusal::AttemptOver);
    stays_free(case).await;
}

async fn freed_then_renew(case: &Case) {
    let grant = freed(case).await;
    case.renew(&grant, None).await.closed();
    stays_free(case).await;
}
