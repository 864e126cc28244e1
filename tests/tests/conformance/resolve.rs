//! Resolve by an operator, who says what revision was read.

use reprise_domain::command::{FailureKind, Finding, Refusal};
use reprise_domain::decide::{AuditAction, By, NOT_APPLIED};
use reprise_domain::record::{GrantReason, PendingReason, State};
use reprise_domain::{Reading, Trace};

use super::case::{
    Case, applied, error, found, new_id, other_result, result, secs, still_unknown, unless_sent,
};

stamp![
    applied_completes_a_pending_record,
    not_applied_frees_the_key,
    failed_is_final,
    still_unknown_moves_the_next_check,
    still_unknown_writes_a_lapse_down,
    take_over_is_a_grant_to_the_resolver,
    take_over_is_answered_again,
    take_over_by_an_attempt_that_had_its_turn_is_refused,
    a_lapsed_record_is_resolved,
    a_takeable_record_is_resolved,
    a_retryable_failure_is_resolved,
    a_final_failure_may_be_found_applied,
    a_final_failure_is_not_freed,
    a_completed_record_is_not_resolved,
    a_running_lease_is_left_alone,
    a_pending_record_with_a_running_lease_may_be_found_applied,
    a_changed_revision_is_refused,
    a_missing_record_is_not_found,
    a_resolution_is_repeated,
    the_same_outcome_found_twice_is_repeated,
    a_late_complete_that_agrees_is_repeated,
    a_late_complete_with_another_body_is_already_recorded,
    a_late_complete_that_disagrees_is_evidence,
    a_late_failure_that_agrees_is_repeated,
    a_spent_key_found_by_an_operator_begins_a_generation,
    a_resolution_is_audited,
];

fn take_over(id: reprise_domain::record::AttemptId) -> Finding {
    Finding::TakeOver {
        attempt_id: id,
        lease: None,
    }
}

/// PENDING, and its holder's lease is over.
async fn overdue(case: &Case) -> super::told::Grant {
    let grant = case.pending("k").await;
    case.advance(secs(30));
    grant
}

async fn applied_completes_a_pending_record(case: &Case) {
    overdue(case).await;
    case.resolve("k", applied()).await.recorded();
    let view = case.reserve("k").await.replayed();
    assert_eq!(view.reading, Reading::Completed { gone: false });
    let outcome = view.record.outcome.expect("an outcome");
    assert_eq!(outcome.content, result());
    assert_eq!(outcome.recorded_at, case.now());
    assert_eq!(view.record.provider_reference, "ch_123");
}

async fn not_applied_frees_the_key(case: &Case) {
    overdue(case).await;
    case.resolve("k", Finding::NotApplied).await.recorded();
    let record = case.record("k").await;
    assert_eq!(record.state, State::FailedRetryable);
    let outcome = record.outcome.expect("an outcome");
    assert_eq!(outcome.content.code, NOT_APPLIED);
    assert_eq!(case.reserve("k").await.granted().number(), 2);
}

async fn failed_is_final(case: &Case) {
    overdue(case).await;
    let told = case.resolve("k", Finding::Failed(found(error()))).await;
    told.recorded();
    let view = case.reserve("k").await.replayed();
    assert_eq!(view.reading, Reading::FailedFinal { gone: false });
}

async fn still_unknown_moves_the_next_check(case: &Case) {
    overdue(case).await;
    let finding = Finding::StillUnknown {
        check_after: Some(secs(3600)),
        provider_reference: "ch_77".to_owned(),
    };
    case.resolve("k", finding).await.recorded();
    let record = case.record("k").await;
    assert_eq!(record.provider_reference, "ch_77");
    let pending = record.pending.expect("still pending");
    assert_eq!(pending.reason, PendingReason::Reported);
    assert_eq!(pending.next_check, case.now().after(secs(3600)));
}

async fn still_unknown_writes_a_lapse_down(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.advance(secs(50));
    case.resolve("k", still_unknown()).await.recorded();
    let record = case.record("k").await;
    assert_eq!(record.state, State::Pending);
    let pending = record.pending.expect("pending");
    assert_eq!(pending.reason, PendingReason::LeaseExpired);
    assert_eq!(pending.since, grant.record().attempt.lease_end);
}

