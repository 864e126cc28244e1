//! MarkSending, Complete, Fail, MarkPending, Renew.

use std::time::Duration;

use bytes::Bytes;
use reprise_proto::v1::reserve_response::Outcome;
use reprise_proto::v1::*;
use tonic::Code;

use super::support::*;

fn pending(key: &str, token: &Bytes) -> MarkPendingRequest {
    MarkPendingRequest {
        record: name(key),
        token: token.clone(),
        reason: "timed out".into(),
        ..MarkPendingRequest::default()
    }
}

fn sending(key: &str, token: &Bytes) -> MarkSendingRequest {
    MarkSendingRequest {
        record: name(key),
        token: token.clone(),
        ..MarkSendingRequest::default()
    }
}

fn renew(key: &str, token: &Bytes, lease: Option<prost_types::Duration>) -> RenewRequest {
    RenewRequest {
        record: name(key),
        holder: Some(renew_request::Holder::Token(token.clone())),
        lease,
    }
}

fn header(name: &str, value: impl Into<Bytes>) -> Header {
    Header {
        name: name.into(),
        value: value.into(),
    }
}

#[tokio::test]
async fn the_effect_may_begin_while_the_lease_runs_and_not_after() {
    let server = still_server().await;
    let grant = server.acquire(reserve("k")).await;
    server.clock.advance(Duration::from_secs(10));
    let mut request = sending("k", &grant.token);
    request.lease = seconds(60);
    let answer = server
        .reprise()
        .mark_sending(request.clone())
        .await
        .unwrap();
    assert_eq!(answer.get_ref().lease_remaining, seconds(60));
    assert!(answer.get_ref().lease_expire_time.is_some());
    server.clock.advance(Duration::from_secs(61));
    let answer = server.reprise().mark_sending(request).await;
    assert_refused(answer, Code::FailedPrecondition, "LEASE_EXPIRED");
}

