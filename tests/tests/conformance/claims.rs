//! Claims: who may find out, when, under which fence, and for how long.

use reprise_domain::command::{Finding, Refusal};
use reprise_domain::record::{PendingReason, State};
use reprise_domain::token::Held;

use super::case::{Case, TICK, applied, result, secs, still_unknown, take_over, unless_sent};
use super::finding::{CLAIM, found_failed, new_claim_id};

stamp![
    a_lapsed_record_is_due_after_the_settling_time,
    a_claim_writes_a_lapse_down,
    a_pending_record_is_due_when_its_holder_says,
    a_claim_never_runs_beside_a_holders_lease,
    a_claim_is_kept_whole,
    a_second_worker_is_told_that_nothing_is_due,
    a_claim_that_ran_out_is_taken_by_the_next,
    a_claim_asked_again_is_the_same_and_not_prolonged,
    a_claim_is_renewed_by_its_own_length,
    a_claim_is_ended_by_a_renewal_with_zero,
    a_superseded_claim_is_not_renewed,
    a_claim_that_was_not_given_out_is_over,
    a_claim_of_another_record_is_over,
    nothing_settled_is_claimed,
    a_missing_record_is_not_claimed,
    a_takeable_record_is_not_claimed,
    fences_rise_over_grants_and_claims,
    an_override_ends_a_claim,
    a_grant_ends_a_claim,
    two_workers_at_once_are_granted_one_claim,
    still_unknown_lets_the_next_worker_claim_later,
    a_record_beyond_repeat_until_is_claimed,
];

async fn a_lapsed_record_is_due_after_the_settling_time(case: &Case) {
    case.reserve("k").await.granted();
    case.advance(secs(30 + 60) - TICK);
    case.claim("k").await.closed();
    case.advance(TICK);
    case.claim("k").await.claimed();
}

async fn a_claim_writes_a_lapse_down(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.settle("k").await;
    case.claim("k").await.claimed();
    let record = case.record("k").await;
    assert_eq!(record.state, State::Pending);
    let pending = record.pending.expect("pending");
    assert_eq!(pending.reason, PendingReason::LeaseExpired);
    assert_eq!(pending.since, grant.record().attempt.lease_end);
}

async fn a_pending_record_is_due_when_its_holder_says(case: &Case) {
    let grant = case.reserve("k").await.granted();
    let later = Some(secs(3600));
    let told = case.mark_pending_with(&grant, "timeout", "", "", later);
    told.await.recorded();
    case.advance(secs(3600) - TICK);
    case.claim("k").await.closed();
    case.advance(TICK);
    case.claim("k").await.claimed();
}

async fn a_claim_never_runs_beside_a_holders_lease(case: &Case) {
    let grant = case.reserve("k").await.granted();
    let soon = Some(secs(1));
    let told = case.mark_pending_with(&grant, "timeout", "", "", soon);
    told.await.recorded();
    case.advance(secs(30) - TICK);
    case.claim("k").await.closed();
    case.renew(&grant, None).await.leased();
    case.advance(secs(30) - TICK);
    case.claim("k").await.closed();
    case.advance(TICK);
    case.claim("k").await.claimed();
    case.renew(&grant, None).await.refused(Refusal::Claimed);
}

async fn a_claim_is_kept_whole(case: &Case) {
    let (grant, claim) = case.claimed("k").await;
    let record = case.record("k").await;
    assert_eq!(record, *claim.view.record);
    let kept = record.claim.expect("a claim");
    assert_eq!((kept.id, kept.fence), (claim.id, claim.fence()));
    assert_eq!((kept.taken_at, kept.lease), (case.now(), CLAIM));
    assert_eq!(kept.lease_end, case.now().after(CLAIM));
    assert_eq!((kept.owner.as_str(), kept.over), ("finder", false));
    assert!(claim.fence() > grant.fence());
}

async fn a_second_worker_is_told_that_nothing_is_due(case: &Case) {
    let (_, claim) = case.claimed("k").await;
    let record = case.record("k").await;
    case.advance(CLAIM - TICK);
    case.claim("k").await.closed();
    assert_eq!(case.record("k").await, record);
    case.renew_claim(&claim, None).await.claimed();
}

async fn a_claim_that_ran_out_is_taken_by_the_next(case: &Case) {
    let (_, first) = case.claimed("k").await;
    case.advance(CLAIM);
    let second = case.claim("k").await.claimed();
    assert!(second.fence() > first.fence());
    case.renew_claim(&first, None)
        .await
        .claim_over(State::Pending);
}

async fn a_claim_asked_again_is_the_same_and_not_prolonged(case: &Case) {
    let (_, claim) = case.claimed("k").await;
    case.advance(CLAIM - TICK);
    let again = case.claim_as("k", claim.id).await.claimed();
    assert_eq!(again.held, claim.held);
    assert_eq!(again.view.record, claim.view.record);
    case.advance(TICK);
    let anew = case.claim_as("k", claim.id).await.claimed();
    assert!(anew.fence() > claim.fence());
}

async fn a_claim_is_renewed_by_its_own_length(case: &Case) {
    let (_, claim) = case.claimed("k").await;
    case.advance(CLAIM - TICK);
    case.renew_claim(&claim, None).await.claimed();
    let kept = case.record("k").await.claim.expect("a claim");
    assert_eq!(kept.lease_end, case.now().after(CLAIM));
    case.renew_claim(&claim, secs(5)).await.claimed();
    case.advance(secs(5));
    case.renew_claim(&claim, None)
        .await
        .claim_over(State::Pending);
}

