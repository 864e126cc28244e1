//! The calls of those who look and find out, one by one.

use reprise_client::proto::*;
use reprise_client::{ClaimOver, Outcome, Reason, Verdict};
use tonic::Code;

use crate::scripted::*;

fn held() -> Processing {
    Processing {
        retry_after: Some(wire(LEASE)),
        reason: ProcessingReason::Held.into(),
        ..Processing::default()
    }
}

#[tokio::test(start_paused = true)]
async fn looking_claiming_and_forgetting_are_repeated_with_identical_content() {
    let (client, script) = start();
    script
        .list_pending(Step::Cut)
        .count_pending(Step::Silence)
        .claim_pending(Step::Cut)
        .list_records(Step::Cut)
        .get_history(Step::Cut)
        .forget_record(Step::Cut)
        .list_audit(Step::Cut)
        .get_status(refuse(Code::Unavailable, Reason::StoreUnavailable));
    let claim = ClaimPendingRequest {
        tenant: "t1".to_owned(),
        claim_id: vec![7; 16].into(),
        ..ClaimPendingRequest::default()
    };
    let forget = ForgetRecordRequest {
        revision: 3,
        ..ForgetRecordRequest::default()
    };
    client.list_pending(Default::default()).await.unwrap();
    client.count_pending(Default::default()).await.unwrap();
    client.claim_pending(claim).await.unwrap();
    client.list_records(Default::default()).await.unwrap();
    client.get_history(Default::default()).await.unwrap();
    client.forget_record(forget).await.unwrap();
    client.list_audit(Default::default()).await.unwrap();
    client.get_status(Default::default()).await.unwrap();
    let asked = script.asked();
    assert_eq!(asked.len(), 16);
    for pair in asked.chunks(2) {
        assert_eq!(pair[0], pair[1]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_over_is_told_with_how_the_record_reads() {
    type Metadata = &'static [(&'static str, &'static str)];
    let cases: [(Metadata, State, FailureKind); 5] = [
        (
            &[("state", "PENDING")],
            State::Pending,
            FailureKind::Unspecified,
        ),
        (
            &[("state", "FAILED_RETRYABLE")],
            State::Failed,
            FailureKind::Retryable,
        ),
        (
            &[("state", "FAILED_FINAL")],
            State::Failed,
            FailureKind::Final,
        ),
        (
            &[("state", "STRANGE")],
            State::Unspecified,
            FailureKind::Unspecified,
        ),
        (&[], State::Unspecified, FailureKind::Unspecified),
    ];
    for (metadata, state, failure_kind) in cases {
        let (client, script) = start();
        let over = refuse_saying(Code::FailedPrecondition, Reason::ClaimOver, None, metadata);
        script.resolve(over);
        let error = client.resolve(Default::default()).await.unwrap_err();
        let told = ClaimOver {
            state,
            failure_kind,
        };
        assert_eq!(error.claim_over(), Some(told), "{metadata:?}");
        assert_eq!(script.names(), ["Resolve"], "not repeated");
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_of_a_claim_are_typed_and_not_repeated() {
    for reason in [Reason::Claimed, Reason::Settling, Reason::TooLateToTell] {
        let (client, script) = start();
        script.resolve(refuse(Code::FailedPrecondition, reason));
        let error = client.resolve(Default::default()).await.unwrap_err();
        assert_eq!(error.reason(), Some(reason));
        assert_eq!(error.claim_over(), None);
        assert_eq!(script.names(), ["Resolve"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_take_over_of_a_held_operation_is_told_and_permits_nothing() {
    let (client, script) = start();
    let answer = ResolveResponse {
        record: Some(summary(State::Pending)),
        processing: Some(held()),
        ..ResolveResponse::default()
    };
    script.resolve(Step::Answer(answer.clone()));
    let resolved = client.resolve(Default::default()).await.unwrap();
    assert_eq!(resolved.held, Some(held()));
    assert_eq!(resolved.acquired, None);
    assert_eq!(resolved.disposition, ReportDisposition::Unspecified);

    // A grant beside it, or one of a record that nobody holds, is not understood.
    let both = ResolveResponse {
        acquired: Some(grant()),
        ..answer
    };
    let pending = ResolveResponse {
        disposition: ReportDisposition::Recorded.into(),
        processing: None,
        ..both.clone()
    };
    for strange in [both, pending] {
        script.resolve(Step::Answer(strange));
        let error = client.resolve(Default::default()).await.unwrap_err();
        assert!(error.outcome_unknown(), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn held_by_an_operator_is_told_from_somebody_being_at_it() {
    for (processing, is_held) in [(held(), true), (Processing::default(), false)] {
        let (client, script) = start();
        let answer = reserved(
            State::Processing,
            reserve_response::Outcome::Processing(processing),
        );
        script
            .reserve(Step::Answer(answer.clone()))
            .reserve(Step::Answer(answer));
        let outcome = client.reserve(&ask()).await.unwrap().outcome;
        assert!(matches!(outcome, Outcome::Processing(_)));
        assert_eq!(outcome.is_held(), is_held);
        let ran = client
            .run(&ask(), |_| async {
                panic!("called") as Result<Verdict, std::io::Error>
            })
            .await
            .unwrap();
        assert_eq!(ran.ending.is_held(), is_held);
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_attempt_that_is_held_has_no_record_and_is_understood() {
    let (client, script) = start();
    let mut answer = reserved(
        State::Unspecified,
        reserve_response::Outcome::Processing(held()),
    );
    script.reserve(Step::Answer(answer.clone()));
    let outcome = client.reserve(&ask()).await.unwrap().outcome;
    assert!(outcome.is_held());

    // Anybody else who is at it has a record.
    answer.outcome = Some(reserve_response::Outcome::Processing(Processing::default()));
    script.reserve(Step::Answer(answer));
    assert!(client.reserve(&ask()).await.unwrap_err().outcome_unknown());
}
