//! A holder's late report against a claim, a resolution, a second claim, an override and
//! a purge: whichever comes first, each order has one end.

use reprise_domain::command::{FailureKind, Finding, Refusal};
use reprise_domain::decide::AuditAction;
use reprise_domain::record::{PendingReason, State};
use reprise_domain::{Reading, Trace};

use super::case::{Case, applied, error, other_result, result, secs, still_unknown};
use super::finding::{CLAIM, found_failed};

stamp![
    complete_before_the_claim_leaves_nothing_to_claim,
    complete_after_the_claim_counts_and_ends_it,
    complete_before_the_resolution_wins,
    complete_after_applied_is_told_what_is_recorded,
    complete_after_not_applied_overrides_it,
    complete_after_failed_contradicts,
    complete_after_a_take_over_contradicts,
    complete_after_the_second_claim_ends_both,
    complete_after_an_override_that_frees_the_key_counts,
    failure_before_the_claim_leaves_nothing_to_claim,
    failure_after_the_claim_counts_and_ends_it,
    failure_after_applied_is_evidence,
    failure_after_not_applied_is_the_outcome,
    failure_after_failed_with_the_same_error_is_repeated,
    failure_after_the_second_claim_ends_both,
    doubt_after_the_claim_adds_and_leaves_it,
    doubt_after_not_applied_is_pending_again,
    a_mark_after_the_claim_is_refused,
    a_mark_after_the_claim_ran_out_is_refused_too,
    a_give_back_after_the_claim_frees_the_key,
    an_override_between_claim_and_resolution_wins,
    a_resolution_between_reading_and_override_refuses_it,
    a_claim_and_a_complete_at_once_have_one_end,
];

async fn contradictions(case: &Case, key: &str) -> usize {
    let contradicted = |trace: &Trace| {
        matches!(
            trace,
            Trace::Audit {
                action: AuditAction::Contradicted,
                ..
            }
        )
    };
    let traces = case.traces(key).await;
    traces.iter().filter(|trace| contradicted(trace)).count()
}

async fn complete_before_the_claim_leaves_nothing_to_claim(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.settle("k").await;
    case.complete(&grant, result()).await.recorded();
    case.claim("k").await.closed();
}

async fn complete_after_the_claim_counts_and_ends_it(case: &Case) {
    let (grant, claim) = case.claimed("k").await;
    case.complete(&grant, result()).await.recorded();
    let told = case.renew_claim(&claim, None).await;
    told.claim_over(State::Completed);
    case.reserve("k").await.replayed();
}

async fn complete_before_the_resolution_wins(case: &Case) {
    for (at, finding) in [Finding::NotApplied, found_failed("NO"), still_unknown()]
        .into_iter()
        .enumerate()
    {
        let key = format!("k{at}");
        let (grant, claim) = case.claimed(&key).await;
        case.complete(&grant, result()).await.recorded();
        let record = case.record(&key).await;
        case.resolve_by(&claim, finding)
            .await
            .claim_over(State::Completed);
        assert_eq!(case.record(&key).await, record);
    }
}

async fn complete_after_applied_is_told_what_is_recorded(case: &Case) {
    let (grant, claim) = case.claimed("k").await;
    case.resolve_by(&claim, applied()).await.recorded();
    case.complete(&grant, result()).await.repeated();
    case.complete(&grant, other_result())
        .await
        .already_recorded();
    assert!(case.evidence("k").await.is_empty());
}

async fn complete_after_not_applied_overrides_it(case: &Case) {
    let (grant, claim) = case.claimed("k").await;
    case.resolve_by(&claim, Finding::NotApplied)
        .await
        .recorded();
    case.complete(&grant, result()).await.recorded();
    let overridden = |trace: &Trace| {
        matches!(
            trace,
            Trace::Audit {
                action: AuditAction::ContradictsResolution,
                ..
            }
        )
    };
    assert!(case.traces("k").await.iter().any(overridden));
    case.reserve("k").await.replayed();
}

async fn complete_after_failed_contradicts(case: &Case) {
    let (grant, claim) = case.claimed("k").await;
    case.resolve_by(&claim, found_failed("NO")).await.recorded();
    let told = case.complete(&grant, result()).await;
    told.refused(Refusal::OutcomeAlreadyRecorded);
    assert!(case.record("k").await.contradicted);
    assert_eq!(contradictions(case, "k").await, 1);
}

async fn complete_after_a_take_over_contradicts(case: &Case) {
    let (grant, claim) = case.claimed("k").await;
    let finding = Finding::TakeOver {
        attempt_id: super::case::new_id(),
        lease: None,
    };
    let resolver = case.resolve_by(&claim, finding).await.granted();
    let told = case.complete(&grant, result()).await;
    told.refused(Refusal::StaleToken);
    let told = case.mark_sending(&resolver).await;
    told.refused(Refusal::Contradicted);
}

async fn complete_after_the_second_claim_ends_both(case: &Case) {
    let (grant, first) = case.claimed("k").await;
    case.advance(CLAIM);
    let second = case.claim("k").await.claimed();
    case.complete(&grant, result()).await.recorded();
    for claim in [first, second] {
        let told = case.resolve_by(&claim, Finding::NotApplied).await;
        told.claim_over(State::Completed);
    }
}

async fn complete_after_an_override_that_frees_the_key_counts(case: &Case) {
    let (grant, claim) = case.claimed("k").await;
    case.resolve("k", Finding::NotApplied).await.recorded();
    case.complete(&grant, result()).await.recorded();
    case.resolve_by(&claim, applied()).await.repeated();
}

async fn failure_before_the_claim_leaves_nothing_to_claim(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.settle("k").await;
    let told = case.fail(&grant, FailureKind::Retryable, error()).await;
    told.recorded();
    case.claim("k").await.closed();
}

