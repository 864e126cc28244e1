//! ListPending and CountPending.

use std::time::Duration;

use reprise_proto::v1::*;

use super::support::*;

fn all() -> ListPendingRequest {
    ListPendingRequest {
        tenant: TENANT.into(),
        ..ListPendingRequest::default()
    }
}

async fn list(server: &Server, request: ListPendingRequest) -> ListPendingResponse {
    let answer = server.people().list_pending(request).await.unwrap();
    answer.into_inner()
}

fn keys(page: &ListPendingResponse) -> Vec<&str> {
    let names = page.records.iter().map(|record| record.name.as_ref());
    names.map(|name| name.unwrap().key.as_str()).collect()
}

#[tokio::test]
async fn what_is_due_is_listed_the_longest_due_first() {
    let server = still_server().await;
    for key in ["c", "a", "b"] {
        pending(&server, key).await;
        server.clock.advance(Duration::from_secs(1));
    }
    server
        .clock
        .advance(Duration::from_secs(57) - Duration::from_micros(1));
    assert_eq!(keys(&list(&server, all()).await), [""; 0], "none is due");
    server.clock.advance(Duration::from_micros(1));
    assert_eq!(keys(&list(&server, all()).await), ["c"]);
    server.clock.advance(Duration::from_secs(2));
    let page = list(&server, all()).await;
    assert_eq!(keys(&page), ["c", "a", "b"]);
    assert!(page.next_page_token.is_empty());
    let first = &page.records[0];
    assert_eq!(first.record.as_ref().unwrap().state(), State::Pending);
    let pending = first.pending.as_ref().unwrap();
    assert_eq!(pending.reason(), PendingReason::Reported);
    assert_eq!(pending.detail, "timed out");
    assert_eq!(pending.provider_reference, "pr-c");
    assert!(pending.claim.is_none() && pending.token.is_empty());
}

#[tokio::test]
async fn what_is_not_due_or_claimed_is_listed_where_it_is_asked_for() {
    let server = still_server().await;
    pending(&server, "claimed").await;
    server.clock.advance(Duration::from_secs(60));
    let claim = ClaimPendingRequest {
        tenant: TENANT.into(),
        claim_id: id(),
        owner: "finder-1".into(),
        ..ClaimPendingRequest::default()
    };
    let claimed = server.people().claim_pending(claim).await.unwrap();
    assert_eq!(claimed.into_inner().records.len(), 1);
    pending(&server, "early").await;
    assert_eq!(keys(&list(&server, all()).await), [""; 0]);
    let page = list(
        &server,
        ListPendingRequest {
            include_not_due: true,
            ..all()
        },
    )
    .await;
    assert_eq!(keys(&page), ["claimed", "early"]);
    let finder = page.records[0].pending.as_ref().unwrap().claim.as_ref();
    assert_eq!(finder.unwrap().owner, "finder-1");
}

#[tokio::test]
async fn a_list_is_of_one_tenant_and_of_the_operation_asked_for() {
    let server = still_server().await;
    pending(&server, "k").await;
    server.clock.advance(Duration::from_secs(60));
    for (tenant, operation, expected) in [
        (TENANT, "", 1),
        (TENANT, "charge", 1),
        (TENANT, "refund", 0),
        ("t2", "", 0),
    ] {
        let request = ListPendingRequest {
            tenant: tenant.into(),
            operation: operation.into(),
            ..ListPendingRequest::default()
        };
        let page = list(&server, request).await;
        assert_eq!(page.records.len(), expected, "{tenant} {operation}");
        let request = CountPendingRequest {
            tenant: tenant.into(),
            operation: operation.into(),
        };
        let counted = server.people().count_pending(request).await.unwrap();
        let counts = counted.into_inner().counts;
        assert_eq!(counts.len(), expected, "{tenant} {operation}");
    }
}

#[tokio::test]
async fn pages_follow_each_other_until_the_end() {
    let server = still_server().await;
    for at in 0..7 {
        pending(&server, &format!("k{at}")).await;
        server.clock.advance(Duration::from_millis(1));
    }
    server.clock.advance(Duration::from_secs(60));
    let mut request = ListPendingRequest {
        page_size: 3,
        ..all()
    };
    let mut listed = Vec::new();
    loop {
        let page = list(&server, request.clone()).await;
        assert!(page.records.len() <= 3);
        listed.extend(keys(&page).into_iter().map(str::to_owned));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    assert_eq!(listed, ["k0", "k1", "k2", "k3", "k4", "k5", "k6"]);
}

#[tokio::test]
async fn a_token_of_other_filters_and_other_bad_fields_are_refused() {
    let server = still_server().await;
    for key in ["a", "b"] {
        pending(&server, key).await;
    }
    server.clock.advance(Duration::from_secs(60));
    let first = ListPendingRequest {
        page_size: 1,
        ..all()
    };
    let token = list(&server, first).await.next_page_token;
    assert!(!token.is_empty());
    type Change = (&'static str, fn(&mut ListPendingRequest));
    let changes: [Change; 7] = [
        ("page_token", |r| r.operation = "charge".into()),
        ("page_token", |r| r.include_not_due = true),
        ("page_token", |r| r.tenant = "t2".into()),
        ("page_token", |r| r.page_token.push('A')),
        ("tenant", |r| r.tenant.clear()),
        ("operation", |r| r.operation = "a b".into()),
        ("page_size", |r| r.page_size = 1001),
    ];
    for (field, change) in changes {
        let mut request = ListPendingRequest {
            page_token: token.clone(),
            ..all()
        };
        change(&mut request);
        assert_eq!(
            refused_field(server.people().list_pending(request).await),
            field
        );
    }
    for (field, tenant, operation) in [("tenant", "", ""), ("operation", TENANT, "a b")] {
        let request = CountPendingRequest {
            tenant: tenant.into(),
            operation: operation.into(),
        };
        let answer = server.people().count_pending(request).await;
        assert_eq!(refused_field(answer), field);
    }
}

#[tokio::test]
async fn counts_tell_what_is_due_and_what_is_claimed() {
    let server = still_server().await;
    for key in ["a", "b", "c"] {
        pending(&server, key).await;
    }
    server.clock.advance(Duration::from_secs(60));
    let claim = ClaimPendingRequest {
        tenant: TENANT.into(),
        claim_id: id(),
        max_records: 1,
        ..ClaimPendingRequest::default()
    };
    server.people().claim_pending(claim).await.unwrap();
    pending(&server, "late").await;
    let request = CountPendingRequest {
        tenant: TENANT.into(),
        ..CountPendingRequest::default()
    };
    let counted = server.people().count_pending(request).await.unwrap();
    let counts = counted.into_inner().counts;
    assert_eq!(counts.len(), 1);
    let count = &counts[0];
    assert_eq!(count.operation, "charge");
    assert_eq!(count.reason(), PendingReason::Reported);
    assert_eq!((count.total, count.due, count.claimed), (4, 2, 1));
    assert_eq!(count.oldest_since_time.unwrap().seconds, 1_800_000_000);
}
