//! Comparing payloads: under the record's own scheme and rule.

use reprise_domain::command::MismatchReason;
use reprise_fingerprint::{Context, Fingerprint, MediaType, Rule, json_under_each, raw};

use super::case::{Case, payload};

stamp![
    the_same_document_spelled_differently_is_the_same,
    another_value_is_a_mismatch,
    another_scheme_is_not_comparable,
    another_rule_is_not_comparable,
    a_record_is_compared_under_its_own_rule,
    the_first_offered_fingerprint_is_stored,
    an_ignored_field_may_change,
    the_context_belongs_to_the_payload,
    the_media_type_belongs_to_the_payload,
    a_mismatch_changes_nothing,
    a_mismatch_stays_one_for_every_later_attempt,
];

fn json_type() -> MediaType {
    "application/json".parse().expect("a media type")
}

fn without_sent_at() -> Rule {
    let pointer = "/sentAt".parse().expect("a pointer");
    Rule::new(vec![pointer], Vec::new()).expect("a rule")
}

fn under(rules: &[Rule], document: &str) -> Vec<Fingerprint> {
    json_under_each(
        &json_type(),
        &Context::default(),
        document.as_bytes(),
        rules,
    )
    .expect("a document with a canonical form")
}

async fn the_same_document_spelled_differently_is_the_same(case: &Case) {
    let plain = [Rule::default()];
    let call = case
        .reserve("k")
        .offering(under(&plain, r#"{"a":1,"b":[2]}"#));
    call.await.granted();
    let call = case
        .reserve("k")
        .offering(under(&plain, "{ \"b\": [2.0],\n \"\\u0061\": 1e0 }"));
    call.await.processing();
}

async fn another_value_is_a_mismatch(case: &Case) {
    let plain = [Rule::default()];
    let call = case.reserve("k").offering(under(&plain, r#"{"a":1}"#));
    call.await.granted();
    for other in [r#"{"a":2}"#, r#"{"a":1,"b":null}"#, r#"{"a":"1"}"#, "{}"] {
        let call = case.reserve("k").offering(under(&plain, other));
        call.await.mismatch();
    }
}

async fn another_scheme_is_not_comparable(case: &Case) {
    let document = r#"{"a":1}"#;
    let call = case
        .reserve("k")
        .offering(under(&[Rule::default()], document));
    call.await.granted();
    let bytes = raw(&json_type(), &Context::default(), document.as_bytes());
    let told = case.reserve("k").offering(vec![bytes]).await;
    told.mismatch_for(MismatchReason::NotComparable);
}

async fn another_rule_is_not_comparable(case: &Case) {
    let document = r#"{"a":1,"sentAt":"today"}"#;
    let call = case
        .reserve("k")
        .offering(under(&[Rule::default()], document));
    call.await.granted();
    let told = case
        .reserve("k")
        .offering(under(&[without_sent_at()], document))
        .await;
    told.mismatch_for(MismatchReason::NotComparable);
}

async fn a_record_is_compared_under_its_own_rule(case: &Case) {
    let document = r#"{"a":1,"sentAt":"today"}"#;
    let call = case
        .reserve("k")
        .offering(under(&[Rule::default()], document));
    call.await.granted();
    // The policy has a new rule now and still accepts the old one.
    let rules = [without_sent_at(), Rule::default()];
    let call = case.reserve("k").offering(under(&rules, document));
    call.await.processing();
    let later = r#"{"a":1,"sentAt":"tomorrow"}"#;
    let call = case.reserve("k").offering(under(&rules, later));
    call.await.mismatch();
}

async fn the_first_offered_fingerprint_is_stored(case: &Case) {
    let rules = [without_sent_at(), Rule::default()];
    let offered = under(&rules, r#"{"a":1}"#);
    let call = case.reserve("k").offering(offered.clone());
    call.await.granted();
    assert_eq!(case.record("k").await.fingerprint, offered[0]);
}

async fn an_ignored_field_may_change(case: &Case) {
    let rule = [without_sent_at()];
    let call = case
        .reserve("k")
        .offering(under(&rule, r#"{"a":1,"sentAt":"today"}"#));
    call.await.granted();
    let call = case
        .reserve("k")
        .offering(under(&rule, r#"{"a":1,"sentAt":"tomorrow"}"#));
    call.await.processing();
    let call = case
        .reserve("k")
        .offering(under(&rule, r#"{"a":2,"sentAt":"today"}"#));
    call.await.mismatch();
}

async fn the_context_belongs_to_the_payload(case: &Case) {
    let with = |value: &[u8]| {
        let context = Context::from(vec![("query".to_owned(), value.to_vec())]);
        vec![raw(&json_type(), &context, b"{}")]
    };
    case.reserve("k").offering(with(b"")).await.granted();
    let told = case.reserve("k").offering(with(b"dry=1")).await;
    told.mismatch();
    case.reserve("k").offering(with(b"")).await.processing();
}

async fn the_media_type_belongs_to_the_payload(case: &Case) {
    let of = |media_type: &str| {
        let media_type: MediaType = media_type.parse().expect("a media type");
        vec![raw(&media_type, &Context::default(), b"a,b\r\n")]
    };
    case.reserve("k").offering(of("text/csv")).await.granted();
    let told = case.reserve("k").offering(of("text/plain")).await;
    told.mismatch();
    let same = of("text/CSV; charset=utf-8");
    case.reserve("k").offering(same).await.processing();
}

async fn a_mismatch_changes_nothing(case: &Case) {
    let grant = case.reserve("k").await.granted();
    for text in ["", "100 EUR ", "200 EUR"] {
        case.reserve("k").paying(text).await.mismatch();
    }
    assert_eq!(case.record("k").await, *grant.record());
}

async fn a_mismatch_stays_one_for_every_later_attempt(case: &Case) {
    use reprise_domain::command::FailureKind;
    let (_, second) = case.followed("k").await;
    assert_eq!(second.record().fingerprint, payload("100 EUR"));
    let told = case
        .fail(&second, FailureKind::Retryable, super::case::error())
        .await;
    told.recorded();
    case.reserve("k").paying("200 EUR").await.mismatch();
}
