//! Sizes: what is accepted can be received by every client, what is too large is said.

use bytes::Bytes;
use reprise_proto::v1::reserve_response::Outcome;
use reprise_proto::v1::*;
use tonic::Code;
use tonic_types::StatusExt;

use super::support::*;

const BODY_BYTES_MAX: usize = 4 * 1024 * 1024 - 64 * 1024;

#[tokio::test]
async fn the_largest_result_arrives_with_default_settings_and_a_larger_one_is_omitted() {
    let server = server().await;
    let mut large = policy();
    large.result_bytes_max = Some(BODY_BYTES_MAX as u64);
    server.put_policy(large).await;
    let headers: Vec<Header> = (0..64)
        .map(|_| Header {
            name: "etag".into(),
            value: Bytes::from(vec![b'e'; 252]),
        })
        .collect();
    let content = |bytes: usize| Content {
        code: "c".repeat(255),
        headers: headers.clone(),
        body: Some(content::Body::Data(vec![7; bytes].into())),
        resource_id: "r".repeat(255),
        provider_reference: "p".repeat(255),
    };
    for (key, bytes, kept) in [
        ("at", BODY_BYTES_MAX, true),
        ("over", BODY_BYTES_MAX + 1, false),
        ("far-over", 8 * 1024 * 1024 - 64 * 1024, false),
    ] {
        let mut request = reserve(key);
        request.correlation_id = "c".repeat(255);
        request.instruction = vec![1; 16 * 1024].into();
        let grant = server.acquire(request).await;
        let report = complete(key, &grant.token, content(bytes));
        let answer = server.reprise().complete(report).await.unwrap();
        assert_eq!(answer.get_ref().adjusted.is_empty(), kept, "{key}");
        match server.reserve(reserve(key)).await.unwrap() {
            Outcome::Completed(completed) => {
                let result = completed.result.unwrap();
                assert_eq!(result == content(bytes), kept, "{key}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn the_largest_error_arrives_with_the_next_grant() {
    let server = server().await;
    let mut large = policy();
    large.result_bytes_max = Some(BODY_BYTES_MAX as u64);
    server.put_policy(large).await;
    let mut request = reserve("k");
    request.instruction = vec![1; 16 * 1024].into();
    let grant = server.acquire(request).await;
    let mut report = fail("k", &grant.token, FailureKind::Retryable);
    report.error = Some(body(vec![7; BODY_BYTES_MAX]));
    server.reprise().fail(report.clone()).await.unwrap();
    let next = server.acquire(reserve("k")).await;
    assert_eq!(next.earlier.unwrap().error, report.error);
}

#[tokio::test]
async fn what_is_too_large_is_refused_for_good() {
    let server = server().await;
    let mut request = reserve("k");
    request.fingerprint = payload(FingerprintScheme::Raw, vec![1; BODY_BYTES_MAX]);
    let grant = server.acquire(request.clone()).await;
    request.fingerprint = payload(FingerprintScheme::Raw, vec![1; BODY_BYTES_MAX + 1]);
    let answer = server.reserve(request).await;
    assert_refused(answer, Code::ResourceExhausted, "TOO_LARGE");

    let report = complete("k", &grant.token, body(vec![1; 8 * 1024 * 1024]));
    let answer = server.reprise().complete(report).await;
    assert_refused(answer, Code::ResourceExhausted, "TOO_LARGE");
    assert_eq!(server.state("k").await, State::Processing);
}

#[tokio::test]
async fn calls_over_the_bound_are_shed() {
    let setup = Setup::with(|config| config.calls_max = 1);
    let server = setup.start().await;
    server.acquire(reserve("k")).await;
    // One of them waits, so the other one is answered first.
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let mut client = server.reprise();
        let request = waiting("k", std::time::Duration::from_secs(20));
        calls.spawn(async move { client.reserve(request).await });
    }
    let status = calls.join_next().await.unwrap().unwrap().unwrap_err();
    assert!(status.get_details_retry_info().is_some());
    assert_refused::<()>(Err(status), Code::ResourceExhausted, "OVERLOADED");
}
