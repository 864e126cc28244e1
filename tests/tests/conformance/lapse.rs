//! What keeps the provider from acting twice: lapse policies, effect keys, and attempts
//! that are not accounted for.

use reprise_domain::command::{FailureKind, Finding, Refusal};
use reprise_domain::record::PendingReason;
use reprise_domain::{Policy, Reading, Trace};

use super::case::{Case, TICK, error, result, secs, take_over, unless_sent};
use super::told::Grant;

stamp![
    the_effect_key_stays_for_every_attempt,
    a_spent_key_begins_a_generation,
    a_generation_begins_with_its_own_request,
    attempts_of_a_generation_keep_the_request,
    a_retryable_failure_without_a_spent_key_keeps_it,
    take_over_unless_sent_is_not_taken_over_after_sending,
    take_over_unless_sent_leaves_nothing_unaccounted,
    take_over_leaves_an_attempt_unaccounted,
    take_over_ends_at_repeat_until,
    take_over_goes_on_until_repeat_until,
    no_lease_reaches_beyond_repeat_until_while_unaccounted,
    the_oldest_attempt_rules_repeat_until,
    a_final_failure_while_unaccounted_is_pending,
    a_final_failure_with_the_key_spent_is_final_while_unaccounted,
    a_retryable_failure_while_unaccounted_is_pending_after_repeat_until,
    a_failure_that_reads_as_pending_is_yours_for_its_own_attempt,
    a_lapse_while_unaccounted_refuses_the_holder,
    a_complete_accounts_for_earlier_attempts,
    a_resolution_accounts_for_earlier_attempts,
    a_stale_report_does_not_account_for_its_attempt,
    a_lapse_is_ruled_by_the_policy_of_the_grant,
    replaced_references_go_to_the_history,
];

/// A grant that follows one which lapsed and may have had its effect.
async fn unaccounted(case: &Case) -> (Case, Grant, Grant) {
    let case = case.under(take_over());
    let first = case.reserve("k").await.granted();
    case.advance(secs(30));
    let second = case.reserve("k").await.granted();
    (case, first, second)
}

async fn the_effect_key_stays_for_every_attempt(case: &Case) {
    let (first, second) = case.followed("k").await;
    assert_eq!(first.record().effect_key(), second.record().effect_key());
    assert_eq!(second.record().generation, 1);
}

async fn a_spent_key_begins_a_generation(case: &Case) {
    let first = case.reserve("k").await.granted();
    let told = case
        .fail_spent(&first, FailureKind::Retryable, error())
        .await;
    let view = told.recorded();
    assert_eq!((view.record.generation, view.record.key_spent), (1, true));
    let second = case.reserve("k").await.granted();
    let record = case.record("k").await;
    assert_eq!((record.generation, record.key_spent), (2, false));
    assert_ne!(first.record().effect_key(), second.record().effect_key());
}

async fn a_generation_begins_with_its_own_request(case: &Case) {
    let first = case.reserve("k").instruction(b"pay with card 1");
    let first = first.await.granted();
    let told = case.mark_sending_with(&first, "ch_1", "", None).await;
    told.leased();
    let told = case
        .fail_spent(&first, FailureKind::Retryable, error())
        .await;
    told.recorded();
    let second = case.reserve("k").instruction(b"pay with card 2");
    let record = second.await.granted().view.record;
    assert_eq!(record.instruction.as_ref(), b"pay with card 2");
    assert_eq!(record.provider_reference, "");
}

async fn attempts_of_a_generation_keep_the_request(case: &Case) {
    let first = case.reserve("k").instruction(b"pay with card 1");
    let first = first.await.granted();
    let told = case.fail(&first, FailureKind::Retryable, error()).await;
    told.recorded();
    let second = case.reserve("k").instruction(b"pay with card 2");
    let record = second.await.granted().view.record;
    assert_eq!(record.instruction.as_ref(), b"pay with card 1");
}

