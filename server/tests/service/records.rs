//! ListRecords and ForgetRecord.

use std::time::Duration;

use bytes::Bytes;
use reprise_proto::v1::forget_record_request::Target;
use reprise_proto::v1::reserve_response::Outcome;
use reprise_proto::v1::*;
use tonic::Code;

use super::support::*;

fn all() -> ListRecordsRequest {
    ListRecordsRequest {
        tenant: TENANT.into(),
        ..ListRecordsRequest::default()
    }
}

async fn page(server: &Server, request: ListRecordsRequest) -> ListRecordsResponse {
    let answer = server.records().list_records(request).await.unwrap();
    answer.into_inner()
}

/// The keys of all pages.
async fn keys(server: &Server, mut request: ListRecordsRequest) -> Vec<String> {
    let mut keys = Vec::new();
    loop {
        let page = page(server, request.clone()).await;
        keys.extend(
            page.records
                .into_iter()
                .map(|entry| entry.name.unwrap().key),
        );
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return keys;
        }
    }
}

/// One record in each state, a second apart.
async fn one_of_each(server: &Server) {
    let done = server.acquire(reserve("done")).await;
    let report = complete("done", &done.token, body("bytes"));
    server.reprise().complete(report).await.unwrap();
    for (key, kind) in [
        ("refused", FailureKind::Final),
        ("free", FailureKind::Retryable),
    ] {
        server.clock.advance(Duration::from_secs(1));
        let grant = server.acquire(reserve(key)).await;
        server
            .reprise()
            .fail(fail(key, &grant.token, kind))
            .await
            .unwrap();
    }
    server.clock.advance(Duration::from_secs(1));
    pending(server, "unsure").await;
    server.clock.advance(Duration::from_secs(1));
    server.acquire(reserve("busy")).await;
}

#[tokio::test]
async fn records_are_listed_newest_first_in_pages() {
    let server = still_server().await;
    one_of_each(&server).await;
    let newest_first = ["busy", "unsure", "free", "refused", "done"];
    assert_eq!(keys(&server, all()).await, newest_first);
    for page_size in 1..=4 {
        let request = ListRecordsRequest { page_size, ..all() };
        assert_eq!(keys(&server, request).await, newest_first);
    }
    let foreign = ListRecordsRequest {
        tenant: "t2".into(),
        ..all()
    };
    assert!(keys(&server, foreign).await.is_empty());
}

#[tokio::test]
async fn records_are_found_by_how_they_read() {
    let server = still_server().await;
    one_of_each(&server).await;
    for (state, kind, expected) in [
        (State::Completed, FailureKind::Unspecified, &["done"][..]),
        (
            State::Failed,
            FailureKind::Unspecified,
            &["free", "refused"],
        ),
        (State::Failed, FailureKind::Retryable, &["free"]),
        (State::Failed, FailureKind::Final, &["refused"]),
        (State::Pending, FailureKind::Unspecified, &["unsure"]),
        (State::Processing, FailureKind::Unspecified, &["busy"]),
    ] {
        let request = ListRecordsRequest {
            state: state.into(),
            failure_kind: kind.into(),
            ..all()
        };
        assert_eq!(keys(&server, request).await, expected, "{state:?} {kind:?}");
    }
    // A lapse is a fact about time, whether or not it was written down.
    server.clock.advance(Duration::from_secs(31));
    let processing = ListRecordsRequest {
        state: State::Processing.into(),
        ..all()
    };
    assert!(keys(&server, processing).await.is_empty());
    let page = page(&server, all()).await;
    let newest = page.records[0].record.as_ref().unwrap();
    assert_eq!(newest.state(), State::Pending);
}

#[tokio::test]
async fn what_is_forgotten_by_time_is_not_listed() {
    let server = still_server().await;
    one_of_each(&server).await;
    server.clock.advance(Duration::from_hours(24 * 35));
    assert_eq!(keys(&server, all()).await, ["busy", "unsure"]);
}

