//! ClaimPending, and what is done under a claim.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use reprise_proto::v1::resolve_request::{Authority, Outcome as Found};
use reprise_proto::v1::*;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::support::*;

pub(super) fn claim(claim_id: Bytes) -> ClaimPendingRequest {
    ClaimPendingRequest {
        tenant: TENANT.into(),
        claim_id,
        owner: "finder-1".into(),
        ..ClaimPendingRequest::default()
    }
}

async fn take(server: &Server, request: ClaimPendingRequest) -> Vec<ClaimedRecord> {
    let answer = server.people().claim_pending(request).await.unwrap();
    answer.into_inner().records
}

/// A pending record that is due and settled, and the claim on it.
async fn claimed(server: &Server, key: &str) -> ClaimedRecord {
    pending(server, key).await;
    server.clock.advance(Duration::from_secs(120));
    let mut taken = take(server, claim(id())).await;
    assert_eq!(taken.len(), 1);
    taken.remove(0)
}

fn resolve(claimed: &ClaimedRecord, found: Found) -> ResolveRequest {
    ResolveRequest {
        record: claimed.name.clone(),
        authority: Some(Authority::Claim(claimed.claim.clone())),
        outcome: Some(found),
        effect_key_spent: false,
        evidence: "seen at the provider".into(),
        actor: "finder-1".into(),
    }
}

fn applied() -> Found {
    Found::Applied(Applied {
        result: Some(body("found")),
    })
}

fn not_applied() -> Found {
    Found::NotApplied(NotApplied {})
}

fn renew(claimed: &ClaimedRecord, lease: Option<prost_types::Duration>) -> RenewRequest {
    RenewRequest {
        record: claimed.name.clone(),
        holder: Some(renew_request::Holder::Claim(claimed.claim.clone())),
        lease,
    }
}

/// The state that a CLAIM_OVER tells.
#[track_caller]
fn over<T: std::fmt::Debug>(answer: Result<T, Status>) -> String {
    let status = answer.unwrap_err();
    let refused = refusal(&status);
    assert_eq!(refused, (Code::FailedPrecondition, "CLAIM_OVER".to_owned()));
    let info = status.get_details_error_info().unwrap();
    info.metadata["state"].clone()
}

#[tokio::test]
async fn the_record_that_is_due_the_longest_is_taken_first() {
    let server = still_server().await;
    let keys = ["a", "b", "c", "d", "e", "f"];
    for key in keys {
        pending(&server, key).await;
        server.clock.advance(Duration::from_secs(1));
    }
    server.clock.advance(Duration::from_secs(120));
    for key in keys {
        let request = ClaimPendingRequest {
            max_records: 1,
            ..claim(id())
        };
        let taken = take(&server, request).await;
        assert_eq!(taken[0].name, name(key));
    }
}

#[tokio::test]
async fn a_claim_carries_what_finding_out_takes() {
    let server = still_server().await;
    let claimed = claimed(&server, "k").await;
    assert_eq!(claimed.name, name("k"));
    assert_eq!(claimed.record.as_ref().unwrap().state(), State::Pending);
    assert_eq!(claimed.instruction, Bytes::from("charge k"));
    assert_eq!(claimed.lease_remaining, seconds(60));
    assert!(claimed.may_deny && !claimed.unaccounted);
    let pending = claimed.pending.unwrap();
    assert_eq!(pending.provider_reference, "pr-k");
    assert_eq!(pending.detail, "timed out");
    assert_eq!(pending.claim.unwrap().owner, "finder-1");
    let clock = u64::try_from(server.clock.now().0).unwrap();
    assert_eq!(claimed.fence.parse::<u64>().unwrap(), clock);
}

#[tokio::test]
async fn nothing_is_taken_before_it_is_due() {
    let server = still_server().await;
    pending(&server, "k").await;
    server
        .clock
        .advance(Duration::from_secs(60) - Duration::from_micros(1));
    assert!(take(&server, claim(id())).await.is_empty());
    server.clock.advance(Duration::from_micros(1));
    assert_eq!(take(&server, claim(id())).await.len(), 1);
    assert!(take(&server, claim(id())).await.is_empty(), "it is taken");
}

#[tokio::test]
async fn a_call_takes_as_many_as_it_asks_for() {
    let server = still_server().await;
    for at in 0..25 {
        pending(&server, &format!("k{at}")).await;
    }
    server.clock.advance(Duration::from_secs(60));
    let three = ClaimPendingRequest {
        max_records: 3,
        ..claim(id())
    };
    assert_eq!(take(&server, three).await.len(), 3);
    assert_eq!(take(&server, claim(id())).await.len(), 10);
    let many = ClaimPendingRequest {
        max_records: 100,
        ..claim(id())
    };
    assert_eq!(take(&server, many).await.len(), 12);
    let others = ClaimPendingRequest {
        operation: "refund".into(),
        ..claim(id())
    };
    assert!(take(&server, others).await.is_empty());
}

