//! Removal: headers and body, then the whole record; never what is uncertain or running.

use reprise::store::{AUDIT_RETENTION, AuditQuery, Removed};
use reprise_domain::command::{FailureKind, Finding, Refusal};
use reprise_domain::record::State;
use reprise_domain::{Policy, Reading};
use tokio::task::JoinSet;

use super::case::{Case, TICK, applied, error, result, secs, still_unknown, take_over};
use super::finding::{SOON, short_memory};

stamp_alone![
    headers_and_body_are_kept_until_the_last_tick,
    headers_and_body_go_soon_after_the_end_of_their_replay,
    a_record_is_kept_until_the_last_tick,
    a_record_goes_soon_after_the_end_of_its_memory,
    a_final_failure_goes_too,
    a_retryable_failure_goes_too,
    a_late_outcome_goes_too,
    a_resolved_record_goes_too,
    a_forgotten_record_goes_too,
    a_running_record_is_never_removed,
    a_pending_record_is_never_removed,
    a_failure_beside_an_unknown_attempt_is_never_removed,
    a_record_that_is_revived_survives,
    a_record_that_is_tried_again_survives_its_old_end,
    a_revived_record_goes_at_its_own_end,
    side_rows_go_with_their_record,
    audit_rows_outlive_their_record_and_go_in_the_end,
    many_records_go_in_steps_and_add_up,
    other_records_stay,
    a_report_after_a_purge_finds_nothing,
    a_resolution_after_a_purge_finds_nothing,
    a_claim_after_a_purge_finds_nothing,
    a_key_is_free_after_a_purge_and_its_fence_goes_on,
];

/// Longer than ends of [`short_memory`] are rounded by.
const ROUNDED: std::time::Duration = secs(600);

fn removed(bodies: u64, records: u64) -> Removed {
    Removed {
        bodies,
        records,
        more: false,
    }
}

/// Whether headers and body are still in the row.
async fn has_bytes(case: &Case, key: &str) -> bool {
    let outcome = case.record(key).await.outcome.expect("an outcome");
    outcome.content.has_bytes()
}

async fn headers_and_body_are_kept_until_the_last_tick(case: &Case) {
    let case = case.under(short_memory());
    case.completed("k").await;
    case.tidy().await;
    case.advance(secs(1_000) - SOON - TICK);
    assert_eq!(case.remove().await, removed(0, 0));
    assert!(has_bytes(&case, "k").await);
    let view = case.reserve("k").await.replayed();
    assert_eq!(view.reading, Reading::Completed { gone: false });
}

async fn headers_and_body_go_soon_after_the_end_of_their_replay(case: &Case) {
    let case = case.under(short_memory());
    case.completed("k").await;
    let before = case.record("k").await;
    case.tidy().await;
    case.advance(secs(1_000) - SOON + ROUNDED);
    assert_eq!(case.remove().await, removed(1, 0));
    assert_eq!(case.remove().await, removed(0, 0));
    let record = case.record("k").await;
    let outcome = record.outcome.clone().expect("an outcome");
    assert_eq!(outcome.content, result().stripped());
    assert_eq!(record.attempt, before.attempt);
    let view = case.reserve("k").await.replayed();
    assert_eq!(view.reading, Reading::Completed { gone: true });
    case.reserve("k").paying("200 EUR").await.mismatch();
}

async fn a_record_is_kept_until_the_last_tick(case: &Case) {
    let case = case.under(short_memory());
    case.completed("k").await;
    case.tidy().await;
    case.advance(secs(10_000) - SOON - TICK);
    assert_eq!(case.remove().await, removed(1, 0));
    let view = case.reserve("k").await.replayed();
    assert_eq!(view.reading, Reading::Completed { gone: true });
}

/// Visited by the walk, then past its memory: it is removed, once.
async fn goes(case: &Case, key: &str) {
    case.tidy().await;
    case.advance(secs(10_000) + ROUNDED);
    assert_eq!(case.remove().await.records, 1);
    assert_eq!(case.find(key).await, None);
    assert_eq!(case.remove().await, removed(0, 0));
}

async fn a_record_goes_soon_after_the_end_of_its_memory(case: &Case) {
    let case = case.under(short_memory());
    case.completed("k").await;
    goes(&case, "k").await;
}

async fn a_final_failure_goes_too(case: &Case) {
    let case = case.under(short_memory());
    case.failed("k", FailureKind::Final).await;
    goes(&case, "k").await;
}

async fn a_retryable_failure_goes_too(case: &Case) {
    let case = case.under(short_memory());
    case.failed("k", FailureKind::Retryable).await;
    goes(&case, "k").await;
}

