//! HOLD: whatever would be a grant is held and nothing is written; all else goes on.

use reprise::store::PutPolicy;
use reprise_domain::Policy;
use reprise_domain::command::{FailureKind, Finding, Refusal};
use reprise_domain::policy::Mode;

use super::case::{Case, TICK, applied, error, new_id, result, secs, take_over, unless_sent};

stamp![
    a_first_grant_is_held_and_leaves_nothing,
    a_grant_after_a_failure_is_held,
    a_take_over_is_held,
    a_grant_that_was_given_back_is_held,
    a_resolvers_take_over_is_held_and_leaves_the_claim,
    a_forgotten_record_is_held_as_it_is,
    the_same_attempt_goes_on,
    reports_renewals_and_replays_go_on,
    an_old_intent_is_told_before_the_hold,
    a_mismatch_is_told_before_the_hold,
    a_hold_without_settings_is_stored,
];

fn holding(case: &Case, policy: Policy) -> Case {
    case.under(Policy {
        mode: Mode::Hold,
        ..policy
    })
}

async fn a_first_grant_is_held_and_leaves_nothing(case: &Case) {
    let held = holding(case, Policy::default());
    assert!(held.reserve("k").await.held().is_none());
    assert_eq!(case.find("k").await, None);
    case.reserve("k").await.granted();
}

async fn a_grant_after_a_failure_is_held(case: &Case) {
    case.failed("k", FailureKind::Retryable).await;
    let record = case.record("k").await;
    let held = holding(case, Policy::default());
    let view = held.reserve("k").await.held().expect("a record");
    assert_eq!(*view.record, record);
    assert_eq!(case.record("k").await, record);
    assert_eq!(case.reserve("k").await.granted().number(), 2);
}

async fn a_take_over_is_held(case: &Case) {
    for (key, policy) in [("a", unless_sent()), ("b", take_over())] {
        let case = case.under(policy.clone());
        case.reserve(key).await.granted();
        case.advance(secs(30));
        let record = case.record(key).await;
        let held = holding(&case, policy);
        held.reserve(key).await.held();
        assert_eq!(case.record(key).await, record);
        assert!(case.traces(key).await.is_empty());
        assert_eq!(case.reserve(key).await.granted().number(), 2);
    }
}

async fn a_grant_that_was_given_back_is_held(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.fail_by_attempt_id("k", grant.id).await.recorded();
    let held = holding(case, Policy::default());
    held.reserve("k").await.held();
}

async fn a_resolvers_take_over_is_held_and_leaves_the_claim(case: &Case) {
    let (_, claim) = case.claimed("k").await;
    let held = holding(case, Policy::default());
    let finding = Finding::TakeOver {
        attempt_id: new_id(),
        lease: None,
    };
    held.resolve_by(&claim, finding.clone()).await.held();
    held.resolve("k", finding.clone()).await.held();
    assert_eq!(case.record("k").await, *claim.view.record);
    case.renew_claim(&claim, None).await.claimed();
    case.resolve_by(&claim, finding).await.granted();
}

async fn a_forgotten_record_is_held_as_it_is(case: &Case) {
    case.completed("k").await;
    case.advance(case.policy.memory_retention);
    let record = case.record("k").await;
    let held = holding(case, Policy::default());
    held.reserve("k").await.held();
    assert_eq!(case.record("k").await, record);
}

async fn the_same_attempt_goes_on(case: &Case) {
    let grant = case.reserve("k").await.granted();
    let held = holding(case, Policy::default());
    let again = held.reserve("k").by(grant.id).await.again();
    assert_eq!(again.held, grant.held);
    held.reserve("k").await.processing();
}

async fn reports_renewals_and_replays_go_on(case: &Case) {
    let held = holding(case, Policy::default());
    let grant = case.reserve("k").await.granted();
    held.mark_sending(&grant).await.leased();
    held.renew(&grant, None).await.leased();
    held.mark_pending(&grant, "timeout").await.recorded();
    held.complete(&grant, result()).await.recorded();
    held.reserve("k").await.replayed();
    let (grant, claim) = held_claim(case, &held).await;
    held.resolve_by(&claim, applied()).await.recorded();
    held.complete(&grant, result()).await.repeated();
    let failed = case.reserve("failed").await.granted();
    let told = held.fail(&failed, FailureKind::Final, error()).await;
    told.recorded();
    held.forget("failed").await.recorded();
}

async fn held_claim(case: &Case, held: &Case) -> (super::told::Grant, super::finding::Claimed) {
    let grant = case.reserve("claimed").await.granted();
    held.settle("claimed").await;
    let claim = held.claim("claimed").await.claimed();
    (grant, held.renew_claim(&claim, None).await.claimed())
}

async fn an_old_intent_is_told_before_the_hold(case: &Case) {
    let made = case.now();
    case.advance(case.policy.memory_retention - TICK);
    let held = holding(case, Policy::default());
    assert!(held.reserve("k").intended_at(made).await.held().is_none());
    case.advance(TICK);
    let told = held.reserve("k").intended_at(made).await;
    told.refused(Refusal::IntentTooOld);
}

async fn a_mismatch_is_told_before_the_hold(case: &Case) {
    case.failed("k", FailureKind::Retryable).await;
    let held = holding(case, Policy::default());
    held.reserve("k").paying("200 EUR").await.mismatch();
}

async fn a_hold_without_settings_is_stored(case: &Case) {
    let put = PutPolicy {
        tenant: case.tenant.clone(),
        operation: "charge".to_owned(),
        policy: None,
        mode: Mode::Hold,
        etag: String::new(),
        actor: "operator@example".to_owned(),
        reason: "the provider is down".to_owned(),
    };
    let stored = case.store.put_policy(put.clone()).await;
    let stored = stored.expect("the policy is stored");
    assert_eq!((&stored.policy, stored.mode), (&None, Mode::Hold));
    let put = PutPolicy {
        mode: Mode::Enforce,
        etag: stored.etag,
        ..put
    };
    let stored = case.store.put_policy(put).await;
    let stored = stored.expect("the policy is replaced");
    let mut all = case.store.policies().await.expect("the store answers");
    all.retain(|it| it.tenant == case.tenant);
    assert_eq!(all, [stored]);
    assert_eq!((&all[0].policy, all[0].mode), (&None, Mode::Enforce));
}
