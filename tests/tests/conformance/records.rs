//! Lists of records by what people know of them.

use reprise::store::RecordsQuery;
use reprise_domain::RecordName;
use reprise_domain::command::FailureKind;
use reprise_domain::content::Content;
use reprise_domain::record::State;

use super::case::{Case, TICK, result, secs};
use super::finding::SOON;

stamp_alone![
    the_newest_grant_comes_first,
    a_record_that_is_tried_again_moves_to_the_front,
    records_are_found_by_operation_and_subject,
    records_are_found_by_state,
    records_are_found_by_when_they_were_made,
    records_are_found_by_the_beginning_of_their_key,
    wild_cards_in_a_prefix_are_only_characters,
    records_are_found_by_correlation_id,
    records_are_found_by_resource_and_provider_reference_soon_after,
    records_are_found_by_a_reference_that_was_replaced,
    all_filters_must_hold,
    pages_lose_and_repeat_nothing,
    records_of_another_tenant_are_not_found,
    records_come_without_bytes,
];

fn query(case: &Case, set: impl FnOnce(&mut RecordsQuery)) -> RecordsQuery {
    let mut query = case.records_query();
    set(&mut query);
    query
}

fn named(case: &Case, operation: &str, subject: &str, key: &str) -> RecordName {
    RecordName::new(&case.tenant, operation, subject, key).expect("a valid name")
}

/// Three records, one after another.
async fn three(case: &Case) {
    for key in ["a", "b", "c"] {
        case.completed(key).await;
        case.advance(secs(1));
    }
}

async fn the_newest_grant_comes_first(case: &Case) {
    three(case).await;
    assert_eq!(case.found(case.records_query()).await, ["c", "b", "a"]);
}

async fn a_record_that_is_tried_again_moves_to_the_front(case: &Case) {
    case.failed("a", FailureKind::Retryable).await;
    case.advance(TICK);
    case.completed("b").await;
    assert_eq!(case.found(case.records_query()).await, ["b", "a"]);
    case.advance(TICK);
    case.reserve("a").await.granted();
    assert_eq!(case.found(case.records_query()).await, ["a", "b"]);
}

async fn records_are_found_by_operation_and_subject(case: &Case) {
    for (operation, subject, key) in [
        ("charge", "customer-1", "a"),
        ("charge", "", "b"),
        ("refund", "customer-1", "c"),
    ] {
        let name = named(case, operation, subject, key);
        case.reserve_name(name).await.granted();
        case.advance(TICK);
    }
    let of = |operation: &str, subject: Option<&str>| {
        query(case, |query| {
            query.operation = operation.to_owned();
            query.subject = subject.map(str::to_owned);
        })
    };
    assert_eq!(case.found(of("charge", None)).await, ["b", "a"]);
    let subject = Some("customer-1");
    assert_eq!(case.found(of("", subject)).await, ["c", "a"]);
    assert_eq!(case.found(of("charge", subject)).await, ["a"]);
    assert_eq!(case.found(of("", Some(""))).await, ["b"]);
    assert!(case.found(of("char", None)).await.is_empty());
}

async fn records_are_found_by_state(case: &Case) {
    case.reserve("running").await.granted();
    case.pending("pending").await;
    case.completed("completed").await;
    case.failed("tried", FailureKind::Retryable).await;
    case.failed("failed", FailureKind::Final).await;
    for (state, key) in [
        (State::Processing, "running"),
        (State::Pending, "pending"),
        (State::Completed, "completed"),
        (State::FailedRetryable, "tried"),
        (State::FailedFinal, "failed"),
    ] {
        let query = query(case, |query| query.state = Some(state));
        assert_eq!(case.found(query).await, [key]);
    }
    case.advance(secs(60));
    case.tidy().await;
    let pending = query(case, |query| query.state = Some(State::Pending));
    assert_eq!(case.found(pending).await.len(), 2, "it follows a lapse");
}

async fn records_are_found_by_when_they_were_made(case: &Case) {
    let begun = case.now();
    three(case).await;
    let between = |from: u64, before: u64| {
        query(case, |query| {
            query.created_from = Some(begun.after(secs(from)));
            query.created_before = Some(begun.after(secs(before)));
        })
    };
    assert_eq!(case.found(between(0, 2)).await, ["b", "a"]);
    assert_eq!(case.found(between(1, 2)).await, ["b"]);
    assert_eq!(case.found(between(1, 9)).await, ["c", "b"]);
    assert!(case.found(between(3, 9)).await.is_empty());
    // First reserved: a later attempt does not make it newer.
    case.failed("d", FailureKind::Retryable).await;
    case.advance(secs(60));
    case.reserve("d").await.granted();
    let late = query(case, |query| {
        query.created_from = Some(begun.after(secs(30)));
    });
    assert!(case.found(late).await.is_empty());
}

async fn records_are_found_by_the_beginning_of_their_key(case: &Case) {
    for key in ["order-1", "order-10", "order-2", "Order-1", "bestellung-ä"] {
        case.completed(key).await;
        case.advance(TICK);
    }
    let begins = |prefix: &str| query(case, |query| query.key_prefix = prefix.to_owned());
    assert_eq!(case.found(begins("order-1")).await, ["order-10", "order-1"]);
    assert_eq!(case.found(begins("bestellung-ä")).await, ["bestellung-ä"]);
    assert_eq!(case.found(begins("order-")).await.len(), 3);
    assert!(case.found(begins("rder")).await.is_empty());
}

