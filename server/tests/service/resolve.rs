//! Resolve.

use std::time::Duration;

use reprise_proto::v1::reserve_response::Outcome;
use reprise_proto::v1::resolve_request::{self, Authority};
use reprise_proto::v1::*;
use tonic::Code;

use super::support::*;

fn resolve(key: &str, revision: u64, outcome: resolve_request::Outcome) -> ResolveRequest {
    ResolveRequest {
        record: name(key),
        authority: Some(Authority::OperatorOverride(OperatorOverride { revision })),
        outcome: Some(outcome),
        effect_key_spent: false,
        evidence: "seen at the provider,\nreceipt 7".into(),
        actor: "ana".into(),
    }
}

/// A record whose lease lapsed, and its revision.
async fn lapsed(server: &Server, key: &str) -> u64 {
    server.acquire(reserve(key)).await;
    server.clock.advance(Duration::from_secs(31));
    let record = server.look(key).await.record.unwrap();
    assert_eq!(record.state(), State::Pending);
    record.revision
}

#[tokio::test]
async fn every_finding_ends_the_uncertainty_in_its_way() {
    let server = still_server().await;
    use resolve_request::Outcome as Found;
    let applied = Found::Applied(Applied {
        result: Some(body("found")),
    });
    let failed = Found::Failed(ResolvedFailed {
        error: Some(code("refused")),
    });
    let unknown = Found::StillUnknown(StillUnknown {
        check_after: seconds(3600),
        provider_reference: "pr_1".into(),
    });
    for (key, found, state) in [
        ("applied", applied, State::Completed),
        (
            "not-applied",
            Found::NotApplied(NotApplied {}),
            State::Failed,
        ),
        ("failed", failed, State::Failed),
        ("unknown", unknown, State::Pending),
    ] {
        let revision = lapsed(&server, key).await;
        let request = resolve(key, revision, found);
        let answer = server.people().resolve(request.clone()).await.unwrap();
        assert_eq!(answer.get_ref().disposition(), ReportDisposition::Recorded);
        assert_eq!(answer.into_inner().record.unwrap().state(), state, "{key}");
        let again = server.people().resolve(request).await.unwrap();
        assert_eq!(
            again.get_ref().disposition(),
            ReportDisposition::Repeated,
            "{key}"
        );
    }
    let next = server.acquire(reserve("not-applied")).await;
    assert_eq!(next.reason(), GrantReason::AfterRetryableFailure);
    match server.reserve(reserve("applied")).await.unwrap() {
        Outcome::Completed(completed) => assert_eq!(completed.result, Some(body("found"))),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_resolver_that_takes_over_is_granted_the_attempt() {
    let server = still_server().await;
    let revision = lapsed(&server, "k").await;
    let take_over = TakeOver {
        attempt_id: id(),
        lease: seconds(5),
    };
    let request = resolve("k", revision, resolve_request::Outcome::TakeOver(take_over));
    let answer = server.people().resolve(request.clone()).await.unwrap();
    let grant = answer.into_inner().acquired.unwrap();
    assert_eq!(grant.reason(), GrantReason::AfterResolution);
    assert_eq!(grant.lease_remaining, seconds(5));
    let again = server.people().resolve(request).await.unwrap().into_inner();
    assert_eq!(again.disposition(), ReportDisposition::Repeated);
    assert_eq!(again.acquired.unwrap().token, grant.token);
    let report = complete("k", &grant.token, code("200"));
    server.reprise().complete(report).await.unwrap();
}

#[tokio::test]
async fn a_take_over_asked_again_after_its_attempt_went_on_grants_nothing() {
    let server = still_server().await;
    for (key, ends, expected) in [
        ("lapses", false, State::Pending),
        ("completes", true, State::Completed),
    ] {
        let revision = lapsed(&server, key).await;
        let take_over = resolve_request::Outcome::TakeOver(TakeOver {
            attempt_id: id(),
            lease: seconds(5),
        });
        let request = resolve(key, revision, take_over);
        let answer = server.people().resolve(request.clone()).await.unwrap();
        let token = answer.into_inner().acquired.unwrap().token;
        if ends {
            let report = complete(key, &token, code("200"));
            server.reprise().complete(report).await.unwrap();
        } else {
            let sending = MarkSendingRequest {
                record: name(key),
                token,
                ..MarkSendingRequest::default()
            };
            server.reprise().mark_sending(sending).await.unwrap();
            server.clock.advance(Duration::from_secs(31));
        }
        let again = server.people().resolve(request).await.unwrap().into_inner();
        assert_eq!(again.disposition(), ReportDisposition::Repeated, "{key}");
        assert!(again.acquired.is_none(), "{key}");
        assert_eq!(again.record.unwrap().state(), expected, "{key}");
    }
}

#[tokio::test]
async fn what_has_changed_or_is_under_way_is_not_resolved() {
    let server = still_server().await;
    let found = || resolve_request::Outcome::NotApplied(NotApplied {});
    server.acquire(reserve("k")).await;
    let revision = server.look("k").await.record.unwrap().revision;
    let running = server
        .people()
        .resolve(resolve("k", revision, found()))
        .await;
    assert_refused(running, Code::FailedPrecondition, "LEASE_RUNNING");
    server.clock.advance(Duration::from_secs(31));
    let stale = server
        .people()
        .resolve(resolve("k", revision + 1, found()))
        .await;
    assert_refused(stale, Code::FailedPrecondition, "REVISION_CHANGED");
    let nothing = server
        .people()
        .resolve(resolve("nothing", 1, found()))
        .await;
    assert_refused(nothing, Code::NotFound, "RECORD_NOT_FOUND");
}

#[tokio::test]
async fn bad_fields_are_named() {
    let server = still_server().await;
    let revision = lapsed(&server, "k").await;
    use resolve_request::Outcome as Found;
    type Change = (&'static str, fn(&mut ResolveRequest));
    let changes: [Change; 11] = [
        ("record", |r| r.record = None),
        ("authority", |r| r.authority = None),
        ("outcome", |r| r.outcome = None),
        ("evidence", |r| r.evidence.clear()),
        ("evidence", |r| r.evidence = "e".repeat(16 * 1024 + 1)),
        ("evidence", |r| r.evidence = "a\0b".into()),
        ("actor", |r| r.actor.clear()),
        ("actor", |r| r.actor = "a\nb".into()),
        ("effect_key_spent", |r| {
            r.outcome = Some(Found::Applied(Applied::default()));
            r.effect_key_spent = true;
        }),
        ("take_over.attempt_id", |r| {
            r.outcome = Some(Found::TakeOver(TakeOver::default()))
        }),
        ("still_unknown.check_after", |r| {
            r.outcome = Some(Found::StillUnknown(StillUnknown {
                check_after: seconds(31 * 24 * 3600),
                ..StillUnknown::default()
            }));
        }),
    ];
    for (field, change) in changes {
        let mut request = resolve("k", revision, Found::NotApplied(NotApplied {}));
        change(&mut request);
        assert_eq!(refused_field(server.people().resolve(request).await), field);
    }
}
