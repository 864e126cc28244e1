//! The walk over grants and the looks that follow it: what time has done is written down
//! soon after, and the lists follow.

use std::collections::BTreeSet;

use reprise_domain::Reading;
use reprise_domain::command::{FailureKind, Finding};
use reprise_domain::record::{PendingReason, State};
use tokio::task::JoinSet;

use super::case::{
    Case, TICK, applied, error, result, secs, still_unknown, take_over, unless_sent,
};
use super::finding::{LATER, SOON};

stamp_alone![
    the_walk_visits_each_grant_once,
    the_walk_comes_to_a_grant_soon_after_it,
    the_walk_visits_the_next_grant_of_a_record_too,
    a_long_walk_visits_all_in_steps,
    a_lapse_is_written_down_and_listed,
    a_running_attempt_is_looked_at_when_its_lease_ends,
    a_renewed_lease_is_looked_at_later,
    a_completed_record_is_not_looked_at,
    take_over_is_pending_at_repeat_until_though_nobody_asks,
    a_retryable_failure_beside_an_unknown_attempt_is_pending_at_repeat_until,
    a_shorter_attempt_after_a_long_one_is_looked_at_in_time,
    what_may_be_taken_over_for_ever_is_not_on_the_list,
    what_was_handed_out_is_not_handed_out_again_at_once,
    what_nobody_swept_is_handed_out_again_later,
    a_sweep_changes_nothing_that_is_read,
    a_sweep_of_what_is_gone_is_harmless,
    the_overview_says_what_is_open,
];

/// What the service is told to look at, without looking.
async fn to_look_at(case: &Case) -> BTreeSet<String> {
    let names = case.store.to_look_at(100).await;
    let names = names.expect("the store answers");
    names.iter().map(|name| name.key().to_owned()).collect()
}

fn keys<const N: usize>(keys: [&str; N]) -> BTreeSet<String> {
    keys.map(str::to_owned).into()
}

async fn the_walk_visits_each_grant_once(case: &Case) {
    for key in ["a", "b", "c"] {
        case.reserve(key).await.granted();
        case.advance(TICK);
    }
    case.completed("d").await;
    case.advance(SOON);
    assert_eq!(case.walk().await, 4);
    case.advance(SOON);
    assert_eq!(case.walk().await, 0);
}

async fn the_walk_comes_to_a_grant_soon_after_it(case: &Case) {
    case.reserve("k").await.granted();
    case.advance(secs(5));
    assert_eq!(case.walk().await, 1);
}

async fn the_walk_visits_the_next_grant_of_a_record_too(case: &Case) {
    case.failed("k", FailureKind::Retryable).await;
    case.advance(SOON);
    assert_eq!(case.walk().await, 1);
    case.reserve("k").await.granted();
    case.advance(SOON);
    assert_eq!(case.walk().await, 1);
}

async fn a_long_walk_visits_all_in_steps(case: &Case) {
    let mut grants = JoinSet::new();
    for at in 0..1_200 {
        let case = case.clone();
        grants.spawn(async move { case.reserve(&format!("k{at}")).await.granted() });
    }
    grants.join_all().await;
    case.advance(SOON);
    assert_eq!(case.walk().await, 1_200);
    case.advance(secs(60));
    assert_eq!(case.look().await.len(), 1_200);
    let counts = case.counts("").await;
    assert_eq!((counts.len(), counts[0].total), (1, 1_200));
}

async fn a_lapse_is_written_down_and_listed(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.tidy().await;
    assert!(case.open().await.is_empty());
    case.advance(secs(20));
    case.tidy().await;
    let record = case.record("k").await;
    assert_eq!(record.state, State::Pending);
    let pending = record.pending.expect("pending");
    assert_eq!(pending.reason, PendingReason::LeaseExpired);
    assert_eq!(pending.since, grant.record().attempt.lease_end);
    assert_eq!(case.open().await, ["k"]);
    assert!(case.due().await.is_empty(), "not before the settling time");
    case.settle("k").await;
    assert_eq!(case.due().await, ["k"]);
}

async fn a_running_attempt_is_looked_at_when_its_lease_ends(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.advance(SOON);
    case.walk().await;
    case.advance(secs(20) - TICK);
    assert_eq!(to_look_at(case).await, keys([]));
    case.advance(TICK);
    assert_eq!(case.now(), grant.record().attempt.lease_end);
    assert_eq!(case.look().await, ["k"]);
    assert_eq!(case.record("k").await.state, State::Pending);
}

async fn a_renewed_lease_is_looked_at_later(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.advance(SOON);
    case.walk().await;
    case.renew(&grant, Some(secs(120))).await.leased();
    case.advance(secs(30));
    case.look().await;
    let state = case.record("k").await.state;
    assert_eq!(state, State::Processing);
    case.advance(secs(90));
    case.look().await;
    assert_eq!(case.record("k").await.state, State::Pending);
}

async fn a_completed_record_is_not_looked_at(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.advance(SOON);
    case.walk().await;
    case.complete(&grant, result()).await.recorded();
    case.completed("at-once").await;
    case.advance(secs(60));
    case.tidy().await;
    assert_eq!(case.look().await, Vec::<String>::new());
    assert!(case.open().await.is_empty());
    assert_eq!(case.record("k").await.state, State::Completed);
}

