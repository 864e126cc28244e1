//! A worker: what is found is said, and nothing else is.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reprise_client::proto::resolve_request::{Authority, Outcome};
use reprise_client::proto::*;
use reprise_client::{Case, Finding, LeaseLost, Reason, Resolution, Verdict};
use tokio::time::sleep;
use tonic::Code;

use crate::at_work::*;
use crate::scripted::*;

/// Works on one record that is found to be so, and answers what was resolved.
async fn found(finding: fn() -> Finding) -> Vec<ResolveRequest> {
    let (client, script) = start();
    script.claim_pending(Step::Answer(claims(&["k1"])));
    let at_work = begin(worker(&client), move |_| async move {
        Ok::<_, Infallible>(finding().because("seen at the provider"))
    });
    at_work.until("resolved k1").await;
    assert!(at_work.stopped().await.unwrap());
    resolutions(&script)
}

#[tokio::test(start_paused = true)]
async fn each_finding_is_resolved_as_what_it_says_under_its_claim() {
    let failed = || Finding::Failed {
        error: text("402"),
        effect_key_spent: true,
    };
    type Found = fn() -> Finding;
    let cases: [(Found, Outcome, bool); 5] = [
        (
            || Finding::Applied(text("201")),
            Outcome::Applied(Applied {
                result: Some(text("201")),
            }),
            false,
        ),
        (
            || Finding::NotApplied,
            Outcome::NotApplied(NotApplied {}),
            false,
        ),
        (
            || Finding::NotAppliedKeySpent,
            Outcome::NotApplied(NotApplied {}),
            true,
        ),
        (
            || Finding::failed(text("402")),
            Outcome::Failed(ResolvedFailed {
                error: Some(text("402")),
            }),
            false,
        ),
        (
            failed,
            Outcome::Failed(ResolvedFailed {
                error: Some(text("402")),
            }),
            true,
        ),
    ];
    for (finding, outcome, effect_key_spent) in cases {
        let resolution = ResolveRequest {
            record: claimed("k1").name,
            authority: Some(Authority::Claim(claimed("k1").claim)),
            outcome: Some(outcome),
            effect_key_spent,
            evidence: "seen at the provider".to_owned(),
            actor: "w1".to_owned(),
        };
        assert_eq!(found(finding).await, [resolution]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_function_is_told_all_that_is_known() {
    let (client, script) = start();
    script.claim_pending(Step::Answer(claims(&["k1"])));
    let seen: Arc<Mutex<Option<Case>>> = Arc::default();
    let kept = Arc::clone(&seen);
    let at_work = begin(worker(&client), move |case| {
        *kept.lock().unwrap() = Some(case);
        async { Ok::<_, Infallible>(Finding::NotApplied.because("nothing there")) }
    });
    at_work.until("resolved").await;
    let case = seen.lock().unwrap().clone().unwrap();
    assert_eq!(Some(case.record.clone()), claimed("k1").name);
    assert_eq!(case.effect_key, EFFECT_KEY);
    assert_eq!(case.provider_reference, "pi_1");
    assert_eq!(case.correlation_id, "trace-1");
    assert_eq!(case.instruction, "POST /charges");
    assert_eq!(case.reason, PendingReason::LeaseExpiredAfterSending);
    assert_eq!(case.detail, "no answer in time");
    assert_eq!(case.pending_for, AGE);
    assert_eq!(case.fence, 1_700_000_000_000_009);
    assert!(case.may_deny && case.unaccounted);
    assert_eq!((case.attempt, case.generation), (1, 1));
    at_work.stopped().await.unwrap();
    let Some(Asked::ClaimPending(asked)) = script.asked().into_iter().next() else {
        panic!("{:?}", script.names());
    };
    assert_eq!(
        (asked.tenant.as_str(), asked.operation.as_str()),
        ("t1", "charge")
    );
    assert_eq!((asked.claim_id.len(), asked.max_records), (16, 10));
    assert_eq!(asked.lease, Some(wire(LEASE)));
    assert_eq!(asked.owner, "w1");
}

#[tokio::test(start_paused = true)]
async fn an_error_and_a_panic_of_the_function_are_still_unknown_and_never_not_applied() {
    for panics in [false, true] {
        let (client, script) = start();
        script.claim_pending(Step::Answer(claims(&["k1"])));
        let at_work = begin(worker(&client), move |_| async move {
            assert!(!panics, "no such charge");
            Err::<Resolution, _>("no such charge\0")
        });
        at_work.until("unknown k1, failed").await;
        assert!(at_work.stopped().await.unwrap());
        let resolutions = resolutions(&script);
        assert_eq!(resolutions.len(), 1);
        let evidence = &resolutions[0].evidence;
        assert!(evidence.contains("no such charge"), "{evidence}");
        assert!(!evidence.contains('\0'), "the server would refuse it");
        let pause = check_after(&resolutions[0]);
        assert!(pause <= AGE && pause >= AGE.mul_f64(0.79), "{pause:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_stays_unknown_is_looked_at_again_as_the_function_says_or_as_it_ages() {
    let said: [(Option<Duration>, Duration); 3] = [
        (None, AGE),
        (Some(Duration::from_secs(7)), Duration::from_secs(7)),
        (Some(Duration::MAX), Duration::from_secs(30 * 24 * 3600)),
    ];
    for (given, full) in said {
        let (client, script) = start();
        script.claim_pending(Step::Answer(claims(&["k1"])));
        let at_work = begin(worker(&client), move |_| async move {
            let finding = Finding::StillUnknown {
                check_after: given,
                provider_reference: "pi_2".to_owned(),
            };
            Ok::<_, Infallible>(finding.because(""))
        });
        at_work.until("unknown k1, said").await;
        at_work.stopped().await.unwrap();
        let resolution = &resolutions(&script)[0];
        let pause = check_after(resolution);
        assert!(pause <= full && pause >= full.mul_f64(0.79), "{pause:?}");
        let Some(Outcome::StillUnknown(unknown)) = &resolution.outcome else {
            panic!("{resolution:?}");
        };
        assert_eq!(unknown.provider_reference, "pi_2");
        assert!(
            !resolution.evidence.is_empty(),
            "the server would refuse it"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_reference_that_is_refused_does_not_keep_the_record_from_being_put_off() {
    let (client, script) = start();
    script
        .claim_pending(Step::Answer(claims(&["k1"])))
        .resolve(refuse(Code::InvalidArgument, Reason::InvalidField));
    let at_work = begin(worker(&client), |_| async {
        let finding = Finding::StillUnknown {
            check_after: None,
            provider_reference: "x".repeat(300),
        };
        Ok::<_, Infallible>(finding.because("found, and in progress"))
    });
    at_work.until("unknown k1, said").await;
    at_work.stopped().await.unwrap();
    assert_eq!(resolutions(&script).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_this_claim_may_not_say_is_still_unknown() {
    let findings: [fn() -> Finding; 3] = [
        || Finding::NotApplied,
        || Finding::failed(text("402")),
        || Finding::take_over(|_| async { panic!("called") as Result<Verdict, Infallible> }),
    ];
    for finding in findings {
        let (client, script) = start();
        let mut answer = claims(&["k1"]);
        answer.records[0].may_deny = false;
        script.claim_pending(Step::Answer(answer));
        let at_work = begin(worker(&client), move |_| async move {
            Ok::<_, Infallible>(finding().because("nothing there"))
        });
        at_work.until("unknown k1, may not deny").await;
        at_work.stopped().await.unwrap();
        let resolutions = resolutions(&script);
        assert_eq!(resolutions.len(), 1, "it is not even tried");
        check_after(&resolutions[0]);
        assert!(resolutions[0].evidence.contains("nothing there"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_denial_that_the_server_refuses_as_too_early_or_too_late_is_still_unknown() {
    for reason in [Reason::Settling, Reason::TooLateToTell] {
        for may_deny in [true, false] {
            let (client, script) = start();
            let mut answer = claims(&["k1"]);
            answer.records[0].may_deny = may_deny;
            script
                .claim_pending(Step::Answer(answer))
                .resolve(refuse(Code::FailedPrecondition, reason));
            let at_work = begin(worker(&client), |_| async {
                // With a spent key it may not be too late: the server is asked.
                Ok::<_, Infallible>(Finding::NotAppliedKeySpent.because("rejected"))
            });
            at_work.until("unknown k1, may not deny").await;
            at_work.stopped().await.unwrap();
            let resolutions = resolutions(&script);
            assert_eq!(resolutions.len(), 2);
            assert!(resolutions[0].effect_key_spent && !resolutions[1].effect_key_spent);
            check_after(&resolutions[1]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_claim_is_renewed_while_the_function_runs_and_not_after() {
    let (client, script) = start();
    script.claim_pending(Step::Answer(claims(&["k1"])));
    let at_work = begin(worker(&client), |_| async {
        sleep(Duration::from_secs(95)).await;
        Ok::<_, Infallible>(Finding::NotApplied.because("nothing there"))
    });
    at_work.until("resolved").await;
    let renewed = renewals(&script);
    assert!((9..=12).contains(&renewed.len()), "{renewed:?}");
    let usual = ("claim of k1".to_owned(), None);
    assert!(renewed.iter().all(|it| *it == usual));
    sleep(LEASE * 3).await;
    at_work.stopped().await.unwrap();
    client.close(Duration::from_secs(5)).await;
    assert_eq!(
        renewals(&script).len(),
        renewed.len(),
        "used, it is not ended either"
    );
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_over_while_the_function_runs_is_told_and_nothing_else_is_done() {
    let (client, script) = start();
    script
        .claim_pending(Step::Answer(claims(&["k1"])))
        .renew(refuse_saying(
            Code::FailedPrecondition,
            Reason::ClaimOver,
            None,
            &[("state", "COMPLETED")],
        ));
    let at_work = begin(worker(&client), |case| async move {
        let lost = case.claim_lost().await;
        assert!(matches!(lost, LeaseLost::ClaimOver(_)), "{lost:?}");
        sleep(LEASE * 3).await;
        Ok::<_, Infallible>(Finding::NotApplied.because("nothing there"))
    });
    at_work.until("over k1, STATE_COMPLETED").await;
    sleep(LEASE * 5).await;
    assert_eq!(at_work.told().len(), 2, "{:?}", at_work.told());
    at_work.stopped().await.unwrap();
    client.close(Duration::from_secs(5)).await;
    assert_eq!((count(&script, "Resolve"), count(&script, "Renew")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_took_place_is_told_even_under_a_claim_that_is_over() {
    let (client, script) = start();
    let over = || {
        let state = [("state", "FAILED_RETRYABLE")];
        refuse_saying(Code::FailedPrecondition, Reason::ClaimOver, None, &state)
    };
    script
        .claim_pending(Step::Answer(claims(&["k1"])))
        .renew(over());
    let at_work = begin(worker(&client), |_| async {
        sleep(LEASE).await;
        Ok::<_, Infallible>(Finding::Applied(text("201")).because("there it is"))
    });
    at_work.until("resolved k1").await;
    at_work.stopped().await.unwrap();
    assert_eq!(count(&script, "Resolve"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_resolution_under_a_claim_that_is_over_is_told_and_nothing_else_is_done() {
    let (client, script) = start();
    script
        .claim_pending(Step::Answer(claims(&["k1"])))
        .resolve(refuse_saying(
            Code::FailedPrecondition,
            Reason::ClaimOver,
            None,
            &[("state", "PENDING")],
        ));
    let at_work = begin(worker(&client), |_| async {
        Ok::<_, Infallible>(Finding::NotApplied.because("nothing there"))
    });
    at_work.until("over k1, STATE_PENDING").await;
    at_work.stopped().await.unwrap();
    client.close(Duration::from_secs(5)).await;
    assert_eq!((count(&script, "Resolve"), count(&script, "Renew")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_could_not_be_renewed_still_resolves() {
    let (client, script) = start();
    script.claim_pending(Step::Answer(claims(&["k1"])));
    for _ in 0..100 {
        script.renew(Step::Silence);
    }
    let at_work = begin(worker(&client), |case| async move {
        assert_eq!(case.claim_lost().await, LeaseLost::NotRenewed);
        Ok::<_, Infallible>(Finding::NotApplied.because("nothing there"))
    });
    at_work.until("resolved k1").await;
    at_work.stopped().await.unwrap();
    assert_eq!(count(&script, "Resolve"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_resolution_whose_answer_is_lost_is_repeated_with_the_same_content() {
    let (client, script) = start();
    script.claim_pending(Step::Answer(claims(&["k1"])));
    // More than the tries of one call.
    for _ in 0..8 {
        script.resolve(Step::Silence);
    }
    let at_work = begin(worker(&client), |_| async {
        Ok::<_, Infallible>(Finding::Applied(text("201")).because("there it is"))
    });
    at_work.until("resolved k1").await;
    assert_eq!(at_work.told(), ["claimed 1", "resolved k1"]);
    at_work.stopped().await.unwrap();
    let resolutions = resolutions(&script);
    assert_eq!(resolutions.len(), 9);
    assert!(resolutions.iter().all(|it| *it == resolutions[0]));
}

#[tokio::test(start_paused = true)]
async fn a_finding_that_is_refused_for_a_field_is_put_off_with_its_evidence() {
    let (client, script) = start();
    script
        .claim_pending(Step::Answer(claims(&["k1"])))
        .resolve(refuse(Code::InvalidArgument, Reason::InvalidField));
    let at_work = begin(worker(&client), |_| async {
        Ok::<_, Infallible>(Finding::Applied(text("201")).because("there it is"))
    });
    at_work.until("unknown k1, Refused").await;
    at_work.stopped().await.unwrap();
    let resolutions = resolutions(&script);
    check_after(&resolutions[1]);
    assert!(resolutions[1].evidence.contains("there it is"));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_no_policy_keeps_is_sent_as_size_and_digest() {
    let resolutions =
        found(|| Finding::Applied(reprise_client::content("201", vec![7; 9 << 20]))).await;
    let Some(Outcome::Applied(applied)) = &resolutions[0].outcome else {
        panic!("{:?}", resolutions[0].outcome);
    };
    let body = applied.result.clone().unwrap().body;
    assert!(
        matches!(&body, Some(content::Body::Omitted(it)) if it.size == 9 << 20),
        "omitted"
    );
}
