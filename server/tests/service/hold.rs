//! HOLD: the operator's stop button.

use std::time::{Duration, Instant};

use reprise_proto::v1::reserve_response::Outcome;
use reprise_proto::v1::*;
use tonic::Code;

use super::support::*;

/// Longer than any answer, shorter than any wait here.
const SOON: Duration = Duration::from_secs(8);

/// Presses or releases the button of a scope.
async fn set(server: &Server, tenant: &str, operation: &str, mode: Mode) {
    let stored = get(server, tenant, operation).await.policy.unwrap();
    let policy = Policy {
        tenant: tenant.into(),
        operation: operation.into(),
        inherits: true,
        mode: mode.into(),
        etag: stored.etag,
        ..Policy::default()
    };
    server.put_policy(policy).await;
}

async fn hold(server: &Server) {
    set(server, TENANT, "charge", Mode::Hold).await;
}

async fn release(server: &Server) {
    set(server, TENANT, "charge", Mode::Enforce).await;
}

async fn get(server: &Server, tenant: &str, operation: &str) -> GetPolicyResponse {
    let request = GetPolicyRequest {
        tenant: tenant.into(),
        operation: operation.into(),
    };
    let answer = server.policies().get_policy(request).await.unwrap();
    answer.into_inner()
}

#[track_caller]
fn assert_held(outcome: Outcome) {
    let Outcome::Processing(processing) = outcome else {
        panic!("not held: {outcome:?}");
    };
    assert_eq!(processing.reason(), ProcessingReason::Held);
    assert!(processing.owner.is_empty() && processing.lease_expire_time.is_none());
    assert!(processing.retry_after.unwrap().seconds > 0);
}

#[tokio::test]
async fn nobody_is_granted_an_attempt_in_a_held_scope_and_nothing_is_written() {
    let server = still_server().await;
    for (tenant, operation) in [(TENANT, "charge"), (TENANT, ""), ("", "")] {
        let key = format!("{tenant}/{operation}");
        set(&server, tenant, operation, Mode::Hold).await;
        let answer = server.reprise().reserve(reserve(&key)).await.unwrap();
        let answer = answer.into_inner();
        assert_eq!(answer.start_over(), StartOver::No);
        let record = answer.record.unwrap();
        assert_eq!((record.state(), record.attempt), (State::Unspecified, 0));
        assert_eq!(record.record_id.len(), 64);
        assert_eq!(record.effect_key.len(), 36);
        assert_held(answer.outcome.unwrap());
        let found = server.reprise().lookup(lookup(&key)).await;
        assert_refused(found, Code::NotFound, "RECORD_NOT_FOUND");
        assert!(get(&server, TENANT, "charge").await.held, "{key}");

        set(&server, tenant, operation, Mode::Enforce).await;
        assert!(!get(&server, TENANT, "charge").await.held, "{key}");
        let grant = server.acquire(reserve(&key)).await;
        assert_eq!(grant.effect_key, record.effect_key);
    }
}

#[tokio::test]
async fn other_scopes_are_not_held() {
    let server = still_server().await;
    set(&server, TENANT, "refund", Mode::Hold).await;
    set(&server, "t2", "", Mode::Hold).await;
    server.acquire(reserve("k")).await;
    let mut foreign = reserve("k");
    foreign.record.as_mut().unwrap().tenant = "t2".into();
    assert_held(server.reserve(foreign).await.unwrap());
}

#[tokio::test]
async fn an_operation_that_enforces_is_held_with_its_tenant_and_with_all() {
    let server = still_server().await;
    let own = Policy {
        operation: "charge".into(),
        mode: Mode::Enforce.into(),
        lease: seconds(7),
        ..policy()
    };
    server.put_policy(own).await;
    for tenant in [TENANT, ""] {
        set(&server, tenant, "", Mode::Hold).await;
        let answer = get(&server, TENANT, "charge").await;
        assert!(answer.held);
        let stored = answer.policy.unwrap();
        assert_eq!(stored.mode(), Mode::Enforce, "its own, for editing");
        assert_eq!(stored.lease, seconds(7));
        let key = format!("in-{tenant}");
        assert_held(server.reserve(reserve(&key)).await.unwrap());
        set(&server, tenant, "", Mode::Enforce).await;
    }
    let grant = server.acquire(reserve("k")).await;
    assert_eq!(
        grant.lease_remaining,
        seconds(7),
        "its settings are its own"
    );
}

