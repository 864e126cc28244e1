//! MarkSending: without its OK nothing begins, and its lease is counted from its sending.

use std::convert::Infallible;
use std::time::Duration;

use reprise_client::proto::*;
use reprise_client::{Effect, Ending, Reason, Sending, Verdict, content};
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;

use crate::scripted::*;

async fn never(_: Effect) -> Result<Verdict, Infallible> {
    panic!("the effect was called");
}

fn done() -> Result<Verdict, Infallible> {
    Ok(Verdict::Done(content("200", "ok")))
}

#[tokio::test(start_paused = true)]
async fn the_effect_begins_after_mark_sending_said_ok() {
    let (client, script) = start();
    let seen = script.clone();
    let sending = Sending {
        provider_reference: "pi_1".to_owned(),
        instruction: "POST /charges".into(),
        lease: Some(LEASE),
    };
    let ran = client
        .run_marked(&ask(), sending, |effect| async move {
            assert_eq!(seen.names(), ["Reserve", "MarkSending"]);
            assert_eq!(effect.instruction, "POST /charges");
            done()
        })
        .await
        .unwrap();
    assert!(ran.result().is_some());
    let asked = script.asked();
    let Asked::MarkSending(mark) = &asked[1] else {
        panic!("{asked:?}");
    };
    assert_eq!(mark.token, grant().token);
    assert_eq!(mark.provider_reference, "pi_1");
    assert_eq!(mark.lease, Some(wire(LEASE)));
}

