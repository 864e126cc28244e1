//! The end of a server.

use std::time::{Duration, Instant};

use reprise_proto::v1::reserve_response::Outcome;
use reprise_proto::v1::*;
use tokio::net::TcpStream;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::support::*;

fn reserve_later(
    server: &Server,
    request: ReserveRequest,
) -> tokio::task::JoinHandle<Result<Outcome, tonic::Status>> {
    let mut client = server.reprise();
    tokio::spawn(async move {
        let mut request = tonic::Request::new(request);
        request.set_timeout(Duration::from_secs(30));
        let answer = client.reserve(request).await?.into_inner();
        Ok(answer.outcome.unwrap())
    })
}

/// What was sent before on this connection has arrived.
async fn arrived(server: &Server) {
    let mut health = HealthClient::new(server.channel.clone());
    for _ in 0..3 {
        health.check(HealthCheckRequest::default()).await.unwrap();
    }
}

#[tokio::test]
async fn those_who_wait_are_answered_with_the_state_at_once() {
    let server = server().await;
    server.acquire(reserve("k")).await;
    let waiters: Vec<_> = (0..20)
        .map(|_| reserve_later(&server, waiting("k", Duration::from_secs(20))))
        .collect();
    tokio::task::yield_now().await;
    arrived(&server).await;
    let began = Instant::now();
    server.running.shutdown();
    for waiter in waiters {
        let outcome = waiter.await.unwrap().unwrap();
        assert!(matches!(outcome, Outcome::Processing(_)), "{outcome:?}");
    }
    server.running.stopped().await.unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn calls_under_way_finish_and_new_ones_are_refused() {
    let server = server().await;
    let mut watch = HealthClient::new(server.channel.clone());
    let watch = watch.watch(HealthCheckRequest::default()).await.unwrap();
    let mut watch = watch.into_inner();
    let first = watch.message().await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::Serving);

    let held_up = server.hold_up();
    let under_way = reserve_later(&server, reserve("k"));
    tokio::task::yield_now().await;
    arrived(&server).await;
    server.running.shutdown();
    let next = watch.message().await.unwrap().unwrap();
    assert_eq!(next.status(), ServingStatus::NotServing);
    let addr = server.running.addr();
    eventually("the port to be closed", async || {
        TcpStream::connect(addr).await.is_err()
    })
    .await;
    assert!(server.reserve(reserve("new")).await.is_err());

    drop(held_up);
    acquired(under_way.await.unwrap().unwrap());
    assert!(watch.message().await.unwrap().is_none(), "the stream ends");
    server.running.stopped().await.unwrap();
}

#[tokio::test]
async fn a_store_that_does_not_close_is_left() {
    let setup = Setup::with(|config| config.drain = Duration::ZERO);
    let server = setup.start().await;
    let held_up = server.hold_up();
    let stuck = reserve_later(&server, reserve("k"));
    tokio::task::yield_now().await;
    arrived(&server).await;
    let began = Instant::now();
    server.running.shutdown();
    assert!(stuck.await.unwrap().is_err(), "it is cut off");
    server.running.stopped().await.unwrap();
    let took = began.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    drop(held_up);
}

#[tokio::test]
async fn the_drain_has_a_hard_limit() {
    let setup = Setup::with(|config| config.drain = Duration::from_millis(200));
    let server = setup.start().await;
    let held_up = server.hold_up();
    let stuck = reserve_later(&server, reserve("k"));
    tokio::task::yield_now().await;
    arrived(&server).await;
    server.running.shutdown();
    assert!(stuck.await.unwrap().is_err(), "it is cut off");
    drop(held_up);
    server.running.stopped().await.unwrap();
}