#[tokio::test]
async fn who_would_wait_is_answered_at_once() {
    let server = server().await;
    hold(&server).await;
    let mut request = tonic::Request::new(waiting("k", Duration::from_secs(20)));
    request.set_timeout(Duration::from_secs(25));
    let mut client = server.reprise();
    let answer = tokio::time::timeout(SOON, client.reserve(request)).await;
    let answer = answer.expect("it waited").unwrap();
    assert_held(answer.into_inner().outcome.unwrap());
}

#[tokio::test]
async fn who_waited_when_it_was_pressed_is_answered_when_the_record_is_free() {
    let server = server().await;
    let grant = server.acquire(reserve("k")).await;
    let mut request = tonic::Request::new(waiting("k", Duration::from_secs(25)));
    request.set_timeout(Duration::from_secs(28));
    let mut client = server.reprise();
    let waiter = tokio::spawn(async move { client.reserve(request).await });
    // What a connection carries arrives in order: the call is there once later ones are
    // answered.
    for _ in 0..3 {
        server.look("k").await;
    }
    hold(&server).await;
    let report = fail("k", &grant.token, FailureKind::Retryable);
    server.reprise().fail(report).await.unwrap();
    let answer = tokio::time::timeout(SOON, waiter).await;
    let answer = answer.expect("it waited on").unwrap().unwrap();
    assert_held(answer.into_inner().outcome.unwrap());
    assert_eq!(server.look("k").await.record.unwrap().attempt, 1);
}

#[tokio::test]
async fn what_is_no_grant_goes_on() {
    let server = still_server().await;
    let first = reserve("k");
    let grant = server.acquire(first.clone()).await;
    let done = server.acquire(reserve("done")).await;
    hold(&server).await;

    let again = server.acquire(first).await;
    assert_eq!(again.reason(), GrantReason::Again);
    assert_eq!(again.token, grant.token);
    let renewal = RenewRequest {
        record: name("k"),
        holder: Some(renew_request::Holder::Token(grant.token.clone())),
        lease: seconds(60),
    };
    let renewed = server.reprise().renew(renewal).await.unwrap();
    assert_eq!(renewed.into_inner().lease_remaining, seconds(60));
    let sending = MarkSendingRequest {
        record: name("k"),
        token: grant.token.clone(),
        ..MarkSendingRequest::default()
    };
    server.reprise().mark_sending(sending).await.unwrap();
    match server.reserve(reserve("k")).await.unwrap() {
        Outcome::Processing(processing) => {
            assert_eq!(processing.reason(), ProcessingReason::Lease);
        }
        other => panic!("{other:?}"),
    }
    let report = complete("done", &done.token, body("bytes"));
    server.reprise().complete(report).await.unwrap();
    match server.reserve(reserve("done")).await.unwrap() {
        Outcome::Completed(completed) => assert_eq!(completed.result, Some(body("bytes"))),
        other => panic!("{other:?}"),
    }
    let report = fail("k", &grant.token, FailureKind::Retryable);
    server.reprise().fail(report).await.unwrap();

    let failed = server.look("k").await.record.unwrap();
    let answer = server.reprise().reserve(reserve("k")).await.unwrap();
    let answer = answer.into_inner();
    assert_eq!(answer.record, Some(failed.clone()), "shown as it is");
    assert_held(answer.outcome.unwrap());
    assert_eq!(server.look("k").await.record, Some(failed));

    release(&server).await;
    let next = server.acquire(reserve("k")).await;
    assert_eq!(next.reason(), GrantReason::AfterRetryableFailure);
}

#[tokio::test]
async fn a_lapsed_attempt_is_not_taken_over_and_stays_as_it_is() {
    let server = still_server().await;
    let operation = Policy {
        operation: "charge".into(),
        on_lapse: OnLapse::TakeOverUnlessSent.into(),
        ..policy()
    };
    let stored = server.put_policy(operation).await;
    server.acquire(reserve("k")).await;
    server.clock.advance(Duration::from_secs(31));
    let held = Policy {
        mode: Mode::Hold.into(),
        ..stored
    };
    server.put_policy(held).await;
    let lapsed = server.look("k").await.record;
    assert_held(server.reserve(reserve("k")).await.unwrap());
    assert_eq!(server.look("k").await.record, lapsed);
}

