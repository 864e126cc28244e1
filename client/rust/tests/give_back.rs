//! Grants that nobody received are given back, once, and never in turn with repeating.

use std::time::Duration;

use reprise_client::AttemptId;
use reprise_client::proto::*;
use tonic::Code;

use crate::scripted::*;

const LONG: Duration = Duration::from_secs(120);

/// The give-backs, each checked to be a Fail by the attempt id of the first Reserve.
fn give_backs(script: &Script) -> usize {
    let asked = script.asked();
    let Some(Asked::Reserve(reserve)) = asked.first() else {
        panic!("nothing was reserved");
    };
    let fails = asked.iter().filter_map(|asked| match asked {
        Asked::Fail(fail) => Some(fail),
        _ => None,
    });
    let given_back = fails.map(|fail| {
        let expected = FailRequest {
            record: reserve.record.clone(),
            holder: Some(fail_request::Holder::AttemptId(reserve.attempt_id.clone())),
            kind: FailureKind::Retryable.into(),
            effect_key_spent: false,
            error: None,
        };
        assert_eq!(*fail, expected);
    });
    given_back.count()
}

#[tokio::test(start_paused = true)]
async fn a_reserve_that_ended_without_an_answer_is_given_back() {
    let (client, script) = start();
    script.reserve(Step::Silence).reserve(Step::Silence);
    client.reserve(&ask()).await.unwrap_err();
    assert!(client.close(LONG).await);
    assert_eq!(script.names(), ["Reserve", "Reserve", "Fail"]);
    assert_eq!(give_backs(&script), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_reserve_is_given_back() {
    let (client, script) = start();
    script.reserve(Step::Silence);
    let reserve = ask();
    let dropped = tokio::time::timeout(Duration::from_secs(1), client.reserve(&reserve)).await;
    assert!(dropped.is_err());
    assert!(client.close(LONG).await);
    assert_eq!(script.names(), ["Reserve", "Fail"]);
    assert_eq!(give_backs(&script), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_never_sent_or_was_answered_is_not_given_back() {
    let (client, script) = start();
    script.refuse_connections(1000);
    assert!(client.reserve(&ask()).await.unwrap_err().never_sent());
    let reserve = ask();
    let dropped = tokio::time::timeout(Duration::from_millis(200), client.reserve(&reserve));
    dropped.await.unwrap_err();
    script.refuse_connections(0);
    assert!(client.close(LONG).await);
    assert!(script.asked().is_empty());

    client.reserve(&ask()).await.unwrap();
    script.reserve(refuse(Code::FailedPrecondition, ErrorReason::AttemptOver));
    client.reserve(&ask()).await.unwrap_err();
    assert!(client.close(LONG).await);
    assert_eq!(script.names(), ["Reserve", "Reserve"]);
}

#[tokio::test(start_paused = true)]
async fn a_give_back_is_repeated_within_bounds() {
    let (client, script) = start();
    script.reserve(Step::Silence).reserve(Step::Silence);
    for _ in 0..1000 {
        script.fail(refuse(Code::Unavailable, ErrorReason::StoreUnavailable));
    }
    client.reserve(&ask()).await.unwrap_err();
    assert!(
        client.close(Duration::from_secs(40)).await,
        "ends by itself"
    );
    assert!(give_backs(&script) > 3);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_after_its_give_back_is_looked_for_once_more() {
    let (client, script) = start();
    script
        .reserve(Step::Silence)
        .reserve(Step::Silence)
        .fail(refuse(Code::NotFound, ErrorReason::RecordNotFound));
    client.reserve(&ask()).await.unwrap_err();
    assert!(client.close(LONG).await);
    assert_eq!(give_backs(&script), 2);
}

#[tokio::test(start_paused = true)]
async fn who_brings_an_attempt_id_repeats_it_and_nothing_is_given_back_for_him() {
    let (client, script) = start();
    let id = AttemptId::random();
    script.reserve(Step::Silence).reserve(Step::Silence);
    client.reserve_as(&ask(), id).await.unwrap_err();
    client.reserve_as(&ask(), id).await.unwrap();
    assert!(client.close(LONG).await);
    assert_eq!(script.names(), ["Reserve"; 3]);
}

#[tokio::test(start_paused = true)]
async fn closing_is_bounded() {
    let (client, script) = start();
    script.reserve(Step::Silence).reserve(Step::Silence);
    for _ in 0..100 {
        script.fail(Step::Silence);
    }
    client.reserve(&ask()).await.unwrap_err();
    assert!(!client.close(Duration::from_secs(1)).await);
}
