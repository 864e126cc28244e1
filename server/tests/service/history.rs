//! GetHistory.

use std::time::Duration;

use bytes::Bytes;
use reprise::store::Store;
use reprise::store::embedded::{Embedded, Options};
use reprise_proto::v1::get_history_request::Target;
use reprise_proto::v1::reserve_response::Outcome;
use reprise_proto::v1::*;
use tonic::Code;

use super::support::*;

async fn history(server: &Server, key: &str) -> GetHistoryResponse {
    let request = GetHistoryRequest {
        target: name(key).map(Target::Record),
    };
    let answer = server.records().get_history(request).await.unwrap();
    answer.into_inner()
}

#[tokio::test]
async fn the_story_of_a_record_is_told_attempt_by_attempt() {
    let server = still_server().await;
    let first = reserve("k");
    let grant = server.acquire(first.clone()).await;
    for reference in ["pr_1", "pr_2"] {
        let sending = MarkSendingRequest {
            record: name("k"),
            token: grant.token.clone(),
            provider_reference: reference.into(),
            instruction: Bytes::from(format!("charge as {reference}")),
            lease: None,
        };
        server.reprise().mark_sending(sending).await.unwrap();
    }
    let report = fail("k", &grant.token, FailureKind::Retryable);
    server.reprise().fail(report).await.unwrap();
    server.clock.advance(Duration::from_secs(5));
    let second = reserve("k");
    let newest = server.acquire(second.clone()).await;
    let late = server
        .reprise()
        .complete(complete("k", &grant.token, code("201")))
        .await;
    assert_refused(late, Code::Aborted, "STALE_TOKEN");

    let told = history(&server, "k").await;
    assert_eq!(told.name, name("k"));
    let record = told.record.unwrap();
    assert_eq!((record.state(), record.attempt), (State::Processing, 2));
    let now = told.newest.unwrap();
    assert_eq!(now.number, 2);
    assert_eq!(now.attempt_id, second.attempt_id);
    assert_eq!(now.fence, newest.fence);
    assert_eq!(now.reason(), GrantReason::AfterRetryableFailure);
    assert_eq!(now.on_lapse(), OnLapse::Pending);
    assert!(!now.sent && now.contradicted && !now.unaccounted);
    assert_eq!(now.grant_time.unwrap().seconds, 1_800_000_005);

    let [before] = told.attempts.as_slice() else {
        panic!("{:?}", told.attempts);
    };
    assert_eq!(
        (before.number, before.ending()),
        (1, AttemptEnding::FailedRetryable)
    );
    assert_eq!(before.attempt_id, first.attempt_id);
    assert_eq!(
        (before.owner.as_str(), before.code.as_str()),
        ("worker-1", "declined")
    );
    let [replaced] = told.replaced.as_slice() else {
        panic!("{:?}", told.replaced);
    };
    assert_eq!(
        (replaced.attempt, replaced.provider_reference.as_str()),
        (1, "pr_1")
    );
    assert_eq!(replaced.instruction, Bytes::from("charge as pr_1"));
    let [refused] = told.refused.as_slice() else {
        panic!("{:?}", told.refused);
    };
    assert_eq!((refused.attempt, refused.kind()), (1, ReportKind::Complete));
    assert_eq!((refused.code.as_str(), refused.digest.len()), ("201", 32));
}

#[tokio::test]
async fn repeats_with_other_payloads_are_counted_by_payload() {
    let server = server().await;
    server.acquire(reserve("k")).await;
    for (byte, count) in [(2, 3), (3, 1)] {
        for _ in 0..count {
            let other = ReserveRequest {
                fingerprint: digest(byte),
                ..reserve("k")
            };
            let outcome = server.reserve(other).await.unwrap();
            assert!(matches!(outcome, Outcome::Mismatch(_)), "{outcome:?}");
        }
    }
    let mut seen = Vec::new();
    eventually("the mismatches to be written down", async || {
        let told = history(&server, "k").await.mismatches;
        seen = told.iter().map(|it| (it.sha256[0], it.count)).collect();
        seen.sort_unstable();
        seen == [(2, 3), (3, 1)]
    })
    .await;
    let told = history(&server, "k").await.mismatches;
    assert!(told.iter().all(|it| it.scheme() == FingerprintScheme::Raw));
    assert!(
        told.iter()
            .all(|it| it.first_time.is_some() && it.last_time.is_some())
    );
}

#[tokio::test]
async fn what_was_only_counted_is_written_down_at_the_drain() {
    let server = server().await;
    server.acquire(reserve("k")).await;
    for byte in 2..5 {
        let other = ReserveRequest {
            fingerprint: digest(byte),
            ..reserve("k")
        };
        server.reserve(other).await.unwrap();
    }
    let record_id = server.look("k").await.record.unwrap().record_id;
    let file = server.stop().await;
    let store = Embedded::open(&file.path, Options::default()).unwrap();
    let id = reprise_domain::RecordId::parse(&record_id).unwrap();
    assert_eq!(store.mismatches(id).await.unwrap().len(), 3);
}

#[tokio::test]
async fn what_is_not_there_has_no_history() {
    let server = still_server().await;
    server.acquire(reserve("k")).await;
    let record_id = server.look("k").await.record.unwrap().record_id;
    let by_id = |tenant: &str| GetHistoryRequest {
        target: Some(Target::RecordId(RecordId {
            tenant: tenant.into(),
            id: record_id.clone(),
        })),
    };
    let told = server.records().get_history(by_id(TENANT)).await.unwrap();
    assert_eq!(told.into_inner().name, name("k"));
    let foreign = server.records().get_history(by_id("t2")).await;
    assert_refused(foreign, Code::NotFound, "RECORD_NOT_FOUND");
    let nothing = GetHistoryRequest {
        target: name("nothing").map(Target::Record),
    };
    let nothing = server.records().get_history(nothing).await;
    assert_refused(nothing, Code::NotFound, "RECORD_NOT_FOUND");
    let unnamed = server
        .records()
        .get_history(GetHistoryRequest::default())
        .await;
    assert_eq!(refused_field(unnamed), "target");
}