async fn a_retryable_failure_without_a_spent_key_keeps_it(case: &Case) {
    for attempt in 1..4 {
        let grant = case.reserve("k").await.granted();
        assert_eq!((grant.number(), grant.record().generation), (attempt, 1));
        let told = case.fail(&grant, FailureKind::Retryable, error()).await;
        told.recorded();
    }
}

async fn take_over_unless_sent_is_not_taken_over_after_sending(case: &Case) {
    let case = case.under(unless_sent());
    let grant = case.reserve("k").await.granted();
    case.mark_sending(&grant).await.leased();
    case.advance(secs(30));
    let told = case.reserve("k").await;
    told.pending(PendingReason::LeaseExpiredAfterSending);
    let told = case.mark_sending(&grant).await;
    told.refused(Refusal::LeaseExpired);
}

async fn take_over_unless_sent_leaves_nothing_unaccounted(case: &Case) {
    let case = case.under(unless_sent());
    let first = case.reserve("k").await.granted();
    case.advance(secs(30));
    let second = case.reserve("k").await.granted();
    assert!(!second.record().unaccounted);
    // It provably sent nothing: its token is stale when it tries.
    case.mark_sending(&first).await.refused(Refusal::StaleToken);
}

async fn take_over_leaves_an_attempt_unaccounted(case: &Case) {
    let (case, first, second) = unaccounted(case).await;
    let record = case.record("k").await;
    assert!(record.unaccounted);
    assert_eq!(record.attempt.number, second.number());
    assert_eq!(
        record.attempt.repeat_until,
        Some(first.record().attempt.granted_at.after(secs(600)))
    );
}

async fn take_over_ends_at_repeat_until(case: &Case) {
    let case = case.under(take_over());
    case.reserve("k").await.granted();
    case.advance(secs(600));
    let told = case.reserve("k").await;
    told.pending(PendingReason::LeaseExpired);
}

async fn take_over_goes_on_until_repeat_until(case: &Case) {
    let case = case.under(take_over());
    case.reserve("k").await.granted();
    case.advance(secs(600) - TICK);
    let grant = case.reserve("k").await.granted();
    assert_eq!(grant.number(), 2);
    // The lease that is left is over in a tick, and then nobody knows.
    case.advance(TICK);
    let told = case.reserve("k").await;
    told.pending(PendingReason::EarlierAttemptUnknown);
}

async fn no_lease_reaches_beyond_repeat_until_while_unaccounted(case: &Case) {
    let (case, first, second) = unaccounted(case).await;
    let until = first.record().attempt.granted_at.after(secs(600));
    let view = case.renew(&second, Some(secs(900))).await.leased();
    assert_eq!(view.record.attempt.lease_end, until);
    let told = case
        .mark_sending_with(&second, "", "", Some(secs(900)))
        .await;
    assert_eq!(told.leased().record.attempt.lease_end, until);
}

async fn the_oldest_attempt_rules_repeat_until(case: &Case) {
    let (case, first, _) = unaccounted(case).await;
    case.advance(secs(30));
    let third = case.reserve("k").await.granted();
    assert_eq!(third.number(), 3);
    assert_eq!(
        third.record().attempt.repeat_until,
        first.record().attempt.repeat_until
    );
}

async fn a_final_failure_while_unaccounted_is_pending(case: &Case) {
    let (case, _, second) = unaccounted(case).await;
    let told = case.fail(&second, FailureKind::Final, error()).await;
    told.recorded();
    let told = case.reserve("k").await;
    told.pending(PendingReason::EarlierAttemptUnknown);
    let told = case.fail(&second, FailureKind::Final, error()).await;
    told.repeated();
}

async fn a_final_failure_with_the_key_spent_is_final_while_unaccounted(case: &Case) {
    let (case, _, second) = unaccounted(case).await;
    let told = case.fail_spent(&second, FailureKind::Final, error()).await;
    told.recorded();
    let view = case.reserve("k").await.replayed();
    assert_eq!(view.reading, Reading::FailedFinal { gone: false });
}

