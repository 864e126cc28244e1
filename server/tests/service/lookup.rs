//! Lookup.

use reprise_proto::v1::lookup_request::Target;
use reprise_proto::v1::lookup_response::Reading;
use reprise_proto::v1::*;
use tonic::Code;

use super::support::*;

fn by(target: Target) -> LookupRequest {
    LookupRequest {
        target: Some(target),
        ..LookupRequest::default()
    }
}

#[tokio::test]
async fn a_record_is_found_by_name_id_and_effect_key_of_its_own_tenant_only() {
    let server = server().await;
    let grant = server.acquire(reserve("k")).await;
    let record = server.look("k").await.record.unwrap();
    let id = |tenant: &str| {
        by(Target::RecordId(RecordId {
            tenant: tenant.into(),
            id: record.record_id.clone(),
        }))
    };
    let key = |tenant: &str| {
        by(Target::EffectKey(EffectKey {
            tenant: tenant.into(),
            key: grant.effect_key.clone(),
        }))
    };
    for request in [id(TENANT), key(TENANT)] {
        let found = server.reprise().lookup(request).await.unwrap();
        assert_eq!(found.get_ref().name, name("k"));
    }
    for request in [id("t2"), key("t2"), lookup("nothing")] {
        let found = server.reprise().lookup(request).await;
        assert_refused(found, Code::NotFound, "RECORD_NOT_FOUND");
    }
}

#[tokio::test]
async fn bad_fields_are_named() {
    let server = server().await;
    let id = |id: &str| {
        by(Target::RecordId(RecordId {
            tenant: TENANT.into(),
            id: id.into(),
        }))
    };
    let key = |key: &str| {
        by(Target::EffectKey(EffectKey {
            tenant: TENANT.into(),
            key: key.into(),
        }))
    };
    let foreign = by(Target::RecordId(RecordId::default()));
    for (field, request) in [
        ("target", LookupRequest::default()),
        ("record.key", lookup("")),
        ("record_id.tenant", foreign),
        ("record_id.id", id("ABC")),
        ("effect_key.key", key("not-a-uuid")),
        (
            "until",
            LookupRequest {
                until: 99,
                ..lookup("k")
            },
        ),
        (
            "wait",
            LookupRequest {
                wait: seconds(-1),
                ..lookup("k")
            },
        ),
    ] {
        assert_eq!(refused_field(server.reprise().lookup(request).await), field);
    }
}

#[tokio::test]
async fn bytes_are_shown_on_request() {
    let server = server().await;
    let grant = server.acquire(reserve("k")).await;
    match server.look("k").await.reading.unwrap() {
        Reading::Processing(processing) => assert_eq!(processing.owner, "worker-1"),
        other => panic!("{other:?}"),
    }
    let mut result = body(vec![7; 100_000]);
    result.headers.push(Header {
        name: "etag".into(),
        value: "e".into(),
    });
    let report = complete("k", &grant.token, result.clone());
    server.reprise().complete(report).await.unwrap();

    let Some(Reading::Completed(brief)) = server.look("k").await.reading else {
        panic!("not completed");
    };
    let brief = brief.result.unwrap();
    assert!(brief.headers.is_empty());
    match brief.body {
        Some(content::Body::Omitted(omitted)) => {
            assert_eq!((omitted.size, omitted.sha256.len()), (100_000, 32));
        }
        shown => panic!("{shown:?}"),
    }
    let request = LookupRequest {
        with_result: true,
        ..lookup("k")
    };
    let whole = server.reprise().lookup(request).await.unwrap();
    match whole.into_inner().reading {
        Some(Reading::Completed(completed)) => assert_eq!(completed.result, Some(result)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_grant_given_back_reads_as_not_delivered_and_not_as_the_failure_before() {
    let server = server().await;
    let first = server.acquire(reserve("k")).await;
    let report = fail("k", &first.token, FailureKind::Retryable);
    server.reprise().fail(report).await.unwrap();
    let second = reserve("k");
    server.acquire(second.clone()).await;
    let give_back = FailRequest {
        record: name("k"),
        holder: Some(fail_request::Holder::AttemptId(second.attempt_id)),
        kind: FailureKind::Retryable.into(),
        ..FailRequest::default()
    };
    server.reprise().fail(give_back).await.unwrap();
    match server.look("k").await.reading {
        Some(Reading::Failed(failed)) => {
            assert_eq!(failed.error, Some(code("NOT_DELIVERED")));
            assert!(failed.record_time.is_some());
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_state_reads_as_itself() {
    let server = server().await;
    let token = async |key| server.acquire(reserve(key)).await.token;
    for (key, kind) in [("r", FailureKind::Retryable), ("f", FailureKind::Final)] {
        let report = fail(key, &token(key).await, kind);
        server.reprise().fail(report).await.unwrap();
        let found = server.look(key).await;
        assert_eq!(found.record.unwrap().failure_kind(), kind);
        match found.reading.unwrap() {
            Reading::Failed(failed) => assert_eq!(failed.error, Some(code("declined"))),
            other => panic!("{other:?}"),
        }
    }
    let report = MarkPendingRequest {
        record: name("p"),
        token: token("p").await,
        reason: "timed out".into(),
        ..MarkPendingRequest::default()
    };
    server.reprise().mark_pending(report).await.unwrap();
    let found = server.look("p").await;
    assert_eq!(found.start_over(), StartOver::Unknown);
    match found.reading.unwrap() {
        Reading::Pending(pending) => {
            assert_eq!(pending.detail, "timed out");
            assert!(!pending.yours && pending.token.is_empty());
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn damaged_bytes_are_not_replayed() {
    let server = server().await;
    let grant = server.acquire(reserve("k")).await;
    let report = complete("k", &grant.token, body("the true result"));
    server.reprise().complete(report).await.unwrap();
    let file = rusqlite::Connection::open(server.file()).unwrap();
    let other = &b"the true resulT"[..];
    let changed = file
        .execute("update records set outcome_body = ?1", [other])
        .unwrap();
    assert_eq!(changed, 1);

    let answer = server.reserve(reserve("k")).await;
    assert_refused(answer, Code::DataLoss, "STORED_RESULT_DAMAGED");
    let request = LookupRequest {
        with_result: true,
        ..lookup("k")
    };
    let answer = server.reprise().lookup(request).await;
    assert_refused(answer, Code::DataLoss, "STORED_RESULT_DAMAGED");
}