#[tokio::test]
async fn a_resolver_is_not_granted_what_it_would_take_over() {
    let server = still_server().await;
    pending(&server, "k").await;
    server.clock.advance(Duration::from_secs(120));
    hold(&server).await;
    let revision = server.look("k").await.record.unwrap().revision;
    let take_over = TakeOver {
        attempt_id: id(),
        lease: None,
    };
    let request = ResolveRequest {
        record: name("k"),
        authority: Some(resolve_request::Authority::OperatorOverride(
            OperatorOverride { revision },
        )),
        outcome: Some(resolve_request::Outcome::TakeOver(take_over)),
        evidence: "seen at the provider".into(),
        actor: "ana".into(),
        ..ResolveRequest::default()
    };
    let answer = server.people().resolve(request.clone()).await.unwrap();
    let answer = answer.into_inner();
    assert_eq!(answer.disposition(), ReportDisposition::Unspecified);
    assert!(answer.acquired.is_none());
    let processing = answer.processing.expect("it is held");
    assert_eq!(processing.reason(), ProcessingReason::Held);
    let record = server.look("k").await.record.unwrap();
    assert_eq!(
        (record.state(), record.revision),
        (State::Pending, revision)
    );

    release(&server).await;
    let answer = server.people().resolve(request).await.unwrap();
    assert!(answer.into_inner().acquired.is_some());
}

#[tokio::test]
async fn other_servers_hold_within_five_seconds_and_go_on_as_soon() {
    let server = server().await;
    let other = Setup::default().start_beside(&server).await;
    for (mode, held) in [(Mode::Hold, true), (Mode::Enforce, false)] {
        set(&server, TENANT, "", mode).await;
        let began = Instant::now();
        let mut key = 0;
        eventually("the mode to reach the other server", async || {
            key += 1;
            let answer = other.reserve(reserve(&format!("{held}-{key}"))).await;
            held == matches!(answer.unwrap(), Outcome::Processing(_))
        })
        .await;
        assert!(began.elapsed() < Duration::from_secs(5), "{mode:?}");
    }
}

#[tokio::test]
async fn settings_that_are_inherited_follow_the_wider_scope() {
    let server = still_server().await;
    set(&server, TENANT, "charge", Mode::Enforce).await;
    let answer = get(&server, TENANT, "charge").await;
    assert_eq!(answer.source(), PolicySource::BuiltIn);
    let stored = answer.policy.unwrap();
    assert!(stored.inherits && !stored.etag.is_empty());
    assert_eq!(stored.lease, seconds(30));

    let mut default = policy();
    for lease in [11, 12] {
        default.lease = seconds(lease);
        default = server.put_policy(default).await;
        let answer = get(&server, TENANT, "charge").await;
        assert_eq!(answer.source(), PolicySource::Tenant);
        assert_eq!(answer.policy.unwrap().lease, seconds(lease));
        let grant = server.acquire(reserve(&lease.to_string())).await;
        assert_eq!(grant.lease_remaining, seconds(lease));
    }
}

#[tokio::test]
async fn the_policy_of_all_tenants_says_only_whether_they_are_held() {
    let server = still_server().await;
    let put = |tenant: &str, operation: &str, inherits| PutPolicyRequest {
        policy: Some(Policy {
            tenant: tenant.into(),
            operation: operation.into(),
            inherits,
            mode: Mode::Hold.into(),
            lease: seconds(7),
            ..Policy::default()
        }),
        actor: "ana".into(),
        reason: "the provider is down".into(),
    };
    for (operation, inherits) in [("", false), ("charge", true), ("charge", false)] {
        let request = put("", operation, inherits);
        let refused = server.policies().put_policy(request).await;
        assert_eq!(refused_field(refused), "policy.tenant");
    }
    let mut wrong = put("", "", true);
    wrong.policy.as_mut().unwrap().mode = 9;
    let refused = server.policies().put_policy(wrong).await;
    assert_eq!(refused_field(refused), "policy.mode");
    let operation_of_nobody = GetPolicyRequest {
        operation: "charge".into(),
        ..GetPolicyRequest::default()
    };
    let refused = server.policies().get_policy(operation_of_nobody).await;
    assert_eq!(refused_field(refused), "tenant");

    let stored = server.policies().put_policy(put("", "", true)).await;
    let stored = stored.unwrap().into_inner().policy.unwrap();
    assert_eq!(stored.mode(), Mode::Hold);
    let all = get(&server, "", "").await;
    assert!(all.held);
    let policy = all.policy.unwrap();
    assert_eq!(policy.lease, seconds(30), "its settings are ignored");
    assert_eq!(policy.etag, stored.etag);
}