#[tokio::test]
async fn records_are_found_by_what_people_know() {
    let server = still_server().await;
    let mut with_all = reserve("order-7");
    let named = with_all.record.as_mut().unwrap();
    named.subject = "ann".into();
    let record = with_all.record.clone();
    with_all.correlation_id = "trace-7".into();
    let grant = server.acquire(with_all).await;
    let report = CompleteRequest {
        record,
        ..complete(
            "order-7",
            &grant.token,
            Content {
                resource_id: "ch_7".into(),
                provider_reference: "pr_7".into(),
                ..code("200")
            },
        )
    };
    server.reprise().complete(report).await.unwrap();
    server.clock.advance(Duration::from_secs(10));
    server.acquire(reserve("order-8")).await;
    server.acquire(reserve("other")).await;

    type Change = (&'static [&'static str], fn(&mut ListRecordsRequest));
    let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
    let changes: [Change; 8] = [
        (&["order-7"], |r| r.subject = Some("ann".into())),
        (&["order-7"], |r| r.correlation_id = "trace-7".into()),
        (&["order-7", "order-8"], |r| r.key_prefix = "order-".into()),
        (&["order-7", "order-8", "other"], |r| {
            r.operation = "charge".into()
        }),
        (&[], |r| r.operation = "refund".into()),
        (&["order-8", "other"], |r| r.subject = Some(String::new())),
        (&[], |r| {
            r.subject = Some("ann".into());
            r.key_prefix = "other".into();
        }),
        (&[], |r| r.resource_id = "ch_8".into()),
    ];
    for (expected, change) in changes {
        let mut request = all();
        change(&mut request);
        let mut found = keys(&server, request.clone()).await;
        found.sort();
        assert_eq!(found, expected, "{request:?}");
    }
    let early = ListRecordsRequest {
        create_before: at(1_800_000_010),
        ..all()
    };
    assert_eq!(keys(&server, early).await, ["order-7"]);
    let late = ListRecordsRequest {
        create_after: at(1_800_000_010),
        ..all()
    };
    assert_eq!(keys(&server, late).await.len(), 2);
}