#[tokio::test(start_paused = true)]
async fn where_mark_sending_is_refused_the_effect_is_never_called() {
    let frees = [
        (Code::FailedPrecondition, Reason::LeaseExpired, true),
        (Code::FailedPrecondition, Reason::RecordPending, true),
        (Code::FailedPrecondition, Reason::Claimed, true),
        (Code::FailedPrecondition, Reason::Contradicted, true),
        (Code::PermissionDenied, Reason::NotAllowed, true),
        (Code::Aborted, Reason::StaleToken, false),
        (Code::FailedPrecondition, Reason::AttemptOver, false),
        (
            Code::FailedPrecondition,
            Reason::OutcomeAlreadyRecorded,
            false,
        ),
        (Code::NotFound, Reason::RecordNotFound, false),
    ];
    for (code, reason, freed) in frees {
        let (client, script) = start();
        script.mark_sending(refuse(code, reason));
        let ran = client.run_marked(&ask(), Sending::default(), never).await;
        assert_eq!(ran.unwrap_err().reason(), Some(reason));
        assert!(client.close(Duration::from_secs(5)).await);
        let fails = script
            .names()
            .iter()
            .filter(|name| **name == "Fail")
            .count();
        assert_eq!(fails, usize::from(freed), "{reason:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_to_mark_sending_the_effect_is_never_called_and_the_key_is_freed() {
    let (client, script) = start();
    script
        .mark_sending(Step::Silence)
        .mark_sending(Step::Silence);
    let error = client
        .run_marked(&ask(), Sending::default(), never)
        .await
        .unwrap_err();
    assert!(error.outcome_unknown());
    assert!(client.close(Duration::from_secs(5)).await);
    assert_eq!(
        script.names(),
        ["Reserve", "MarkSending", "MarkSending", "Fail"]
    );
    let asked = script.asked();
    let Some(Asked::Fail(fail)) = asked.last() else {
        panic!("{asked:?}");
    };
    assert_eq!(fail.kind(), FailureKind::Retryable);
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_mark_sending_that_is_not_understood_permits_nothing() {
    let strange = [
        MarkSendingResponse {
            record: Some(summary(State::Pending)),
            ..marked()
        },
        MarkSendingResponse {
            lease_remaining: None,
            ..marked()
        },
        MarkSendingResponse::default(),
    ];
    for answer in strange {
        let (client, script) = start();
        script.mark_sending(Step::Answer(answer));
        let ran = client.run_marked(&ask(), Sending::default(), never).await;
        assert!(ran.unwrap_err().outcome_unknown());
    }
}

#[tokio::test(start_paused = true)]
async fn the_marked_lease_counts_from_the_sending_of_the_mark() {
    let short = Duration::from_secs(3);
    for (delay, begins) in [(1990, true), (2010, false)] {
        let (client, script) = start();
        script.mark_sending(late(
            Duration::from_millis(delay),
            MarkSendingResponse {
                lease_remaining: Some(wire(short)),
                ..marked()
            },
        ));
        let sending = Sending {
            lease: Some(short),
            ..Sending::default()
        };
        let called = std::sync::atomic::AtomicBool::new(false);
        let ran = client
            .run_marked(&ask(), sending, |_| async {
                called.store(true, std::sync::atomic::Ordering::Relaxed);
                done()
            })
            .await
            .unwrap();
        assert_eq!(called.into_inner(), begins);
        assert_eq!(ran.ending == Ending::TooLate, !begins);
        let last = if begins { "Complete" } else { "Fail" };
        assert_eq!(script.names(), ["Reserve", "MarkSending", last]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_earlier_attempts_instruction_takes_the_place_of_a_new_one() {
    let (client, script) = start();
    script.reserve(Step::Answer(granted(Acquired {
        reason: GrantReason::AfterRetryableFailure.into(),
        earlier: Some(EarlierAttempts {
            instruction: "the first request".into(),
            provider_reference: "pi_0".to_owned(),
            unaccounted: true,
            error: Some(text("busy")),
        }),
        ..grant()
    })));
    let sending = Sending {
        instruction: "another request".into(),
        ..Sending::default()
    };
    client
        .run_marked(&ask(), sending, |effect| async move {
            assert_eq!(effect.instruction, "the first request");
            assert_eq!(effect.earlier.provider_reference, "pi_0");
            assert!(effect.earlier.unaccounted);
            assert_eq!(effect.reason, GrantReason::AfterRetryableFailure);
            done()
        })
        .await
        .unwrap();
    let asked = script.asked();
    assert!(
        matches!(&asked[1], Asked::MarkSending(mark) if mark.instruction == "the first request"),
        "{asked:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_dropped_while_it_marks_frees_the_key_because_nothing_was_sent() {
    let (client, script) = start();
    script.mark_sending(Step::Silence);
    let reserve = ask();
    let run = client.run_marked(&reserve, Sending::default(), never);
    timeout(Duration::from_secs(1), run).await.unwrap_err();
    assert!(client.close(Duration::from_secs(5)).await);
    let asked = script.asked();
    assert!(
        matches!(asked.last(), Some(Asked::Fail(fail)) if fail.kind() == FailureKind::Retryable
            && fail.holder == Some(fail_request::Holder::Token(grant().token))),
        "{asked:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn renewals_ask_for_the_length_of_the_mark() {
    let (client, script) = start();
    let sending = Sending {
        lease: Some(Duration::from_secs(60)),
        ..Sending::default()
    };
    let began = Instant::now();
    client
        .run_marked(&ask().lease(LEASE), sending, |_| async {
            sleep(LEASE).await;
            done()
        })
        .await
        .unwrap();
    assert!(began.elapsed() >= LEASE);
    let asked = script.asked();
    let mut renewals = asked.iter().filter_map(|asked| match asked {
        Asked::Renew(renew) => renew.lease,
        _ => None,
    });
    assert_eq!(renewals.next(), Some(wire(Duration::from_secs(60))));
}

#[tokio::test(start_paused = true)]
async fn without_an_instruction_of_its_own_the_mark_carries_the_one_given_to_reserve() {
    let (client, script) = start();
    client
        .run_marked(
            &ask().instruction("POST"),
            Sending::default(),
            |effect| async move {
                assert_eq!(effect.instruction, "POST");
                done()
            },
        )
        .await
        .unwrap();
    let asked = script.asked();
    assert!(
        matches!(&asked[1], Asked::MarkSending(mark) if mark.instruction == "POST"),
        "{asked:?}"
    );
}