async fn a_retryable_failure_while_unaccounted_is_pending_after_repeat_until(case: &Case) {
    let (case, _, second) = unaccounted(case).await;
    let told = case.fail(&second, FailureKind::Retryable, error()).await;
    told.recorded();
    case.advance(secs(570) - TICK);
    assert_eq!(case.reading("k").await, Reading::FailedRetryable);
    case.advance(TICK);
    let told = case.reserve("k").await;
    told.pending(PendingReason::EarlierAttemptUnknown);
}

async fn a_failure_that_reads_as_pending_is_yours_for_its_own_attempt(case: &Case) {
    let (case, first, second) = unaccounted(case).await;
    let told = case.fail(&second, FailureKind::Retryable, error()).await;
    told.recorded();
    case.advance(secs(600));
    let told = case.reserve("k").by(second.id).await;
    told.pending_yours(PendingReason::EarlierAttemptUnknown);
    let told = case.reserve("k").by(first.id).await;
    told.pending(PendingReason::EarlierAttemptUnknown);
    case.reserve("k").paying("200 EUR").await.mismatch();
}

async fn a_lapse_while_unaccounted_refuses_the_holder(case: &Case) {
    let (case, _, second) = unaccounted(case).await;
    case.advance(secs(600));
    let told = case.mark_sending(&second).await;
    told.refused(Refusal::LeaseExpired);
    let told = case.renew(&second, None).await;
    told.refused(Refusal::LeaseExpired);
    case.complete(&second, result()).await.recorded();
}

async fn a_complete_accounts_for_earlier_attempts(case: &Case) {
    let (case, _, second) = unaccounted(case).await;
    case.complete(&second, result()).await.recorded();
    assert!(!case.record("k").await.unaccounted);
}

async fn a_resolution_accounts_for_earlier_attempts(case: &Case) {
    let (case, _, second) = unaccounted(case).await;
    let told = case.fail(&second, FailureKind::Final, error()).await;
    told.recorded();
    case.resolve("k", Finding::NotApplied).await.recorded();
    let third = case.reserve("k").await.granted();
    assert!(!third.record().unaccounted);
    // A full lease of its own, and a memory of the provider counted from now.
    let attempt = &third.record().attempt;
    assert_eq!(attempt.repeat_until, Some(case.now().after(secs(600))));
}

async fn a_stale_report_does_not_account_for_its_attempt(case: &Case) {
    let (case, first, _) = unaccounted(case).await;
    let told = case.fail(&first, FailureKind::Retryable, error()).await;
    told.refused(Refusal::StaleToken);
    assert!(case.record("k").await.unaccounted);
}

async fn a_lapse_is_ruled_by_the_policy_of_the_grant(case: &Case) {
    let lenient = case.under(unless_sent());
    lenient.reserve("lenient").await.granted();
    case.reserve("strict").await.granted();
    case.advance(secs(30));
    // Each under the other one's policy.
    let grant = case.under(Policy::default()).reserve("lenient").await;
    assert_eq!(grant.granted().number(), 2);
    let told = lenient.reserve("strict").await;
    told.pending(PendingReason::LeaseExpired);
}

async fn replaced_references_go_to_the_history(case: &Case) {
    let grant = case.reserve("k").await.granted();
    let told = case.mark_sending_with(&grant, "ch_1", "pay 1", None).await;
    told.leased();
    let told = case.mark_sending_with(&grant, "ch_2", "pay 2", None).await;
    told.leased();
    let told = case
        .mark_pending_with(&grant, "", "ch_3", "pay 2", None)
        .await;
    told.recorded();
    let replaced = |reference: &str, instruction: &'static [u8]| Trace::Replaced {
        attempt: 1,
        provider_reference: reference.to_owned(),
        instruction: instruction.into(),
        at: case.now(),
    };
    assert_eq!(
        case.traces("k").await,
        [replaced("ch_1", b"pay 1"), replaced("ch_2", b"")]
    );
}
