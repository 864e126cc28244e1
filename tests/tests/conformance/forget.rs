//! Forget: what callers stored is erased everywhere, what protects the key stays.

use bytes::Bytes;
use reprise::store::AuditQuery;
use reprise_domain::command::{FailureKind, Finding, Refusal};
use reprise_domain::decide::AuditAction;
use reprise_domain::{Reading, Trace};

use super::case::{
    Case, TICK, error, other_result, result, secs, still_unknown, take_over, unless_sent,
};
use super::finding::short_memory;
use super::stale_tokens::taken_over;

stamp![
    a_completed_record_loses_its_bytes_and_stays,
    a_failed_record_loses_its_bytes_and_stays,
    a_retryable_failure_loses_its_bytes_and_may_be_tried,
    the_instruction_is_erased,
    side_rows_lose_their_bytes,
    refused_words_of_doubt_are_erased,
    the_audit_loses_its_words_but_for_why_it_was_forgotten,
    a_forgotten_outcome_still_protects_the_key,
    a_report_is_repeated_after_its_bytes_were_forgotten,
    a_forgotten_record_is_remembered_as_long_as_before,
    a_running_record_is_not_forgotten,
    a_pending_record_is_not_forgotten,
    a_claimed_record_is_not_forgotten,
    a_missing_record_is_not_forgotten,
    a_changed_record_is_not_forgotten,
    forgetting_again_is_repeated,
    what_came_after_is_not_forgotten_by_the_old_call,
    other_records_keep_their_bytes,
];

async fn a_completed_record_loses_its_bytes_and_stays(case: &Case) {
    case.completed("k").await;
    let before = case.record("k").await;
    case.forget("k").await.recorded();
    let record = case.record("k").await;
    let outcome = record.outcome.clone().expect("an outcome");
    assert_eq!(outcome.content, result().stripped());
    assert_eq!(record.revision, before.revision + 1);
    assert_eq!(record.attempt, before.attempt);
    assert_eq!(record.fingerprint, before.fingerprint);
    assert_eq!(record.provider_reference, "ch_123");
    let view = case.reserve("k").await.replayed();
    assert_eq!(view.reading, Reading::Completed { gone: true });
}

async fn a_failed_record_loses_its_bytes_and_stays(case: &Case) {
    case.failed("k", FailureKind::Final).await;
    case.forget("k").await.recorded();
    let view = case.reserve("k").await.replayed();
    assert_eq!(view.reading, Reading::FailedFinal { gone: true });
    let outcome = view.record.outcome.expect("an outcome");
    assert_eq!(outcome.content, error().stripped());
}

async fn a_retryable_failure_loses_its_bytes_and_may_be_tried(case: &Case) {
    case.failed("k", FailureKind::Retryable).await;
    case.forget("k").await.recorded();
    assert_eq!(case.reading("k").await, Reading::FailedRetryable);
    let outcome = case.record("k").await.outcome.expect("an outcome");
    assert_eq!(outcome.content, error().stripped());
    assert_eq!(case.reserve("k").await.granted().number(), 2);
}

async fn the_instruction_is_erased(case: &Case) {
    let grant = case.reserve("k").instruction(b"charge Ann").await.granted();
    case.complete(&grant, result()).await.recorded();
    assert_eq!(case.record("k").await.instruction, "charge Ann");
    case.forget("k").await.recorded();
    assert_eq!(case.record("k").await.instruction, "");
}

async fn side_rows_lose_their_bytes(case: &Case) {
    let grant = case.reserve("k").instruction(b"charge Ann").await.granted();
    for instruction in ["charge Ann twice", "charge Bob"] {
        let told = case.mark_sending_with(&grant, "", instruction, None);
        told.await.leased();
    }
    case.complete(&grant, result()).await.recorded();
    let replaced = |traces: &[Trace]| -> Vec<Bytes> {
        let instruction = |trace: &Trace| match trace {
            Trace::Replaced { instruction, .. } => Some(instruction.clone()),
            _ => None,
        };
        traces.iter().filter_map(instruction).collect()
    };
    let before = case.traces("k").await;
    assert_eq!(replaced(&before), ["charge Ann", "charge Ann twice"]);
    case.forget("k").await.recorded();
    let after = case.traces("k").await;
    assert!(replaced(&after).iter().all(Bytes::is_empty), "{after:?}");
}

async fn refused_words_of_doubt_are_erased(case: &Case) {
    let (case, first, second) = taken_over(case).await;
    let told = case.mark_pending(&first, "Ann is unsure").await;
    told.refused(Refusal::StaleToken);
    case.complete(&second, result()).await.recorded();
    let words = async || -> Vec<String> {
        let code = |trace| match trace {
            Trace::Evidence { code, .. } => Some(code),
            _ => None,
        };
        let evidence = case.evidence("k").await;
        evidence.into_iter().filter_map(code).collect()
    };
    assert_eq!(words().await, ["Ann is unsure"]);
    case.forget("k").await.recorded();
    assert_eq!(words().await, [""]);
}