async fn take_over_is_a_grant_to_the_resolver(case: &Case) {
    let first = overdue(case).await;
    let revision = case.record("k").await.revision;
    let id = new_id();
    let grant = case.resolve("k", take_over(id)).await.granted();
    assert_eq!((grant.id, grant.number()), (id, 2));
    assert!(grant.fence() > first.fence());
    let record = case.record("k").await;
    assert_eq!(record, *grant.record());
    assert_eq!(record.revision, revision + 1);
    assert_eq!(record.attempt.why, GrantReason::AfterResolution);
    assert_eq!(record.attempt.owner, "operator@example");
    case.complete(&grant, result()).await.recorded();
    let told = case.complete(&first, result()).await;
    told.refused(Refusal::StaleToken);
}

async fn take_over_is_answered_again(case: &Case) {
    overdue(case).await;
    let (id, read) = (new_id(), case.record("k").await.revision);
    let told = case.resolve_read("k", read, take_over(id), false).await;
    let grant = told.granted();
    let told = case.resolve_read("k", read, take_over(id), false).await;
    assert_eq!(told.again().held, grant.held);
    case.renew(&grant, None).await.leased();
    let told = case.resolve_read("k", read, take_over(id), false).await;
    told.processing();
}

async fn take_over_by_an_attempt_that_had_its_turn_is_refused(case: &Case) {
    let grant = overdue(case).await;
    let told = case.resolve("k", take_over(grant.id)).await;
    told.refused(Refusal::AttemptOver);
}

async fn a_lapsed_record_is_resolved(case: &Case) {
    case.reserve("k").await.granted();
    case.advance(secs(30));
    case.resolve("k", applied()).await.recorded();
    case.reserve("k").await.replayed();
}

async fn a_takeable_record_is_resolved(case: &Case) {
    let case = case.under(unless_sent());
    case.reserve("k").await.granted();
    case.advance(secs(30));
    case.resolve("k", applied()).await.recorded();
    case.reserve("k").await.replayed();
}

async fn a_retryable_failure_is_resolved(case: &Case) {
    case.failed("k", FailureKind::Retryable).await;
    case.resolve("k", applied()).await.recorded();
    case.reserve("k").await.replayed();
}

async fn a_final_failure_may_be_found_applied(case: &Case) {
    case.failed("k", FailureKind::Final).await;
    case.resolve("k", applied()).await.recorded();
    let view = case.reserve("k").await.replayed();
    assert_eq!(view.reading, Reading::Completed { gone: false });
    case.failed("other", FailureKind::Final).await;
    case.resolve("other", still_unknown()).await.recorded();
    let told = case.reserve("other").await;
    told.pending(PendingReason::Reported);
}

async fn a_final_failure_is_not_freed(case: &Case) {
    case.failed("k", FailureKind::Final).await;
    let before = case.record("k").await;
    for finding in [
        Finding::NotApplied,
        Finding::Failed(found(super::case::other_error())),
        take_over(new_id()),
    ] {
        let told = case.resolve("k", finding).await;
        told.refused(Refusal::OutcomeAlreadyRecorded);
    }
    assert_eq!(case.record("k").await, before);
}

async fn a_completed_record_is_not_resolved(case: &Case) {
    case.completed("k").await;
    let before = case.record("k").await;
    for finding in [
        Finding::Applied(found(other_result())),
        Finding::NotApplied,
        Finding::Failed(found(error())),
        take_over(new_id()),
        still_unknown(),
    ] {
        let told = case.resolve("k", finding.clone()).await;
        told.refused(Refusal::OutcomeAlreadyRecorded);
    }
    case.advance(case.policy.result_retention);
    let told = case.resolve("k", Finding::NotApplied).await;
    told.refused(Refusal::OutcomeAlreadyRecorded);
    assert_eq!(case.record("k").await, before);
}

async fn a_running_lease_is_left_alone(case: &Case) {
    let grant = case.reserve("k").await.granted();
    for finding in [
        applied(),
        Finding::NotApplied,
        Finding::Failed(found(error())),
        take_over(new_id()),
        still_unknown(),
    ] {
        let told = case.resolve("k", finding).await;
        told.refused(Refusal::LeaseRunning);
    }
    assert_eq!(case.record("k").await, *grant.record());
}