async fn a_late_outcome_goes_too(case: &Case) {
    let case = case.under(short_memory());
    let grant = case.reserve("k").await.granted();
    case.advance(secs(100));
    case.tidy().await;
    case.complete(&grant, result()).await.recorded();
    goes(&case, "k").await;
    // While its lease still ran, after the walk had been there.
    let grant = case.reserve("slow").lease(secs(900)).await.granted();
    case.advance(SOON);
    case.walk().await;
    case.complete(&grant, result()).await.recorded();
    case.advance(secs(900));
    goes(&case, "slow").await;
}

async fn a_resolved_record_goes_too(case: &Case) {
    let case = case.under(short_memory());
    let (_, claim) = case.claimed("k").await;
    case.tidy().await;
    case.resolve_by(&claim, applied()).await.recorded();
    goes(&case, "k").await;
}

async fn a_forgotten_record_goes_too(case: &Case) {
    let case = case.under(short_memory());
    case.completed("k").await;
    case.tidy().await;
    case.forget("k").await.recorded();
    goes(&case, "k").await;
}

async fn a_running_record_is_never_removed(case: &Case) {
    let case = case.under(short_memory());
    let grant = case.reserve("k").lease(secs(900)).await.granted();
    case.tidy().await;
    for _ in 0..20 {
        case.advance(secs(800));
        case.renew(&grant, None).await.leased();
        assert_eq!(case.remove().await, removed(0, 0));
    }
    assert_eq!(case.record("k").await.state, State::Processing);
}

async fn a_pending_record_is_never_removed(case: &Case) {
    let case = case.under(short_memory());
    case.pending("said").await;
    case.reserve("lapsed").await.granted();
    let grant = case.failed("contradicted", FailureKind::Retryable).await;
    let told = case.complete(&grant, result()).await;
    told.refused(Refusal::OutcomeAlreadyRecorded);
    case.tidy().await;
    case.advance(secs(40_000));
    case.tidy().await;
    assert_eq!(case.remove().await, removed(0, 0));
    for key in ["said", "lapsed", "contradicted"] {
        assert_eq!(case.record(key).await.state, State::Pending, "{key}");
    }
}

async fn a_failure_beside_an_unknown_attempt_is_never_removed(case: &Case) {
    let case = case.under(Policy {
        result_retention: secs(1_000),
        memory_retention: secs(10_000),
        ..take_over()
    });
    case.reserve("k").await.granted();
    case.advance(secs(30));
    let second = case.reserve("k").await.granted();
    let told = case.fail(&second, FailureKind::Retryable, error()).await;
    told.recorded();
    // Nobody looks: it was not even written down that it reads as PENDING.
    case.advance(SOON);
    case.walk().await;
    case.advance(secs(40_000));
    assert_eq!(case.remove().await, removed(0, 0));
    case.tidy().await;
    assert_eq!(case.record("k").await.state, State::Pending);
}

async fn a_record_that_is_revived_survives(case: &Case) {
    let case = case.under(short_memory());
    case.completed("k").await;
    case.tidy().await;
    case.advance(secs(10_000) + ROUNDED);
    let grant = case.reserve("k").await.granted();
    assert_eq!(case.remove().await.records, 0);
    let record = case.record("k").await;
    assert_eq!(record, *grant.record());
    case.complete(&grant, result()).await.recorded();
    case.tidy().await;
    assert_eq!(case.remove().await.records, 0);
    case.reserve("k").await.replayed();
}

async fn a_record_that_is_tried_again_survives_its_old_end(case: &Case) {
    let case = case.under(short_memory());
    case.failed("k", FailureKind::Retryable).await;
    case.tidy().await;
    case.advance(secs(9_000));
    let grant = case.reserve("k").lease(secs(900)).await.granted();
    case.tidy().await;
    case.advance(secs(800));
    case.complete(&grant, result()).await.recorded();
    case.advance(secs(1_000) - TICK);
    assert_eq!(case.remove().await, removed(0, 0));
    assert!(has_bytes(&case, "k").await);
}

async fn a_revived_record_goes_at_its_own_end(case: &Case) {
    let case = case.under(short_memory());
    case.completed("k").await;
    case.tidy().await;
    case.advance(secs(11_000));
    case.completed("k").await;
    goes(&case, "k").await;
}

async fn side_rows_go_with_their_record(case: &Case) {
    let case = case.under(short_memory());
    let (grant, claim) = case.claimed("k").await;
    let told = case.mark_pending_with(&grant, "timeout", "ch_1", "charge", None);
    told.await.recorded();
    let told = case.mark_pending_with(&grant, "timeout", "ch_2", "charge more", None);
    told.await.recorded();
    case.resolve_by(&claim, Finding::NotApplied)
        .await
        .recorded();
    let second = case.completed("k").await;
    let told = case.complete(&second, super::case::other_result()).await;
    told.refused(Refusal::OutcomeAlreadyRecorded);
    let mismatch = super::case::payload("200 EUR");
    let seen = vec![(case.name("k").id(), mismatch, 3)];
    let noted = case.store.note_mismatches(seen).await;
    noted.expect("the store answers");
    case.tidy().await;
    assert!(case.traces("k").await.len() >= 4);
    goes(&case, "k").await;
    let rest = case.traces("k").await;
    let audits =
        |trace: &reprise_domain::Trace| matches!(trace, reprise_domain::Trace::Audit { .. });
    assert!(rest.iter().all(audits), "{rest:?}");
    let mismatches = case.store.mismatches(case.name("k").id()).await;
    assert_eq!(mismatches.expect("the store answers"), []);
    let query = reprise::store::RecordsQuery {
        provider_reference: "ch_2".to_owned(),
        ..case.records_query()
    };
    assert!(case.found(query).await.is_empty());
}

