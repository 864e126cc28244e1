//! A worker that carries the effect out itself keeps the rules of a run.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use reprise_client::proto::resolve_request::Outcome;
use reprise_client::proto::*;
use reprise_client::{Client, Effect, Finding, Sending, TakeOver, Verdict, content};
use tokio::time::sleep;

use crate::at_work::*;
use crate::scripted::*;

/// Begins a worker that takes the record over with `effect`.
fn begun<F, E>(client: &Client, effect: fn(Effect) -> F) -> AtWork
where
    F: Future<Output = Result<Verdict, E>> + Send + 'static,
    E: Into<reprise_client::BoxError> + 'static,
{
    begin(worker(client), move |_| async move {
        Ok::<_, Infallible>(Finding::take_over(effect).because("not sent yet"))
    })
}

async fn never(_: Effect) -> Result<Verdict, Infallible> {
    panic!("the effect was called");
}

async fn done(_: Effect) -> Result<Verdict, Infallible> {
    Ok(Verdict::Done(content("200", "ok")))
}

fn of_resolver() -> Acquired {
    Acquired {
        reason: GrantReason::AfterResolution.into(),
        earlier: Some(EarlierAttempts {
            instruction: "POST /charges".into(),
            ..EarlierAttempts::default()
        }),
        ..grant()
    }
}

