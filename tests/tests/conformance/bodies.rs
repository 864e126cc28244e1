//! What is replayed is what was sent, byte for byte.

use bytes::Bytes;
use reprise_domain::Content;
use reprise_domain::command::FailureKind;
use reprise_domain::content::{BODY_BYTES_MAX, Body};
use reprise_domain::{Policy, Trace};

use super::case::{Case, result};

stamp![
    all_byte_values_are_replayed,
    an_empty_body_and_an_absent_one_differ,
    text_that_looks_like_json_is_not_rewritten,
    an_errors_body_is_replayed,
    headers_keep_order_and_repetition,
    header_values_are_bytes,
    an_omitted_body_keeps_size_and_digest,
    a_body_over_the_limit_is_recorded_without_it,
    a_body_at_the_limit_is_kept,
    the_largest_body_is_kept,
    an_empty_content_is_kept,
    instructions_are_bytes,
    texts_keep_every_character,
    control_characters_do_not_stop_a_report,
];

fn with_body(body: Option<Body>) -> Content {
    Content { body, ..result() }
}

fn data(bytes: impl Into<Bytes>) -> Option<Body> {
    Some(Body::Data(bytes.into()))
}

/// Completes with `content` and reads back what a repeat is answered.
async fn replay(case: &Case, key: &str, content: Content) -> Content {
    let grant = case.reserve(key).await.granted();
    case.complete(&grant, content).await.recorded();
    let view = case.reserve(key).await.replayed();
    assert_eq!(case.record(key).await, *view.record);
    view.record.outcome.expect("an outcome").content
}

async fn all_byte_values_are_replayed(case: &Case) {
    let bytes: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
    let content = with_body(data(bytes));
    assert_eq!(replay(case, "k", content.clone()).await, content);
}

async fn an_empty_body_and_an_absent_one_differ(case: &Case) {
    let empty = with_body(data(Bytes::new()));
    let absent = with_body(None);
    assert_eq!(replay(case, "empty", empty.clone()).await, empty);
    assert_eq!(replay(case, "absent", absent.clone()).await, absent);
    let null = with_body(data("null"));
    assert_eq!(replay(case, "null", null.clone()).await, null);
}

async fn text_that_looks_like_json_is_not_rewritten(case: &Case) {
    let body = "\u{feff}{\"b\": 1, \"a\":1.00, \"b\":2, \"e\":1e5}\r\n";
    let content = with_body(data(body));
    assert_eq!(replay(case, "k", content.clone()).await, content);
}

async fn an_errors_body_is_replayed(case: &Case) {
    let content = with_body(data(&b"\x00\xff\\000"[..]));
    let grant = case.reserve("k").await.granted();
    let told = case.fail(&grant, FailureKind::Final, content.clone()).await;
    told.recorded();
    let record = case.reserve("k").await.replayed().record;
    assert_eq!(record.outcome.expect("an outcome").content, content);
}

async fn headers_keep_order_and_repetition(case: &Case) {
    let headers = [
        ("Location", "/a"),
        ("content-type", "text/csv"),
        ("link", "<1>"),
        ("ETag", "\"x\""),
        ("link", "<0>"),
        ("link", ""),
    ];
    let headers =
        headers.map(|(name, value)| (name.to_owned(), Bytes::from_static(value.as_bytes())));
    let content = Content {
        headers: headers.to_vec(),
        ..result()
    };
    assert_eq!(replay(case, "k", content.clone()).await, content);
}

async fn header_values_are_bytes(case: &Case) {
    let value: Vec<u8> = (0..=255).collect();
    let content = Content {
        headers: vec![("link".to_owned(), value.into())],
        ..result()
    };
    assert_eq!(replay(case, "k", content.clone()).await, content);
}

async fn an_omitted_body_keeps_size_and_digest(case: &Case) {
    let content = with_body(Some(Body::Omitted {
        size: 5_000_000_000,
        sha256: [0xab; 32],
    }));
    assert_eq!(replay(case, "k", content.clone()).await, content);
}

async fn a_body_over_the_limit_is_recorded_without_it(case: &Case) {
    let case = case.under(Policy {
        result_bytes_max: 10,
        ..Policy::default()
    });
    let sent = with_body(data("eleven byte"));
    let (size, sha256) = sent.body.as_ref().expect("a body").measure();
    let kept = replay(&case, "k", sent).await;
    assert_eq!(kept.body, Some(Body::Omitted { size, sha256 }));
    assert_eq!(size, 11);
}

async fn a_body_at_the_limit_is_kept(case: &Case) {
    let case = case.under(Policy {
        result_bytes_max: 11,
        ..Policy::default()
    });
    let content = with_body(data("eleven byte"));
    assert_eq!(replay(&case, "k", content.clone()).await, content);
}

async fn the_largest_body_is_kept(case: &Case) {
    let case = case.under(Policy {
        result_bytes_max: BODY_BYTES_MAX,
        ..Policy::default()
    });
    let size = usize::try_from(BODY_BYTES_MAX).expect("4 MiB fit");
    let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
    let content = with_body(data(bytes));
    // Compared without printing 4 MiB where they differ.
    assert!(replay(&case, "k", content.clone()).await == content);
}

async fn an_empty_content_is_kept(case: &Case) {
    let content = Content::default();
    assert_eq!(replay(case, "k", content.clone()).await, content);
}

async fn instructions_are_bytes(case: &Case) {
    let call = case.reserve("k").instruction(b"\x00\x01\xfe\xff\\x00");
    call.await.granted();
    let stored = case.record("k").await.instruction;
    assert_eq!(stored.as_ref(), b"\x00\x01\xfe\xff\\x00");
}

async fn texts_keep_every_character(case: &Case) {
    let text = "\u{1f4b6}é\u{200d}\u{feff} 'x' \"y\" \\0 %s {} -- ;";
    let call = case.reserve("k").owner(text).correlation_id(text);
    let grant = call.await.granted();
    let told = case.mark_pending_with(&grant, text, text, "", None).await;
    told.recorded();
    let record = case.record("k").await;
    assert_eq!(record.attempt.owner, text);
    assert_eq!(record.correlation_id, text);
    assert_eq!(record.provider_reference, text);
    assert_eq!(record.pending.expect("pending").detail, text);
}

async fn control_characters_do_not_stop_a_report(case: &Case) {
    let sent = Content {
        code: "A\u{0}B\u{7f}".to_owned(),
        resource_id: "\u{0}".to_owned(),
        ..with_body(data(&b"\x00"[..]))
    };
    let kept = replay(case, "k", sent.clone()).await;
    assert_eq!(kept.code, "A\u{fffd}B\u{fffd}");
    assert_eq!(kept.resource_id, "\u{fffd}");
    assert_eq!(kept.body, sent.body);
    // As evidence, too: the code of a refused report.
    let grant = case.failed("failed", FailureKind::Final).await;
    let told = case.fail(&grant, FailureKind::Retryable, sent).await;
    told.refused(reprise_domain::Refusal::OutcomeAlreadyRecorded);
    assert!(matches!(
        &case.evidence("failed").await[..],
        [Trace::Evidence { code, .. }] if code == "A\u{fffd}B\u{fffd}"
    ));
}
