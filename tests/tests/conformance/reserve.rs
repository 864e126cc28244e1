//! Reserve, row by row of the contract's table, each for a new attempt, the newest
//! attempt again, an earlier one, and another payload.

use reprise_domain::command::{FailureKind, Refusal};
use reprise_domain::record::{GrantReason, PendingReason, State};
use reprise_domain::{Reading, RecordName};

use super::case::{Case, TICK, error, new_id, result, secs, still_unknown, unless_sent};

stamp![
    a_first_reserve_is_acquired,
    a_grant_keeps_what_the_caller_gave,
    a_wanted_lease_is_given,
    a_running_lease_is_answered_processing,
    a_running_lease_is_acquired_again_by_its_own_attempt,
    asking_again_raises_the_revision,
    a_used_token_is_not_given_out_again,
    an_earlier_attempt_is_answered_processing_while_a_lease_runs,
    a_running_lease_is_a_mismatch_for_another_payload,
    the_payload_is_compared_before_the_attempt,
    a_lapsed_lease_is_taken_over,
    a_lapsed_lease_is_acquired_again_with_a_fresh_lease,
    a_lapsed_attempt_that_was_used_is_over,
    an_earlier_attempt_takes_nothing_over,
    a_lapsed_lease_is_a_mismatch_for_another_payload,
    a_lapsed_lease_reads_as_pending,
    a_lapsed_lease_is_pending_and_yours_for_its_own_attempt,
    a_lapsed_used_lease_is_pending_and_yours_too,
    a_lapsed_lease_is_pending_and_not_yours_for_an_earlier_attempt,
    a_lapsed_pending_record_is_a_mismatch_for_another_payload,
    a_reserve_writes_no_lapse_down,
    a_pending_record_is_pending,
    a_pending_record_is_yours_for_its_own_attempt,
    a_pending_record_is_yours_with_an_unused_token,
    a_pending_record_is_not_yours_for_an_earlier_attempt,
    a_pending_record_is_a_mismatch_for_another_payload,
    a_retryable_failure_frees_the_key,
    a_retryable_failure_is_over_for_its_own_attempt,
    a_retryable_failure_is_over_for_an_earlier_attempt,
    a_retryable_failure_is_a_mismatch_for_another_payload,
    a_completed_record_is_replayed,
    a_completed_record_is_replayed_to_its_own_attempt,
    a_completed_record_is_a_mismatch_for_another_payload,
    a_final_failure_is_replayed,
    a_final_failure_is_replayed_to_its_own_attempt,
    a_final_failure_is_a_mismatch_for_another_payload,
    four_earlier_attempts_are_remembered,
    an_intent_as_old_as_memory_is_refused,
    an_intent_younger_than_memory_is_acquired,
    an_old_intent_with_a_record_is_answered_by_it,
];

async fn a_first_reserve_is_acquired(case: &Case) {
    let grant = case.reserve("k").await.granted();
    let record = grant.record();
    assert_eq!((record.state, record.generation), (State::Processing, 1));
    assert_eq!((record.revision, grant.number()), (1, 1));
    assert_eq!(record.attempt.why, GrantReason::First);
    assert_eq!(grant.fence(), case.now().0.unsigned_abs());
    assert_eq!(record.created_at, case.now());
    assert_eq!(record.attempt.granted_at, case.now());
    assert_eq!(record.attempt.lease_end, case.now().after(secs(30)));
    assert!(!record.attempt.used && !record.attempt.sent);
    assert_eq!(case.record("k").await, *record);
}

async fn a_grant_keeps_what_the_caller_gave(case: &Case) {
    let id = new_id();
    let call = case.reserve("k").by(id).owner("worker-3");
    let call = call
        .correlation_id("order/9")
        .instruction(b"\x00pay 100\xff");
    let grant = call.await.granted();
    let stored = case.record("k").await;
    assert_eq!(stored, *grant.record());
    assert_eq!(stored.attempt.id, id);
    assert_eq!(stored.attempt.owner, "worker-3");
    assert_eq!(stored.correlation_id, "order/9");
    assert_eq!(stored.instruction.as_ref(), b"\x00pay 100\xff");
}

