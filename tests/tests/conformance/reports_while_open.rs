//! Reports by the newest token while no outcome is on record: PROCESSING with a running
//! lease, lapsed with and without take-over, and PENDING.

use reprise_domain::Reading;
use reprise_domain::command::{FailureKind, Refusal};
use reprise_domain::record::{PendingReason, Record, State};

use super::case::{Case, TICK, error, other_error, other_result, result, secs, unless_sent};
use super::told::Grant;

stamp![
    running_then_complete,
    running_then_fail_retryable,
    running_then_fail_final,
    running_then_mark_pending,
    running_then_mark_sending,
    running_then_renew,
    takeable_then_complete,
    takeable_then_fail_retryable,
    takeable_then_fail_final,
    takeable_then_mark_pending,
    takeable_then_mark_sending,
    takeable_then_renew,
    lapsed_then_complete,
    lapsed_then_fail_retryable,
    lapsed_then_fail_final,
    lapsed_then_mark_pending,
    lapsed_then_mark_sending,
    lapsed_then_renew,
    pending_then_complete,
    pending_then_fail_retryable,
    pending_then_fail_final,
    pending_then_mark_pending,
    pending_then_mark_sending,
    pending_then_renew_while_the_lease_runs,
    pending_then_renew_after_the_lease,
    a_lease_ends_at_its_last_tick,
    renew_ends_a_lease_at_once,
    renew_and_mark_sending_may_shorten_a_lease,
    mark_sending_may_be_repeated,
    mark_pending_is_repeated_with_the_same_content,
    mark_pending_with_a_check_time_sets_it,
    mark_pending_after_sending_keeps_that_it_was_sent,
    a_fail_ends_the_lease,
    a_report_without_a_record_finds_none,
];

/// A grant whose lease is over and may be taken over.
async fn takeable(case: &Case) -> (Case, Grant) {
    let case = case.under(unless_sent());
    let grant = case.reserve("k").await.granted();
    case.advance(secs(40));
    (case, grant)
}

/// A grant whose lease is over and reads as PENDING.
async fn lapsed(case: &Case) -> Grant {
    let grant = case.reserve("k").await.granted();
    case.advance(secs(40));
    grant
}

async fn completes(case: &Case, grant: &Grant) {
    let view = case.complete(grant, result()).await.recorded();
    assert_eq!(view.reading, Reading::Completed { gone: false });
    let record = case.record("k").await;
    assert_eq!(record, *view.record);
    assert_eq!(record.state, State::Completed);
    let outcome = record.outcome.expect("an outcome on record");
    assert_eq!(outcome.content, result());
    assert_eq!(outcome.recorded_at, case.now());
    assert_eq!(record.resource_id, "order-7");
    assert_eq!(record.provider_reference, "ch_123");
    assert_eq!(record.pending, None);
}

async fn fails(case: &Case, grant: &Grant, kind: FailureKind, state: State) {
    let view = case.fail(grant, kind, error()).await.recorded();
    let record = case.record("k").await;
    assert_eq!(record, *view.record);
    assert_eq!(record.state, state);
    let outcome = record.outcome.expect("an outcome on record");
    assert_eq!(outcome.content, error());
    assert_eq!(record.pending, None);
    assert!(record.attempt.lease_end <= case.now());
}

async fn pends(case: &Case, grant: &Grant, reason: PendingReason) -> Record {
    let view = case.mark_pending(grant, "timed out").await.recorded();
    let record = case.record("k").await;
    assert_eq!(record, *view.record);
    assert_eq!(record.state, State::Pending);
    let pending = record.pending.clone().expect("pending, as written");
    assert_eq!((pending.reason, &*pending.detail), (reason, "timed out"));
    record
}

async fn is_leased(case: &Case, view: reprise_domain::View, sent: bool) {
    assert_eq!(
        view.reading,
        Reading::Running {
            remaining: secs(30)
        }
    );
    let record = case.record("k").await;
    assert_eq!(record, *view.record);
    assert_eq!(record.state, State::Processing);
    assert_eq!(record.attempt.lease_end, case.now().after(secs(30)));
    assert_eq!((record.attempt.sent, record.attempt.used), (sent, true));
}

async fn running_then_complete(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.advance(secs(10));
    completes(case, &grant).await;
}

async fn running_then_fail_retryable(case: &Case) {
    let grant = case.reserve("k").await.granted();
    let kind = FailureKind::Retryable;
    fails(case, &grant, kind, State::FailedRetryable).await;
}