fn last(script: &Script) -> Asked {
    script.asked().pop().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_record_taken_over_is_carried_out_with_its_instruction_and_reported() {
    let (client, script) = start();
    script
        .claim_pending(Step::Answer(claims(&["k1"])))
        .resolve(Step::Answer(taken_over(of_resolver())));
    let at_work = begun(&client, |effect| async move {
        assert_eq!(effect.instruction, "POST /charges");
        assert_eq!(effect.effect_key, EFFECT_KEY);
        assert_eq!(effect.reason, GrantReason::AfterResolution);
        assert_eq!(effect.record.key, "k1");
        sleep(Duration::from_secs(95)).await;
        assert_eq!(effect.lease_lost_already(), None);
        done(effect).await
    });
    at_work.until("carried out k1: Completed").await;
    assert!(at_work.stopped().await.unwrap());
    assert!(client.close(Duration::from_secs(5)).await);
    let Some(Outcome::TakeOver(it)) = &resolutions(&script)[0].outcome else {
        panic!("{:?}", resolutions(&script));
    };
    assert_eq!(it.attempt_id.len(), 16);
    let asked = script.asked().into_iter();
    let complete = asked.filter_map(|asked| match asked {
        Asked::Complete(request) => Some(request),
        _ => None,
    });
    let complete: Vec<_> = complete.collect();
    assert_eq!(complete.len(), 1);
    assert_eq!(complete[0].token, grant().token);
    assert_eq!(complete[0].record, claimed("k1").name);
    assert!(renewals(&script).is_empty(), "the claim was used up");
    assert!(
        (9..=12).contains(&count(&script, "Renew")),
        "the attempt is renewed"
    );
}

#[tokio::test(start_paused = true)]
async fn where_the_grant_carries_no_instruction_the_claims_is_handed_on() {
    let (client, script) = start();
    script
        .claim_pending(Step::Answer(claims(&["k1"])))
        .resolve(Step::Answer(taken_over(grant())));
    let at_work = begun(&client, |effect| async move {
        assert_eq!(effect.instruction, "POST /charges");
        done(effect).await
    });
    at_work.until("carried out k1: Completed").await;
    at_work.stopped().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_marked_take_over_begins_after_mark_sending_said_ok() {
    let (client, script) = start();
    script
        .claim_pending(Step::Answer(claims(&["k1"])))
        .resolve(Step::Answer(taken_over(of_resolver())));
    let at_work = begin(worker(&client), |_| async {
        let it = TakeOver::new(done)
            .lease(LEASE)
            .marked(Sending::default())
            .effect_key_spent();
        Ok::<_, Infallible>(Finding::TakeOver(it).because("not sent yet"))
    });
    at_work.until("carried out k1: Completed").await;
    at_work.stopped().await.unwrap();
    let resolution = &resolutions(&script)[0];
    assert!(resolution.effect_key_spent);
    assert!(
        matches!(&resolution.outcome, Some(Outcome::TakeOver(it)) if it.lease == Some(wire(LEASE)))
    );
    let asked = script.asked().into_iter();
    let mark = asked.filter_map(|asked| match asked {
        Asked::MarkSending(request) => Some(request.instruction),
        _ => None,
    });
    assert_eq!(mark.collect::<Vec<_>>(), ["POST /charges"]);
}

#[tokio::test(start_paused = true)]
async fn while_an_operator_holds_nothing_runs_and_the_record_is_put_off() {
    let (client, script) = start();
    let wish = Duration::from_secs(900);
    let held = ResolveResponse {
        record: Some(summary(State::Pending)),
        processing: Some(Processing {
            reason: ProcessingReason::Held.into(),
            retry_after: Some(wire(wish)),
            ..Processing::default()
        }),
        ..ResolveResponse::default()
    };
    script
        .claim_pending(Step::Answer(claims(&["k1"])))
        .resolve(Step::Answer(held));
    let at_work = begun(&client, never);
    at_work.until("unknown k1, held").await;
    at_work.stopped().await.unwrap();
    assert!(check_after(&resolutions(&script)[1]) >= wish);
}

#[tokio::test(start_paused = true)]
async fn a_take_over_that_went_on_without_us_runs_nothing() {
    let (client, script) = start();
    let gone_on = ResolveResponse {
        disposition: ReportDisposition::Repeated.into(),
        record: Some(summary(State::Pending)),
        ..ResolveResponse::default()
    };
    script
        .claim_pending(Step::Answer(claims(&["k1"])))
        .resolve(Step::Answer(gone_on));
    let at_work = begun(&client, never);
    at_work.until("resolved k1").await;
    sleep(LEASE).await;
    assert_eq!(at_work.told(), ["claimed 1", "resolved k1"]);
    at_work.stopped().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_take_over_whose_answer_is_lost_asks_again_with_its_attempt_id() {
    let (client, script) = start();
    script.claim_pending(Step::Answer(claims(&["k1"])));
    for _ in 0..5 {
        script.resolve(Step::Silence);
    }
    script.resolve(Step::Answer(taken_over(of_resolver())));
    let at_work = begun(&client, done);
    at_work.until("carried out k1: Completed").await;
    at_work.stopped().await.unwrap();
    let resolutions = resolutions(&script);
    assert_eq!(resolutions.len(), 6);
    assert!(resolutions.iter().all(|it| *it == resolutions[0]));
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_ends_in_an_unknown_way_is_pending_again() {
    type Ended = Pin<Box<dyn Future<Output = Result<Verdict, &'static str>> + Send>>;
    type Begin = fn(Effect) -> Ended;
    let cases: [(Begin, &str); 2] = [
        (|_| Box::pin(async { Err("timed out") }), "timed out"),
        (|_| Box::pin(async { panic!("out of paper") }), "panicked"),
    ];
    for (effect, words) in cases {
        let (client, script) = start();
        script
            .claim_pending(Step::Answer(claims(&["k1"])))
            .resolve(Step::Answer(taken_over(of_resolver())));
        let at_work = begun::<_, &'static str>(&client, effect);
        at_work
            .until("carried out k1: the effect ended in an unknown way")
            .await;
        at_work.stopped().await.unwrap();
        assert!(client.close(Duration::from_secs(5)).await);
        let pending = script.asked().into_iter().find_map(|asked| match asked {
            Asked::MarkPending(request) => Some(request),
            _ => None,
        });
        let pending = pending.unwrap();
        assert!(pending.reason.contains(words), "{}", pending.reason);
        assert_eq!(pending.token, grant().token);
    }
}

#[tokio::test(start_paused = true)]
async fn an_effect_cut_short_by_the_stop_limit_is_pending_again() {
    let (client, script) = start();
    script
        .claim_pending(Step::Answer(claims(&["k1"])))
        .resolve(Step::Answer(taken_over(of_resolver())));
    let settings = worker(&client).stop_limit(Duration::from_secs(1));
    let at_work = begin(settings, |_| async {
        let effect = |_| std::future::pending::<Result<Verdict, Infallible>>();
        Ok::<_, Infallible>(Finding::take_over(effect).because("not sent yet"))
    });
    at_work.until("resolved k1").await;
    assert!(!at_work.stopped().await.unwrap());
    sleep(Duration::from_secs(1)).await;
    assert!(client.close(Duration::from_secs(5)).await);
    assert!(
        matches!(last(&script), Asked::MarkPending(_)),
        "{:?}",
        script.names()
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_over_and_not_begun_stays_pending_for_the_next_worker() {
    let (client, script) = start();
    let late = Acquired {
        lease_remaining: Some(wire(LEASE / 4)),
        ..of_resolver()
    };
    script
        .claim_pending(Step::Answer(claims(&["k1"])))
        .resolve(Step::Answer(taken_over(late)));
    let at_work = begin(worker(&client), |_| async {
        let it = TakeOver::new(never).lease(LEASE);
        Ok::<_, Infallible>(Finding::TakeOver(it).because("not sent yet"))
    });
    at_work.until("carried out k1: TooLate").await;
    at_work.stopped().await.unwrap();
    assert_eq!(
        count(&script, "Fail"),
        0,
        "a key that is free has no worker"
    );
    assert!(matches!(last(&script), Asked::MarkPending(_)));
}
