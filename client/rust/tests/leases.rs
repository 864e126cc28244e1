//! The lease: counted from sending, long enough to begin, kept alive, and its loss told.

use std::convert::Infallible;
use std::time::Duration;

use reprise_client::proto::*;
use reprise_client::{Ending, LeaseLost, Outcome, Reason, Verdict, content};
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;

use crate::scripted::*;

const SHORT: Duration = Duration::from_secs(3);

fn short_grant() -> ReserveResponse {
    granted(Acquired {
        lease_remaining: Some(wire(SHORT)),
        ..grant()
    })
}

fn done() -> Result<Verdict, Infallible> {
    Ok(Verdict::Done(content("200", "ok")))
}

#[tokio::test(start_paused = true)]
async fn a_lease_counts_from_the_moment_the_answered_try_was_sent() {
    let (client, script) = start();
    let began = Instant::now();
    script
        .reserve(Step::Silence)
        .reserve(late(Duration::from_secs(1), granted(grant())));
    let reserved = client.reserve(&ask()).await.unwrap();
    let Outcome::Acquired(acquired) = reserved.outcome else {
        panic!("not acquired");
    };
    let second_sent = script.times()[1];
    assert_eq!(acquired.lease.ends(), second_sent + LEASE);
    // Granted again it has run since the first try, so the whole is longer than the rest.
    assert_eq!(acquired.lease.length(), LEASE + (second_sent - began));
}

#[tokio::test(start_paused = true)]
async fn with_less_than_a_third_left_the_effect_is_not_called_and_the_key_is_freed() {
    let (client, script) = start();
    script.reserve(late(Duration::from_millis(2010), short_grant()));
    let ran = client
        .run(&ask().lease(SHORT), |_| async {
            panic!("called") as Result<Verdict, Infallible>
        })
        .await
        .unwrap();
    assert_eq!(ran.ending, Ending::TooLate);
    let asked = script.asked();
    let [_, Asked::Fail(fail)] = asked.as_slice() else {
        panic!("{asked:?}");
    };
    assert_eq!(fail.kind(), FailureKind::Retryable);
    assert!(!fail.effect_key_spent);
    assert_eq!(
        fail.holder,
        Some(fail_request::Holder::Token(grant().token))
    );
}