async fn a_wanted_lease_is_given(case: &Case) {
    let grant = case.reserve("k").lease(secs(5)).await.granted();
    assert_eq!(grant.record().attempt.lease_end, case.now().after(secs(5)));
    assert_eq!(case.record("k").await.attempt.lease, secs(5));
}

async fn a_running_lease_is_answered_processing(case: &Case) {
    case.reserve("k").owner("a").await.granted();
    case.advance(secs(30) - TICK);
    let view = case.reserve("k").await.processing();
    assert_eq!(view.record.attempt.owner, "a");
    assert_eq!(view.reading, Reading::Running { remaining: TICK });
}

async fn a_running_lease_is_acquired_again_by_its_own_attempt(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.advance(secs(10));
    let again = case.reserve("k").by(grant.id).await.again();
    assert_eq!(again.held, grant.held);
    assert_eq!(
        again.record().attempt.lease_end,
        grant.record().attempt.lease_end
    );
}

async fn asking_again_raises_the_revision(case: &Case) {
    let grant = case.reserve("k").await.granted();
    let again = case.reserve("k").by(grant.id).await.again();
    assert_eq!(again.record().revision, grant.record().revision + 1);
}

async fn a_used_token_is_not_given_out_again(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.renew(&grant, None).await.leased();
    case.reserve("k").by(grant.id).await.processing();
}

async fn an_earlier_attempt_is_answered_processing_while_a_lease_runs(case: &Case) {
    let (first, _) = case.followed("k").await;
    case.reserve("k").by(first.id).await.processing();
}

async fn a_running_lease_is_a_mismatch_for_another_payload(case: &Case) {
    case.reserve("k").await.granted();
    let view = case.reserve("k").paying("200 EUR").await.mismatch();
    assert!(matches!(view.reading, Reading::Running { .. }));
}

async fn the_payload_is_compared_before_the_attempt(case: &Case) {
    let grant = case.reserve("k").await.granted();
    let call = case.reserve("k").by(grant.id).paying("200 EUR");
    call.await.mismatch();
    assert_eq!(case.record("k").await, *grant.record());
}

async fn a_lapsed_lease_is_taken_over(case: &Case) {
    let case = case.under(unless_sent());
    let first = case.reserve("k").owner("a").await.granted();
    case.advance(secs(30));
    let second = case.reserve("k").owner("b").await.granted();
    assert_eq!(second.number(), 2);
    assert!(second.fence() > first.fence());
    let record = case.record("k").await;
    assert_eq!(record.attempt.why, GrantReason::AfterLapsedLease);
    assert_eq!(record.attempt.lease_end, case.now().after(secs(30)));
    assert_eq!(record.attempt.earlier_ids, [first.id]);
    assert_eq!(record.generation, 1);
    assert_eq!(record.created_at, first.record().created_at);
}

async fn a_lapsed_lease_is_acquired_again_with_a_fresh_lease(case: &Case) {
    let case = case.under(unless_sent());
    let grant = case.reserve("k").await.granted();
    case.advance(secs(31));
    let again = case.reserve("k").by(grant.id).await.again();
    assert_eq!(again.held, grant.held);
    assert_eq!(
        case.record("k").await.attempt.lease_end,
        case.now().after(secs(30))
    );
}

async fn a_lapsed_attempt_that_was_used_is_over(case: &Case) {
    let case = case.under(unless_sent());
    let grant = case.reserve("k").await.granted();
    case.renew(&grant, Some(secs(0))).await.leased();
    let told = case.reserve("k").by(grant.id).await;
    told.refused(Refusal::AttemptOver);
}

async fn an_earlier_attempt_takes_nothing_over(case: &Case) {
    let case = case.under(unless_sent());
    let (first, _) = case.followed("k").await;
    case.advance(secs(30));
    let told = case.reserve("k").by(first.id).await;
    told.refused(Refusal::AttemptOver);
}

async fn a_lapsed_lease_is_a_mismatch_for_another_payload(case: &Case) {
    let case = case.under(unless_sent());
    case.reserve("k").await.granted();
    case.advance(secs(30));
    case.reserve("k").paying("200 EUR").await.mismatch();
}

