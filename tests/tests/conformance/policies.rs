//! Stored policies: round trips, and etags that keep writers from overwriting each other.

use reprise::store::{Error, PutPolicy, StoredPolicy};
use reprise_domain::Policy;
use reprise_domain::policy::{Mode, OnLapse};
use reprise_fingerprint::{Pointer, Rule};

use super::case::{Case, secs, take_over, unless_sent};

stamp![
    a_policy_is_kept_whole,
    a_policy_of_every_lapse_rule_is_kept,
    a_policy_is_replaced_under_its_etag,
    a_policy_is_not_replaced_under_an_old_etag,
    a_first_policy_needs_no_etag,
    a_tenants_default_and_its_operations_are_separate,
    policies_come_in_order,
    policies_of_two_writers_do_not_overwrite_each_other,
];

async fn put(
    case: &Case,
    operation: &str,
    policy: Policy,
    etag: &str,
) -> Result<StoredPolicy, Error> {
    let put = PutPolicy {
        tenant: case.tenant.clone(),
        operation: operation.to_owned(),
        policy: Some(policy),
        mode: Mode::Enforce,
        etag: etag.to_owned(),
        actor: "operator@example".to_owned(),
        reason: "it's a test; --".to_owned(),
    };
    case.store.put_policy(put).await
}

/// This tenant's policies, in the store's order.
async fn stored(case: &Case) -> Vec<StoredPolicy> {
    let mut all = case.store.policies().await.expect("the store answers");
    all.retain(|stored| stored.tenant == case.tenant);
    all
}

async fn a_policy_is_kept_whole(case: &Case) {
    let pointers = |texts: &[&str]| -> Vec<Pointer> {
        let parsed = texts.iter().map(|text| text.parse());
        parsed.collect::<Result<_, _>>().expect("pointers")
    };
    let rule = Rule::new(pointers(&["/sentAt", "/a~1b/0"]), pointers(&["/tags"]));
    let policy = Policy {
        on_lapse: OnLapse::TakeOver,
        repeat_within: Some(secs(82_800)),
        lease: secs(5),
        wait_max: secs(2),
        result_retention: secs(60),
        memory_retention: secs(90_000),
        result_bytes_max: 12_345,
        headers: vec!["etag".to_owned(), "x-request-id".to_owned()],
        rules: vec![rule.expect("a rule"), Rule::default()],
        settle_after: secs(1),
        mode: Mode::Enforce,
    };
    let put = put(case, "charge", policy.clone(), "").await;
    let put = put.expect("the policy is stored");
    assert_eq!(put.policy, Some(policy));
    assert_eq!((&*put.tenant, &*put.operation), (&*case.tenant, "charge"));
    assert_eq!(put.updated_at, case.now());
    assert!(!put.etag.is_empty());
    assert_eq!(stored(case).await, [put]);
}

async fn a_policy_of_every_lapse_rule_is_kept(case: &Case) {
    let all = [Policy::default(), unless_sent(), take_over()];
    for (at, policy) in all.iter().enumerate() {
        let put = put(case, &format!("op{at}"), policy.clone(), "").await;
        put.expect("the policy is stored");
    }
    let kept = stored(case).await.into_iter();
    let kept = kept.map(|stored| stored.policy.expect("settings"));
    assert_eq!(kept.collect::<Vec<_>>(), all);
}

async fn a_policy_is_replaced_under_its_etag(case: &Case) {
    let first = put(case, "charge", Policy::default(), "").await;
    let first = first.expect("the policy is stored");
    case.advance(secs(1));
    let second = put(case, "charge", unless_sent(), &first.etag).await;
    let second = second.expect("the policy is replaced");
    assert_ne!(second.etag, first.etag);
    assert_eq!(second.updated_at, case.now());
    assert_eq!(stored(case).await, [second]);
}

async fn a_policy_is_not_replaced_under_an_old_etag(case: &Case) {
    let first = put(case, "charge", Policy::default(), "").await;
    let first = first.expect("the policy is stored");
    let second = put(case, "charge", unless_sent(), &first.etag).await;
    let second = second.expect("the policy is replaced");
    for etag in ["", &first.etag, "never given out"] {
        let refused = put(case, "charge", take_over(), etag).await;
        assert!(matches!(refused, Err(Error::EtagChanged)), "{refused:?}");
    }
    assert_eq!(stored(case).await, [second]);
}

async fn a_first_policy_needs_no_etag(case: &Case) {
    let refused = put(case, "charge", Policy::default(), "something").await;
    assert!(matches!(refused, Err(Error::EtagChanged)), "{refused:?}");
    assert_eq!(stored(case).await, []);
}

async fn a_tenants_default_and_its_operations_are_separate(case: &Case) {
    let default = put(case, "", unless_sent(), "").await;
    let default = default.expect("the default is stored");
    let own = put(case, "charge", take_over(), "").await;
    let own = own.expect("the policy is stored");
    assert_eq!(stored(case).await, [default, own]);
}

async fn policies_come_in_order(case: &Case) {
    let operations = ["b", "a", "", "B", "a.b", "a-b"];
    for operation in operations {
        let put = put(case, operation, Policy::default(), "").await;
        put.expect("the policy is stored");
    }
    let mut expected = operations;
    expected.sort_unstable();
    let found = stored(case).await.into_iter();
    assert_eq!(found.map(|it| it.operation).collect::<Vec<_>>(), expected);
}

async fn policies_of_two_writers_do_not_overwrite_each_other(case: &Case) {
    let (a, b) = tokio::join!(
        put(case, "charge", unless_sent(), ""),
        put(case, "charge", take_over(), "")
    );
    let won = match (a, b) {
        (Ok(won), Err(Error::EtagChanged)) | (Err(Error::EtagChanged), Ok(won)) => won,
        other => panic!("exactly one is stored: {other:?}"),
    };
    assert_eq!(stored(case).await, [won]);
}
