//! Connections that are refused, silent, idle or broken.

use std::time::Duration;

use reprise_client::proto::*;
use reprise_client::{Client, Error, Outcome};
use tokio::time::{Instant, sleep};

use crate::scripted::*;

#[tokio::test(start_paused = true)]
async fn a_refused_connection_is_repeated_until_the_server_is_back() {
    let (client, script) = start();
    script.refuse_connections(3);
    client.reserve(&ask()).await.unwrap();
    assert_eq!(script.names(), ["Reserve"]);
}

#[tokio::test(start_paused = true)]
async fn never_sent_is_told_from_outcome_unknown() {
    let (client, script) = start();
    script.refuse_connections(usize::MAX);
    let began = Instant::now();
    let error = client.reserve(&ask()).await.unwrap_err();
    assert!(matches!(error, Error::NotSent(_)), "{error}");
    assert!(error.never_sent() && !error.outcome_unknown());
    assert!(began.elapsed() <= Duration::from_secs(5));

    let (client, script) = start();
    script.complete(Step::Cut);
    let lost = client.clone();
    let call = tokio::spawn(async move { lost.complete(CompleteRequest::default()).await });
    while script.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    script.refuse_connections(usize::MAX);
    let error = call.await.unwrap().unwrap_err();
    assert!(
        error.outcome_unknown(),
        "the first try may have arrived: {error}"
    );
}

#[tokio::test]
async fn a_port_where_nobody_listens_and_a_name_that_does_not_resolve_were_never_sent_to() {
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    for endpoint in [
        format!("http://{closed}"),
        "http://nowhere.invalid:7".into(),
    ] {
        let client = Client::builder(endpoint)
            .deadline(Duration::from_secs(2))
            .build()
            .unwrap();
        let error = client.lookup(LookupRequest::default()).await.unwrap_err();
        assert!(error.never_sent(), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_port_that_accepts_and_never_speaks_costs_one_try_and_not_the_client() {
    let (client, script) = start();
    script.silent_connections(1);
    let began = Instant::now();
    let reserved = client.reserve(&ask()).await.unwrap();
    assert!(matches!(reserved.outcome, Outcome::Acquired(_)));
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(script.connections(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_hasty_call_without_an_answer_leaves_the_connection_to_the_others() {
    let (client, script) = start();
    script.reserve(Step::Silence);
    let hasty = client.with_deadline(Duration::from_millis(20));
    hasty.reserve(&ask()).await.unwrap_err();
    client.lookup(LookupRequest::default()).await.unwrap();
    assert_eq!(script.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_vanished_during_a_long_wait_is_noticed_by_pings() {
    let (client, script) = start();
    let wait = Duration::from_secs(30);
    script.reserve(Step::Silence);
    let waiting = client.clone();
    let call = tokio::spawn(async move { waiting.reserve(&ask().wait(wait)).await });
    while script.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    let began = Instant::now();
    script.freeze();
    let reserved = call.await.unwrap().unwrap();
    assert!(matches!(reserved.outcome, Outcome::Acquired(_)));
    assert!(
        began.elapsed() < Duration::from_secs(25),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_on_an_idle_connection_which_still_serves_after_fifteen_minutes() {
    let (client, script) = start();
    client.lookup(LookupRequest::default()).await.unwrap();
    sleep(Duration::from_secs(5)).await;
    let sent = script.bytes_up();
    sleep(Duration::from_secs(900)).await;
    assert_eq!(script.bytes_up(), sent, "no pings while idle");
    client.lookup(LookupRequest::default()).await.unwrap();
    assert_eq!(script.connections(), 1);
}

#[test]
fn an_endpoint_that_cannot_work_is_refused_by_name() {
    for endpoint in ["", "127.0.0.1:7", "https://reprise.test:7", "http://"] {
        let error = Client::builder(endpoint).build().unwrap_err();
        assert!(
            matches!(error, Error::Endpoint { .. }),
            "{endpoint}: {error}"
        );
    }
}
