//! Verdicts, how they are reported, and what the caller gets when that does not go as it
//! should.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use reprise_client::proto::*;
use reprise_client::{Client, Ending, Ran, Reason, Uncertainty, Verdict, Warning, omit_over};
use tonic::Code;

use crate::scripted::*;

async fn run(client: &Client, verdict: Verdict) -> Ran {
    client
        .run(&ask(), |_| async { Ok::<_, Infallible>(verdict) })
        .await
        .unwrap()
}

fn done() -> Verdict {
    Verdict::Done(text("201"))
}

#[tokio::test(start_paused = true)]
async fn the_effect_is_told_its_key_fence_and_attempt() {
    let (client, _script) = start();
    let ran = client
        .run(&ask().instruction("POST"), |effect| async move {
            assert_eq!(effect.effect_key, EFFECT_KEY);
            assert_eq!(effect.fence, 1_700_000_000_000_001);
            assert_eq!((effect.generation, effect.attempt), (1, 1));
            assert_eq!(effect.instruction, "POST");
            assert_eq!(effect.record, ask().record);
            Ok::<_, Infallible>(done())
        })
        .await
        .unwrap();
    assert_eq!(ran.ending, Ending::Completed(text("201")));
    assert_eq!(ran.replayed, None);
    assert_eq!(ran.start_over, StartOver::No);
}

#[tokio::test(start_paused = true)]
async fn each_verdict_is_reported_as_what_it_says() {
    let (client, script) = start();
    let token = grant().token;
    let ran = run(&client, Verdict::NothingHappened(text("429"))).await;
    assert_eq!(ran.ending, Ending::NothingHappened(text("429")));
    assert_eq!(ran.start_over, StartOver::No);
    let ran = run(&client, Verdict::refused(text("declined"))).await;
    assert_eq!(ran.ending, Ending::Failed(text("declined")));
    assert_eq!(ran.start_over, StartOver::Yes);
    let uncertainty = Uncertainty {
        reason: "time-out".to_owned(),
        provider_reference: "pi_1".to_owned(),
        instruction: "GET /charges/pi_1".into(),
        check_after: Some(Duration::from_secs(90)),
    };
    let ran = run(&client, Verdict::Unknown(uncertainty)).await;
    assert_eq!(ran.ending, Ending::Unknown);
    assert_eq!(ran.start_over, StartOver::Unknown);

    let mut asked = script.asked();
    asked.retain(|asked| !matches!(asked, Asked::Reserve(_)));
    let fail = |kind: FailureKind, code| {
        Asked::Fail(FailRequest {
            record: Some(ask().record),
            holder: Some(fail_request::Holder::Token(token.clone())),
            kind: kind.into(),
            effect_key_spent: false,
            error: Some(text(code)),
        })
    };
    let pending = MarkPendingRequest {
        record: Some(ask().record),
        token: token.clone(),
        reason: "time-out".to_owned(),
        provider_reference: "pi_1".to_owned(),
        instruction: "GET /charges/pi_1".into(),
        check_after: Some(wire(Duration::from_secs(90))),
    };
    let expected = [
        fail(FailureKind::Retryable, "429"),
        fail(FailureKind::Final, "declined"),
        Asked::MarkPending(pending),
    ];
    assert_eq!(asked, expected);
}