#[tokio::test(start_paused = true)]
async fn with_just_over_a_third_left_the_effect_begins() {
    let (client, script) = start();
    script.reserve(late(Duration::from_millis(1990), short_grant()));
    let ran = client
        .run(&ask().lease(SHORT), |_| async { done() })
        .await
        .unwrap();
    assert!(ran.result().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_grant_given_again_late_is_measured_by_the_whole_lease() {
    let (client, script) = start();
    // Granted at the first try, whose answer is lost; 2.5 s later 0.9 s are left.
    script
        .reserve(Step::Silence)
        .reserve(Step::Answer(granted(Acquired {
            lease_remaining: Some(wire(Duration::from_millis(900))),
            reason: GrantReason::Again.into(),
            ..grant()
        })));
    let ran = client
        .run(&ask(), |_| async {
            panic!("called") as Result<Verdict, Infallible>
        })
        .await
        .unwrap();
    assert_eq!(ran.ending, Ending::TooLate);
}

#[tokio::test(start_paused = true)]
async fn our_own_attempt_that_lapsed_unbegun_is_freed() {
    let (client, script) = start();
    script.reserve(Step::Answer(reserved(
        State::Pending,
        reserve_response::Outcome::Pending(Pending {
            yours: true,
            token: grant().token,
            ..Pending::default()
        }),
    )));
    let ran = client
        .run(&ask(), |_| async {
            panic!("called") as Result<Verdict, Infallible>
        })
        .await
        .unwrap();
    assert_eq!(ran.ending, Ending::TooLate);
    let asked = script.asked();
    assert!(
        matches!(&asked[1], Asked::Fail(fail) if fail.kind() == FailureKind::Retryable
            && fail.holder == Some(fail_request::Holder::Token(grant().token))),
        "{asked:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_was_waited_for_is_renewed_before_it_is_called_too_late() {
    let (client, script) = start();
    let wait = Duration::from_secs(25);
    script.reserve(late(wait, granted(grant())));
    let ran = client
        .run(&ask().lease(LEASE).wait(wait), |_| async { done() })
        .await
        .unwrap();
    assert!(ran.result().is_some());
    assert_eq!(script.names(), ["Reserve", "Renew", "Complete"]);

    let (client, script) = start();
    script
        .reserve(late(wait, granted(grant())))
        .renew(refuse(Code::FailedPrecondition, Reason::LeaseExpired));
    let ran = client
        .run(&ask().lease(LEASE).wait(wait), |_| async {
            panic!("called") as Result<Verdict, Infallible>
        })
        .await
        .unwrap();
    assert_eq!(ran.ending, Ending::TooLate);
    assert_eq!(script.names(), ["Reserve", "Renew", "Fail"]);
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_renewed_each_third_while_the_effect_runs_and_not_after() {
    let (client, script) = start();
    let ran = client
        .run(&ask(), |effect| async move {
            sleep(Duration::from_secs(95)).await;
            assert_eq!(effect.lease_lost_already(), None);
            done()
        })
        .await
        .unwrap();
    assert!(ran.warnings.is_empty());
    let renewals = script
        .names()
        .iter()
        .filter(|name| **name == "Renew")
        .count();
    assert!((9..=12).contains(&renewals), "{renewals}");
    assert_eq!(script.names().last(), Some(&"Complete"));
    sleep(LEASE * 3).await;
    assert_eq!(
        script.names().last(),
        Some(&"Complete"),
        "no renewal after the report"
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_renewal_is_told_at_once_and_the_effect_still_reports() {
    let (client, script) = start();
    script.renew(refuse(Code::Aborted, Reason::StaleToken));
    let began = Instant::now();
    let ran = client
        .run(&ask(), |effect| async move {
            let lost = effect.lease_lost().await;
            assert_eq!(lost, LeaseLost::Refused(Reason::StaleToken));
            assert!(began.elapsed() <= LEASE / 3 + Duration::from_secs(1));
            done()
        })
        .await
        .unwrap();
    assert!(ran.result().is_some());
    assert_eq!(script.names(), ["Reserve", "Renew", "Complete"]);
}

#[tokio::test(start_paused = true)]
async fn renewals_that_cannot_get_through_are_told_before_the_lease_ends() {
    let (client, script) = start();
    for _ in 0..100 {
        script.renew(Step::Silence);
    }
    let began = Instant::now();
    client
        .run(&ask(), |effect| async move {
            assert_eq!(effect.lease_lost().await, LeaseLost::NotRenewed);
            assert!(began.elapsed() < LEASE, "{:?}", began.elapsed());
            assert!(began.elapsed() > LEASE / 2, "not before it was tried");
            done()
        })
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_gets_through_at_last_keeps_the_lease() {
    let (client, script) = start();
    for _ in 0..3 {
        script.renew(refuse(Code::Unavailable, Reason::StoreUnavailable));
    }
    script
        .renew(Step::Silence)
        .renew(Step::Silence)
        .renew(Step::Silence);
    client
        .run(&ask(), |effect| async move {
            assert!(timeout(LEASE * 2, effect.lease_lost()).await.is_err());
            done()
        })
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn renewing_stops_when_the_run_is_dropped() {
    let (client, script) = start();
    let reserve = ask();
    let run = client.run(&reserve, |_| {
        std::future::pending::<Result<Verdict, Infallible>>()
    });
    timeout(Duration::from_secs(40), run).await.unwrap_err();
    assert!(client.close(Duration::from_secs(5)).await);
    let asked = script.names().len();
    sleep(LEASE * 3).await;
    assert_eq!(script.names().len(), asked);
    assert_eq!(script.names().last(), Some(&"MarkPending"));
}