async fn the_audit_loses_its_words_but_for_why_it_was_forgotten(case: &Case) {
    case.reserve("k").await.granted();
    case.settle("k").await;
    case.resolve("k", still_unknown()).await.recorded();
    case.resolve("k", Finding::NotApplied).await.recorded();
    case.forget("k").await.recorded();
    let words: Vec<_> = case
        .traces("k")
        .await
        .into_iter()
        .filter_map(|trace| match trace {
            Trace::Audit {
                action, evidence, ..
            } => Some((action, evidence)),
            _ => None,
        })
        .collect();
    let expected = [
        (AuditAction::ResolvedStillUnknown, String::new()),
        (AuditAction::ResolvedNotApplied, String::new()),
        (AuditAction::Forgotten, "asked to".to_owned()),
    ];
    assert_eq!(words, expected);
    let page = case
        .audit(AuditQuery {
            record: Some(case.name("k").id()),
            ..case.audit_query()
        })
        .await;
    let listed: Vec<_> = page.rows.iter().map(|row| &*row.evidence).collect();
    assert_eq!(listed, ["asked to", "", ""]);
}

async fn a_forgotten_outcome_still_protects_the_key(case: &Case) {
    let grant = case.completed("k").await;
    case.forget("k").await.recorded();
    case.reserve("k").paying("200 EUR").await.mismatch();
    let told = case.complete(&grant, other_result()).await;
    told.refused(Refusal::OutcomeAlreadyRecorded);
    assert_eq!(case.evidence("k").await.len(), 1);
}

async fn a_report_is_repeated_after_its_bytes_were_forgotten(case: &Case) {
    let grant = case.completed("k").await;
    case.forget("k").await.recorded();
    case.complete(&grant, result()).await.repeated();
}

async fn a_forgotten_record_is_remembered_as_long_as_before(case: &Case) {
    let case = case.under(short_memory());
    case.completed("k").await;
    case.advance(secs(500));
    case.forget("k").await.recorded();
    case.advance(secs(9_500) - TICK);
    case.reserve("k").await.replayed();
    case.advance(TICK);
    case.reserve("k").await.granted();
}

async fn a_running_record_is_not_forgotten(case: &Case) {
    for (key, policy) in [("a", unless_sent()), ("b", take_over())] {
        let case = case.under(policy);
        case.reserve(key).await.granted();
        case.forget(key).await.refused(Refusal::LeaseRunning);
        case.advance(secs(30));
        case.forget(key).await.refused(Refusal::LeaseRunning);
    }
}

async fn a_pending_record_is_not_forgotten(case: &Case) {
    case.pending("k").await;
    case.forget("k").await.refused(Refusal::RecordPending);
    case.reserve("lapsed").await.granted();
    case.advance(secs(30));
    let told = case.forget("lapsed").await;
    told.refused(Refusal::RecordPending);
}

async fn a_claimed_record_is_not_forgotten(case: &Case) {
    let (_, claim) = case.claimed("k").await;
    case.forget("k").await.refused(Refusal::RecordPending);
    case.renew_claim(&claim, None).await.claimed();
}

async fn a_missing_record_is_not_forgotten(case: &Case) {
    let told = case.forget_read("k", 1).await;
    told.refused(Refusal::RecordNotFound);
    case.completed("old").await;
    case.advance(case.policy.memory_retention);
    case.forget("old").await.refused(Refusal::RecordNotFound);
}

async fn a_changed_record_is_not_forgotten(case: &Case) {
    case.completed("k").await;
    let record = case.record("k").await;
    for revision in [record.revision - 1, record.revision + 1] {
        let told = case.forget_read("k", revision).await;
        told.refused(Refusal::RevisionChanged);
    }
    assert_eq!(case.record("k").await, record);
}

async fn forgetting_again_is_repeated(case: &Case) {
    case.completed("k").await;
    let read = case.record("k").await.revision;
    case.forget_read("k", read).await.recorded();
    let (record, traces) = (case.record("k").await, case.traces("k").await);
    case.advance(secs(5));
    case.forget_read("k", read).await.repeated();
    assert_eq!(case.record("k").await, record);
    assert_eq!(case.traces("k").await, traces, "no second audit row");
}

async fn what_came_after_is_not_forgotten_by_the_old_call(case: &Case) {
    case.failed("k", FailureKind::Retryable).await;
    let read = case.record("k").await.revision;
    case.forget_read("k", read).await.recorded();
    let grant = case.reserve("k").await.granted();
    case.complete(&grant, result()).await.recorded();
    let told = case.forget_read("k", read).await;
    told.refused(Refusal::RevisionChanged);
    let outcome = case.record("k").await.outcome.expect("an outcome");
    assert_eq!(outcome.content, result());
}

async fn other_records_keep_their_bytes(case: &Case) {
    case.completed("a").await;
    case.completed("b").await;
    case.forget("a").await.recorded();
    let outcome = case.record("b").await.outcome.expect("an outcome");
    assert_eq!(outcome.content, result());
}