#[tokio::test]
async fn a_call_that_is_repeated_is_answered_its_claims_that_run() {
    let server = still_server().await;
    for key in ["a", "b"] {
        pending(&server, key).await;
    }
    server.clock.advance(Duration::from_secs(120));
    let call = ClaimPendingRequest {
        max_records: 2,
        ..claim(id())
    };
    let first = take(&server, call.clone()).await;
    assert_eq!(first.len(), 2);
    pending(&server, "c").await;
    server.clock.advance(Duration::from_secs(20));
    let again = take(&server, call.clone()).await;
    assert_eq!(again.len(), 2);
    for (one, other) in first.iter().zip(&again) {
        assert_eq!((&one.name, &one.claim), (&other.name, &other.claim));
        assert_eq!(other.lease_remaining, seconds(40), "not prolonged");
    }
    // One of them is renewed and the other one runs out.
    let renewed = server.reprise().renew(renew(&first[0], seconds(300))).await;
    assert_eq!(renewed.unwrap().into_inner().lease_remaining, seconds(300));
    server.clock.advance(Duration::from_secs(100));
    let left = take(&server, call.clone()).await;
    assert_eq!(left.len(), 1, "and none is taken beside it");
    assert_eq!(left[0].claim, first[0].claim);
    // When none runs, the call is like a new one.
    server.clock.advance(Duration::from_secs(300));
    let anew = take(&server, call).await;
    assert_eq!(anew.len(), 2);
    assert!(
        anew.iter()
            .all(|new| first.iter().all(|old| old.claim != new.claim))
    );
}

#[tokio::test]
async fn workers_side_by_side_never_meet() {
    const RECORDS: usize = 60;
    let server = still_server().await;
    for at in 0..RECORDS {
        pending(&server, &format!("k{at}")).await;
    }
    server.clock.advance(Duration::from_secs(60));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let mut client = server.people();
        workers.spawn(async move {
            let mut taken = Vec::new();
            loop {
                let answer = client.claim_pending(claim(id())).await.unwrap();
                let records = answer.into_inner().records;
                if records.is_empty() {
                    return taken;
                }
                assert!(records.len() <= 10);
                taken.extend(records.into_iter().map(|record| record.name.unwrap().key));
            }
        });
    }
    let taken: Vec<String> = workers.join_all().await.concat();
    let distinct: HashSet<&String> = taken.iter().collect();
    assert_eq!((taken.len(), distinct.len()), (RECORDS, RECORDS));
}

#[tokio::test]
async fn a_claim_is_renewed_given_up_and_taken_by_the_next() {
    let server = still_server().await;
    let first = claimed(&server, "k").await;
    server.clock.advance(Duration::from_secs(50));
    let renewed = server.reprise().renew(renew(&first, None)).await.unwrap();
    let renewed = renewed.into_inner();
    assert!(!renewed.closed);
    assert_eq!(renewed.lease_remaining, seconds(60), "its own length again");
    server.clock.advance(Duration::from_secs(59));
    assert!(take(&server, claim(id())).await.is_empty());

    let ended = server.reprise().renew(renew(&first, seconds(0))).await;
    assert_eq!(ended.unwrap().into_inner().lease_remaining, seconds(0));
    let next = take(&server, claim(id())).await;
    assert_eq!(next.len(), 1);
    let fence = |claimed: &ClaimedRecord| claimed.fence.parse::<u64>().unwrap();
    assert!(fence(&next[0]) > fence(&first));
    assert_eq!(
        over(server.reprise().renew(renew(&first, None)).await),
        "PENDING"
    );
    let late = server
        .people()
        .resolve(resolve(&first, not_applied()))
        .await;
    assert_eq!(over(late), "PENDING");
}

#[tokio::test]
async fn a_claim_that_ran_out_still_resolves_while_it_is_the_newest() {
    let server = still_server().await;
    let claimed = claimed(&server, "k").await;
    server.clock.advance(Duration::from_secs(61));
    assert_eq!(
        over(server.reprise().renew(renew(&claimed, None)).await),
        "PENDING"
    );
    let request = resolve(&claimed, applied());
    let answer = server.people().resolve(request.clone()).await.unwrap();
    assert_eq!(answer.get_ref().disposition(), ReportDisposition::Recorded);
    let again = server.people().resolve(request).await.unwrap();
    assert_eq!(again.get_ref().disposition(), ReportDisposition::Repeated);
    let denied = server
        .people()
        .resolve(resolve(&claimed, not_applied()))
        .await;
    assert_eq!(over(denied), "COMPLETED");
}

