//! Whatever ends an effect unexpectedly, its key is never silently free.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use reprise_client::proto::*;
use reprise_client::{Client, Error, Verdict, content};
use tokio::time::{sleep, timeout};
use tonic::Code;

use crate::scripted::*;

const CLOSE: Duration = Duration::from_secs(5);

fn take_over() -> Step<ReserveResponse> {
    Step::Answer(granted(Acquired {
        on_lapse: OnLapse::TakeOver.into(),
        ..grant()
    }))
}

/// What was said about the attempt, after its Reserve and renewals.
async fn said(client: &Client, script: &Script) -> Vec<Asked> {
    assert!(client.close(CLOSE).await);
    let mut asked = script.asked();
    asked.retain(|asked| match asked {
        Asked::Reserve(_) => false,
        Asked::Renew(renew) => renew.lease == Some(wire(Duration::ZERO)),
        _ => true,
    });
    asked
}

fn assert_pending(said: &[Asked], words: &str) {
    let [Asked::MarkPending(pending)] = said else {
        panic!("{said:?}");
    };
    assert_eq!(pending.token, grant().token);
    assert!(pending.reason.contains(words), "{}", pending.reason);
}

fn assert_lease_ended(said: &[Asked]) {
    let [Asked::Renew(renew)] = said else {
        panic!("{said:?}");
    };
    assert_eq!(
        renew.holder,
        Some(renew_request::Holder::Token(grant().token))
    );
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_effect_is_pending_and_comes_back_to_the_caller() {
    let (client, script) = start();
    let ran = client
        .run(&ask(), |_| async {
            Err::<Verdict, _>(std::io::Error::other("connection reset"))
        })
        .await;
    let Err(Error::Effect(source)) = ran else {
        panic!("{ran:?}");
    };
    assert_eq!(source.to_string(), "connection reset");
    assert_pending(&said(&client, &script).await, "connection reset");
}

#[tokio::test(start_paused = true)]
async fn a_long_error_text_is_cut_between_characters() {
    let (client, script) = start();
    let text = "ä".repeat(4000);
    client
        .run(&ask(), |_| async { Err::<Verdict, _>(text) })
        .await
        .unwrap_err();
    let said = said(&client, &script).await;
    assert_pending(&said, "ä");
    let Asked::MarkPending(pending) = &said[0] else {
        panic!("{said:?}");
    };
    assert!((250..=255).contains(&pending.reason.len()));
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_effect_is_pending_and_goes_on() {
    for early in [false, true] {
        let (client, script) = start();
        let running = client.clone();
        let run = tokio::spawn(async move {
            let effect = |_| {
                assert!(!early, "boom before the future");
                async {
                    sleep(Duration::from_secs(1)).await;
                    panic!("boom") as Result<Verdict, Infallible>
                }
            };
            running.run(&ask(), effect).await
        });
        assert!(run.await.unwrap_err().is_panic());
        assert_pending(&said(&client, &script).await, "panicked");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_run_is_pending() {
    let (client, script) = start();
    let reserve = ask();
    let run = client.run(&reserve, |_| pending::<Result<Verdict, Infallible>>());
    timeout(Duration::from_secs(3), run).await.unwrap_err();
    assert_pending(&said(&client, &script).await, "cancelled");
}

#[tokio::test(start_paused = true)]
async fn an_aborted_task_is_pending() {
    let (client, script) = start();
    let running = client.clone();
    let run = tokio::spawn(async move {
        running
            .run(&ask(), |_| pending::<Result<Verdict, Infallible>>())
            .await
    });
    while script.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    sleep(Duration::from_secs(1)).await;
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    assert_pending(&said(&client, &script).await, "cancelled");
}

#[tokio::test(start_paused = true)]
async fn where_take_over_is_allowed_the_lease_is_ended_instead() {
    let (client, script) = start();
    script.reserve(take_over());
    client
        .run(&ask(), |_| async { Err::<Verdict, _>("unclear") })
        .await
        .unwrap_err();
    assert_lease_ended(&said(&client, &script).await);

    let (client, script) = start();
    script.reserve(take_over());
    let reserve = ask();
    let run = client.run(&reserve, |_| pending::<Result<Verdict, Infallible>>());
    timeout(Duration::from_secs(3), run).await.unwrap_err();
    assert_lease_ended(&said(&client, &script).await);

    let (client, script) = start();
    script.reserve(take_over());
    let running = client.clone();
    let run = tokio::spawn(async move {
        running
            .run(&ask(), |_| async {
                panic!("boom") as Result<Verdict, Infallible>
            })
            .await
    });
    assert!(run.await.unwrap_err().is_panic());
    assert_lease_ended(&said(&client, &script).await);
}

#[tokio::test(start_paused = true)]
async fn take_over_unless_sent_is_pending_like_the_rest() {
    let (client, script) = start();
    script.reserve(Step::Answer(granted(Acquired {
        on_lapse: OnLapse::TakeOverUnlessSent.into(),
        ..grant()
    })));
    client
        .run(&ask(), |_| async { Err::<Verdict, _>("unclear") })
        .await
        .unwrap_err();
    assert_pending(&said(&client, &script).await, "unclear");
}

#[tokio::test(start_paused = true)]
async fn a_known_result_is_reported_although_its_run_is_dropped_while_it_reports() {
    let (client, script) = start();
    script.complete(Step::Silence);
    let reserve = ask();
    let run = client.run(&reserve, |_| async {
        Ok::<_, Infallible>(Verdict::Done(content("200", "ok")))
    });
    timeout(Duration::from_secs(1), run).await.unwrap_err();
    let said = said(&client, &script).await;
    assert!(
        matches!(said.as_slice(), [Asked::Complete(a), Asked::Complete(b)] if a == b),
        "{said:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_unknown_end_is_reported_until_it_gets_through() {
    let (client, script) = start();
    for _ in 0..30 {
        script.mark_pending(refuse(Code::Unavailable, ErrorReason::StoreUnavailable));
    }
    client
        .run(&ask(), |_| async { Err::<Verdict, _>("unclear") })
        .await
        .unwrap_err();
    assert!(client.close(Duration::from_secs(120)).await);
    assert_eq!(script.names().len(), 1 + 31);
}

#[test]
fn a_runtime_that_ends_while_an_effect_runs_ends_without_a_panic() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(2)
        .build()
        .unwrap();
    let (begun, running) = std::sync::mpsc::channel();
    let run = runtime.spawn(async move {
        let (client, _script) = start();
        client
            .run(&ask(), |_| {
                begun.send(()).unwrap();
                pending::<Result<Verdict, Infallible>>()
            })
            .await
    });
    running.recv().unwrap();
    drop(runtime);
    let ended = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(run);
    assert!(ended.unwrap_err().is_cancelled());
}
