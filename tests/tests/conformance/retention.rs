//! Ends of retention: facts about time, judged when a record is read, to the tick.

use reprise_domain::command::FailureKind;
use reprise_domain::record::PendingReason;
use reprise_domain::{Policy, Reading};

use super::case::{Case, TICK, error, new_id, result, secs, unless_sent};

stamp![
    a_result_is_replayed_until_its_last_tick,
    a_result_that_is_gone_keeps_code_and_references,
    a_gone_result_is_a_mismatch_for_another_payload,
    a_completed_record_is_remembered_until_its_last_tick,
    a_final_failure_is_remembered_until_its_last_tick,
    a_final_failures_bytes_end_with_result_retention,
    a_retryable_failure_is_remembered_until_its_last_tick,
    a_retryable_failure_is_remembered_from_its_last_report,
    a_forgotten_key_takes_another_payload,
    a_forgotten_key_begins_anew,
    a_forgotten_key_keeps_its_effect_key,
    a_fence_goes_on_after_a_record_was_forgotten,
    retention_is_fixed_at_the_outcome,
    memory_counts_from_the_outcome,
    a_lapsed_record_is_never_forgotten,
    a_pending_record_is_never_forgotten,
];

async fn a_result_is_replayed_until_its_last_tick(case: &Case) {
    case.completed("k").await;
    case.advance(case.policy.result_retention - TICK);
    let view = case.reserve("k").await.replayed();
    assert_eq!(view.reading, Reading::Completed { gone: false });
    case.advance(TICK);
    let view = case.reserve("k").await.replayed();
    assert_eq!(view.reading, Reading::Completed { gone: true });
}

async fn a_result_that_is_gone_keeps_code_and_references(case: &Case) {
    case.completed("k").await;
    case.advance(case.policy.result_retention);
    let record = case.reserve("k").await.replayed().record;
    assert_eq!(record.resource_id, "order-7");
    assert_eq!(record.provider_reference, "ch_123");
    assert_eq!(record.outcome.expect("an outcome").content.code, "PAID");
}

async fn a_gone_result_is_a_mismatch_for_another_payload(case: &Case) {
    case.completed("k").await;
    case.advance(case.policy.memory_retention - TICK);
    let view = case.reserve("k").paying("200 EUR").await.mismatch();
    assert_eq!(view.reading, Reading::Completed { gone: true });
}

async fn a_completed_record_is_remembered_until_its_last_tick(case: &Case) {
    case.completed("k").await;
    case.advance(case.policy.memory_retention - TICK);
    case.reserve("k").await.replayed();
    case.advance(TICK);
    assert_eq!(case.reserve("k").await.granted().number(), 1);
}

async fn a_final_failure_is_remembered_until_its_last_tick(case: &Case) {
    case.failed("k", FailureKind::Final).await;
    case.advance(case.policy.memory_retention - TICK);
    case.reserve("k").await.replayed();
    case.advance(TICK);
    case.reserve("k").await.granted();
}

async fn a_final_failures_bytes_end_with_result_retention(case: &Case) {
    case.failed("k", FailureKind::Final).await;
    case.advance(case.policy.result_retention - TICK);
    let view = case.reserve("k").await.replayed();
    assert_eq!(view.reading, Reading::FailedFinal { gone: false });
    case.advance(TICK);
    let view = case.reserve("k").await.replayed();
    assert_eq!(view.reading, Reading::FailedFinal { gone: true });
}

async fn a_retryable_failure_is_remembered_until_its_last_tick(case: &Case) {
    case.failed("k", FailureKind::Retryable).await;
    case.advance(case.policy.memory_retention - TICK);
    let second = case.reserve("k").await.granted();
    assert_eq!(second.number(), 2);
    case.failed("other", FailureKind::Retryable).await;
    case.advance(case.policy.memory_retention);
    assert_eq!(case.reading("other").await, Reading::Over);
    assert_eq!(case.reserve("other").await.granted().number(), 1);
}

async fn a_retryable_failure_is_remembered_from_its_last_report(case: &Case) {
    case.failed("k", FailureKind::Retryable).await;
    case.advance(case.policy.memory_retention - TICK);
    let second = case.reserve("k").await.granted();
    let told = case.fail(&second, FailureKind::Retryable, error()).await;
    told.recorded();
    case.advance(case.policy.memory_retention - TICK);
    assert_eq!(case.reserve("k").await.granted().number(), 3);
}

async fn a_forgotten_key_takes_another_payload(case: &Case) {
    case.completed("k").await;
    case.advance(case.policy.memory_retention);
    case.reserve("k").paying("200 EUR").await.granted();
    case.reserve("k").await.mismatch();
}

async fn a_forgotten_key_begins_anew(case: &Case) {
    let old = case.completed("k").await;
    let before = case.record("k").await;
    case.advance(case.policy.memory_retention);
    let new = case.reserve("k").by(new_id()).await.granted();
    let record = case.record("k").await;
    assert_eq!(record, *new.record());
    assert_eq!((new.number(), record.generation), (1, 1));
    assert_eq!(record.created_at, case.now());
    assert!(record.revision > before.revision, "watchers see the change");
    assert_eq!((record.outcome, record.previous), (None, None));
    assert_eq!(
        (&*record.resource_id, &*record.provider_reference),
        ("", "")
    );
    assert_ne!(old.held, new.held);
}

async fn a_forgotten_key_keeps_its_effect_key(case: &Case) {
    let old = case.completed("k").await;
    case.advance(case.policy.memory_retention);
    let new = case.reserve("k").await.granted();
    assert_eq!(old.record().effect_key(), new.record().effect_key());
}

async fn a_fence_goes_on_after_a_record_was_forgotten(case: &Case) {
    let old = case.completed("k").await;
    case.advance(case.policy.memory_retention);
    let new = case.reserve("k").await.granted();
    assert!(new.fence() > old.fence());
}

async fn retention_is_fixed_at_the_outcome(case: &Case) {
    let brief = case.under(Policy {
        result_retention: secs(10),
        memory_retention: secs(20),
        ..Policy::default()
    });
    brief.completed("brief").await;
    case.completed("long").await;
    case.advance(secs(20));
    // Each under the other one's policy.
    case.reserve("brief").await.granted();
    let view = brief.reserve("long").await.replayed();
    assert_eq!(view.reading, Reading::Completed { gone: false });
}

async fn memory_counts_from_the_outcome(case: &Case) {
    let grant = case.pending("k").await;
    case.advance(case.policy.memory_retention);
    case.complete(&grant, result()).await.recorded();
    case.advance(case.policy.memory_retention - TICK);
    case.reserve("k").await.replayed();
}

async fn a_lapsed_record_is_never_forgotten(case: &Case) {
    case.reserve("k").await.granted();
    let lenient = case.under(unless_sent());
    lenient.reserve("lenient").await.granted();
    case.advance(case.policy.memory_retention * 10);
    let told = case.reserve("k").await;
    told.pending(PendingReason::LeaseExpired);
    assert_eq!(lenient.reserve("lenient").await.granted().number(), 2);
}

async fn a_pending_record_is_never_forgotten(case: &Case) {
    case.pending("k").await;
    case.advance(case.policy.memory_retention * 10);
    let told = case.reserve("k").await;
    told.pending(PendingReason::Reported);
}
