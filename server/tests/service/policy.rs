//! GetPolicy, PutPolicy, ListPolicies.

use reprise_proto::v1::*;
use tonic::Code;

use super::support::*;

async fn get(server: &Server, operation: &str) -> (Policy, PolicySource) {
    let request = GetPolicyRequest {
        tenant: TENANT.into(),
        operation: operation.into(),
    };
    let answer = server.policies().get_policy(request).await.unwrap();
    let answer = answer.into_inner();
    let source = answer.source();
    (answer.policy.unwrap(), source)
}

fn put(policy: Policy) -> PutPolicyRequest {
    PutPolicyRequest {
        policy: Some(policy),
        actor: "ana".into(),
        reason: "longer leases".into(),
    }
}

#[tokio::test]
async fn an_operation_is_ruled_by_its_own_policy_else_the_tenants_else_the_built_in_one() {
    let setup = Setup::with(|config| config.policy.lease = std::time::Duration::from_secs(7));
    let server = setup.start().await;
    let (built_in, source) = get(&server, "charge").await;
    assert_eq!(source, PolicySource::BuiltIn);
    assert_eq!(built_in.lease, seconds(7));
    assert!(built_in.etag.is_empty() && built_in.update_time.is_none());
    assert_eq!(built_in.on_lapse(), OnLapse::Pending);
    assert_eq!(built_in.result_bytes_max, Some(1024 * 1024));
    assert_eq!(built_in.fingerprint_rules.len(), 1);

    let mut tenants = policy();
    tenants.lease = seconds(11);
    server.put_policy(tenants).await;
    let (in_force, source) = get(&server, "charge").await;
    assert_eq!(
        (in_force.lease, source),
        (seconds(11), PolicySource::Tenant)
    );
    assert!(
        in_force.etag.is_empty(),
        "nothing is stored under this name"
    );
    assert!(in_force.update_time.is_some());
    assert_eq!(
        server
            .acquire(reserve("k1"))
            .await
            .lease_remaining
            .unwrap()
            .seconds,
        11
    );

    let mut own = policy();
    own.operation = "charge".into();
    own.headers = Some(HeaderAllowList {
        names: vec!["X-Receipt".into()],
    });
    let stored = server.put_policy(own).await;
    assert_eq!(stored.lease, seconds(7), "unset takes the built-in default");
    assert_eq!(stored.headers.unwrap().names, ["x-receipt"]);
    let (in_force, source) = get(&server, "charge").await;
    assert_eq!(source, PolicySource::Operation);
    assert_eq!(in_force.etag, stored.etag);
    let lease = server.acquire(reserve("k2")).await.lease_remaining;
    assert_eq!(lease.unwrap().seconds, 7, "in force at once");
}

#[tokio::test]
async fn a_policy_is_replaced_by_who_has_read_it() {
    let server = server().await;
    let mut change = server.put_policy(policy()).await;
    let first = server.policies().put_policy(put(policy())).await;
    assert_refused(first, Code::FailedPrecondition, "REVISION_CHANGED");
    change.lease = seconds(60);
    let stored = server.put_policy(change.clone()).await;
    assert_ne!(stored.etag, change.etag);
    let late = server.policies().put_policy(put(change)).await;
    assert_refused(late, Code::FailedPrecondition, "REVISION_CHANGED");
}

