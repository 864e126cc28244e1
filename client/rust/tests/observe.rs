//! Observing: the effect runs whatever the service does, and is never held up longer than
//! the limit.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reprise_client::proto::reserve_response::Outcome;
use reprise_client::proto::*;
use reprise_client::{
    Client, Error, Observe, RESERVE_LIMIT_DEFAULT, Reason, Reserve, Verdict, Would, content,
    record_name,
};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Status};

use crate::scripted::*;

fn observe() -> (Observe, Arc<Mutex<Vec<String>>>) {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&seen);
    let observe = Observe::new(ask().wait(LEASE)).unwrap().seen(move |seen| {
        assert_eq!(seen.record.operation, "charge.observe");
        told.lock().unwrap().push(seen.would.to_string());
    });
    (observe, seen)
}

fn done() -> Result<Verdict, String> {
    Ok(Verdict::Done(content("200", "ok")))
}

/// Observes an effect that takes no time, and answers how long it was held up.
async fn held_up(client: &Client, observe: &Observe) -> Duration {
    let asked = Instant::now();
    let mut began = None;
    let ended = client
        .observe(observe, || {
            began = Some(asked.elapsed());
            async { done() }
        })
        .await;
    assert_eq!(ended, done(), "as it was");
    assert_eq!(
        asked.elapsed(),
        began.unwrap(),
        "nothing is waited for after it"
    );
    began.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_effect_runs_and_what_enforcing_would_have_done_is_told() {
    let answers = [
        (granted(grant()), "run"),
        (
            reserved(State::Completed, Outcome::Completed(recorded("201"))),
            "replay a result",
        ),
        (
            reserved(
                State::Failed,
                Outcome::Failed(Failed {
                    error: Some(text("402")),
                    record_time: at(1),
                }),
            ),
            "replay an error",
        ),
        (
            reserved(
                State::Processing,
                Outcome::Processing(Processing::default()),
            ),
            "wait for somebody else",
        ),
        (
            reserved(
                State::Processing,
                Outcome::Processing(Processing {
                    reason: ProcessingReason::Held.into(),
                    ..Processing::default()
                }),
            ),
            "hold, as an operator said",
        ),
        (
            reserved(State::Pending, Outcome::Pending(Pending::default())),
            "leave it pending",
        ),
        (
            reserved(State::Completed, Outcome::Mismatch(Mismatch::default())),
            "refuse another payload",
        ),
        (
            reserved(State::Completed, Outcome::ResultGone(ResultGone::default())),
            "answer that the result is gone",
        ),
    ];
    for (answer, would) in answers {
        let (client, script) = start();
        let is_grant = matches!(answer.outcome, Some(Outcome::Acquired(_)));
        script.reserve(Step::Answer(answer));
        let (observe, seen) = observe();
        held_up(&client, &observe).await;
        assert!(client.close(Duration::from_secs(5)).await);
        assert_eq!(*seen.lock().unwrap(), [would]);
        let Asked::Reserve(asked) = &script.asked()[0] else {
            panic!("{:?}", script.names());
        };
        assert_eq!(asked.record.as_ref().unwrap().operation, "charge.observe");
        assert_eq!(asked.wait, None, "an observer holds up nobody");
        let reported = script.names().contains(&"Complete");
        assert_eq!(reported, is_grant, "{would}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_holds_the_effect_up_for_no_longer_than_the_limit() {
    let (client, script) = start();
    for _ in 0..100 {
        script.reserve(Step::Silence);
    }
    let (observe, seen) = observe();
    assert_eq!(held_up(&client, &observe).await, RESERVE_LIMIT_DEFAULT);
    let hasty = observe.reserve_limit(Duration::from_millis(20));
    assert_eq!(held_up(&client, &hasty).await, Duration::from_millis(20));
    client.close(Duration::from_secs(60)).await;
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 2);
    assert!(
        seen.iter()
            .all(|it| it.starts_with("fail: outcome unknown")),
        "{seen:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_accepts_and_never_speaks_or_is_not_there_holds_nothing_up() {
    for absent in [true, false] {
        let (client, script) = start();
        match absent {
            true => script.refuse_connections(1000),
            false => script.silent_connections(1000),
        }
        let (observe, seen) = observe();
        assert!(held_up(&client, &observe).await <= RESERVE_LIMIT_DEFAULT);
        client.close(Duration::from_secs(60)).await;
        assert!(seen.lock().unwrap()[0].starts_with("fail: "), "{seen:?}");
    }
    let client = Client::builder("http://127.0.0.1:1").build().unwrap();
    let (observe, _) = observe();
    assert!(held_up(&client, &observe).await <= RESERVE_LIMIT_DEFAULT + Duration::from_millis(5));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_errors_or_nonsense_changes_nothing() {
    let steps: [fn() -> Step<ReserveResponse>; 6] = [
        || refuse(Code::InvalidArgument, Reason::InvalidField),
        || refuse(Code::PermissionDenied, Reason::NotAllowed),
        || refuse(Code::Internal, Reason::Internal),
        || Step::Refuse(Status::unimplemented("what is this")),
        || Step::Answer(ReserveResponse::default()),
        || Step::Cut,
    ];
    for step in steps {
        let (client, script) = start();
        for _ in 0..100 {
            script.reserve(step());
        }
        let (observe, seen) = observe();
        assert!(held_up(&client, &observe).await <= RESERVE_LIMIT_DEFAULT);
        client.close(Duration::from_secs(60)).await;
        assert!(seen.lock().unwrap()[0].starts_with("fail: "), "{seen:?}");
        assert!(!script.names().contains(&"Complete"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_after_the_effect_began_is_still_reported_to() {
    let (client, script) = start();
    script.reserve(late(Duration::from_secs(2), granted(grant())));
    let (observe, seen) = observe();
    assert_eq!(held_up(&client, &observe).await, RESERVE_LIMIT_DEFAULT);
    assert!(client.close(Duration::from_secs(60)).await);
    assert_eq!(script.names(), ["Reserve", "Complete"]);
    assert_eq!(*seen.lock().unwrap(), ["run"]);
}

#[tokio::test(start_paused = true)]
async fn a_report_that_is_never_answered_is_not_waited_for() {
    let (client, script) = start();
    for _ in 0..100 {
        script.complete(Step::Silence);
    }
    let (observe, _) = observe();
    assert_eq!(held_up(&client, &observe).await, Duration::ZERO);
    sleep(Duration::from_secs(1)).await;
    assert!(script.names().contains(&"Complete"));
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_kept_while_an_observed_effect_runs_and_losing_it_changes_nothing() {
    for loses in [false, true] {
        let (client, script) = start();
        if loses {
            script.renew(refuse(Code::Aborted, Reason::StaleToken));
        }
        let (observe, _) = observe();
        let ended = client
            .observe(&observe, || async {
                sleep(LEASE * 3).await;
                done()
            })
            .await;
        assert_eq!(ended, done());
        assert!(client.close(Duration::from_secs(5)).await);
        assert_eq!(script.names().last(), Some(&"Complete"));
        let renewed = script.names().len() - 2;
        assert_eq!(renewed == 1, loses, "{renewed}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_a_panic_and_a_drop_of_the_effect_are_its_own_and_recorded_as_unknown() {
    let (client, script) = start();
    let (observe, _) = observe();
    let error = client
        .observe(&observe, || async { Err("timed out".to_owned()) })
        .await;
    assert_eq!(error, Err("timed out".to_owned()));

    let (again, shared) = (observe.clone(), client.clone());
    let panicking = tokio::spawn(async move {
        let effect = || async { panic!("out of paper") as Result<Verdict, String> };
        shared.observe(&again, effect).await
    });
    assert!(panicking.await.unwrap_err().is_panic());

    let endless = client.observe(&observe, std::future::pending::<Result<Verdict, String>>);
    timeout(LEASE / 10, endless).await.unwrap_err();

    assert!(client.close(Duration::from_secs(5)).await);
    let names = script.names();
    assert_eq!(
        names.iter().filter(|it| **it == "MarkPending").count(),
        3,
        "{names:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_one_who_looks_harms_neither_effect_nor_report() {
    let (client, script) = start();
    let observe = Observe::new(ask())
        .unwrap()
        .seen(|_| panic!("no such metric"));
    held_up(&client, &observe).await;
    assert!(client.close(Duration::from_secs(5)).await);
    assert_eq!(script.names(), ["Reserve", "Complete"]);
}

#[tokio::test(start_paused = true)]
async fn with_too_little_of_its_lease_left_enforcing_would_not_have_begun() {
    let (client, script) = start();
    let short = Acquired {
        lease_remaining: Some(wire(LEASE / 4)),
        ..grant()
    };
    script.reserve(Step::Answer(granted(short)));
    let seen: Arc<Mutex<bool>> = Arc::default();
    let told = Arc::clone(&seen);
    let observe = Observe::new(ask().lease(LEASE)).unwrap().seen(move |seen| {
        *told.lock().unwrap() = matches!(seen.would, Would::TooLate);
    });
    held_up(&client, &observe).await;
    assert!(client.close(Duration::from_secs(5)).await);
    assert!(*seen.lock().unwrap());
}

#[test]
fn a_name_that_would_be_too_long_is_refused_at_once() {
    let named = |bytes: usize| {
        let record = record_name("t1", "o".repeat(bytes), "", "k1");
        Observe::new(Reserve::new(record, ask().identity))
    };
    assert!(named(120).is_ok());
    let error = named(121).unwrap_err();
    assert!(
        matches!(
            error,
            Error::OperationTooLong {
                bytes: 129,
                limit: 128
            }
        ),
        "{error}"
    );
    assert!(error.never_sent());
}
