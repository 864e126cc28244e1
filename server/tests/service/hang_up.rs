//! Callers that leave before their answer.

use std::time::Duration;

use reprise_proto::v1::*;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::support::*;

/// Polls a call until the server has it, then hangs up. The store must be held up, so
/// that no answer comes before.
async fn call_and_leave<T>(server: &Server, call: impl Future<Output = T>) {
    tokio::pin!(call);
    // What a connection carries arrives in order: an answered check shows that what went
    // before it was received.
    let mut check = async || {
        let mut health = HealthClient::new(server.channel.clone());
        let check = health.check(HealthCheckRequest::default());
        tokio::select! {
            biased;
            _ = &mut call => panic!("answered while the store was held up"),
            checked = check => checked.unwrap(),
        }
    };
    for _ in 0..3 {
        check().await;
    }
}

/// As [`call_and_leave`], and lets the goodbye arrive.
async fn left<T>(server: &Server, call: impl Future<Output = T>) {
    call_and_leave(server, call).await;
    let mut health = HealthClient::new(server.channel.clone());
    for _ in 0..3 {
        health.check(HealthCheckRequest::default()).await.unwrap();
    }
}

#[tokio::test]
async fn a_grant_that_nobody_received_is_given_back() {
    let server = server().await;
    let first = reserve("k");
    let held_up = server.hold_up();
    let mut client = server.reprise();
    left(&server, client.reserve(first.clone())).await;
    drop(held_up);

    // Waits while the grant stands, and gets it as soon as it is back.
    let next = waiting("k", Duration::from_secs(20));
    let mut request = tonic::Request::new(next);
    request.set_timeout(Duration::from_secs(25));
    let answer = server.reprise().reserve(request).await.unwrap();
    let grant = acquired(answer.into_inner().outcome.unwrap());
    assert_eq!(grant.reason(), GrantReason::First);
    let report = complete("k", &grant.token, code("200"));
    server.reprise().complete(report).await.unwrap();
}

#[tokio::test]
async fn a_report_counts_although_its_caller_has_left() {
    let server = server().await;
    let grant = server.acquire(reserve("k")).await;
    let held_up = server.hold_up();
    let mut client = server.reprise();
    let report = complete("k", &grant.token, code("200"));
    left(&server, client.complete(report)).await;
    drop(held_up);
    eventually("the report to be recorded", async || {
        server.state("k").await == State::Completed
    })
    .await;
}

#[tokio::test]
async fn callers_that_leave_at_any_moment_leave_no_seat_taken() {
    let setup = Setup::with(|config| config.waiters.per_record_max = 1);
    let server = setup.start().await;
    let grant = server.acquire(reserve("k")).await;
    for steps in 0..50 {
        let mut client = server.reprise();
        let mut request = tonic::Request::new(waiting("k", Duration::from_secs(20)));
        request.set_timeout(Duration::from_secs(25));
        let waiter = client.reserve(request);
        let limit = Duration::from_micros(steps * 100);
        // Most of them run out, which is the point.
        let _left = tokio::time::timeout(limit, waiter).await;
    }
    // With the only seat free one waits until the end; else it is answered at once.
    eventually("a free seat", async || {
        let mut client = server.reprise();
        let mut request = tonic::Request::new(waiting("k", Duration::from_secs(20)));
        request.set_timeout(Duration::from_secs(25));
        let mut waiter = tokio::spawn(async move { client.reserve(request).await });
        let at_once = tokio::time::timeout(Duration::from_millis(200), &mut waiter).await;
        waiter.abort();
        at_once.is_err()
    })
    .await;
    let report = complete("k", &grant.token, code("200"));
    server.reprise().complete(report).await.unwrap();
}

#[tokio::test]
async fn a_call_for_claims_that_never_entered_a_batch_claims_nothing() {
    let server = still_server().await;
    pending(&server, "k").await;
    server.clock.advance(Duration::from_secs(120));
    let held_up = server.hold_up();
    let mut client = server.reprise();
    let first = client.reserve(reserve("other"));
    tokio::pin!(first);
    // The batch under way is this one's.
    call_and_leave(&server, first.as_mut()).await;
    let claim = || super::claims::claim(id());
    let mut client = server.people();
    let taking = async {
        let call = client.claim_pending(claim());
        tokio::pin!(call);
        // It reads what is due before it asks for it: readings that began later are over.
        for _ in 0..20 {
            let count = CountPendingRequest {
                tenant: TENANT.into(),
                ..CountPendingRequest::default()
            };
            let mut client = server.people();
            tokio::select! {
                biased;
                _ = &mut call => panic!("answered while the store was held up"),
                counted = client.count_pending(count) => drop(counted.unwrap()),
            }
        }
        left(&server, call).await;
    };
    taking.await;
    drop(held_up);
    acquired(first.await.unwrap().into_inner().outcome.unwrap());
    let taken = server.people().claim_pending(claim()).await.unwrap();
    assert_eq!(taken.into_inner().records.len(), 1, "nobody has it");
}