async fn a_pending_record_with_a_running_lease_may_be_found_applied(case: &Case) {
    case.pending("k").await;
    for finding in [
        Finding::NotApplied,
        Finding::Failed(found(error())),
        take_over(new_id()),
    ] {
        let told = case.resolve("k", finding).await;
        told.refused(Refusal::LeaseRunning);
    }
    case.resolve("k", still_unknown()).await.recorded();
    case.resolve("k", applied()).await.recorded();
}

async fn a_changed_revision_is_refused(case: &Case) {
    let grant = overdue(case).await;
    let read = case.record("k").await.revision;
    case.mark_pending(&grant, "more news").await.recorded();
    let told = case
        .resolve_read("k", read, Finding::NotApplied, false)
        .await;
    told.refused(Refusal::RevisionChanged);
    assert_eq!(case.record("k").await.state, State::Pending);
}

async fn a_missing_record_is_not_found(case: &Case) {
    let told = case.resolve_read("k", 1, applied(), false).await;
    told.refused(Refusal::RecordNotFound);
}

async fn a_resolution_is_repeated(case: &Case) {
    overdue(case).await;
    let read = case.record("k").await.revision;
    let resolve = || case.resolve_read("k", read, Finding::NotApplied, false);
    resolve().await.recorded();
    let before = case.record("k").await;
    resolve().await.repeated();
    // Also when the next attempt has begun.
    case.reserve("k").await.granted();
    resolve().await.repeated();
    assert_eq!(case.record("k").await.attempt.number, 2);
    assert_eq!(before.attempt.number, 1);
}

async fn the_same_outcome_found_twice_is_repeated(case: &Case) {
    overdue(case).await;
    case.resolve("k", applied()).await.recorded();
    case.resolve("k", applied()).await.repeated();
    case.completed("reported").await;
    case.resolve("reported", applied()).await.repeated();
}

async fn a_late_complete_that_agrees_is_repeated(case: &Case) {
    let grant = overdue(case).await;
    case.resolve("k", applied()).await.recorded();
    case.complete(&grant, result()).await.repeated();
}

async fn a_late_complete_with_another_body_is_already_recorded(case: &Case) {
    let grant = overdue(case).await;
    case.resolve("k", applied()).await.recorded();
    let told = case.complete(&grant, other_result()).await;
    told.already_recorded();
    assert_eq!(case.evidence("k").await, []);
    let outcome = case.record("k").await.outcome.expect("an outcome");
    assert_eq!(outcome.content, result(), "the first stays");
}

async fn a_late_complete_that_disagrees_is_evidence(case: &Case) {
    let grant = overdue(case).await;
    case.resolve("k", applied()).await.recorded();
    let mut other = result();
    other.resource_id = "order-8".to_owned();
    let told = case.complete(&grant, other).await;
    told.refused(Refusal::OutcomeAlreadyRecorded);
    assert_eq!(case.evidence("k").await.len(), 1);
}

async fn a_late_failure_that_agrees_is_repeated(case: &Case) {
    let grant = overdue(case).await;
    let told = case.resolve("k", Finding::Failed(found(error()))).await;
    told.recorded();
    let told = case.fail(&grant, FailureKind::Final, error()).await;
    told.repeated();
}

async fn a_spent_key_found_by_an_operator_begins_a_generation(case: &Case) {
    overdue(case).await;
    let told = case.resolve_spent("k", Finding::NotApplied).await;
    told.recorded();
    assert_eq!(case.reserve("k").await.granted().record().generation, 2);
}

async fn a_resolution_is_audited(case: &Case) {
    overdue(case).await;
    case.resolve("k", still_unknown()).await.recorded();
    case.resolve("k", Finding::NotApplied).await.recorded();
    let by_operator = |action| Trace::Audit {
        attempt: 1,
        action,
        by: By::Operator,
        actor: "operator@example".to_owned(),
        evidence: "asked the provider".to_owned(),
        at: case.now(),
    };
    assert_eq!(
        case.traces("k").await,
        [
            by_operator(AuditAction::ResolvedStillUnknown),
            by_operator(AuditAction::ResolvedNotApplied)
        ]
    );
}
