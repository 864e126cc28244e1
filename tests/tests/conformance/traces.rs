//! Side rows: history, evidence, audit. What callers can cause is bounded.

use reprise_domain::command::{FailureKind, Refusal};
use reprise_domain::content::Content;
use reprise_domain::decide::{AuditAction, By, Ending, Reported};
use reprise_domain::record::{PendingReason, ReportKind};
use reprise_domain::{Policy, RecordName, Trace};

use super::case::{Case, error, other_result, result, secs, take_over, unless_sent};
use super::finding::short_memory;

stamp![
    the_usual_life_leaves_no_side_rows,
    a_failed_attempt_leaves_a_history_row,
    a_lapsed_attempt_leaves_a_history_row_and_an_audit_row,
    history_is_in_order,
    the_same_evidence_is_kept_once,
    evidence_is_kept_for_each_digest,
    evidence_is_bounded,
    replaced_values_are_bounded,
    a_reference_that_an_outcome_replaces_goes_to_the_history,
    a_new_life_of_a_key_begins_with_an_empty_story,
    a_shorter_memory_does_not_forget_what_may_have_had_its_effect,
    evidence_outlives_the_next_grants,
    side_rows_belong_to_their_record,
    a_contradiction_is_audited_once,
];

const TAKEN: Refusal = Refusal::OutcomeAlreadyRecorded;

async fn the_usual_life_leaves_no_side_rows(case: &Case) {
    let grant = case.reserve("k").await.granted();
    let reference = result().provider_reference;
    let told = case
        .mark_sending_with(&grant, &reference, "pay", None)
        .await;
    told.leased();
    case.renew(&grant, None).await.leased();
    case.complete(&grant, result()).await.recorded();
    case.reserve("k").await.replayed();
    assert_eq!(case.traces("k").await, []);
}

async fn a_failed_attempt_leaves_a_history_row(case: &Case) {
    let grant = case.reserve("k").owner("worker-3").await.granted();
    let told = case.mark_sending_with(&grant, "ch_1", "", None).await;
    told.leased();
    case.advance(secs(3));
    let told = case.fail(&grant, FailureKind::Retryable, error()).await;
    told.recorded();
    case.advance(secs(3));
    case.reserve("k").await.granted();
    let granted_at = grant.record().attempt.granted_at;
    let expected = Trace::History {
        attempt: 1,
        attempt_id: grant.id,
        owner: "worker-3".to_owned(),
        granted_at,
        ended_at: granted_at.after(secs(3)),
        ending: Ending::FailedRetryable,
        code: "DECLINED".to_owned(),
        provider_reference: "ch_1".to_owned(),
    };
    assert_eq!(case.traces("k").await, [expected]);
}

async fn a_lapsed_attempt_leaves_a_history_row_and_an_audit_row(case: &Case) {
    let case = case.under(unless_sent());
    let first = case.reserve("k").owner("a").await.granted();
    case.advance(secs(45));
    case.reserve("k").owner("b").await.granted();
    let history = Trace::History {
        attempt: 1,
        attempt_id: first.id,
        owner: "a".to_owned(),
        granted_at: first.record().attempt.granted_at,
        ended_at: first.record().attempt.lease_end,
        ending: Ending::Lapsed,
        code: String::new(),
        provider_reference: String::new(),
    };
    let audit = Trace::Audit {
        attempt: 2,
        action: AuditAction::TakenOver,
        by: By::Caller,
        actor: "b".to_owned(),
        evidence: String::new(),
        at: case.now(),
    };
    assert_eq!(case.traces("k").await, [history, audit]);
}

async fn history_is_in_order(case: &Case) {
    for _ in 0..5 {
        case.failed("k", FailureKind::Retryable).await;
    }
    let attempts: Vec<_> = case
        .traces("k")
        .await
        .iter()
        .map(|trace| match trace {
            Trace::History { attempt, .. } => *attempt,
            other => panic!("expected history alone, found {other:?}"),
        })
        .collect();
    assert_eq!(attempts, [1, 2, 3, 4]);
}

async fn the_same_evidence_is_kept_once(case: &Case) {
    let grant = case.completed("k").await;
    let at = case.now();
    for _ in 0..3 {
        case.complete(&grant, other_result()).await.refused(TAKEN);
        case.advance(secs(1));
    }
    let expected = Trace::Evidence {
        attempt: 1,
        reported: Reported::Outcome(ReportKind::Completed),
        code: "PAID".to_owned(),
        digest: other_result().digest(),
        at,
    };
    assert_eq!(case.evidence("k").await, [expected]);
}

async fn evidence_is_kept_for_each_digest(case: &Case) {
    let grant = case.completed("k").await;
    for code in ["A", "B", "A", "C"] {
        let told = case.complete(&grant, Content::of_code(code)).await;
        told.refused(TAKEN);
    }
    assert_eq!(case.evidence("k").await.len(), 3);
}