async fn a_lapsed_lease_reads_as_pending(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.advance(secs(40));
    let view = case.reserve("k").await.pending(PendingReason::LeaseExpired);
    let Reading::Pending(uncertain) = view.reading else {
        panic!("pending, as answered");
    };
    let lease_end = grant.record().attempt.lease_end;
    assert_eq!(uncertain.since, lease_end);
    assert_eq!(uncertain.next_check, lease_end.after(secs(60)));
}

async fn a_lapsed_lease_is_pending_and_yours_for_its_own_attempt(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.advance(secs(30));
    let told = case.reserve("k").by(grant.id).await;
    let view = told.pending_yours(PendingReason::LeaseExpired);
    assert!(!view.record.attempt.used, "the token goes with the answer");
}

async fn a_lapsed_used_lease_is_pending_and_yours_too(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.mark_sending(&grant).await.leased();
    case.advance(secs(30));
    let told = case.reserve("k").by(grant.id).await;
    let view = told.pending_yours(PendingReason::LeaseExpiredAfterSending);
    assert!(view.record.attempt.used, "no token goes with the answer");
}

async fn a_lapsed_lease_is_pending_and_not_yours_for_an_earlier_attempt(case: &Case) {
    let (first, _) = case.followed("k").await;
    case.advance(secs(30));
    let told = case.reserve("k").by(first.id).await;
    told.pending(PendingReason::LeaseExpired);
}

async fn a_lapsed_pending_record_is_a_mismatch_for_another_payload(case: &Case) {
    case.reserve("k").await.granted();
    case.advance(secs(30));
    case.reserve("k").paying("200 EUR").await.mismatch();
}

async fn a_reserve_writes_no_lapse_down(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.advance(secs(30));
    let told = case.reserve("k").await;
    told.pending(PendingReason::LeaseExpired);
    assert_eq!(case.record("k").await, *grant.record());
}

async fn a_pending_record_is_pending(case: &Case) {
    case.pending("k").await;
    let view = case.reserve("k").await.pending(PendingReason::Reported);
    let pending = view.record.pending.expect("pending, as answered");
    assert_eq!(pending.detail, "timed out");
    assert_eq!(pending.since, case.now());
    assert_eq!(pending.next_check, case.now().after(secs(60)));
}

async fn a_pending_record_is_yours_for_its_own_attempt(case: &Case) {
    let grant = case.pending("k").await;
    let told = case.reserve("k").by(grant.id).await;
    told.pending_yours(PendingReason::Reported);
}

async fn a_pending_record_is_yours_with_an_unused_token(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.advance(secs(30));
    case.resolve("k", still_unknown()).await.recorded();
    let told = case.reserve("k").by(grant.id).await;
    let view = told.pending_yours(PendingReason::LeaseExpired);
    assert_eq!(view.record.state, State::Pending);
    assert!(!view.record.attempt.used, "the token goes with the answer");
}

async fn a_pending_record_is_not_yours_for_an_earlier_attempt(case: &Case) {
    let (first, second) = case.followed("k").await;
    case.mark_pending(&second, "timed out").await.recorded();
    let told = case.reserve("k").by(first.id).await;
    told.pending(PendingReason::Reported);
}

async fn a_pending_record_is_a_mismatch_for_another_payload(case: &Case) {
    case.pending("k").await;
    case.reserve("k").paying("200 EUR").await.mismatch();
}

async fn a_retryable_failure_frees_the_key(case: &Case) {
    let first = case.failed("k", FailureKind::Retryable).await;
    let second = case.reserve("k").await.granted();
    assert_eq!(second.number(), 2);
    assert!(second.fence() > first.fence());
    let record = case.record("k").await;
    assert_eq!(record.attempt.why, GrantReason::AfterRetryableFailure);
    assert_eq!(record.state, State::Processing);
    let earlier = record.outcome.expect("what the earlier attempt left");
    assert_eq!(earlier.content, error());
}

async fn a_retryable_failure_is_over_for_its_own_attempt(case: &Case) {
    let grant = case.failed("k", FailureKind::Retryable).await;
    let told = case.reserve("k").by(grant.id).await;
    told.refused(Refusal::AttemptOver);
}