async fn audit_rows_outlive_their_record_and_go_in_the_end(case: &Case) {
    let case = case.under(short_memory());
    let (_, claim) = case.claimed("k").await;
    case.resolve_by(&claim, applied()).await.recorded();
    let made = case.now();
    goes(&case, "k").await;
    let rows = async |case: &Case| case.audit(case.audit_query()).await.rows.len();
    assert_eq!(rows(&case).await, 1);
    case.advance(made.after(AUDIT_RETENTION).since(case.now()));
    case.remove().await;
    assert_eq!(rows(&case).await, 1, "to its last tick");
    case.advance(TICK + SOON);
    case.remove().await;
    assert_eq!(rows(&case).await, 0);
    let query = AuditQuery {
        record: Some(case.name("k").id()),
        ..case.audit_query()
    };
    assert!(case.audit(query).await.rows.is_empty());
}

async fn many_records_go_in_steps_and_add_up(case: &Case) {
    let case = case.under(short_memory());
    let mut all = JoinSet::new();
    for at in 0..700 {
        let case = case.clone();
        all.spawn(async move {
            let key = format!("k{at}");
            match at % 7 {
                0 => drop(case.reserve(&key).await.granted()),
                1 => drop(case.pending(&key).await),
                _ => drop(case.completed(&key).await),
            }
        });
    }
    all.join_all().await;
    case.tidy().await;
    case.advance(secs(1_000) + ROUNDED);
    case.tidy().await;
    assert_eq!(case.remove().await, removed(500, 0));
    case.advance(secs(10_000));
    case.tidy().await;
    assert_eq!(case.remove().await, removed(0, 500));
    let counts = case.counts("").await;
    let left: u64 = counts.iter().map(|count| count.total).sum();
    assert_eq!(left, 200, "nothing uncertain was touched");
}

async fn other_records_stay(case: &Case) {
    let case = case.under(short_memory());
    case.completed("old").await;
    case.tidy().await;
    case.advance(secs(6_000));
    case.completed("new").await;
    case.tidy().await;
    case.advance(secs(4_000) + ROUNDED);
    assert_eq!(case.remove().await, removed(1, 1));
    assert_eq!(case.find("old").await, None);
    case.reserve("new").await.replayed();
}

async fn a_report_after_a_purge_finds_nothing(case: &Case) {
    let case = case.under(short_memory());
    let grant = case.completed("k").await;
    goes(&case, "k").await;
    for told in [
        case.complete(&grant, result()).await,
        case.fail(&grant, FailureKind::Final, error()).await,
        case.mark_pending(&grant, "timeout").await,
        case.mark_sending(&grant).await,
        case.renew(&grant, None).await,
    ] {
        told.refused(Refusal::RecordNotFound);
    }
    assert_eq!(case.find("k").await, None);
    assert!(case.traces("k").await.is_empty());
}

async fn a_resolution_after_a_purge_finds_nothing(case: &Case) {
    let case = case.under(short_memory());
    let (grant, claim) = case.claimed("k").await;
    case.complete(&grant, result()).await.recorded();
    goes(&case, "k").await;
    for finding in [applied(), Finding::NotApplied, still_unknown()] {
        let told = case.resolve_by(&claim, finding).await;
        told.refused(Refusal::RecordNotFound);
    }
    let told = case.renew_claim(&claim, None).await;
    told.refused(Refusal::RecordNotFound);
}

async fn a_claim_after_a_purge_finds_nothing(case: &Case) {
    let case = case.under(short_memory());
    case.failed("k", FailureKind::Retryable).await;
    goes(&case, "k").await;
    case.claim("k").await.refused(Refusal::RecordNotFound);
    case.forget_read("k", 1)
        .await
        .refused(Refusal::RecordNotFound);
}

async fn a_key_is_free_after_a_purge_and_its_fence_goes_on(case: &Case) {
    let case = case.under(short_memory());
    let first = case.completed("k").await;
    goes(&case, "k").await;
    let grant = case.reserve("k").paying("200 EUR").await.granted();
    assert_eq!(grant.number(), 1);
    assert!(grant.fence() > first.fence());
    let told = case.complete(&first, result()).await;
    told.refused(Refusal::StaleToken);
}
