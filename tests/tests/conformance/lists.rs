//! Lists and counts of what somebody has to find out about.

use reprise::store::{PendingCount, PendingQuery};
use reprise_domain::command::{FailureKind, Finding};
use reprise_domain::record::{PendingReason, State};
use reprise_domain::{RecordName, Timestamp};

use super::case::{Case, TICK, applied, error, result, secs, still_unknown};
use super::finding::{CLAIM, new_claim_id};

stamp![
    doubt_is_on_the_list_at_once,
    what_was_found_out_leaves_the_list,
    a_late_report_leaves_the_list,
    a_contradiction_comes_onto_the_list,
    the_longest_due_comes_first,
    what_is_not_due_is_left_out_when_only_due_is_asked_for,
    what_is_claimed_is_left_out_until_the_claim_ran_out,
    a_list_is_of_one_tenant_and_operation,
    pages_lose_and_repeat_nothing,
    records_on_the_list_come_without_bytes,
    claims_are_found_by_their_call,
    claims_of_another_tenant_are_not_found,
    pending_records_are_counted_by_operation_and_reason,
    counts_tell_due_and_claimed,
    nothing_pending_counts_as_nothing,
];

async fn doubt_is_on_the_list_at_once(case: &Case) {
    let grant = case.pending("k").await;
    assert_eq!(case.open().await, ["k"]);
    let page = case.store.pending(case.pending_query()).await;
    let page = page.expect("the store answers");
    let (due, record) = &page.entries[0];
    let end = grant.record().attempt.lease_end;
    assert_eq!(*due, end.max(case.now().after(secs(60))));
    assert_eq!(record.state, State::Pending);
    assert_eq!(record.name, case.name("k"));
}

async fn what_was_found_out_leaves_the_list(case: &Case) {
    for (key, finding) in [
        ("a", applied()),
        ("b", Finding::NotApplied),
        ("c", super::finding::found_failed("NO")),
        (
            "d",
            Finding::TakeOver {
                attempt_id: super::case::new_id(),
                lease: None,
            },
        ),
    ] {
        let (_, claim) = case.claimed(key).await;
        assert_eq!(case.open().await, [key]);
        let told = case.resolve_by(&claim, finding).await;
        assert!(told.answer.is_ok());
        assert!(case.open().await.is_empty(), "{key}");
    }
}

async fn a_late_report_leaves_the_list(case: &Case) {
    for key in ["a", "b", "c"] {
        let grant = case.pending(key).await;
        assert_eq!(case.open().await, [key]);
        match key {
            "a" => case.complete(&grant, result()).await,
            "b" => case.fail(&grant, FailureKind::Final, error()).await,
            _ => case.fail(&grant, FailureKind::Retryable, error()).await,
        }
        .recorded();
        assert!(case.open().await.is_empty());
    }
}

async fn a_contradiction_comes_onto_the_list(case: &Case) {
    let grant = case.failed("k", FailureKind::Retryable).await;
    assert!(case.open().await.is_empty());
    let told = case.complete(&grant, result()).await;
    assert!(told.answer.is_err());
    assert_eq!(case.open().await, ["k"]);
    let counts = case.counts("").await;
    assert_eq!(counts[0].reason, PendingReason::ContradictoryReports);
}

/// PENDING, due that long from now.
async fn due_in(case: &Case, key: &str, seconds: u64) {
    let grant = case.reserve(key).await.granted();
    let check_after = Some(secs(seconds));
    let told = case.mark_pending_with(&grant, "timeout", "", "", check_after);
    told.await.recorded();
}

async fn the_longest_due_comes_first(case: &Case) {
    for (key, seconds) in [("b", 200), ("c", 300), ("a", 100), ("now", 0)] {
        due_in(case, key, seconds).await;
    }
    assert_eq!(case.open().await, ["now", "a", "b", "c"]);
}

async fn what_is_not_due_is_left_out_when_only_due_is_asked_for(case: &Case) {
    due_in(case, "a", 100).await;
    due_in(case, "b", 200).await;
    case.advance(secs(100) - TICK);
    assert!(case.due().await.is_empty());
    case.advance(TICK);
    assert_eq!(case.due().await, ["a"]);
    case.advance(secs(100));
    assert_eq!(case.due().await, ["a", "b"]);
}

async fn what_is_claimed_is_left_out_until_the_claim_ran_out(case: &Case) {
    let (_, claim) = case.claimed("k").await;
    assert_eq!(case.open().await, ["k"]);
    assert!(case.due().await.is_empty());
    case.advance(CLAIM - TICK);
    assert!(case.due().await.is_empty());
    case.renew_claim(&claim, None).await.claimed();
    case.advance(CLAIM - TICK);
    assert!(case.due().await.is_empty());
    case.advance(TICK);
    assert_eq!(case.due().await, ["k"]);
}

fn named(case: &Case, operation: &str, key: &str) -> RecordName {
    RecordName::new(&case.tenant, operation, "", key).expect("a valid name")
}

async fn pend(case: &Case, operation: &str, key: &str) {
    let grant = case.reserve_name(named(case, operation, key)).await;
    let grant = grant.granted();
    case.mark_pending(&grant, "timeout").await.recorded();
}

async fn a_list_is_of_one_tenant_and_operation(case: &Case) {
    pend(case, "charge", "a").await;
    pend(case, "refund", "b").await;
    let other = Case {
        tenant: format!("{}-other", case.tenant),
        ..case.clone()
    };
    pend(&other, "charge", "c").await;
    let of = |operation: &str| PendingQuery {
        operation: operation.to_owned(),
        ..case.pending_query()
    };
    assert_eq!(case.listed(of("charge")).await, ["a"]);
    assert_eq!(case.listed(of("refund")).await, ["b"]);
    assert!(case.listed(of("void")).await.is_empty());
    assert_eq!(case.open().await.len(), 2);
    assert_eq!(other.open().await, ["c"]);
}