async fn wild_cards_in_a_prefix_are_only_characters(case: &Case) {
    for key in ["a%b", "axb", "a_b", "a\\b", "a*b", "a?b", "a[x]b"] {
        case.completed(key).await;
        case.advance(TICK);
    }
    for prefix in ["a%", "a_", "a\\", "a*", "a?", "a["] {
        let found = query(case, |query| query.key_prefix = prefix.to_owned());
        let found = case.found(found).await;
        assert_eq!(found.len(), 1, "{prefix}: {found:?}");
        assert!(found[0].starts_with(prefix));
    }
}

async fn records_are_found_by_correlation_id(case: &Case) {
    for (key, id) in [("a", "req-1"), ("b", "req-2"), ("c", "req-1")] {
        case.reserve(key).correlation_id(id).await.granted();
        case.advance(TICK);
    }
    let of = |id: &str| query(case, |query| query.correlation_id = id.to_owned());
    assert_eq!(case.found(of("req-1")).await, ["c", "a"]);
    assert!(case.found(of("req")).await.is_empty());
}

fn by_provider(case: &Case, reference: &str) -> RecordsQuery {
    query(case, |query| {
        query.provider_reference = reference.to_owned();
    })
}

fn by_resource(case: &Case, id: &str) -> RecordsQuery {
    query(case, |query| query.resource_id = id.to_owned())
}

async fn complete_as(case: &Case, key: &str, resource: &str, reference: &str) {
    let grant = case.reserve(key).await.granted();
    let content = Content {
        resource_id: resource.to_owned(),
        provider_reference: reference.to_owned(),
        ..result()
    };
    case.complete(&grant, content).await.recorded();
    case.advance(TICK);
}

async fn records_are_found_by_resource_and_provider_reference_soon_after(case: &Case) {
    complete_as(case, "a", "order-1", "ch_1").await;
    complete_as(case, "b", "order-2", "ch_2").await;
    complete_as(case, "c", "order-1", "ch_3").await;
    let grant = case.reserve("d").await.granted();
    let told = case.mark_sending_with(&grant, "ch_4", "", None).await;
    told.leased();
    case.advance(SOON);
    case.walk().await;
    assert_eq!(case.found(by_resource(case, "order-1")).await, ["c", "a"]);
    assert_eq!(case.found(by_provider(case, "ch_2")).await, ["b"]);
    assert_eq!(case.found(by_provider(case, "ch_4")).await, ["d"]);
    assert!(case.found(by_provider(case, "order-1")).await.is_empty());
    assert!(case.found(by_resource(case, "order")).await.is_empty());
    let both = query(case, |query| {
        query.resource_id = "order-1".to_owned();
        query.provider_reference = "ch_3".to_owned();
    });
    assert_eq!(case.found(both).await, ["c"]);
}

async fn records_are_found_by_a_reference_that_was_replaced(case: &Case) {
    let grant = case.pending("k").await;
    for reference in ["ch_1", "ch_2"] {
        let told = case.mark_pending_with(&grant, reference, reference, "", None);
        told.await.recorded();
    }
    case.advance(SOON);
    case.walk().await;
    for reference in ["ch_1", "ch_2"] {
        let found = case.found(by_provider(case, reference)).await;
        assert_eq!(found, ["k"], "{reference}");
    }
}

async fn all_filters_must_hold(case: &Case) {
    three(case).await;
    case.pending("ab").await;
    let both = |state| {
        query(case, |query| {
            query.key_prefix = "a".to_owned();
            query.state = Some(state);
            query.operation = "charge".to_owned();
        })
    };
    assert_eq!(case.found(both(State::Completed)).await, ["a"]);
    assert_eq!(case.found(both(State::Pending)).await, ["ab"]);
    assert!(case.found(both(State::FailedFinal)).await.is_empty());
}

async fn pages_lose_and_repeat_nothing(case: &Case) {
    // Several of one moment, so that pages end between them.
    for at in 0..12 {
        case.completed(&format!("k{at}")).await;
        if at % 4 == 3 {
            case.advance(TICK);
        }
    }
    case.advance(SOON);
    case.walk().await;
    let all = case.found(case.records_query()).await;
    assert_eq!(all.len(), 12);
    let referred = by_provider(case, "ch_123");
    assert_eq!(case.found(referred.clone()).await, all);
    for max in [1, 5, 12] {
        for whole in [case.records_query(), referred.clone()] {
            let query = RecordsQuery { max, ..whole };
            assert_eq!(case.found(query).await, all, "{max} a page");
        }
    }
}

async fn records_of_another_tenant_are_not_found(case: &Case) {
    complete_as(case, "k", "order-1", "ch_1").await;
    case.advance(SOON);
    case.walk().await;
    let other = Case {
        tenant: format!("{}-other", case.tenant),
        ..case.clone()
    };
    for query in [
        other.records_query(),
        by_provider(&other, "ch_1"),
        by_resource(&other, "order-1"),
    ] {
        assert!(case.found(query).await.is_empty());
    }
}

async fn records_come_without_bytes(case: &Case) {
    case.completed("k").await;
    let page = case.records(case.records_query()).await;
    let [record] = page.records.as_slice() else {
        panic!("one record: {page:?}");
    };
    let outcome = record.outcome.as_ref().expect("an outcome");
    assert!(!outcome.content.has_bytes());
    assert_eq!(outcome.content.code, "PAID");
    let whole = case.record("k").await;
    assert_eq!(record.revision, whole.revision);
    assert_eq!(record.attempt, whole.attempt);
}
