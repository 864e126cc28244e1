//! How a worker takes records, how many at once, and how it stops.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reprise_client::{Case, Finding, Reason, Resolution};
use tokio::time::sleep;
use tonic::Code;

use crate::at_work::*;
use crate::scripted::*;

async fn nothing(_: Case) -> Result<Resolution, Infallible> {
    Ok(Finding::NotApplied.because("nothing there"))
}

async fn forever(_: Case) -> Result<Resolution, Infallible> {
    std::future::pending().await
}

fn claim_ids(script: &Script) -> Vec<Vec<u8>> {
    let asked = script.asked().into_iter();
    let ids = asked.filter_map(|asked| match asked {
        Asked::ClaimPending(request) => Some(request.claim_id.to_vec()),
        _ => None,
    });
    ids.collect()
}

fn ended(key: &str) -> (String, Option<prost_types::Duration>) {
    (format!("claim of {key}"), Some(wire(Duration::ZERO)))
}

#[tokio::test(start_paused = true)]
async fn a_claim_call_without_an_answer_is_repeated_under_its_id_and_the_next_has_another() {
    let (client, script) = start();
    for _ in 0..5 {
        script.claim_pending(Step::Silence);
    }
    script.claim_pending(Step::Answer(claims(&["k1"])));
    let at_work = begin(worker(&client), nothing);
    at_work.until("resolved k1").await;
    assert!(at_work.told().contains(&"not claimed".to_owned()));
    sleep(Duration::from_secs(30)).await;
    at_work.stopped().await.unwrap();
    let ids = claim_ids(&script);
    assert!(ids[..6].iter().all(|id| *id == ids[0] && id.len() == 16));
    assert!(ids[6..].iter().all(|id| *id != ids[0]));
    assert_ne!(ids[6], ids[7]);
}