async fn a_claim_is_ended_by_a_renewal_with_zero(case: &Case) {
    let (_, claim) = case.claimed("k").await;
    case.renew_claim(&claim, secs(0)).await.claimed();
    case.claim("k").await.claimed();
}

async fn a_superseded_claim_is_not_renewed(case: &Case) {
    let (_, first) = case.claimed("k").await;
    case.advance(CLAIM);
    let second = case.claim("k").await.claimed();
    case.renew_claim(&first, None)
        .await
        .claim_over(State::Pending);
    case.renew_claim(&second, None).await.claimed();
}

async fn a_claim_that_was_not_given_out_is_over(case: &Case) {
    let (_, claim) = case.claimed("k").await;
    let forged = Held {
        authentic: false,
        ..claim.held
    };
    let told = case.resolve_by_held(&claim, forged, applied(), false);
    told.await.claim_over(State::Pending);
    let record = case.record("k").await;
    assert_eq!(record, *claim.view.record, "and sets nothing");
    assert!(case.evidence("k").await.is_empty());
}

async fn a_claim_of_another_record_is_over(case: &Case) {
    let (_, claim) = case.claimed("a").await;
    case.reserve("b").await.granted();
    case.settle("b").await;
    let other = case.claim("b").await.claimed();
    let key = case.store.token_key();
    let bytes = key.issue_claim(&claim.name.id(), 1, claim.fence());
    let held = key.read_claim(&other.name.id(), &bytes);
    let held = held.expect("the form of a claim");
    let told = case.resolve_by_held(&other, held, applied(), false);
    told.await.claim_over(State::Pending);
    assert_eq!(
        case.record("b").await,
        *other.view.record,
        "and sets nothing"
    );
}

async fn nothing_settled_is_claimed(case: &Case) {
    case.completed("done").await;
    case.failed("tried", reprise_domain::command::FailureKind::Retryable)
        .await;
    case.failed("failed", reprise_domain::command::FailureKind::Final)
        .await;
    case.advance(secs(600));
    for key in ["done", "tried", "failed"] {
        let record = case.record(key).await;
        case.claim(key).await.closed();
        assert_eq!(case.record(key).await, record);
    }
}

async fn a_missing_record_is_not_claimed(case: &Case) {
    case.claim("k").await.refused(Refusal::RecordNotFound);
    case.completed("old").await;
    case.advance(case.policy.memory_retention);
    case.claim("old").await.refused(Refusal::RecordNotFound);
}

async fn a_takeable_record_is_not_claimed(case: &Case) {
    let case = case.under(unless_sent());
    case.reserve("k").await.granted();
    case.advance(secs(600));
    case.claim("k").await.closed();
    case.reserve("k").await.granted();
}

async fn fences_rise_over_grants_and_claims(case: &Case) {
    let (grant, claim) = case.claimed("k").await;
    let mut fences = vec![grant.fence(), claim.fence()];
    case.renew_claim(&claim, secs(0)).await.claimed();
    let claim = case.claim("k").await.claimed();
    fences.push(claim.fence());
    case.resolve_by(&claim, Finding::NotApplied)
        .await
        .recorded();
    fences.push(case.reserve("k").await.granted().fence());
    case.settle("k").await;
    let claim = case.claim("k").await.claimed();
    fences.push(claim.fence());
    let taken = Finding::TakeOver {
        attempt_id: super::case::new_id(),
        lease: None,
    };
    fences.push(case.resolve_by(&claim, taken).await.granted().fence());
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

async fn an_override_ends_a_claim(case: &Case) {
    for (at, finding) in [
        still_unknown(),
        Finding::NotApplied,
        found_failed("NO"),
        applied(),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("k{at}");
        let (_, claim) = case.claimed(&key).await;
        let state = case.resolve(&key, finding).await.recorded().record.state;
        case.renew_claim(&claim, None).await.claim_over(state);
    }
}

async fn a_grant_ends_a_claim(case: &Case) {
    let (_, claim) = case.claimed("k").await;
    case.resolve_by(&claim, Finding::NotApplied)
        .await
        .recorded();
    assert!(case.record("k").await.claim.is_some());
    case.reserve("k").await.granted();
    assert_eq!(case.record("k").await.claim, None);
    let told = case.renew_claim(&claim, None).await;
    told.claim_over(State::Processing);
}

async fn two_workers_at_once_are_granted_one_claim(case: &Case) {
    case.reserve("k").await.granted();
    case.settle("k").await;
    let ids = [new_claim_id(), new_claim_id()];
    let (a, b) = tokio::join!(case.claim_as("k", ids[0]), case.claim_as("k", ids[1]));
    let (won, lost) = match &a.answer {
        Ok(reprise_domain::Answer::Claimed(_)) => (a, b),
        _ => (b, a),
    };
    let claim = won.claimed();
    lost.closed();
    case.renew_claim(&claim, None).await.claimed();
}

async fn still_unknown_lets_the_next_worker_claim_later(case: &Case) {
    let (_, claim) = case.claimed("k").await;
    case.resolve_by(&claim, still_unknown()).await.recorded();
    case.advance(secs(60) - TICK);
    case.claim("k").await.closed();
    case.advance(TICK);
    case.claim("k").await.claimed();
}

async fn a_record_beyond_repeat_until_is_claimed(case: &Case) {
    let case = case.under(take_over());
    case.reserve("k").await.granted();
    case.advance(secs(600) - TICK);
    case.claim("k").await.closed();
    case.advance(TICK);
    let claim = case.claim("k").await.claimed();
    let told = case.resolve_by(&claim, Finding::NotApplied).await;
    told.refused(Refusal::TooLateToTell);
    case.resolve_by(&claim, Finding::Applied(super::case::found(result())))
        .await
        .recorded();
}
