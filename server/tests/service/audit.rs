//! ListAudit.

use std::time::Duration;

use reprise_proto::v1::*;

use super::support::*;

fn all() -> ListAuditRequest {
    ListAuditRequest {
        tenant: TENANT.into(),
        ..ListAuditRequest::default()
    }
}

async fn page(server: &Server, request: ListAuditRequest) -> ListAuditResponse {
    let answer = server.records().list_audit(request).await.unwrap();
    answer.into_inner()
}

/// A resolution, an erasure and a policy, a second apart.
async fn three_things(server: &Server) {
    let token = pending(server, "k").await;
    server.clock.advance(Duration::from_secs(120));
    let record = server.look("k").await.record.unwrap();
    let request = ResolveRequest {
        record: name("k"),
        authority: Some(resolve_request::Authority::OperatorOverride(
            OperatorOverride {
                revision: record.revision,
            },
        )),
        outcome: Some(resolve_request::Outcome::Applied(Applied {
            result: Some(body("found")),
        })),
        evidence: "seen at the provider".into(),
        actor: "ana".into(),
        ..ResolveRequest::default()
    };
    let resolved = server.people().resolve(request).await.unwrap();
    drop(token);
    server.clock.advance(Duration::from_secs(1));
    let forget = ForgetRecordRequest {
        target: name("k").map(forget_record_request::Target::Record),
        revision: resolved.into_inner().record.unwrap().revision,
        actor: "ben".into(),
        reason: "the customer asked".into(),
    };
    server.records().forget_record(forget).await.unwrap();
    server.clock.advance(Duration::from_secs(1));
    server.put_policy(policy()).await;
}

#[tokio::test]
async fn what_people_did_is_told_newest_first() {
    let server = still_server().await;
    three_things(&server).await;
    let entries = page(&server, all()).await.entries;
    let told: Vec<_> = entries
        .iter()
        .map(|it| (it.action(), it.actor.as_str(), it.authority()))
        .collect();
    let operator = AuditAuthority::Operator;
    assert_eq!(
        told,
        [
            (AuditAction::PolicyWritten, "tests", operator),
            (AuditAction::Forgotten, "ben", operator),
            (AuditAction::ResolvedApplied, "ana", operator),
        ]
    );
    let [of_policy, erased, resolved] = entries.as_slice() else {
        panic!("{entries:?}");
    };
    assert_eq!((of_policy.record_id.as_str(), of_policy.attempt), ("", 0));
    assert_eq!(of_policy.reason, "a test needs it");
    assert_eq!(erased.reason, "the customer asked");
    assert_eq!(erased.time.unwrap().seconds, 1_800_000_121);
    assert_eq!(resolved.reason, "", "erased with the record");
    assert_eq!(
        (resolved.operation.as_str(), resolved.attempt),
        ("charge", 1)
    );
    assert_eq!(resolved.record_id.len(), 64);
}

#[tokio::test]
async fn the_audit_is_filtered_and_comes_in_pages() {
    let server = still_server().await;
    three_things(&server).await;
    let record_id = server.look("k").await.record.unwrap().record_id;
    type Change = (usize, fn(&mut ListAuditRequest));
    let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
    let changes: [Change; 4] = [
        (3, |_| {}),
        (2, |r| r.operation = "charge".into()),
        (0, |r| r.operation = "refund".into()),
        (0, |r| r.tenant = "t2".into()),
    ];
    for (expected, change) in changes {
        let mut request = all();
        change(&mut request);
        assert_eq!(
            page(&server, request.clone()).await.entries.len(),
            expected,
            "{request:?}"
        );
    }
    for (expected, request) in [
        (2, ListAuditRequest { record_id, ..all() }),
        (
            2,
            ListAuditRequest {
                after: at(1_800_000_121),
                ..all()
            },
        ),
        (
            1,
            ListAuditRequest {
                before: at(1_800_000_121),
                ..all()
            },
        ),
    ] {
        assert_eq!(
            page(&server, request.clone()).await.entries.len(),
            expected,
            "{request:?}"
        );
    }
    let mut request = ListAuditRequest {
        page_size: 1,
        ..all()
    };
    let mut actors = Vec::new();
    loop {
        let page = page(&server, request.clone()).await;
        assert!(page.entries.len() <= 1);
        actors.extend(page.entries.into_iter().map(|entry| entry.actor));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    assert_eq!(actors, ["tests", "ben", "ana"]);
}

#[tokio::test]
async fn pages_of_long_reasons_stay_small_enough_for_every_client() {
    const ENTRIES: usize = 300;
    let server = still_server().await;
    pending(&server, "k").await;
    server.clock.advance(Duration::from_secs(120));
    for at in 0..ENTRIES {
        let revision = server.look("k").await.record.unwrap().revision;
        let request = ResolveRequest {
            record: name("k"),
            authority: Some(resolve_request::Authority::OperatorOverride(
                OperatorOverride { revision },
            )),
            outcome: Some(resolve_request::Outcome::StillUnknown(StillUnknown {
                check_after: seconds(at as i64),
                ..StillUnknown::default()
            })),
            evidence: "e".repeat(16 * 1024),
            actor: "ana".into(),
            ..ResolveRequest::default()
        };
        server.people().resolve(request).await.unwrap();
    }
    let mut request = ListAuditRequest {
        page_size: 1000,
        ..all()
    };
    let mut told = 0;
    loop {
        // The client's own limit is 4 MiB.
        let page = page(&server, request.clone()).await;
        told += page.entries.len();
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    assert_eq!(told, ENTRIES);
}

#[tokio::test]
async fn the_policy_of_all_tenants_has_an_audit_of_its_own() {
    let server = still_server().await;
    let hold = Policy {
        inherits: true,
        mode: Mode::Hold.into(),
        ..Policy::default()
    };
    server.put_policy(hold).await;
    let request = ListAuditRequest::default();
    let entries = page(&server, request).await.entries;
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].action(), AuditAction::PolicyWritten);
    assert!(entries[0].tenant.is_empty());
    assert!(page(&server, all()).await.entries.is_empty());
}

#[tokio::test]
async fn bad_fields_and_tokens_of_other_filters_are_named() {
    let server = still_server().await;
    three_things(&server).await;
    let first = ListAuditRequest {
        page_size: 1,
        ..all()
    };
    let token = page(&server, first).await.next_page_token;
    type Change = (&'static str, fn(&mut ListAuditRequest));
    let changes: [Change; 9] = [
        ("tenant", |r| r.tenant = "a b".into()),
        ("operation", |r| r.operation = "a b".into()),
        ("record_id", |r| r.record_id = "ab".into()),
        ("after", |r| {
            r.after = Some(prost_types::Timestamp {
                seconds: i64::MAX,
                nanos: 0,
            });
        }),
        ("page_size", |r| r.page_size = 1001),
        ("page_token", |r| r.page_token = "elsewhere".into()),
        ("page_token", |r| r.operation = "charge".into()),
        ("page_token", |r| r.record_id = "ab".repeat(32)),
        ("page_token", |r| {
            r.before = Some(prost_types::Timestamp::default())
        }),
    ];
    for (field, change) in changes {
        let mut request = ListAuditRequest {
            page_token: token.clone(),
            ..all()
        };
        change(&mut request);
        assert_eq!(
            refused_field(server.records().list_audit(request).await),
            field
        );
    }
}
