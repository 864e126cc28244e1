//! Reserve.

use reprise_proto::v1::reserve_request::Fingerprint;
use reprise_proto::v1::reserve_response::Outcome;
use reprise_proto::v1::*;
use std::time::Duration;
use tonic::Code;

use super::support::*;

#[tokio::test]
async fn a_result_is_replayed_byte_for_byte() {
    let server = server().await;
    let grant = server.acquire(reserve("k")).await;
    assert_eq!(grant.reason(), GrantReason::First);
    assert_eq!(grant.effect_key.len(), 36);
    assert!(grant.fence.parse::<u64>().unwrap() > 0);
    assert_eq!(grant.result_bytes_max, 1024 * 1024);
    assert!(grant.earlier.is_none());

    let all_bytes: Vec<u8> = (0..=255).collect();
    let result = Content {
        code: "201".into(),
        headers: vec![
            Header {
                name: "Location".into(),
                value: "/charges/1".into(),
            },
            Header {
                name: "location".into(),
                value: vec![0xff, 0, b'\n'].into(),
            },
        ],
        body: Some(content::Body::Data(all_bytes.into())),
        resource_id: "ch_1".into(),
        provider_reference: "pr_1".into(),
    };
    let report = complete("k", &grant.token, result.clone());
    let answer = server.reprise().complete(report).await.unwrap();
    assert!(answer.get_ref().adjusted.is_empty());
    assert_eq!(answer.get_ref().disposition(), ReportDisposition::Recorded);

    let answer = server.reprise().reserve(reserve("k")).await.unwrap();
    let answer = answer.into_inner();
    assert_eq!(answer.start_over(), StartOver::No);
    let Some(Outcome::Completed(completed)) = answer.outcome else {
        panic!("{answer:?}");
    };
    assert_eq!(completed.result, Some(result));
    let record = answer.record.unwrap();
    assert_eq!(record.state(), State::Completed);
    assert_eq!(record.create_time.is_some(), record.update_time.is_some());
    assert!(record.result_expire_time.is_some() && record.memory_expire_time.is_some());
    assert_eq!(record.resource_id, "ch_1");
    assert_eq!(record.effect_key, grant.effect_key);
}

