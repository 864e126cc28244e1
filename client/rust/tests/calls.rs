//! Retries, deadlines and errors of single calls.

use std::time::Duration;

use reprise_client::proto::*;
use reprise_client::{AttemptId, Error, Outcome, Reason};
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::scripted::*;

fn attempt_ids(script: &Script) -> Vec<Vec<u8>> {
    let asked = script.asked();
    let ids = asked.iter().filter_map(|asked| match asked {
        Asked::Reserve(request) => Some(request.attempt_id.to_vec()),
        _ => None,
    });
    ids.collect()
}

#[tokio::test(start_paused = true)]
async fn unavailable_is_repeated_with_the_same_attempt_id_until_it_is_answered() {
    let (client, script) = start();
    for _ in 0..3 {
        script.reserve(refuse(Code::Unavailable, ErrorReason::StoreUnavailable));
    }
    let reserved = client.reserve(&ask()).await.unwrap();
    assert!(matches!(reserved.outcome, Outcome::Acquired(_)));
    let ids = attempt_ids(&script);
    assert_eq!(ids.len(), 4);
    assert!(ids.iter().all(|id| id == reserved.attempt_id.as_bytes()));
    let pauses: Vec<_> = script.times().windows(2).map(|w| w[1] - w[0]).collect();
    assert!(pauses[2] > pauses[0], "back-off grows: {pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_a_broken_stream_and_a_bare_status_are_repeated() {
    let (client, script) = start();
    script
        .reserve(Step::Silence)
        .reserve(Step::Cut)
        .reserve(Step::Refuse(Status::unavailable("no details")));
    let began = Instant::now();
    let reserved = client.reserve(&ask()).await.unwrap();
    assert!(matches!(reserved.outcome, Outcome::Acquired(_)));
    let ids = attempt_ids(&script);
    assert_eq!(ids.len(), 4);
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn retry_info_is_obeyed_and_ends_the_call_when_it_points_past_the_deadline() {
    let (client, script) = start();
    let wish = Duration::from_secs(2);
    script.reserve(refuse_until(
        Code::ResourceExhausted,
        Reason::Quota,
        Some(wish),
    ));
    client.reserve(&ask()).await.unwrap();
    let times = script.times();
    assert!(times[1] - times[0] >= wish);
    assert!(times[1] - times[0] <= wish.mul_f64(1.3));

    let wish = Duration::from_secs(60);
    script.reserve(refuse_until(
        Code::ResourceExhausted,
        Reason::Overloaded,
        Some(wish),
    ));
    let began = Instant::now();
    let error = client.reserve(&ask()).await.unwrap_err();
    assert!(matches!(error, Error::Refused(_)), "{error}");
    assert_eq!(error.fault().unwrap().retry_after, Some(wish));
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_is_never_repeated() {
    let (client, script) = start();
    script.complete(refuse(Code::ResourceExhausted, Reason::TooLarge));
    let error = client
        .complete(CompleteRequest::default())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), Some(Reason::TooLarge));
    assert_eq!(script.names(), ["Complete"]);

    let huge = CompleteRequest {
        result: Some(reprise_client::content("200", vec![0; 9 << 20])),
        ..CompleteRequest::default()
    };
    let error = client.complete(huge).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }) && error.never_sent());
    assert_eq!(script.names(), ["Complete"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_the_hard_size_limit_can_be_received() {
    let (client, script) = start();
    let body = vec![7; 4 << 20];
    let completed = Completed {
        result: Some(reprise_client::content("200", body.clone())),
        record_time: at(1),
    };
    script.reserve(Step::Answer(reserved(
        State::Completed,
        reserve_response::Outcome::Completed(completed),
    )));
    let Outcome::Completed(recorded) = client.reserve(&ask()).await.unwrap().outcome else {
        panic!("not completed");
    };
    assert_eq!(
        recorded.content.body,
        Some(content::Body::Data(body.into()))
    );
}

#[tokio::test(start_paused = true)]
async fn every_report_is_repeated_with_identical_content() {
    let (client, script) = start();
    script
        .complete(Step::Cut)
        .fail(Step::Silence)
        .mark_pending(Step::Cut)
        .mark_sending(Step::Cut)
        .renew(Step::Cut)
        .lookup(Step::Cut)
        .resolve(Step::Cut);
    client.complete(CompleteRequest::default()).await.unwrap();
    client.fail(FailRequest::default()).await.unwrap();
    client
        .mark_pending(MarkPendingRequest::default())
        .await
        .unwrap();
    client
        .mark_sending(MarkSendingRequest::default())
        .await
        .unwrap();
    client.renew(RenewRequest::default()).await.unwrap();
    client.lookup(LookupRequest::default()).await.unwrap();
    client.resolve(ResolveRequest::default()).await.unwrap();
    let asked = script.asked();
    assert_eq!(asked.len(), 14);
    for pair in asked.chunks(2) {
        assert_eq!(pair[0], pair[1]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_put_only_once() {
    let (client, script) = start();
    script.put_policy(refuse(Code::Unavailable, Reason::StoreUnavailable));
    let error = client
        .put_policy(PutPolicyRequest::default())
        .await
        .unwrap_err();
    assert!(error.outcome_unknown());
    assert_eq!(script.names(), ["PutPolicy"]);
    client
        .get_policy(GetPolicyRequest::default())
        .await
        .unwrap();
    client
        .list_policies(ListPoliciesRequest::default())
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_with_a_wait_gets_the_wait_on_top_of_its_deadline() {
    let (client, script) = start();
    let wait = Duration::from_secs(20);
    script.reserve(late(wait, granted(grant())));
    let reserved = client.reserve(&ask().wait(wait)).await.unwrap();
    assert!(matches!(reserved.outcome, Outcome::Acquired(_)));
    assert_eq!(script.names(), ["Reserve"], "one try was enough");

    script.reserve(Step::Silence).reserve(Step::Silence);
    let began = Instant::now();
    client
        .reserve_as(&ask().wait(wait), AttemptId::random())
        .await
        .unwrap_err();
    let took = began.elapsed();
    assert!(took <= wait + Duration::from_secs(5), "{took:?}");
    assert!(took > wait, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn without_any_answer_a_call_ends_within_its_deadline_as_unknown() {
    let (client, script) = start();
    script.lookup(Step::Silence).lookup(Step::Silence);
    let began = Instant::now();
    let error = client.lookup(LookupRequest::default()).await.unwrap_err();
    assert!(error.outcome_unknown() && !error.never_sent(), "{error}");
    assert!(began.elapsed() <= Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_by_quota_does_not_hide_that_an_earlier_try_may_have_been_carried_out() {
    let (client, script) = start();
    let wish = Some(Duration::from_secs(60));
    script
        .complete(Step::Cut)
        .complete(refuse_until(Code::ResourceExhausted, Reason::Quota, wish));
    let error = client
        .complete(CompleteRequest::default())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error}");
    assert_eq!(error.reason(), Some(Reason::Quota));

    script
        .complete(Step::Cut)
        .complete(refuse(Code::Aborted, Reason::StaleToken));
    let error = client
        .complete(CompleteRequest::default())
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Refused(_)),
        "the record was looked at: {error}"
    );
}

#[tokio::test(start_paused = true)]
async fn refusals_name_reason_field_and_text() {
    use tonic_types::{ErrorDetails, StatusExt};
    let (client, script) = start();
    let mut details = ErrorDetails::with_error_info("INVALID_FIELD", ERROR_DOMAIN, []);
    details.add_bad_request_violation("record.key", "1 to 255 bytes");
    let status = Status::with_error_details(Code::InvalidArgument, "bad", details);
    script.reserve(Step::Refuse(status));
    let error = client.reserve(&ask()).await.unwrap_err();
    assert_eq!(error.reason(), Some(Reason::InvalidField));
    assert_eq!(error.fault().unwrap().fields[0].field, "record.key");
    assert_eq!(
        error.to_string(),
        "refused: INVALID_FIELD: bad; record.key: 1 to 255 bytes"
    );
}

#[test]
fn attempt_ids_are_sixteen_bytes_and_never_the_same() {
    let ids: std::collections::HashSet<_> =
        (0..1000).map(|_| *AttemptId::random().as_bytes()).collect();
    assert_eq!(ids.len(), 1000);
}