#[tokio::test]
async fn bad_fields_and_tokens_of_other_filters_are_named() {
    let server = still_server().await;
    one_of_each(&server).await;
    let first = ListRecordsRequest {
        page_size: 1,
        ..all()
    };
    let token = page(&server, first).await.next_page_token;
    type Change = (&'static str, fn(&mut ListRecordsRequest));
    let changes: [Change; 18] = [
        ("tenant", |r| r.tenant.clear()),
        ("operation", |r| r.operation = "a b".into()),
        ("subject", |r| r.subject = Some("s".repeat(129))),
        ("state", |r| r.state = 99),
        ("failure_kind", |r| r.failure_kind = 1),
        ("failure_kind", |r| {
            r.state = State::Completed.into();
            r.failure_kind = FailureKind::Final.into();
        }),
        ("create_after", |r| {
            r.create_after = Some(prost_types::Timestamp {
                seconds: i64::MAX,
                nanos: 0,
            });
        }),
        ("create_before", |r| {
            r.create_before = Some(prost_types::Timestamp {
                seconds: 0,
                nanos: -1,
            });
        }),
        ("key_prefix", |r| r.key_prefix = "k".repeat(256)),
        ("correlation_id", |r| r.correlation_id = "a\nb".into()),
        ("resource_id", |r| r.resource_id = "r".repeat(256)),
        ("provider_reference", |r| r.provider_reference = "\0".into()),
        ("page_size", |r| r.page_size = 1001),
        ("page_token", |r| r.page_token = "elsewhere".into()),
        ("page_token", |r| r.subject = Some(String::new())),
        ("page_token", |r| r.state = State::Failed.into()),
        ("page_token", |r| r.key_prefix = "k".into()),
        ("page_token", |r| {
            r.create_after = Some(prost_types::Timestamp::default());
        }),
    ];
    for (field, change) in changes {
        let mut request = ListRecordsRequest {
            page_token: token.clone(),
            ..all()
        };
        change(&mut request);
        assert_eq!(
            refused_field(server.records().list_records(request).await),
            field
        );
    }
}

fn forget(key: &str, revision: u64) -> ForgetRecordRequest {
    ForgetRecordRequest {
        target: name(key).map(Target::Record),
        revision,
        actor: "ana".into(),
        reason: "the customer asked".into(),
    }
}

#[tokio::test]
async fn a_forgotten_record_still_protects_its_key() {
    let server = still_server().await;
    let mut request = reserve("k");
    request.instruction = Bytes::from("charge card 4711");
    let grant = server.acquire(request).await;
    let mut result = body("card 4711");
    result.resource_id = "ch_1".into();
    let report = complete("k", &grant.token, result);
    server.reprise().complete(report).await.unwrap();
    let seen = server.look("k").await.record.unwrap();

    let answer = server
        .records()
        .forget_record(forget("k", seen.revision))
        .await;
    let answer = answer.unwrap().into_inner();
    assert_eq!(answer.disposition(), ReportDisposition::Recorded);
    assert_eq!(answer.record.unwrap().state(), State::Completed);
    match server.reserve(reserve("k")).await.unwrap() {
        Outcome::ResultGone(gone) => {
            assert_eq!(
                (gone.state(), gone.code.as_str()),
                (State::Completed, "200")
            );
            assert_eq!(gone.resource_id, "ch_1");
        }
        other => panic!("{other:?}"),
    }
    let again = server
        .records()
        .forget_record(forget("k", seen.revision))
        .await;
    assert_eq!(
        again.unwrap().into_inner().disposition(),
        ReportDisposition::Repeated
    );
}

#[tokio::test]
async fn a_record_is_forgotten_by_its_id_too() {
    let server = still_server().await;
    one_of_each(&server).await;
    let seen = server.look("free").await.record.unwrap();
    let by_id = |tenant: &str| ForgetRecordRequest {
        target: Some(Target::RecordId(RecordId {
            tenant: tenant.into(),
            id: seen.record_id.clone(),
        })),
        ..forget("free", seen.revision)
    };
    let foreign = server.records().forget_record(by_id("t2")).await;
    assert_refused(foreign, Code::NotFound, "RECORD_NOT_FOUND");
    let answer = server.records().forget_record(by_id(TENANT)).await.unwrap();
    let record = answer.into_inner().record.unwrap();
    assert_eq!(
        record.failure_kind(),
        FailureKind::Retryable,
        "it stays free"
    );
    server.acquire(reserve("free")).await;
}

#[tokio::test]
async fn what_is_under_way_or_has_changed_is_not_forgotten() {
    let server = still_server().await;
    one_of_each(&server).await;
    for (key, off, reason) in [
        ("busy", 0, "LEASE_RUNNING"),
        ("unsure", 0, "RECORD_PENDING"),
        ("done", 1, "REVISION_CHANGED"),
    ] {
        let revision = server.look(key).await.record.unwrap().revision;
        let answer = server
            .records()
            .forget_record(forget(key, revision + off))
            .await;
        assert_refused(answer, Code::FailedPrecondition, reason);
    }
    let nothing = server.records().forget_record(forget("nothing", 1)).await;
    assert_refused(nothing, Code::NotFound, "RECORD_NOT_FOUND");
}

#[tokio::test]
async fn bad_fields_of_forgetting_are_named() {
    let server = still_server().await;
    type Change = (&'static str, fn(&mut ForgetRecordRequest));
    let by_id = |tenant: &str, id: &str| {
        Some(Target::RecordId(RecordId {
            tenant: tenant.into(),
            id: id.into(),
        }))
    };
    let changes: [Change; 7] = [
        ("target", |r| r.target = None),
        ("revision", |r| r.revision = 0),
        ("actor", |r| r.actor.clear()),
        ("actor", |r| r.actor = "a\nb".into()),
        ("reason", |r| r.reason.clear()),
        ("reason", |r| r.reason = "r".repeat(1025)),
        ("reason", |r| r.reason = "a\0b".into()),
    ];
    for (field, change) in changes {
        let mut request = forget("k", 1);
        change(&mut request);
        assert_eq!(
            refused_field(server.records().forget_record(request).await),
            field
        );
    }
    for (field, target) in [
        ("record_id.tenant", by_id("", "")),
        ("record_id.id", by_id(TENANT, "ab")),
    ] {
        let request = ForgetRecordRequest {
            target,
            ..forget("k", 1)
        };
        assert_eq!(
            refused_field(server.records().forget_record(request).await),
            field
        );
    }
}