async fn evidence_is_bounded(case: &Case) {
    let grant = case.completed("k").await;
    for at in 0..20 {
        let content = Content::of_code(&format!("CODE_{at}"));
        case.complete(&grant, content).await.refused(TAKEN);
    }
    let evidence = case.evidence("k").await;
    assert_eq!(evidence.len(), 16);
    assert!(matches!(&evidence[0], Trace::Evidence { code, .. } if code == "CODE_0"));
}

async fn replaced_values_are_bounded(case: &Case) {
    let grant = case.reserve("k").await.granted();
    for at in 0..105 {
        let reference = format!("ch_{at}");
        case.mark_sending_with(&grant, &reference, "pay", None)
            .await
            .leased();
    }
    let replaced = case.traces("k").await;
    assert_eq!(replaced.len(), 100);
    assert!(matches!(&replaced[0],
        Trace::Replaced { provider_reference, .. } if provider_reference == "ch_0"));
}

async fn a_reference_that_an_outcome_replaces_goes_to_the_history(case: &Case) {
    let replaced = |at| {
        [Trace::Replaced {
            attempt: 1,
            provider_reference: "ch_old".to_owned(),
            instruction: bytes::Bytes::new(),
            at,
        }]
    };
    for key in ["completed", "failed"] {
        let grant = case.reserve(key).await.granted();
        case.mark_sending_with(&grant, "ch_old", "", None)
            .await
            .leased();
        let content = Content {
            provider_reference: "ch_new".to_owned(),
            ..Content::of_code("CODE")
        };
        match key {
            "completed" => case.complete(&grant, content).await.recorded(),
            _ => case
                .fail(&grant, FailureKind::Final, content)
                .await
                .recorded(),
        };
        assert_eq!(case.traces(key).await, replaced(case.now()), "{key}");
        assert_eq!(case.record(key).await.provider_reference, "ch_new");
    }
}

async fn a_new_life_of_a_key_begins_with_an_empty_story(case: &Case) {
    let case = case.under(short_memory());
    let first = case.reserve("k").await.granted();
    case.mark_sending_with(&first, "ch_1", "pay", None)
        .await
        .leased();
    case.mark_sending_with(&first, "ch_2", "pay", None)
        .await
        .leased();
    let failed = case.fail(&first, FailureKind::Retryable, error()).await;
    failed.recorded();
    let second = case.reserve("k").await.granted();
    case.complete(&second, result()).await.recorded();
    let told = case.complete(&second, other_result()).await;
    told.refused(TAKEN);
    assert!(case.traces("k").await.len() > 2);
    case.advance(secs(10_000));
    assert_eq!(case.reserve("k").await.granted().number(), 1);
    assert_eq!(case.traces("k").await, []);
}

async fn a_shorter_memory_does_not_forget_what_may_have_had_its_effect(case: &Case) {
    let lenient = case.under(take_over());
    lenient.reserve("k").await.granted();
    lenient.advance(secs(30));
    let second = lenient.reserve("k").await.granted();
    let hasty = lenient.under(Policy {
        result_retention: secs(1),
        memory_retention: secs(1),
        ..Policy::default()
    });
    let told = hasty.fail(&second, FailureKind::Retryable, error()).await;
    told.recorded();
    hasty.advance(secs(2));
    assert_eq!(hasty.reserve("k").await.granted().number(), 3);
    let until = hasty.record("k").await.attempt.repeat_until;
    let until = until.expect("an attempt is unaccounted");
    hasty.advance(until.since(hasty.now()));
    let told = hasty.reserve("k").await;
    told.pending(PendingReason::EarlierAttemptUnknown);
}

async fn evidence_outlives_the_next_grants(case: &Case) {
    let case = case.under(unless_sent());
    let first = case.reserve("k").await.granted();
    case.advance(secs(30));
    let second = case.reserve("k").await.granted();
    let told = case.fail(&first, FailureKind::Final, error()).await;
    told.refused(Refusal::StaleToken);
    let told = case.fail(&second, FailureKind::Retryable, error()).await;
    told.recorded();
    case.reserve("k").await.granted();
    assert_eq!(case.evidence("k").await.len(), 1);
}

async fn side_rows_belong_to_their_record(case: &Case) {
    case.followed("k").await;
    let name = RecordName::new(&case.tenant, "charge", "customer-2", "k");
    let name = name.expect("a valid name");
    case.reserve_name(name.clone()).await.granted();
    let traces = case.store.traces(name.id()).await;
    assert_eq!(traces.expect("the store answers"), []);
    assert_eq!(case.traces("k").await.len(), 1);
}

async fn a_contradiction_is_audited_once(case: &Case) {
    let (first, _) = case.followed("k").await;
    for result in [result(), other_result()] {
        let told = case.complete(&first, result).await;
        told.refused(Refusal::StaleToken);
    }
    let audits = case.traces("k").await.into_iter().filter(|trace| {
        matches!(
            trace,
            Trace::Audit {
                action: AuditAction::Contradicted,
                by: By::Caller,
                ..
            }
        )
    });
    assert_eq!(audits.count(), 1);
    assert_eq!(case.evidence("k").await.len(), 2);
}