#[tokio::test]
async fn bad_settings_are_named() {
    let server = server().await;
    type Change = (&'static str, fn(&mut PutPolicyRequest, &mut Policy));
    let changes: [Change; 19] = [
        ("policy.tenant", |_, p| p.tenant.clear()),
        ("policy.operation", |_, p| p.operation = "a b".into()),
        ("policy.etag", |_, p| p.etag = "\n".into()),
        ("actor", |r, _| r.actor.clear()),
        ("reason", |r, _| r.reason = "r".repeat(1025)),
        ("policy.on_lapse", |_, p| p.on_lapse = 99),
        ("policy.repeat_within", |_, p| {
            p.on_lapse = OnLapse::TakeOver.into()
        }),
        ("policy.repeat_within", |_, p| p.repeat_within = seconds(1)),
        ("policy.lease", |_, p| p.lease = seconds(901)),
        ("policy.lease", |_, p| p.lease = seconds(-1)),
        ("policy.wait_max", |_, p| p.wait_max = seconds(31)),
        ("policy.result_retention", |_, p| {
            p.result_retention = millis(1)
        }),
        ("policy.memory_retention", |_, p| {
            p.memory_retention = seconds(i64::MAX)
        }),
        ("policy.result_bytes_max", |_, p| {
            p.result_bytes_max = Some(4_128_769)
        }),
        ("policy.headers.names[0]", |_, p| {
            p.headers = names(&["Set-Cookie"])
        }),
        ("policy.headers", |_, p| p.headers = names(&["a"; 65])),
        ("policy.fingerprint_rules[0]", |_, p| {
            p.fingerprint_rules = vec![rule("")]
        }),
        ("policy.fingerprint_rules[1].ignore[0]", |_, p| {
            p.fingerprint_rules = vec![rule("/a"), rule("b")];
        }),
        ("policy.fingerprint_rules", |_, p| {
            p.fingerprint_rules = vec![rule("/a"); 9]
        }),
    ];
    for (field, change) in changes {
        let (mut request, mut policy) = (put(policy()), policy());
        change(&mut request, &mut policy);
        request.policy = Some(policy);
        assert_eq!(
            refused_field(server.policies().put_policy(request).await),
            field
        );
    }
    let nothing = PutPolicyRequest::default();
    assert_eq!(
        refused_field(server.policies().put_policy(nothing).await),
        "policy"
    );
    let (_, source) = get(&server, "").await;
    assert_eq!(source, PolicySource::BuiltIn, "nothing was stored");
}

fn names(names: &[&str]) -> Option<HeaderAllowList> {
    Some(HeaderAllowList {
        names: names.iter().map(ToString::to_string).collect(),
    })
}

fn rule(ignore: &str) -> FingerprintRule {
    FingerprintRule {
        ignore: vec![ignore.into()],
        ..FingerprintRule::default()
    }
}

#[tokio::test]
async fn policies_are_listed_in_pages_in_order() {
    let server = server().await;
    for operation in ["", "b", "a", "c"] {
        let mut one = policy();
        one.operation = operation.into();
        server.put_policy(one).await;
    }
    let mut foreign = policy();
    foreign.tenant = "t2".into();
    server.put_policy(foreign).await;

    let mut listed = Vec::new();
    let mut request = ListPoliciesRequest {
        tenant: TENANT.into(),
        page_size: 3,
        page_token: String::new(),
    };
    loop {
        let page = server
            .policies()
            .list_policies(request.clone())
            .await
            .unwrap();
        let page = page.into_inner();
        assert!(page.policies.len() <= 3);
        listed.extend(page.policies.into_iter().map(|policy| policy.operation));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(listed, ["", "a", "b", "c"]);

    request.page_token = "elsewhere".into();
    let answer = server.policies().list_policies(request.clone()).await;
    assert_eq!(refused_field(answer), "page_token");
    request.page_token.clear();
    request.page_size = 1001;
    assert_eq!(
        refused_field(server.policies().list_policies(request).await),
        "page_size"
    );
    let everybody = ListPoliciesRequest::default();
    let answer = server.policies().list_policies(everybody).await.unwrap();
    let listed = answer.into_inner().policies.into_iter();
    let names: Vec<_> = listed
        .map(|policy| (policy.tenant, policy.operation))
        .collect();
    assert_eq!(names.len(), 5);
    assert!(names.is_sorted(), "{names:?}");
}

#[tokio::test]
async fn large_policies_come_in_pages_that_every_client_receives() {
    let server = server().await;
    let pointers: Vec<String> = (0..64)
        .map(|at| format!("/{at}/{}", "p".repeat(1000)))
        .collect();
    let rules: Vec<FingerprintRule> = (0..8)
        .map(|at| FingerprintRule {
            ignore: pointers.clone(),
            unordered: vec![format!("/{at}")],
            ..FingerprintRule::default()
        })
        .collect();
    for at in 0..8 {
        let mut large = policy();
        large.operation = format!("op{at}");
        large.fingerprint_rules = rules.clone();
        server.put_policy(large).await;
    }
    let request = ListPoliciesRequest {
        tenant: TENANT.into(),
        ..ListPoliciesRequest::default()
    };
    let page = server.policies().list_policies(request).await.unwrap();
    let page = page.into_inner();
    assert!((1..8).contains(&page.policies.len()));
    assert!(!page.next_page_token.is_empty());
}