#[tokio::test(start_paused = true)]
async fn a_spent_effect_key_is_said_and_what_follows_is_read_back() {
    let (client, script) = start();
    let failed = Failed {
        error: Some(text("declined")),
        record_time: at(1),
    };
    let mut read = found(State::Failed, lookup_response::Reading::Failed(failed));
    read.start_over = StartOver::Unknown.into();
    script.lookup(Step::Answer(read));
    let spent = Verdict::Refused {
        error: text("declined"),
        effect_key_spent: true,
    };
    let ran = run(&client, spent).await;
    assert_eq!(ran.ending, Ending::Failed(text("declined")));
    assert_eq!(ran.start_over, StartOver::Unknown);
    assert_eq!(ran.replayed, None);
    let asked = script.asked();
    assert!(matches!(&asked[1], Asked::Fail(fail) if fail.effect_key_spent));
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_led_to_pending_is_answered_as_pending() {
    for lookup_works in [true, false] {
        let (client, script) = start();
        let kind = FailureKind::Unspecified;
        script.fail(Step::Answer(super::scripted::failed(
            ReportDisposition::Recorded,
            State::Pending,
            kind,
        )));
        let pending = Pending {
            reason: PendingReason::EarlierAttemptUnknown.into(),
            ..Pending::default()
        };
        script.lookup(match lookup_works {
            true => Step::Answer(found(
                State::Pending,
                lookup_response::Reading::Pending(pending.clone()),
            )),
            false => refuse(Code::DataLoss, Reason::StoredResultDamaged),
        });
        let ran = run(&client, Verdict::refused(text("declined"))).await;
        if lookup_works {
            assert_eq!(ran.ending, Ending::Pending(pending));
        } else {
            assert_eq!(ran.ending, Ending::Unknown);
            assert_eq!(ran.start_over, StartOver::Unknown);
            assert!(matches!(ran.warnings[..], [Warning::NotRead { .. }]));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn complete_refused_as_stale_or_contrary_answers_what_is_recorded_with_a_warning() {
    for (code, reason) in [
        (Code::Aborted, Reason::StaleToken),
        (Code::FailedPrecondition, Reason::OutcomeAlreadyRecorded),
    ] {
        let (client, script) = start();
        script.complete(refuse(code, reason));
        let ran = run(&client, done()).await;
        assert_eq!(ran.ending, Ending::Completed(text("on-record")));
        assert!(ran.replayed.is_some());
        let [Warning::OtherOutcomeRecorded { own, cause }] = &ran.warnings[..] else {
            panic!("{:?}", ran.warnings);
        };
        assert_eq!(*own, done());
        assert_eq!(cause.reason(), Some(reason));
        assert_eq!(script.names(), ["Reserve", "Complete", "Lookup"]);
        assert!(
            matches!(&script.asked()[2], Asked::Lookup(lookup) if lookup.with_result),
            "with the bytes"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_complete_while_another_attempt_runs_answers_processing() {
    let (client, script) = start();
    script
        .complete(refuse(Code::Aborted, Reason::StaleToken))
        .lookup(Step::Answer(found(
            State::Processing,
            lookup_response::Reading::Processing(Processing::default()),
        )));
    let ran = run(&client, done()).await;
    assert_eq!(ran.ending, Ending::Processing(Processing::default()));
    assert_eq!(ran.warnings.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn complete_already_recorded_by_a_resolution_answers_those_bytes() {
    let (client, script) = start();
    script.complete(Step::Answer(CompleteResponse {
        disposition: ReportDisposition::AlreadyRecorded.into(),
        ..completed()
    }));
    let ran = run(&client, done()).await;
    assert_eq!(ran.ending, Ending::Completed(text("on-record")));
    assert!(matches!(&ran.warnings[..], [Warning::AlreadyRecorded { own }] if *own == done()));
}

#[tokio::test(start_paused = true)]
async fn where_what_is_recorded_cannot_be_read_only_a_done_effect_is_believed() {
    for (verdict, ending) in [
        (done(), Ending::Completed(text("201"))),
        (Verdict::refused(text("no")), Ending::Unknown),
        (Verdict::NothingHappened(text("no")), Ending::Unknown),
    ] {
        let (client, script) = start();
        script
            .complete(refuse(Code::Aborted, Reason::StaleToken))
            .fail(refuse(Code::Aborted, Reason::StaleToken))
            .lookup(refuse(Code::NotFound, Reason::RecordNotFound));
        let ran = run(&client, verdict).await;
        assert_eq!(ran.ending, ending);
        assert!(
            matches!(
                &ran.warnings[..],
                [
                    Warning::NotRead { .. },
                    Warning::OtherOutcomeRecorded { .. }
                ]
            ),
            "{:?}",
            ran.warnings
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_complete_that_does_not_get_through_is_repeated_in_the_background() {
    let (client, script) = start();
    for _ in 0..40 {
        script.complete(Step::Cut);
    }
    let ran = run(&client, done()).await;
    assert_eq!(
        ran.ending,
        Ending::Completed(text("201")),
        "the effect's own value"
    );
    assert!(matches!(
        &ran.warnings[..],
        [Warning::NotRecordedYet { .. }]
    ));
    assert!(client.close(Duration::from_secs(600)).await);
    let completes = script.asked().split_off(1);
    assert_eq!(completes.len(), 41);
    assert!(completes.iter().all(|asked| *asked == completes[0]));
}

#[tokio::test(start_paused = true)]
async fn a_report_that_never_gets_through_ends_at_its_bound() {
    let bound = Duration::from_secs(60);
    let (client, script) = start_with(|builder| builder.background_limit(bound));
    for _ in 0..10_000 {
        script.complete(refuse(Code::Unavailable, Reason::StoreUnavailable));
    }
    run(&client, done()).await;
    assert!(client.close(bound + Duration::from_secs(10)).await);
    assert!(script.names().len() > 10);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_is_not_on_record_does_not_permit_to_start_over() {
    let (client, script) = start();
    for _ in 0..40 {
        script.fail(Step::Cut);
    }
    let ran = run(&client, Verdict::refused(text("declined"))).await;
    assert_eq!(ran.ending, Ending::Failed(text("declined")));
    assert_eq!(ran.start_over, StartOver::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_body_over_the_limit_is_sent_as_size_and_digest_and_kept_for_the_caller() {
    let (client, script) = start();
    let limit = usize::try_from(RESULT_BYTES_MAX).unwrap();
    for (size, omitted) in [(limit, false), (limit + 1, true)] {
        let result = reprise_client::content("200", vec![b'x'; size]);
        let ran = run(&client, Verdict::Done(result.clone())).await;
        assert_eq!(ran.ending, Ending::Completed(result));
        let asked = script.asked();
        let Some(Asked::Complete(complete)) = asked.last() else {
            panic!("{asked:?}");
        };
        let body = complete.result.as_ref().unwrap().body.as_ref().unwrap();
        assert_eq!(matches!(body, content::Body::Omitted(_)), omitted);
    }
}

#[test]
fn an_omitted_body_names_its_size_and_sha_256() {
    let abc = reprise_client::content("200", "abc");
    assert_eq!(omit_over(abc.clone(), 3), abc);
    let omitted = omit_over(abc, 2);
    let Some(content::Body::Omitted(body)) = omitted.body else {
        panic!("not omitted");
    };
    assert_eq!(body.size, 3);
    // FIPS 180-2, appendix B.1.
    assert_eq!(
        body.sha256,
        Bytes::from_static(
            b"\xba\x78\x16\xbf\x8f\x01\xcf\xea\x41\x41\x40\xde\x5d\xae\x22\x23\
              \xb0\x03\x61\xa3\x96\x17\x7a\x9c\xb4\x10\xff\x61\xf2\x00\x15\xad"
        )
    );
    let absent = Content::default();
    assert_eq!(omit_over(absent.clone(), 0), absent);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_kept_as_sent_is_told() {
    let (client, script) = start();
    let adjustment = Adjustment {
        field: "result.headers[0]".to_owned(),
        kind: AdjustmentKind::Dropped.into(),
        description: "not on the allow-list".to_owned(),
    };
    script.complete(Step::Answer(CompleteResponse {
        adjusted: vec![adjustment.clone()],
        ..completed()
    }));
    assert_eq!(run(&client, done()).await.adjusted, [adjustment]);
}