async fn a_retryable_failure_is_over_for_an_earlier_attempt(case: &Case) {
    let (first, second) = case.followed("k").await;
    let told = case.fail(&second, FailureKind::Retryable, error()).await;
    told.recorded();
    let told = case.reserve("k").by(first.id).await;
    told.refused(Refusal::AttemptOver);
}

async fn a_retryable_failure_is_a_mismatch_for_another_payload(case: &Case) {
    case.failed("k", FailureKind::Retryable).await;
    let view = case.reserve("k").paying("200 EUR").await.mismatch();
    assert_eq!(view.reading, Reading::FailedRetryable);
}

async fn a_completed_record_is_replayed(case: &Case) {
    case.completed("k").await;
    let at = case.now();
    case.advance(secs(3600));
    let view = case.reserve("k").await.replayed();
    assert_eq!(view.reading, Reading::Completed { gone: false });
    let outcome = view.record.outcome.expect("an outcome, as answered");
    assert_eq!(outcome.content, result());
    assert_eq!(outcome.recorded_at, at);
}

async fn a_completed_record_is_replayed_to_its_own_attempt(case: &Case) {
    let grant = case.completed("k").await;
    let view = case.reserve("k").by(grant.id).await.replayed();
    assert_eq!(view.reading, Reading::Completed { gone: false });
}

async fn a_completed_record_is_a_mismatch_for_another_payload(case: &Case) {
    case.completed("k").await;
    let view = case.reserve("k").paying("200 EUR").await.mismatch();
    assert_eq!(view.reading, Reading::Completed { gone: false });
}

async fn a_final_failure_is_replayed(case: &Case) {
    case.failed("k", FailureKind::Final).await;
    for _ in 0..2 {
        let view = case.reserve("k").await.replayed();
        assert_eq!(view.reading, Reading::FailedFinal { gone: false });
        let outcome = view.record.outcome.expect("an outcome, as answered");
        assert_eq!(outcome.content, error());
    }
}

async fn a_final_failure_is_replayed_to_its_own_attempt(case: &Case) {
    let grant = case.failed("k", FailureKind::Final).await;
    let view = case.reserve("k").by(grant.id).await.replayed();
    assert_eq!(view.reading, Reading::FailedFinal { gone: false });
}

async fn a_final_failure_is_a_mismatch_for_another_payload(case: &Case) {
    case.failed("k", FailureKind::Final).await;
    let view = case.reserve("k").paying("200 EUR").await.mismatch();
    assert_eq!(view.reading, Reading::FailedFinal { gone: false });
}

async fn four_earlier_attempts_are_remembered(case: &Case) {
    let mut ids = Vec::new();
    for _ in 0..6 {
        let grant = case.reserve("k").await.granted();
        let told = case.fail(&grant, FailureKind::Retryable, error()).await;
        told.recorded();
        ids.push(grant.id);
    }
    let stored = case.record("k").await.attempt;
    assert_eq!(stored.earlier_ids, [ids[4], ids[3], ids[2], ids[1]]);
    let told = case.reserve("k").by(ids[1]).await;
    told.refused(Refusal::AttemptOver);
    // The fifth one before the newest is a stranger again.
    let grant = case.reserve("k").by(ids[0]).await.granted();
    assert_eq!(grant.number(), 7);
}

async fn an_intent_as_old_as_memory_is_refused(case: &Case) {
    let made = case.now();
    case.advance(case.policy.memory_retention);
    let told = case.reserve("k").intended_at(made).await;
    told.refused(Refusal::IntentTooOld);
    assert_eq!(case.find("k").await, None, "nothing was stored");
}

async fn an_intent_younger_than_memory_is_acquired(case: &Case) {
    let made = case.now();
    case.advance(case.policy.memory_retention - TICK);
    case.reserve("k").intended_at(made).await.granted();
}

async fn an_old_intent_with_a_record_is_answered_by_it(case: &Case) {
    let made = case.now();
    case.advance(case.policy.memory_retention + TICK);
    case.completed("k").await;
    case.reserve("k").intended_at(made).await.replayed();
    let name = RecordName::new(&case.tenant, "refund", "", "k").expect("a valid name");
    let told = case.reserve_name(name).intended_at(made).await;
    told.refused(Refusal::IntentTooOld);
}