#[tokio::test]
async fn a_report_of_the_holder_ends_the_claim_and_its_effect_may_not_begin_under_one() {
    let server = still_server().await;
    for (key, kind, state) in [
        ("completes", None, "COMPLETED"),
        ("fails", Some(FailureKind::Final), "FAILED_FINAL"),
        ("frees", Some(FailureKind::Retryable), "FAILED_RETRYABLE"),
    ] {
        let token = pending(&server, key).await;
        server.clock.advance(Duration::from_secs(120));
        let claimed = take(&server, claim(id())).await.remove(0);
        let sending = MarkSendingRequest {
            record: name(key),
            token: token.clone(),
            ..MarkSendingRequest::default()
        };
        let refused = server.reprise().mark_sending(sending).await;
        assert_refused(refused, Code::FailedPrecondition, "CLAIMED");
        match kind {
            None => {
                let report = complete(key, &token, code("200"));
                server.reprise().complete(report).await.unwrap();
            }
            Some(kind) => {
                server
                    .reprise()
                    .fail(fail(key, &token, kind))
                    .await
                    .unwrap();
            }
        }
        let renewed = server.reprise().renew(renew(&claimed, None)).await;
        assert_eq!(over(renewed), state, "{key}");
    }
}

#[tokio::test]
async fn an_early_claim_may_not_deny() {
    let server = still_server().await;
    let token = server.acquire(reserve("k")).await.token;
    let report = MarkPendingRequest {
        record: name("k"),
        token,
        check_after: seconds(0),
        ..MarkPendingRequest::default()
    };
    server.reprise().mark_pending(report).await.unwrap();
    assert!(
        take(&server, claim(id())).await.is_empty(),
        "beside a lease"
    );
    server.clock.advance(Duration::from_secs(30));
    let early = take(&server, claim(id())).await.remove(0);
    assert!(!early.may_deny);
    server.clock.advance(Duration::from_secs(59));
    let settling = server
        .people()
        .resolve(resolve(&early, not_applied()))
        .await;
    assert_refused(settling, Code::FailedPrecondition, "SETTLING");
    server.clock.advance(Duration::from_secs(1));
    let later = take(&server, claim(id())).await.remove(0);
    assert!(later.may_deny);
    let answer = server
        .people()
        .resolve(resolve(&later, not_applied()))
        .await;
    let record = answer.unwrap().into_inner().record.unwrap();
    assert_eq!(record.failure_kind(), FailureKind::Retryable);
}

#[tokio::test]
async fn bad_fields_are_named() {
    let server = still_server().await;
    type Change = (&'static str, fn(&mut ClaimPendingRequest));
    let changes: [Change; 9] = [
        ("tenant", |r| r.tenant.clear()),
        ("operation", |r| r.operation = "a b".into()),
        ("claim_id", |r| r.claim_id.clear()),
        ("claim_id", |r| r.claim_id = Bytes::from_static(&[7; 17])),
        ("max_records", |r| r.max_records = 101),
        ("lease", |r| r.lease = millis(99)),
        ("lease", |r| r.lease = seconds(901)),
        ("owner", |r| r.owner = "o".repeat(256)),
        ("owner", |r| r.owner = "a\nb".into()),
    ];
    for (field, change) in changes {
        let mut request = claim(id());
        change(&mut request);
        assert_eq!(
            refused_field(server.people().claim_pending(request).await),
            field
        );
    }
    let claimed = claimed(&server, "k").await;
    type Wrong = (&'static str, fn(&mut RenewRequest));
    let changes: [Wrong; 4] = [
        ("holder", |r| r.holder = None),
        ("claim", |r| {
            r.holder = Some(renew_request::Holder::Claim(Bytes::from_static(b"x")));
        }),
        ("token", |r| {
            let Some(renew_request::Holder::Claim(claim)) = r.holder.take() else {
                panic!("a claim");
            };
            r.holder = Some(renew_request::Holder::Token(claim));
        }),
        ("lease", |r| r.lease = millis(50)),
    ];
    for (field, change) in changes {
        let mut request = renew(&claimed, None);
        change(&mut request);
        assert_eq!(refused_field(server.reprise().renew(request).await), field);
    }
    let mut request = resolve(&claimed, applied());
    request.authority = Some(Authority::Claim(Bytes::from_static(b"x")));
    assert_eq!(
        refused_field(server.people().resolve(request).await),
        "claim"
    );
}