async fn failure_after_the_claim_counts_and_ends_it(case: &Case) {
    for (key, kind, state) in [
        ("a", FailureKind::Retryable, State::FailedRetryable),
        ("b", FailureKind::Final, State::FailedFinal),
    ] {
        let (grant, claim) = case.claimed(key).await;
        case.fail(&grant, kind, error()).await.recorded();
        case.resolve_by(&claim, found_failed("NO"))
            .await
            .claim_over(state);
        assert_eq!(case.record(key).await.state, state);
    }
}

async fn failure_after_applied_is_evidence(case: &Case) {
    let (grant, claim) = case.claimed("k").await;
    case.resolve_by(&claim, applied()).await.recorded();
    let told = case.fail(&grant, FailureKind::Retryable, error()).await;
    told.refused(Refusal::OutcomeAlreadyRecorded);
    assert_eq!(case.evidence("k").await.len(), 1);
    assert_eq!(case.record("k").await.state, State::Completed);
}

async fn failure_after_not_applied_is_the_outcome(case: &Case) {
    let (grant, claim) = case.claimed("k").await;
    case.resolve_by(&claim, Finding::NotApplied)
        .await
        .recorded();
    let told = case.fail(&grant, FailureKind::Final, error()).await;
    told.recorded();
    assert_eq!(
        case.reading("k").await,
        Reading::FailedFinal { gone: false }
    );
}

async fn failure_after_failed_with_the_same_error_is_repeated(case: &Case) {
    let (grant, claim) = case.claimed("k").await;
    let finding = Finding::Failed(super::case::found(error()));
    case.resolve_by(&claim, finding).await.recorded();
    let told = case.fail(&grant, FailureKind::Final, error()).await;
    told.repeated();
}

async fn failure_after_the_second_claim_ends_both(case: &Case) {
    let (grant, first) = case.claimed("k").await;
    case.advance(CLAIM);
    let second = case.claim("k").await.claimed();
    let told = case.fail(&grant, FailureKind::Retryable, error()).await;
    told.recorded();
    let told = case.resolve_by(&second, applied()).await;
    told.recorded();
    let told = case.resolve_by(&first, found_failed("NO")).await;
    told.claim_over(State::Completed);
}

async fn doubt_after_the_claim_adds_and_leaves_it(case: &Case) {
    let (grant, claim) = case.claimed("k").await;
    let told = case.mark_pending_with(&grant, "no answer", "ch_5", "", None);
    told.await.recorded();
    assert_eq!(case.record("k").await.provider_reference, "ch_5");
    case.renew_claim(&claim, None).await.claimed();
    case.resolve_by(&claim, applied()).await.recorded();
}

async fn doubt_after_not_applied_is_pending_again(case: &Case) {
    let (grant, claim) = case.claimed("k").await;
    case.resolve_by(&claim, Finding::NotApplied)
        .await
        .recorded();
    case.mark_pending(&grant, "timeout").await.recorded();
    let told = case.reserve("k").await;
    told.pending(PendingReason::Reported);
    case.resolve_by(&claim, found_failed("NO"))
        .await
        .claim_over(State::Pending);
}

async fn a_mark_after_the_claim_is_refused(case: &Case) {
    let (grant, claim) = case.claimed("k").await;
    case.mark_sending(&grant).await.refused(Refusal::Claimed);
    case.renew(&grant, None).await.refused(Refusal::Claimed);
    assert_eq!(case.record("k").await, *claim.view.record);
}

async fn a_mark_after_the_claim_ran_out_is_refused_too(case: &Case) {
    let (grant, _) = case.claimed("k").await;
    case.advance(CLAIM);
    let told = case.mark_sending(&grant).await;
    told.refused(Refusal::LeaseExpired);
}

async fn a_give_back_after_the_claim_frees_the_key(case: &Case) {
    let (grant, claim) = case.claimed("k").await;
    case.fail_by_attempt_id("k", grant.id).await.recorded();
    let told = case.renew_claim(&claim, None).await;
    told.claim_over(State::FailedRetryable);
    case.reserve("k").await.granted();
}

async fn an_override_between_claim_and_resolution_wins(case: &Case) {
    let (_, claim) = case.claimed("k").await;
    case.resolve("k", found_failed("NO")).await.recorded();
    let told = case.resolve_by(&claim, Finding::NotApplied).await;
    told.claim_over(State::FailedFinal);
    let told = case.resolve_by(&claim, applied()).await;
    told.claim_over(State::FailedFinal);
    assert!(case.record("k").await.contradicted);
}

async fn a_resolution_between_reading_and_override_refuses_it(case: &Case) {
    let (_, claim) = case.claimed("k").await;
    let read = case.record("k").await.revision;
    case.resolve_by(&claim, Finding::NotApplied)
        .await
        .recorded();
    let told = case.resolve_read("k", read, found_failed("NO"), false);
    told.await.refused(Refusal::RevisionChanged);
    assert_eq!(case.record("k").await.state, State::FailedRetryable);
}

async fn a_claim_and_a_complete_at_once_have_one_end(case: &Case) {
    for at in 0..8 {
        let key = format!("k{at}");
        let grant = case.reserve(&key).await.granted();
        case.advance(secs(90));
        let (claim, complete) = tokio::join!(case.claim(&key), case.complete(&grant, result()));
        complete.recorded();
        if let Ok(reprise_domain::Answer::Claimed(_)) = &claim.answer {
            let claim = claim.claimed();
            let told = case.renew_claim(&claim, None).await;
            told.claim_over(State::Completed);
        } else {
            claim.closed();
        }
        assert_eq!(case.record(&key).await.state, State::Completed);
    }
}
