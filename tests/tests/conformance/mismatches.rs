//! Repeats with another payload: counted, and bounded.

use reprise::store::{MISMATCHES_MAX, SeenMismatch};
use reprise_domain::RecordId;
use reprise_fingerprint::Fingerprint;

use super::case::{Case, payload, secs};

stamp![
    a_mismatch_is_counted_with_its_first_and_last_time,
    mismatches_come_in_the_order_of_their_first_time,
    only_so_many_fingerprints_are_kept_of_a_record,
    what_is_kept_counts_on_when_no_other_is_taken,
    mismatches_of_many_records_are_noted_at_once,
    mismatches_of_a_missing_record_are_dropped,
    mismatches_change_nothing_of_the_record,
];

async fn note(case: &Case, seen: Vec<(RecordId, Fingerprint, u64)>) {
    let noted = case.store.note_mismatches(seen).await;
    noted.expect("the store answers");
}

async fn of(case: &Case, key: &str) -> Vec<SeenMismatch> {
    let seen = case.store.mismatches(case.name(key).id()).await;
    seen.expect("the store answers")
}

async fn a_mismatch_is_counted_with_its_first_and_last_time(case: &Case) {
    case.completed("k").await;
    let id = case.name("k").id();
    let first_at = case.now();
    note(case, vec![(id, payload("200 EUR"), 2)]).await;
    case.advance(secs(5));
    note(case, vec![(id, payload("200 EUR"), 3)]).await;
    let expected = SeenMismatch {
        fingerprint: payload("200 EUR"),
        count: 5,
        first_at,
        last_at: case.now(),
    };
    assert_eq!(of(case, "k").await, [expected]);
}

async fn mismatches_come_in_the_order_of_their_first_time(case: &Case) {
    case.completed("k").await;
    let id = case.name("k").id();
    for text in ["b", "c", "a", "b"] {
        note(case, vec![(id, payload(text), 1)]).await;
        case.advance(secs(1));
    }
    let seen = of(case, "k").await;
    let order: Vec<_> = seen.iter().map(|it| it.fingerprint.clone()).collect();
    assert_eq!(order, ["b", "c", "a"].map(payload));
}

async fn only_so_many_fingerprints_are_kept_of_a_record(case: &Case) {
    case.completed("k").await;
    let id = case.name("k").id();
    let all = (0..20).map(|at| (id, payload(&format!("{at} EUR")), 1));
    note(case, all.collect()).await;
    for at in 20..40 {
        case.advance(secs(1));
        note(case, vec![(id, payload(&format!("{at} EUR")), 1)]).await;
    }
    assert_eq!(of(case, "k").await.len(), MISMATCHES_MAX);
    assert_eq!(MISMATCHES_MAX, 8);
}

async fn what_is_kept_counts_on_when_no_other_is_taken(case: &Case) {
    case.completed("k").await;
    let id = case.name("k").id();
    for at in 0..10 {
        note(case, vec![(id, payload(&format!("{at} EUR")), 1)]).await;
        case.advance(secs(1));
    }
    let both = vec![(id, payload("0 EUR"), 4), (id, payload("9 EUR"), 4)];
    note(case, both).await;
    let seen = of(case, "k").await;
    assert_eq!(seen.len(), MISMATCHES_MAX);
    assert_eq!(seen[0].fingerprint, payload("0 EUR"));
    assert_eq!((seen[0].count, seen[0].last_at), (5, case.now()));
    assert!(seen[1..].iter().all(|it| it.count == 1));
}

async fn mismatches_of_many_records_are_noted_at_once(case: &Case) {
    for key in ["a", "b"] {
        case.completed(key).await;
    }
    let seen = ["a", "b", "a"].map(|key| (case.name(key).id(), payload(key), 1));
    note(case, seen.to_vec()).await;
    assert_eq!(of(case, "a").await[0].count, 2);
    assert_eq!(of(case, "b").await[0].count, 1);
}

async fn mismatches_of_a_missing_record_are_dropped(case: &Case) {
    note(case, vec![(case.name("k").id(), payload("200 EUR"), 1)]).await;
    assert_eq!(of(case, "k").await, []);
}

async fn mismatches_change_nothing_of_the_record(case: &Case) {
    case.completed("k").await;
    let record = case.record("k").await;
    case.reserve("k").paying("200 EUR").await.mismatch();
    note(case, vec![(case.name("k").id(), payload("200 EUR"), 1)]).await;
    assert_eq!(case.record("k").await, record);
    assert!(case.traces("k").await.is_empty());
}