#[tokio::test]
async fn no_body_and_an_empty_one_stay_different() {
    let server = server().await;
    for (key, result) in [("absent", code("204")), ("empty", body(""))] {
        let grant = server.acquire(reserve(key)).await;
        let report = complete(key, &grant.token, result.clone());
        server.reprise().complete(report).await.unwrap();
        match server.reserve(reserve(key)).await.unwrap() {
            Outcome::Completed(completed) => assert_eq!(completed.result, Some(result)),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn others_are_told_who_holds_the_record_and_for_how_long() {
    let server = still_server().await;
    let first = reserve("k");
    let grant = server.acquire(first.clone()).await;
    server.clock.advance(Duration::from_secs(10));
    match server.reserve(reserve("k")).await.unwrap() {
        Outcome::Processing(processing) => {
            assert_eq!(processing.owner, "worker-1");
            assert_eq!(processing.lease_remaining, seconds(20));
            assert_eq!(processing.lease_expire_time, grant.lease_expire_time);
            assert_eq!(processing.retry_after, seconds(2));
        }
        other => panic!("{other:?}"),
    }
    let again = server.acquire(first).await;
    assert_eq!(again.reason(), GrantReason::Again);
    assert_eq!((again.token, again.fence), (grant.token, grant.fence));
    assert_eq!(again.lease_remaining, seconds(20));
}

#[tokio::test]
async fn a_mismatch_shows_state_and_times_and_nothing_else() {
    let server = server().await;
    let mut request = reserve("k");
    request.correlation_id = "corr".into();
    let grant = server.acquire(request).await;
    let mut result = body("secret");
    result.resource_id = "ch_1".into();
    let report = complete("k", &grant.token, result);
    server.reprise().complete(report).await.unwrap();

    let mut other = reserve("k");
    other.fingerprint = digest(2);
    let answer = server.reprise().reserve(other.clone()).await.unwrap();
    let answer = answer.into_inner();
    match answer.outcome {
        Some(Outcome::Mismatch(mismatch)) => {
            assert_eq!(mismatch.reason(), MismatchReason::DifferentPayload);
        }
        shown => panic!("{shown:?}"),
    }
    assert_eq!(answer.start_over, StartOver::No as i32);
    let shown = answer.record.unwrap();
    let only = RecordSummary {
        state: shown.state,
        create_time: shown.create_time,
        update_time: shown.update_time,
        result_expire_time: shown.result_expire_time,
        memory_expire_time: shown.memory_expire_time,
        ..RecordSummary::default()
    };
    assert_eq!(shown.state(), State::Completed);
    assert_eq!(shown, only);

    other.fingerprint = payload(FingerprintScheme::Json, "{}");
    match server.reserve(other).await.unwrap() {
        Outcome::Mismatch(mismatch) => {
            assert_eq!(mismatch.reason(), MismatchReason::NotComparable);
        }
        shown => panic!("{shown:?}"),
    }
}

#[tokio::test]
async fn what_is_uncertain_is_pending_and_its_holder_gets_the_token_back() {
    let server = still_server().await;
    let first = reserve("k");
    let grant = server.acquire(first.clone()).await;
    server.clock.advance(Duration::from_secs(31));

    let answer = server.reprise().reserve(first).await.unwrap().into_inner();
    assert_eq!(answer.start_over(), StartOver::Unknown);
    match answer.outcome.unwrap() {
        Outcome::Pending(pending) => {
            assert!(pending.yours);
            assert_eq!(pending.token, grant.token);
            assert_eq!(pending.reason(), PendingReason::LeaseExpired);
            assert_eq!(pending.since_time, grant.lease_expire_time);
            assert_eq!(pending.retry_after, seconds(59));
        }
        other => panic!("{other:?}"),
    }
    match server.reserve(reserve("k")).await.unwrap() {
        Outcome::Pending(pending) => assert!(!pending.yours && pending.token.is_empty()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_decided_failure_is_replayed_and_may_start_over() {
    let server = server().await;
    let grant = server.acquire(reserve("k")).await;
    let report = fail("k", &grant.token, FailureKind::Final);
    server.reprise().fail(report).await.unwrap();
    let answer = server.reprise().reserve(reserve("k")).await.unwrap();
    let answer = answer.into_inner();
    assert_eq!(answer.start_over(), StartOver::Yes);
    let record = answer.record.unwrap();
    assert_eq!(
        (record.state(), record.failure_kind()),
        (State::Failed, FailureKind::Final)
    );
    match answer.outcome.unwrap() {
        Outcome::Failed(failed) => assert_eq!(failed.error, Some(code("declined"))),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_next_attempt_learns_what_earlier_ones_left() {
    let server = server().await;
    let mut request = reserve("k");
    request.instruction = "send this".into();
    let grant = server.acquire(request).await;
    let sending = MarkSendingRequest {
        record: name("k"),
        token: grant.token.clone(),
        provider_reference: "pr_1".into(),
        ..MarkSendingRequest::default()
    };
    server.reprise().mark_sending(sending).await.unwrap();
    let report = fail("k", &grant.token, FailureKind::Retryable);
    server.reprise().fail(report).await.unwrap();

    let next = server.acquire(reserve("k")).await;
    assert_eq!(next.reason(), GrantReason::AfterRetryableFailure);
    assert_eq!(next.effect_key, grant.effect_key);
    let earlier = next.earlier.unwrap();
    assert_eq!(earlier.provider_reference, "pr_1");
    assert_eq!(earlier.instruction, "send this");
    assert_eq!(earlier.error, Some(code("declined")));
    assert!(!earlier.unaccounted);
}

#[tokio::test]
async fn after_its_retention_a_result_is_gone_and_then_forgotten() {
    let server = still_server().await;
    let grant = server.acquire(reserve("k")).await;
    let mut result = body("bytes");
    result.resource_id = "ch_1".into();
    let report = complete("k", &grant.token, result);
    server.reprise().complete(report).await.unwrap();

    server.clock.advance(Duration::from_hours(73));
    match server.reserve(reserve("k")).await.unwrap() {
        Outcome::ResultGone(gone) => {
            assert_eq!(gone.state(), State::Completed);
            assert_eq!(
                (gone.code.as_str(), gone.resource_id.as_str()),
                ("200", "ch_1")
            );
            assert!(gone.record_time.is_some());
        }
        other => panic!("{other:?}"),
    }
    server.clock.advance(Duration::from_hours(24 * 35));
    let found = server.reprise().lookup(lookup("k")).await;
    assert_refused(found, Code::NotFound, "RECORD_NOT_FOUND");
    let again = server.acquire(reserve("k")).await;
    assert_eq!(again.reason(), GrantReason::First);
}

#[tokio::test]
async fn an_attempt_has_one_turn_and_an_old_intent_none() {
    let server = still_server().await;
    let first = reserve("k");
    let grant = server.acquire(first.clone()).await;
    let report = fail("k", &grant.token, FailureKind::Retryable);
    server.reprise().fail(report).await.unwrap();
    let answer = server.reserve(first).await;
    assert_refused(answer, Code::FailedPrecondition, "ATTEMPT_OVER");

    let mut old = reserve("old");
    old.intent_time = Some(prost_types::Timestamp {
        seconds: 1_800_000_000 - 36 * 24 * 3600,
        nanos: 0,
    });
    let answer = server.reserve(old.clone()).await;
    assert_refused(answer, Code::FailedPrecondition, "INTENT_TOO_OLD");
    old.intent_time = None;
    assert_eq!(server.acquire(old).await.reason(), GrantReason::First);
}

#[tokio::test]
async fn tenants_subjects_and_spellings_never_meet() {
    let server = server().await;
    let plain = reserve("k");
    server.acquire(plain.clone()).await;
    let change = |change: &dyn Fn(&mut RecordName)| {
        let mut request = reserve("k");
        change(request.record.as_mut().unwrap());
        request
    };
    for other in [
        change(&|name| name.tenant = "t2".into()),
        change(&|name| name.operation = "refund".into()),
        change(&|name| name.subject = "alice".into()),
        change(&|name| name.key = "K".into()),
        change(&|name| name.key = "k ".into()),
        change(&|name| name.key = "\u{1F600}".repeat(63)),
    ] {
        assert_eq!(server.acquire(other).await.reason(), GrantReason::First);
    }
}

#[tokio::test]
async fn equal_documents_in_other_spelling_are_the_same_payload() {
    let server = server().await;
    // Over 64 KiB, so that it is hashed elsewhere.
    let filler = "x".repeat(100_000);
    for (key, first, repeat) in [
        (
            "small",
            r#"{"a":1,"b":2}"#.to_owned(),
            r#"{ "b": 2, "a": 1.0 }"#.to_owned(),
        ),
        (
            "large",
            format!(r#"{{"a":1000,"b":"{filler}"}}"#),
            format!(r#"{{"b":"{filler}","a":1e3}}"#),
        ),
    ] {
        let mut request = reserve(key);
        request.fingerprint = payload(FingerprintScheme::Json, first.clone());
        server.acquire(request).await;
        let mut request = reserve(key);
        request.fingerprint = payload(FingerprintScheme::Json, repeat);
        let same = server.reserve(request).await.unwrap();
        assert!(matches!(same, Outcome::Processing(_)), "{same:?}");
        let mut request = reserve(key);
        request.fingerprint = payload(FingerprintScheme::Json, first.replace('a', "c"));
        let other = server.reserve(request).await.unwrap();
        assert!(matches!(other, Outcome::Mismatch(_)), "{other:?}");
    }
}

#[tokio::test]
async fn a_payload_is_compared_under_the_rule_of_its_record() {
    let server = server().await;
    let rule = |ignore: &str| FingerprintRule {
        ignore: vec![ignore.into()],
        ..FingerprintRule::default()
    };
    let mut rules = policy();
    rules.fingerprint_rules = vec![rule("/sent_at")];
    let stored = server.put_policy(rules).await;
    let sent = |at: u32| {
        let mut request = reserve("k");
        let content = format!(r#"{{"amount":1,"sent_at":{at}}}"#);
        request.fingerprint = payload(FingerprintScheme::Json, content);
        request
    };
    server.acquire(sent(1)).await;

    let mut rules = stored.clone();
    rules.fingerprint_rules = vec![rule("/other"), rule("/sent_at")];
    let stored = server.put_policy(rules).await;
    let known = server.reserve(sent(2)).await.unwrap();
    assert!(matches!(known, Outcome::Processing(_)), "{known:?}");

    let mut rules = stored;
    rules.fingerprint_rules = vec![rule("/other")];
    server.put_policy(rules).await;
    match server.reserve(sent(2)).await.unwrap() {
        Outcome::Mismatch(mismatch) => {
            assert_eq!(mismatch.reason(), MismatchReason::NotComparable);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn bad_fields_are_named_before_anything_is_stored() {
    let server = server().await;
    type Change = (&'static str, fn(&mut ReserveRequest));
    let changes: [Change; 27] = [
        ("record", |r| r.record = None),
        ("record.tenant", |r| {
            r.record.as_mut().unwrap().tenant = "a b".into()
        }),
        ("record.operation", |r| {
            r.record.as_mut().unwrap().operation.clear()
        }),
        ("record.subject", |r| {
            r.record.as_mut().unwrap().subject = " ".into()
        }),
        ("record.key", |r| {
            r.record.as_mut().unwrap().key = "  ".into()
        }),
        ("record.key", |r| {
            r.record.as_mut().unwrap().key = "a\tb".into()
        }),
        ("record.key", |r| {
            r.record.as_mut().unwrap().key = "a\0b".into()
        }),
        ("record.key", |r| {
            r.record.as_mut().unwrap().key = "k".repeat(256)
        }),
        ("attempt_id", |r| r.attempt_id = vec![1; 15].into()),
        ("attempt_id", |r| r.attempt_id.clear()),
        ("fingerprint", |r| r.fingerprint = None),
        ("digest.scheme", |r| r.fingerprint = digest_of(0, "", 32)),
        ("digest.scheme", |r| r.fingerprint = digest_of(99, "", 32)),
        ("digest.rule_id", |r| {
            r.fingerprint = digest_of(2, "no-rule", 32)
        }),
        ("digest.rule_id", |r| {
            r.fingerprint = digest_of(1, "0123456789abcdef", 32)
        }),
        ("digest.sha256", |r| r.fingerprint = digest_of(1, "", 31)),
        ("payload.scheme", |r| {
            r.fingerprint = payload(FingerprintScheme::Unspecified, "{}")
        }),
        ("payload.media_type", |r| {
            let mut sent = payload(FingerprintScheme::Raw, "{}");
            if let Some(Fingerprint::Payload(payload)) = &mut sent {
                payload.media_type = "json".into();
            }
            r.fingerprint = sent;
        }),
        ("lease", |r| r.lease = millis(99)),
        ("lease", |r| r.lease = seconds(901)),
        ("lease", |r| r.lease = seconds(-1)),
        ("wait", |r| r.wait = seconds(-1)),
        ("owner", |r| r.owner = "a\nb".into()),
        ("correlation_id", |r| r.correlation_id = "c".repeat(256)),
        ("instruction", |r| {
            r.instruction = vec![0; 16 * 1024 + 1].into()
        }),
        ("intent_time", |r| r.intent_time = timestamp(0, -1)),
        ("intent_time", |r| r.intent_time = timestamp(i64::MAX, 0)),
    ];
    for (field, change) in changes {
        let mut request = reserve("k");
        change(&mut request);
        assert_eq!(refused_field(server.reserve(request).await), field);
    }
    let found = server.reprise().lookup(lookup("k")).await;
    assert_refused(found, Code::NotFound, "RECORD_NOT_FOUND");
}

fn digest_of(scheme: i32, rule_id: &str, length: usize) -> Option<Fingerprint> {
    Some(Fingerprint::Digest(FingerprintDigest {
        scheme,
        rule_id: rule_id.into(),
        sha256: vec![7; length].into(),
    }))
}

fn timestamp(seconds: i64, nanos: i32) -> Option<prost_types::Timestamp> {
    Some(prost_types::Timestamp { seconds, nanos })
}

#[tokio::test]
async fn a_payload_without_a_canonical_form_is_refused_with_the_place() {
    let server = server().await;
    let mut request = reserve("k");
    request.fingerprint = payload(FingerprintScheme::Json, r#"{"a":1,"a":2}"#);
    let status = server.reserve(request).await.unwrap_err();
    assert!(
        status.message().contains("repeated member name at byte 7"),
        "{status:?}"
    );
    assert_refused::<()>(Err(status), Code::InvalidArgument, "PAYLOAD_NOT_CANONICAL");
}