async fn pages_lose_and_repeat_nothing(case: &Case) {
    // Two of each due moment, so that pages end between records of one moment.
    for at in 0..10 {
        due_in(case, &format!("k{at}"), 100 + at / 2).await;
    }
    let all = case.open().await;
    assert_eq!(all.len(), 10);
    for max in [1, 3, 10] {
        let mut seen = Vec::new();
        let mut after: Option<(Timestamp, reprise_domain::RecordId)> = None;
        loop {
            let query = PendingQuery {
                after,
                max,
                ..case.pending_query()
            };
            let page = case.store.pending(query).await.expect("the store answers");
            let Some((due, last)) = page.entries.last() else {
                break;
            };
            after = Some((*due, last.name.id()));
            let keys = page.entries.iter().map(|(_, it)| it.name.key().to_owned());
            seen.extend(keys);
        }
        assert_eq!(seen, all, "{max} a page");
    }
}

async fn records_on_the_list_come_without_bytes(case: &Case) {
    let grant = case.reserve("k").instruction(b"charge").await.granted();
    let told = case.fail(&grant, FailureKind::Retryable, error()).await;
    told.recorded();
    let told = case.complete(&grant, result()).await;
    assert!(told.answer.is_err());
    let page = case.store.pending(case.pending_query()).await;
    let page = page.expect("the store answers");
    let record = &page.entries[0].1;
    let outcome = record.outcome.as_ref().expect("what the report left");
    assert!(!outcome.content.has_bytes());
    assert_eq!(outcome.content.code, "DECLINED");
}

async fn claimed(case: &Case, id: reprise_domain::record::ClaimId) -> Vec<String> {
    let names = case.store.claimed(&case.tenant, id).await;
    let names = names.expect("the store answers");
    let mut keys: Vec<_> = names.iter().map(|it| it.key().to_owned()).collect();
    keys.sort_unstable();
    keys
}

async fn claims_are_found_by_their_call(case: &Case) {
    for key in ["a", "b", "c"] {
        case.reserve(key).await.granted();
    }
    case.settle("c").await;
    let (id, other) = (new_claim_id(), new_claim_id());
    let first = case.claim_as("a", id).await.claimed();
    case.claim_as("b", id).await.claimed();
    case.claim_as("c", other).await.claimed();
    assert_eq!(claimed(case, id).await, ["a", "b"]);
    assert_eq!(claimed(case, other).await, ["c"]);
    case.resolve_by(&first, applied()).await.recorded();
    assert_eq!(claimed(case, id).await, ["b"]);
    assert!(claimed(case, new_claim_id()).await.is_empty());
}

async fn claims_of_another_tenant_are_not_found(case: &Case) {
    let (_, claim) = case.claimed("k").await;
    let other = Case {
        tenant: format!("{}-other", case.tenant),
        ..case.clone()
    };
    assert!(claimed(&other, claim.id).await.is_empty());
    assert_eq!(claimed(case, claim.id).await, ["k"]);
}

async fn pending_records_are_counted_by_operation_and_reason(case: &Case) {
    let begun = case.now();
    pend(case, "refund", "a").await;
    case.advance(TICK);
    pend(case, "charge", "b").await;
    pend(case, "charge", "c").await;
    let grant = case.reserve_name(named(case, "charge", "d")).await;
    let grant = grant.granted();
    case.mark_sending(&grant).await.leased();
    case.advance(secs(30));
    let sweep = reprise_domain::Command::Sweep;
    case.tell(&grant.name, sweep).await.swept();
    let count = |operation: &str, reason, total, oldest| PendingCount {
        operation: operation.to_owned(),
        reason,
        total,
        due: 0,
        claimed: 0,
        oldest,
    };
    let said = PendingReason::Reported;
    let sent = PendingReason::LeaseExpiredAfterSending;
    let end = grant.record().attempt.lease_end;
    let mut expected = vec![
        count("charge", said, 2, begun.after(TICK)),
        count("charge", sent, 1, end),
        count("refund", said, 1, begun),
    ];
    let mut all = case.counts("").await;
    // Reasons are in the order of their names or of their numbers, as the store likes.
    let order = |it: &PendingCount| (it.operation.clone(), it.total);
    all.sort_by_key(order);
    expected.sort_by_key(order);
    assert_eq!(all, expected);
    assert_eq!(case.counts("refund").await, expected[2..]);
}

async fn counts_tell_due_and_claimed(case: &Case) {
    for key in ["a", "b", "c"] {
        due_in(case, key, 60).await;
    }
    due_in(case, "later", 600).await;
    case.advance(secs(90));
    case.claim("a").await.claimed();
    let told = case.claim("b").await.claimed();
    case.resolve_by(&told, still_unknown()).await.recorded();
    let counts = case.counts("charge").await;
    let [count] = counts.as_slice() else {
        panic!("one operation and reason: {counts:?}");
    };
    assert_eq!((count.total, count.due, count.claimed), (4, 1, 1));
    case.advance(CLAIM);
    let counts = case.counts("charge").await;
    assert_eq!((counts[0].due, counts[0].claimed), (3, 0));
}

async fn nothing_pending_counts_as_nothing(case: &Case) {
    case.completed("k").await;
    case.reserve("running").await.granted();
    assert_eq!(case.counts("").await, []);
    assert!(case.open().await.is_empty());
}