async fn running_then_fail_final(case: &Case) {
    let grant = case.reserve("k").await.granted();
    fails(case, &grant, FailureKind::Final, State::FailedFinal).await;
}

async fn running_then_mark_pending(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.advance(secs(10));
    let record = pends(case, &grant, PendingReason::Reported).await;
    let pending = record.pending.expect("pending, as written");
    assert_eq!(pending.since, case.now());
    assert_eq!(pending.next_check, case.now().after(secs(60)));
}

async fn running_then_mark_sending(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.advance(secs(10));
    let view = case.mark_sending(&grant).await.leased();
    is_leased(case, view, true).await;
}

async fn running_then_renew(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.advance(secs(10));
    let view = case.renew(&grant, None).await.leased();
    is_leased(case, view, false).await;
}

async fn takeable_then_complete(case: &Case) {
    let (case, grant) = takeable(case).await;
    completes(&case, &grant).await;
}

async fn takeable_then_fail_retryable(case: &Case) {
    let (case, grant) = takeable(case).await;
    let kind = FailureKind::Retryable;
    fails(&case, &grant, kind, State::FailedRetryable).await;
}

async fn takeable_then_fail_final(case: &Case) {
    let (case, grant) = takeable(case).await;
    fails(&case, &grant, FailureKind::Final, State::FailedFinal).await;
}

async fn takeable_then_mark_pending(case: &Case) {
    let (case, grant) = takeable(case).await;
    pends(&case, &grant, PendingReason::Reported).await;
}

async fn takeable_then_mark_sending(case: &Case) {
    let (case, grant) = takeable(case).await;
    let view = case.mark_sending(&grant).await.leased();
    is_leased(&case, view, true).await;
}

async fn takeable_then_renew(case: &Case) {
    let (case, grant) = takeable(case).await;
    let view = case.renew(&grant, None).await.leased();
    is_leased(&case, view, false).await;
}

async fn lapsed_then_complete(case: &Case) {
    let grant = lapsed(case).await;
    completes(case, &grant).await;
}

async fn lapsed_then_fail_retryable(case: &Case) {
    let grant = lapsed(case).await;
    let kind = FailureKind::Retryable;
    fails(case, &grant, kind, State::FailedRetryable).await;
}

async fn lapsed_then_fail_final(case: &Case) {
    let grant = lapsed(case).await;
    fails(case, &grant, FailureKind::Final, State::FailedFinal).await;
}

async fn lapsed_then_mark_pending(case: &Case) {
    let grant = lapsed(case).await;
    let record = pends(case, &grant, PendingReason::LeaseExpired).await;
    let pending = record.pending.expect("pending, as written");
    assert_eq!(pending.since, grant.record().attempt.lease_end);
}

async fn lapsed_then_mark_sending(case: &Case) {
    let grant = lapsed(case).await;
    case.mark_sending(&grant)
        .await
        .refused(Refusal::LeaseExpired);
    assert_eq!(case.record("k").await, *grant.record());
}

async fn lapsed_then_renew(case: &Case) {
    let grant = lapsed(case).await;
    let told = case.renew(&grant, None).await;
    told.refused(Refusal::LeaseExpired);
    assert_eq!(case.record("k").await, *grant.record());
}

async fn pending_then_complete(case: &Case) {
    let grant = case.pending("k").await;
    completes(case, &grant).await;
}

async fn pending_then_fail_retryable(case: &Case) {
    let grant = case.pending("k").await;
    let kind = FailureKind::Retryable;
    fails(case, &grant, kind, State::FailedRetryable).await;
}

async fn pending_then_fail_final(case: &Case) {
    let grant = case.pending("k").await;
    fails(case, &grant, FailureKind::Final, State::FailedFinal).await;
}

async fn pending_then_mark_pending(case: &Case) {
    let grant = case.pending("k").await;
    let since = case.now();
    case.advance(secs(5));
    let told = case
        .mark_pending_with(&grant, "still waiting", "ch_9", "pay", None)
        .await;
    told.recorded();
    let record = case.record("k").await;
    assert_eq!(record.provider_reference, "ch_9");
    assert_eq!(record.instruction.as_ref(), b"pay");
    let pending = record.pending.expect("pending, as written");
    assert_eq!(pending.detail, "still waiting");
    assert_eq!(pending.since, since);
}

async fn pending_then_mark_sending(case: &Case) {
    let grant = case.pending("k").await;
    let told = case.mark_sending(&grant).await;
    told.refused(Refusal::RecordPending);
}