#[tokio::test]
async fn bad_fields_before_the_effect_are_refused() {
    let server = server().await;
    let grant = server.acquire(reserve("k")).await;
    type Change = (&'static str, fn(&mut MarkSendingRequest));
    let changes: [Change; 6] = [
        ("record", |r| r.record = None),
        ("token", |r| r.token.clear()),
        ("token", |r| r.token = vec![9; 29].into()),
        ("provider_reference", |r| {
            r.provider_reference = "a\0".into()
        }),
        ("instruction", |r| {
            r.instruction = vec![0; 16 * 1024 + 1].into()
        }),
        ("lease", |r| r.lease = seconds(0)),
    ];
    for (field, change) in changes {
        let mut request = sending("k", &grant.token);
        change(&mut request);
        assert_eq!(
            refused_field(server.reprise().mark_sending(request).await),
            field
        );
    }
    for lease in [millis(1), seconds(901), seconds(-1)] {
        let answer = server
            .reprise()
            .renew(renew("k", &grant.token, lease))
            .await;
        assert_eq!(refused_field(answer), "lease");
    }
}

#[tokio::test]
async fn a_lease_is_renewed_ended_and_closed() {
    let server = still_server().await;
    let grant = server.acquire(reserve("k")).await;
    let renewed = server.reprise().renew(renew("k", &grant.token, None)).await;
    assert_eq!(renewed.unwrap().get_ref().lease_remaining, seconds(30));
    let ended = server
        .reprise()
        .renew(renew("k", &grant.token, seconds(0)))
        .await;
    let ended = ended.unwrap().into_inner();
    assert_eq!(ended.lease_remaining, seconds(0));
    assert_eq!(ended.record.unwrap().state(), State::Pending);
    let late = server.reprise().renew(renew("k", &grant.token, None)).await;
    assert_refused(late, Code::FailedPrecondition, "LEASE_EXPIRED");

    let report = complete("k", &grant.token, code("200"));
    server.reprise().complete(report).await.unwrap();
    let closed = server.reprise().renew(renew("k", &grant.token, None)).await;
    let closed = closed.unwrap().into_inner();
    assert!(closed.closed && closed.lease_remaining.is_none());
}

#[tokio::test]
async fn reports_repeat_and_contrary_ones_are_refused() {
    let server = server().await;
    let grant = server.acquire(reserve("k")).await;
    let token = &grant.token;
    let mut client = server.reprise();
    let first = client.mark_pending(pending("k", token)).await.unwrap();
    assert_eq!(first.get_ref().disposition(), ReportDisposition::Recorded);
    let again = client.mark_pending(pending("k", token)).await.unwrap();
    assert_eq!(again.get_ref().disposition(), ReportDisposition::Repeated);
    let sent = client.mark_sending(sending("k", token)).await;
    assert_refused(sent, Code::FailedPrecondition, "RECORD_PENDING");

    let report = complete("k", token, body("one"));
    client.complete(report.clone()).await.unwrap();
    let again = client.complete(report).await.unwrap();
    assert_eq!(again.get_ref().disposition(), ReportDisposition::Repeated);
    let refused = [
        client
            .complete(complete("k", token, body("two")))
            .await
            .map(drop),
        client
            .fail(fail("k", token, FailureKind::Retryable))
            .await
            .map(drop),
        client.mark_sending(sending("k", token)).await.map(drop),
    ];
    for answer in refused {
        assert_refused(answer, Code::FailedPrecondition, "OUTCOME_ALREADY_RECORDED");
    }
    let again = client.mark_pending(pending("k", token)).await.unwrap();
    assert_eq!(again.get_ref().disposition(), ReportDisposition::Repeated);
}

#[tokio::test]
async fn a_token_of_another_record_or_an_older_attempt_is_stale() {
    let server = server().await;
    let old = server.acquire(reserve("k")).await;
    let failed = fail("k", &old.token, FailureKind::Retryable);
    server.reprise().fail(failed.clone()).await.unwrap();
    let sent = server
        .reprise()
        .mark_sending(sending("k", &old.token))
        .await;
    assert_refused(sent, Code::FailedPrecondition, "ATTEMPT_OVER");
    let new = server.acquire(reserve("k")).await;

    let repeated = server.reprise().fail(failed).await.unwrap();
    assert_eq!(
        repeated.get_ref().disposition(),
        ReportDisposition::Repeated
    );
    let late = complete("k", &old.token, body("late"));
    assert_refused(
        server.reprise().complete(late).await,
        Code::Aborted,
        "STALE_TOKEN",
    );
    let sent = server
        .reprise()
        .mark_sending(sending("k", &new.token))
        .await;
    assert_refused(sent, Code::FailedPrecondition, "CONTRADICTED");

    let other = server.acquire(reserve("other")).await;
    let stranger = complete("k", &other.token, body("stranger"));
    assert_refused(
        server.reprise().complete(stranger).await,
        Code::Aborted,
        "STALE_TOKEN",
    );
    let nothing = complete("nothing", &other.token, body("x"));
    assert_refused(
        server.reprise().complete(nothing).await,
        Code::NotFound,
        "RECORD_NOT_FOUND",
    );
}

#[tokio::test]
async fn a_failure_says_what_may_follow_and_who_says_so() {
    let server = server().await;
    let request = reserve("k");
    let grant = server.acquire(request.clone()).await;
    type Change = (&'static str, fn(&mut FailRequest));
    let changes: [Change; 7] = [
        ("kind", |r| r.kind = 0),
        ("kind", |r| r.kind = 99),
        ("holder", |r| r.holder = None),
        ("token", |r| {
            r.holder = Some(fail_request::Holder::Token("x".into()))
        }),
        ("attempt_id", |r| {
            r.holder = Some(fail_request::Holder::AttemptId("x".into()));
            r.error = None;
        }),
        ("kind", |r| {
            r.holder = Some(fail_request::Holder::AttemptId(id()));
            r.kind = FailureKind::Final.into();
        }),
        ("error", |r| {
            r.holder = Some(fail_request::Holder::AttemptId(id()))
        }),
    ];
    for (field, change) in changes {
        let mut report = fail("k", &grant.token, FailureKind::Retryable);
        change(&mut report);
        assert_eq!(refused_field(server.reprise().fail(report).await), field);
    }

    let give_back = FailRequest {
        record: name("k"),
        holder: Some(fail_request::Holder::AttemptId(request.attempt_id)),
        kind: FailureKind::Retryable.into(),
        ..FailRequest::default()
    };
    let spent = FailRequest {
        effect_key_spent: true,
        ..give_back.clone()
    };
    assert_eq!(
        refused_field(server.reprise().fail(spent).await),
        "effect_key_spent"
    );
    let given = server.reprise().fail(give_back).await.unwrap();
    assert_eq!(given.get_ref().disposition(), ReportDisposition::Recorded);
    let next = server.acquire(reserve("k")).await;
    assert_eq!(next.reason(), GrantReason::First);
}

#[tokio::test]
async fn a_spent_effect_key_makes_a_new_one() {
    let server = server().await;
    let grant = server.acquire(reserve("k")).await;
    let mut report = fail("k", &grant.token, FailureKind::Retryable);
    report.effect_key_spent = true;
    server.reprise().fail(report).await.unwrap();
    let next = server.acquire(reserve("k")).await;
    assert_ne!(next.effect_key, grant.effect_key);
}

#[tokio::test]
async fn what_does_not_fit_a_result_is_adjusted_and_named() {
    let server = server().await;
    let mut small = policy();
    small.result_bytes_max = Some(10);
    server.put_policy(small).await;
    let grant = server.acquire(reserve("k")).await;
    assert_eq!(grant.result_bytes_max, 10);
    let result = Content {
        code: "c".repeat(300),
        headers: vec![
            header("Set-Cookie", "s=1"),
            header("X-Other", "1"),
            header("ETag", vec![b'e'; 20_000]),
            header("Location", "/1"),
        ],
        body: Some(content::Body::Data("eleven bytes".into())),
        resource_id: "a\u{0}b".into(),
        provider_reference: "\u{20ac}".repeat(86),
    };
    let report = complete("k", &grant.token, result.clone());
    let answer = server.reprise().complete(report.clone()).await.unwrap();
    let answer = answer.into_inner();
    assert_eq!(
        adjusted(&answer.adjusted),
        [
            ("result.code", AdjustmentKind::Cut),
            ("result.resource_id", AdjustmentKind::Replaced),
            ("result.provider_reference", AdjustmentKind::Cut),
            ("result.headers[0]", AdjustmentKind::Dropped),
            ("result.headers[1]", AdjustmentKind::Dropped),
            ("result.headers[2]", AdjustmentKind::Dropped),
            ("result.data", AdjustmentKind::Dropped),
        ]
    );
    let again = server.reprise().complete(report).await.unwrap();
    assert_eq!(again.get_ref().disposition(), ReportDisposition::Repeated);

    match server.reserve(reserve("k")).await.unwrap() {
        Outcome::Completed(completed) => {
            let kept = completed.result.unwrap();
            assert_eq!(kept.code.len(), 255);
            assert_eq!(kept.headers, [header("Location", "/1")]);
            assert_eq!(kept.resource_id, "a\u{fffd}b");
            assert_eq!(kept.provider_reference, "\u{20ac}".repeat(85));
            match kept.body {
                Some(content::Body::Omitted(omitted)) => {
                    assert_eq!((omitted.size, omitted.sha256.len()), (12, 32));
                }
                body => panic!("{body:?}"),
            }
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_omitted_body_with_a_broken_digest_does_not_stop_the_report() {
    let server = server().await;
    let grant = server.acquire(reserve("k")).await;
    let mut result = code("200");
    result.body = Some(content::Body::Omitted(OmittedBody {
        size: 5,
        sha256: "short".into(),
    }));
    let report = complete("k", &grant.token, result);
    let answer = server.reprise().complete(report.clone()).await.unwrap();
    let named = adjusted(&answer.get_ref().adjusted);
    assert_eq!(named, [("result.omitted.sha256", AdjustmentKind::Dropped)]);
    match server.reserve(reserve("k")).await.unwrap() {
        Outcome::Completed(completed) => {
            let kept = OmittedBody {
                size: 5,
                sha256: vec![0; 32].into(),
            };
            let body = completed.result.unwrap().body;
            assert_eq!(body, Some(content::Body::Omitted(kept)));
        }
        other => panic!("{other:?}"),
    }
    let again = server.reprise().complete(report).await.unwrap();
    assert_eq!(again.get_ref().disposition(), ReportDisposition::Repeated);
}

#[tokio::test]
async fn what_does_not_fit_a_failure_or_a_pending_is_adjusted_and_named() {
    let server = still_server().await;
    let grant = server.acquire(reserve("k")).await;
    let report = MarkPendingRequest {
        reason: "a\0b".into(),
        provider_reference: "p".repeat(256),
        instruction: vec![1; 16 * 1024 + 1].into(),
        check_after: seconds(31 * 24 * 3600),
        ..pending("k", &grant.token)
    };
    let answer = server.reprise().mark_pending(report.clone()).await.unwrap();
    assert_eq!(
        adjusted(&answer.get_ref().adjusted),
        [
            ("reason", AdjustmentKind::Replaced),
            ("provider_reference", AdjustmentKind::Cut),
            ("instruction", AdjustmentKind::Dropped),
            ("check_after", AdjustmentKind::Cut),
        ]
    );
    let again = server.reprise().mark_pending(report).await.unwrap();
    assert_eq!(again.get_ref().disposition(), ReportDisposition::Repeated);
    let mut early = pending("k", &grant.token);
    early.check_after = seconds(-5);
    let answer = server.reprise().mark_pending(early).await.unwrap();
    let named = adjusted(&answer.get_ref().adjusted);
    assert_eq!(named, [("check_after", AdjustmentKind::Cut)]);
    match server.reserve(reserve("k")).await.unwrap() {
        Outcome::Pending(pending) => {
            assert_eq!(pending.reason(), PendingReason::Reported);
            assert_eq!(pending.next_check_time.unwrap().seconds, 1_800_000_000);
        }
        other => panic!("{other:?}"),
    }

    let mut report = fail("k", &grant.token, FailureKind::Final);
    report.error = Some(code("\u{7}"));
    let answer = server.reprise().fail(report).await.unwrap();
    let named = adjusted(&answer.get_ref().adjusted);
    assert_eq!(named, [("error.code", AdjustmentKind::Replaced)]);
}

#[tokio::test]
async fn a_report_without_a_content_is_accepted() {
    let server = server().await;
    let grant = server.acquire(reserve("k")).await;
    let report = CompleteRequest {
        record: name("k"),
        token: grant.token,
        result: None,
    };
    server.reprise().complete(report).await.unwrap();
    assert_eq!(server.state("k").await, State::Completed);
}