#[tokio::test(start_paused = true)]
async fn while_nothing_is_due_it_asks_ever_less_often_and_anew_after_a_claim() {
    let (client, script) = start();
    let second = Duration::from_secs(1);
    for _ in 0..6 {
        script.claim_pending(Step::Answer(claims(&[])));
    }
    script.claim_pending(Step::Answer(claims(&["k1"])));
    let at_work = begin(worker(&client).poll(second, second * 8), nothing);
    at_work.until("resolved k1").await;
    sleep(second * 3).await;
    at_work.stopped().await.unwrap();
    let times = script.asked().into_iter().zip(script.times());
    let times = times.filter(|(asked, _)| matches!(asked, Asked::ClaimPending(_)));
    let times: Vec<_> = times.map(|(_, at)| at).collect();
    let pauses: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (pause, full) in pauses.iter().zip([1, 2, 4, 8, 8, 8]) {
        let full = second * full;
        let slack = Duration::from_millis(20);
        assert!(
            *pause <= full + slack && *pause >= full.mul_f64(0.79),
            "{pauses:?}"
        );
    }
    assert!(pauses[6] < second / 2, "after a claim at once: {pauses:?}");
    assert!(
        pauses[7] <= second * 2,
        "and then from the start: {pauses:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn no_more_records_are_worked_on_at_once_than_allowed_and_none_is_claimed_meanwhile() {
    let (client, script) = start();
    script
        .claim_pending(Step::Answer(claims(&["k1", "k2", "k3", "k4", "k5"])))
        .claim_pending(Step::Answer(claims(&["k6"])));
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let highest = Arc::clone(&most);
    let settings = worker(&client).concurrency(2).batch(5);
    let at_work = begin(settings, move |_| {
        let (running, most) = (Arc::clone(&running), Arc::clone(&most));
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(LEASE * 2).await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, Infallible>(Finding::NotApplied.because("nothing there"))
        }
    });
    at_work.until("resolved k2").await;
    assert_eq!(count(&script, "ClaimPending"), 1, "three wait for a slot");
    let waiting = ("claim of k5".to_owned(), None);
    assert!(
        renewals(&script).contains(&waiting),
        "whose claims are renewed"
    );
    at_work.until("resolved k6").await;
    at_work.stopped().await.unwrap();
    assert_eq!(highest.load(Ordering::SeqCst), 2);
    assert_eq!(count(&script, "Resolve"), 6);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_over_before_its_turn_is_told_and_nobody_is_asked() {
    let (client, script) = start();
    script.claim_pending(Step::Answer(claims(&["k1", "k2"])));
    for _ in 0..2 {
        script.renew(refuse(Code::FailedPrecondition, Reason::ClaimOver));
    }
    let at_work = begin(worker(&client).concurrency(1), |case| async move {
        assert_eq!(case.record.key, "k1");
        sleep(LEASE).await;
        nothing(case).await
    });
    at_work.until("over k1").await;
    at_work.until("over k2").await;
    assert!(at_work.stopped().await.unwrap());
    assert!(client.close(Duration::from_secs(5)).await);
    assert_eq!((count(&script, "Resolve"), count(&script, "Renew")), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn settings_that_are_refused_end_the_worker_and_an_absent_service_does_not() {
    let (client, script) = start();
    script.claim_pending(refuse(Code::InvalidArgument, Reason::InvalidField));
    let at_work = begin(worker(&client), nothing);
    sleep(Duration::from_secs(1)).await;
    let error = at_work.stopped().await.unwrap_err();
    assert_eq!(error.reason(), Some(Reason::InvalidField));

    let (client, script) = start();
    script.refuse_connections(200);
    for _ in 0..3 {
        script.claim_pending(refuse(Code::PermissionDenied, Reason::NotAllowed));
    }
    script.claim_pending(Step::Answer(claims(&["k1"])));
    let at_work = begin(worker(&client), nothing);
    at_work.until("resolved k1").await;
    assert!(at_work.stopped().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_claimed_record_that_is_not_understood_does_not_keep_the_others_waiting() {
    let (client, script) = start();
    let mut answer = claims(&["k1", "k2"]);
    answer.records[0].fence = "not a number".to_owned();
    script.claim_pending(Step::Answer(answer));
    let at_work = begin(worker(&client), nothing);
    at_work.until("resolved k2").await;
    at_work.stopped().await.unwrap();
    assert_eq!(count(&script, "Resolve"), 1);
}

#[tokio::test(start_paused = true)]
async fn stopping_finishes_what_is_in_hand_gives_back_the_rest_and_takes_nothing_new() {
    let (client, script) = start();
    script.claim_pending(Step::Answer(claims(&["k1", "k2"])));
    let at_work = begin(worker(&client).concurrency(1), |case| async move {
        sleep(Duration::from_secs(5)).await;
        nothing(case).await
    });
    at_work.until("claimed 2").await;
    sleep(Duration::from_secs(1)).await;
    at_work.stop();
    at_work.until("resolved k1").await;
    assert_eq!(at_work.told(), ["claimed 2", "released k2", "resolved k1"]);
    assert!(at_work.stopped().await.unwrap());
    assert!(client.close(Duration::from_secs(5)).await);
    assert_eq!(renewals(&script), [ended("k2")]);
    assert_eq!(count(&script, "ClaimPending"), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_finished_within_the_limit_is_dropped_and_its_claim_ended() {
    let (client, script) = start();
    script.claim_pending(Step::Answer(claims(&["k1"])));
    let limit = Duration::from_secs(3);
    let at_work = begin(worker(&client).stop_limit(limit), forever);
    at_work.until("claimed 1").await;
    let began = tokio::time::Instant::now();
    assert!(!at_work.stopped().await.unwrap(), "not all was finished");
    assert!(began.elapsed() >= limit && began.elapsed() < limit * 2);
    assert!(client.close(Duration::from_secs(5)).await);
    assert_eq!(renewals(&script), [ended("k1")]);
    assert_eq!(count(&script, "Resolve"), 0);
}

#[tokio::test(start_paused = true)]
async fn claims_that_arrive_while_it_stops_are_given_back() {
    let (client, script) = start();
    script.claim_pending(late(Duration::from_secs(2), claims(&["k1", "k2"])));
    let at_work = begin(worker(&client), nothing);
    sleep(Duration::from_secs(1)).await;
    assert!(at_work.stopped().await.unwrap());
    assert!(client.close(Duration::from_secs(5)).await);
    let mut back = renewals(&script);
    back.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(back, [ended("k1"), ended("k2")]);
    assert_eq!(count(&script, "Resolve"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_dropped_ends_its_claims() {
    let (client, script) = start();
    script.claim_pending(Step::Answer(claims(&["k1"])));
    let run = worker(&client).run(forever, std::future::pending());
    tokio::time::timeout(Duration::from_secs(1), run)
        .await
        .unwrap_err();
    sleep(Duration::from_secs(1)).await;
    assert!(client.close(Duration::from_secs(5)).await);
    assert_eq!(renewals(&script), [ended("k1")]);
}