async fn pending_then_renew_while_the_lease_runs(case: &Case) {
    let grant = case.pending("k").await;
    case.advance(secs(30) - TICK);
    let view = case.renew(&grant, None).await.leased();
    assert_eq!(view.record.state, State::Pending);
    assert_eq!(view.record.attempt.lease_end, case.now().after(secs(30)));
}

async fn pending_then_renew_after_the_lease(case: &Case) {
    let grant = case.pending("k").await;
    case.advance(secs(30));
    let told = case.renew(&grant, None).await;
    told.refused(Refusal::LeaseExpired);
}

async fn a_lease_ends_at_its_last_tick(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.advance(secs(30) - TICK);
    case.reserve("k").await.processing();
    case.advance(TICK);
    let told = case.mark_sending(&grant).await;
    told.refused(Refusal::LeaseExpired);
}

async fn renew_ends_a_lease_at_once(case: &Case) {
    let case = case.under(unless_sent());
    let grant = case.reserve("k").await.granted();
    let view = case.renew(&grant, Some(secs(0))).await.leased();
    assert_eq!(view.record.attempt.lease_end, case.now());
    assert_eq!(case.reserve("k").await.granted().number(), 2);
}

async fn renew_and_mark_sending_may_shorten_a_lease(case: &Case) {
    let grant = case.reserve("k").await.granted();
    let view = case.renew(&grant, Some(secs(3))).await.leased();
    assert_eq!(view.record.attempt.lease_end, case.now().after(secs(3)));
    let told = case.mark_sending_with(&grant, "", "", Some(secs(2))).await;
    let view = told.leased();
    assert_eq!(view.record.attempt.lease_end, case.now().after(secs(2)));
    // Without a wish it is the attempt's own length again.
    let view = case.renew(&grant, None).await.leased();
    assert_eq!(view.record.attempt.lease_end, case.now().after(secs(30)));
}

async fn mark_sending_may_be_repeated(case: &Case) {
    let grant = case.reserve("k").await.granted();
    let told = case.mark_sending_with(&grant, "ch_1", "pay", None).await;
    told.leased();
    case.advance(secs(1));
    let told = case.mark_sending_with(&grant, "ch_1", "pay", None).await;
    let view = told.leased();
    assert_eq!(view.record.provider_reference, "ch_1");
    assert_eq!(view.record.instruction.as_ref(), b"pay");
    assert_eq!(view.record.attempt.lease_end, case.now().after(secs(30)));
}

async fn mark_pending_is_repeated_with_the_same_content(case: &Case) {
    let grant = case.pending("k").await;
    let before = case.record("k").await;
    case.advance(secs(1));
    case.mark_pending(&grant, "timed out").await.repeated();
    assert_eq!(case.record("k").await, before);
    // In every state that follows, too.
    case.complete(&grant, result()).await.recorded();
    case.mark_pending(&grant, "timed out").await.repeated();
    assert_eq!(case.record("k").await.state, State::Completed);
}

async fn mark_pending_with_a_check_time_sets_it(case: &Case) {
    let grant = case.reserve("k").await.granted();
    let told = case
        .mark_pending_with(&grant, "", "", "", Some(secs(7)))
        .await;
    let pending = told.recorded().record.pending.expect("pending");
    assert_eq!(pending.next_check, case.now().after(secs(7)));
}

async fn mark_pending_after_sending_keeps_that_it_was_sent(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.mark_sending(&grant).await.leased();
    let record = pends(case, &grant, PendingReason::Reported).await;
    assert!(record.attempt.sent);
}

async fn a_fail_ends_the_lease(case: &Case) {
    let grant = case.reserve("k").await.granted();
    let told = case
        .fail(&grant, FailureKind::Retryable, other_error())
        .await;
    assert_eq!(told.recorded().record.attempt.lease_end, case.now());
}

async fn a_report_without_a_record_finds_none(case: &Case) {
    let mut grant = case.reserve("k").await.granted();
    grant.name = case.name("another key");
    let missing = Refusal::RecordNotFound;
    case.complete(&grant, other_result()).await.refused(missing);
    let told = case.fail(&grant, FailureKind::Final, error()).await;
    told.refused(missing);
    case.mark_pending(&grant, "").await.refused(missing);
    case.mark_sending(&grant).await.refused(missing);
    case.renew(&grant, None).await.refused(missing);
}
