//! What Reserve answers: nothing but an understood grant permits the effect.

use std::time::{Duration, UNIX_EPOCH};

use reprise_client::proto::*;
use reprise_client::{Effect, Ending, Error, Outcome, Ran, Verdict};

use crate::scripted::*;

async fn never(_: Effect) -> Result<Verdict, std::io::Error> {
    panic!("the effect was called");
}

async fn run(script: &Script, client: &reprise_client::Client, answer: ReserveResponse) -> Ran {
    script.reserve(Step::Answer(answer));
    client.run(&ask(), never).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_this_client_does_not_know_executes_nothing_and_is_given_back() {
    let unset = ReserveResponse {
        outcome: None,
        ..granted(grant())
    };
    let no_record = ReserveResponse {
        record: None,
        ..granted(grant())
    };
    let broken = |change: fn(&mut Acquired)| {
        let mut acquired = grant();
        change(&mut acquired);
        granted(acquired)
    };
    let strange = [
        unset,
        no_record,
        broken(|it| it.on_lapse = 99),
        broken(|it| it.on_lapse = 0),
        broken(|it| it.reason = 99),
        broken(|it| it.fence = "many".to_owned()),
        broken(|it| it.token = Default::default()),
        broken(|it| it.lease_remaining = None),
        ReserveResponse {
            record: Some(RecordSummary {
                state: 99,
                ..summary(State::Processing)
            }),
            ..granted(grant())
        },
        reserved(
            State::Completed,
            reserve_response::Outcome::Acquired(grant()),
        ),
        reserved(
            State::Completed,
            reserve_response::Outcome::Completed(Completed::default()),
        ),
    ];
    for answer in strange {
        let (client, script) = start();
        let shown = format!("{answer:?}");
        script.reserve(Step::Answer(answer));
        let error = client.run(&ask(), never).await.unwrap_err();
        assert!(
            matches!(error, Error::UnknownOutcome { .. }),
            "{shown}: {error}"
        );
        assert!(client.close(Duration::from_secs(60)).await);
        assert_eq!(script.names(), ["Reserve", "Fail"], "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_start_over_reads_as_unknown() {
    let (client, script) = start();
    let mut answer = reserved(
        State::Failed,
        reserve_response::Outcome::Failed(Failed {
            error: Some(text("declined")),
            record_time: at(5),
        }),
    );
    answer.start_over = 99;
    script.reserve(Step::Answer(answer));
    let reserved = client.reserve(&ask()).await.unwrap();
    assert_eq!(reserved.start_over, StartOver::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_report_answered_with_an_unknown_disposition_is_a_typed_error() {
    let (client, script) = start();
    script.complete(Step::Answer(CompleteResponse {
        disposition: 99,
        ..completed()
    }));
    let error = client
        .complete(CompleteRequest::default())
        .await
        .unwrap_err();
    assert!(matches!(
        error,
        Error::UnknownOutcome {
            call: "Complete",
            ..
        }
    ));
}

#[tokio::test(start_paused = true)]
async fn a_recorded_outcome_is_replayed_typed_and_with_its_first_time() {
    let (client, script) = start();
    let ran = run(
        &script,
        &client,
        reserved(
            State::Completed,
            reserve_response::Outcome::Completed(recorded("201")),
        ),
    )
    .await;
    assert_eq!(ran.ending, Ending::Completed(text("201")));
    let first = UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    assert_eq!(ran.replayed, Some(first));

    let failed = Failed {
        error: Some(text("card_declined")),
        record_time: at(1_600_000_000),
    };
    let mut answer = reserved(State::Failed, reserve_response::Outcome::Failed(failed));
    answer.start_over = StartOver::Yes.into();
    let ran = run(&script, &client, answer).await;
    assert_eq!(ran.ending, Ending::Failed(text("card_declined")));
    assert_eq!(ran.replayed, Some(first));
    assert_eq!(ran.start_over, StartOver::Yes);
}

#[tokio::test(start_paused = true)]
async fn processing_pending_mismatch_and_a_result_that_is_gone_are_typed_endings() {
    use reserve_response::Outcome as Wire;
    let (client, script) = start();
    let processing = Processing {
        owner: "worker-3".to_owned(),
        ..Processing::default()
    };
    let pending = Pending {
        reason: PendingReason::LeaseExpired.into(),
        ..Pending::default()
    };
    let mismatch = Mismatch {
        reason: MismatchReason::DifferentPayload.into(),
    };
    let gone = ResultGone {
        state: State::Completed.into(),
        code: "201".to_owned(),
        ..ResultGone::default()
    };
    let table = [
        (
            State::Processing,
            Wire::Processing(processing.clone()),
            Ending::Processing(processing),
        ),
        (
            State::Pending,
            Wire::Pending(pending.clone()),
            Ending::Pending(pending),
        ),
        (
            State::Completed,
            Wire::Mismatch(mismatch),
            Ending::Mismatch(mismatch),
        ),
        (
            State::Completed,
            Wire::ResultGone(gone.clone()),
            Ending::ResultGone(gone),
        ),
    ];
    for (state, wire, ending) in table {
        let ran = run(&script, &client, reserved(state, wire)).await;
        assert_eq!(ran.ending, ending);
        assert_eq!(ran.replayed, None);
        assert!(ran.warnings.is_empty());
    }
    assert!(client.close(Duration::from_secs(1)).await);
    assert_eq!(script.names(), ["Reserve"; 4]);
}

#[tokio::test(start_paused = true)]
async fn a_digest_made_here_is_sent_as_it_is() {
    use reprise_client::fingerprint::{Context, MediaType, raw};
    let (client, script) = start();
    let media_type: MediaType = "text/plain".parse().unwrap();
    let fingerprint = raw(&media_type, &Context::default(), b"x");
    let reserve = reprise_client::Reserve::new(ask().record, fingerprint.clone());
    let reserved = client.reserve(&reserve).await.unwrap();
    assert!(matches!(reserved.outcome, Outcome::Acquired(_)));
    let Asked::Reserve(asked) = &script.asked()[0] else {
        panic!("not Reserve");
    };
    let Some(reserve_request::Fingerprint::Digest(digest)) = &asked.fingerprint else {
        panic!("not a digest");
    };
    assert_eq!(digest.sha256[..], fingerprint.digest);
    assert_eq!(digest.scheme(), FingerprintScheme::Raw);
}