async fn take_over_is_pending_at_repeat_until_though_nobody_asks(case: &Case) {
    let case = case.under(take_over());
    let grant = case.reserve("k").await.granted();
    let until = grant.record().attempt.repeat_until.expect("TAKE_OVER");
    case.advance(secs(60));
    case.tidy().await;
    assert_eq!(case.reading("k").await, Reading::Takeable);
    case.advance(until.since(case.now()) - TICK);
    case.look().await;
    assert_eq!(case.record("k").await.state, State::Processing);
    case.advance(TICK);
    assert_eq!(case.look().await, ["k"]);
    let record = case.record("k").await;
    assert_eq!(record.state, State::Pending);
    assert_eq!(record.pending.expect("pending").since, until);
    assert_eq!(case.due().await, ["k"]);
}

async fn a_retryable_failure_beside_an_unknown_attempt_is_pending_at_repeat_until(case: &Case) {
    let case = case.under(take_over());
    let first = case.reserve("k").await.granted();
    let until = first.record().attempt.repeat_until.expect("TAKE_OVER");
    case.advance(secs(30));
    let second = case.reserve("k").await.granted();
    let told = case.fail(&second, FailureKind::Retryable, error()).await;
    told.recorded();
    case.tidy().await;
    case.advance(until.since(case.now()) - TICK);
    case.look().await;
    assert_eq!(case.record("k").await.state, State::FailedRetryable);
    case.advance(TICK);
    assert_eq!(case.look().await, ["k"]);
    let record = case.record("k").await;
    let pending = record.pending.expect("pending");
    assert_eq!(pending.reason, PendingReason::EarlierAttemptUnknown);
    assert_eq!(case.open().await, ["k"]);
}

async fn a_shorter_attempt_after_a_long_one_is_looked_at_in_time(case: &Case) {
    let first = case.reserve("k").lease(secs(900)).await.granted();
    case.advance(SOON);
    case.walk().await;
    let told = case.fail(&first, FailureKind::Retryable, error()).await;
    told.recorded();
    case.reserve("k").lease(secs(30)).await.granted();
    case.tidy().await;
    case.advance(secs(20));
    assert_eq!(case.look().await, ["k"]);
    assert_eq!(case.open().await, ["k"]);
}

async fn what_may_be_taken_over_for_ever_is_not_on_the_list(case: &Case) {
    let case = case.under(unless_sent());
    case.reserve("k").await.granted();
    case.advance(secs(60));
    case.tidy().await;
    case.advance(LATER);
    assert_eq!(to_look_at(&case).await, keys([]));
    assert!(case.open().await.is_empty());
    assert_eq!(case.reserve("k").await.granted().number(), 2);
    case.advance(secs(60));
    case.advance(SOON);
    case.walk().await;
    assert_eq!(to_look_at(&case).await, keys(["k"]));
}

async fn what_was_handed_out_is_not_handed_out_again_at_once(case: &Case) {
    for key in ["a", "b"] {
        case.reserve(key).await.granted();
    }
    case.advance(secs(60));
    case.walk().await;
    let first = case.store.to_look_at(1).await.expect("the store answers");
    let second = case.store.to_look_at(1).await.expect("the store answers");
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_ne!(first, second);
    assert_eq!(to_look_at(case).await, keys([]));
}

async fn what_nobody_swept_is_handed_out_again_later(case: &Case) {
    case.reserve("k").await.granted();
    case.advance(secs(60));
    case.walk().await;
    assert_eq!(to_look_at(case).await, keys(["k"]));
    case.advance(LATER);
    assert_eq!(to_look_at(case).await, keys(["k"]));
    case.sweep("k").await.swept();
    case.advance(LATER);
    assert_eq!(to_look_at(case).await, keys([]));
    assert_eq!(case.open().await, ["k"]);
}

async fn a_sweep_changes_nothing_that_is_read(case: &Case) {
    case.reserve("lapsed").await.granted();
    case.completed("done").await;
    case.failed("failed", FailureKind::Final).await;
    case.pending("pending").await;
    case.advance(secs(45));
    for key in ["lapsed", "done", "failed", "pending"] {
        let (reading, record) = (case.reading(key).await, case.record(key).await);
        case.sweep(key).await.swept();
        case.sweep(key).await.swept();
        assert_eq!(case.reading(key).await, reading);
        let written = u64::from(key == "lapsed");
        let revision = case.record(key).await.revision;
        assert_eq!(revision, record.revision + written, "{key}");
        assert!(case.traces(key).await.is_empty());
    }
}

async fn a_sweep_of_what_is_gone_is_harmless(case: &Case) {
    case.sweep("k").await.swept();
    assert_eq!(case.find("k").await, None);
}

async fn the_overview_says_what_is_open(case: &Case) {
    let before = case.store.overview().await.expect("the store answers");
    assert_eq!((before.open, before.removal_due), (0, None));
    assert_eq!(before.now, case.now());
    for key in ["a", "b"] {
        case.reserve(key).await.granted();
    }
    case.completed("c").await;
    case.advance(secs(60));
    case.tidy().await;
    let after = case.store.overview().await.expect("the store answers");
    assert_eq!(after.open, 2);
    assert!(after.removal_due.is_some_and(|due| due > case.now()));
    assert!(after.walked_to <= case.now());
    assert!(after.walked_to > before.walked_to);
    case.resolve("a", applied()).await.recorded();
    case.resolve("b", still_unknown()).await.recorded();
    let left = case.store.overview().await.expect("the store answers");
    assert_eq!(left.open, 1);
    case.resolve("b", Finding::NotApplied).await.recorded();
}
