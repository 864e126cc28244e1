//! Audit rows: who did what, when and why.

use reprise::store::{AuditPlace, AuditQuery, AuditRow, Audited, PutPolicy};
use reprise_domain::Policy;
use reprise_domain::command::{FailureKind, Finding, Refusal};
use reprise_domain::decide::{AuditAction, By};
use reprise_domain::policy::Mode;

use super::case::{Case, TICK, applied, error, new_id, result, secs, still_unknown, unless_sent};
use super::finding::found_failed;

stamp![
    each_finding_of_a_claim_leaves_its_row,
    each_finding_of_an_operator_leaves_its_row,
    a_take_over_leaves_a_row_of_the_caller,
    a_contradiction_leaves_a_row_of_the_caller,
    a_contradiction_by_a_claim_leaves_its_row,
    an_erasure_leaves_its_row,
    a_policy_leaves_its_row,
    a_held_take_over_leaves_none,
    the_newest_row_comes_first,
    rows_are_found_by_operation_record_and_time,
    pages_of_rows_lose_and_repeat_nothing,
    rows_of_another_tenant_are_not_found,
];

fn row(case: &Case, key: &str, action: AuditAction, by: By, attempt: u32) -> AuditRow {
    let (actor, evidence) = match by {
        By::Claim => ("finder", "asked the provider"),
        By::Operator => ("operator@example", "asked the provider"),
        By::Caller => ("worker", ""),
    };
    AuditRow {
        at: case.now(),
        actor: actor.to_owned(),
        action: Audited::Record(action),
        by,
        tenant: case.tenant.clone(),
        operation: "charge".to_owned(),
        record: Some((case.name(key).id(), attempt)),
        evidence: evidence.to_owned(),
    }
}

async fn of(case: &Case, key: &str) -> Vec<AuditRow> {
    let query = AuditQuery {
        record: Some(case.name(key).id()),
        ..case.audit_query()
    };
    case.audit(query).await.rows
}

fn findings() -> [(&'static str, Finding, AuditAction); 5] {
    let take_over = Finding::TakeOver {
        attempt_id: new_id(),
        lease: None,
    };
    [
        ("a", applied(), AuditAction::ResolvedApplied),
        ("b", Finding::NotApplied, AuditAction::ResolvedNotApplied),
        ("c", take_over, AuditAction::ResolvedTakeOver),
        ("d", found_failed("NO"), AuditAction::ResolvedFailed),
        ("e", still_unknown(), AuditAction::ResolvedStillUnknown),
    ]
}

async fn each_finding_of_a_claim_leaves_its_row(case: &Case) {
    for (key, finding, action) in findings() {
        let (_, claim) = case.claimed(key).await;
        assert!(case.resolve_by(&claim, finding).await.answer.is_ok());
        assert_eq!(of(case, key).await, [row(case, key, action, By::Claim, 1)]);
    }
}

async fn each_finding_of_an_operator_leaves_its_row(case: &Case) {
    for (key, finding, action) in findings() {
        case.reserve(key).await.granted();
        case.advance(secs(30));
        assert!(case.resolve(key, finding).await.answer.is_ok());
        let expected = row(case, key, action, By::Operator, 1);
        assert_eq!(of(case, key).await, [expected]);
    }
}

async fn a_take_over_leaves_a_row_of_the_caller(case: &Case) {
    let case = case.under(unless_sent());
    case.reserve("k").owner("first").await.granted();
    case.advance(secs(30));
    case.reserve("k").owner("worker").await.granted();
    let expected = row(&case, "k", AuditAction::TakenOver, By::Caller, 2);
    assert_eq!(of(&case, "k").await, [expected]);
}

async fn a_contradiction_leaves_a_row_of_the_caller(case: &Case) {
    let grant = case.reserve("k").owner("worker").await.granted();
    let told = case.fail(&grant, FailureKind::Final, error()).await;
    told.recorded();
    let told = case.complete(&grant, result()).await;
    told.refused(Refusal::OutcomeAlreadyRecorded);
    let expected = row(case, "k", AuditAction::Contradicted, By::Caller, 1);
    assert_eq!(of(case, "k").await, [expected]);
}

async fn a_contradiction_by_a_claim_leaves_its_row(case: &Case) {
    let (grant, claim) = case.claimed("k").await;
    let told = case.fail(&grant, FailureKind::Final, error()).await;
    told.recorded();
    let told = case.resolve_by(&claim, applied()).await;
    assert!(told.answer.is_err());
    let expected = row(case, "k", AuditAction::Contradicted, By::Claim, 1);
    assert_eq!(of(case, "k").await, [expected]);
}

async fn an_erasure_leaves_its_row(case: &Case) {
    case.completed("k").await;
    case.forget("k").await.recorded();
    let expected = AuditRow {
        evidence: "asked to".to_owned(),
        ..row(case, "k", AuditAction::Forgotten, By::Operator, 1)
    };
    assert_eq!(of(case, "k").await, [expected]);
}

async fn put(case: &Case, operation: &str) {
    let put = PutPolicy {
        tenant: case.tenant.clone(),
        operation: operation.to_owned(),
        policy: Some(Policy::default()),
        mode: Mode::Hold,
        etag: String::new(),
        actor: "operator@example".to_owned(),
        reason: "stop it".to_owned(),
    };
    let stored = case.store.put_policy(put).await;
    stored.expect("the policy is stored");
}

async fn a_policy_leaves_its_row(case: &Case) {
    put(case, "charge").await;
    let expected = AuditRow {
        at: case.now(),
        actor: "operator@example".to_owned(),
        action: Audited::PolicyWritten,
        by: By::Operator,
        tenant: case.tenant.clone(),
        operation: "charge".to_owned(),
        record: None,
        evidence: "stop it".to_owned(),
    };
    assert_eq!(case.audit(case.audit_query()).await.rows, [expected]);
}

async fn a_held_take_over_leaves_none(case: &Case) {
    let case = case.under(unless_sent());
    case.reserve("k").await.granted();
    case.advance(secs(30));
    let held = case.under(Policy {
        mode: Mode::Hold,
        ..unless_sent()
    });
    held.reserve("k").await.held();
    assert!(of(&case, "k").await.is_empty());
}

/// Three records found applied, a second apart.
async fn three(case: &Case) {
    for key in ["a", "b", "c"] {
        case.reserve(key).await.granted();
        case.advance(secs(30));
        case.resolve(key, applied()).await.recorded();
    }
}

async fn the_newest_row_comes_first(case: &Case) {
    three(case).await;
    let rows = case.audit(case.audit_query()).await.rows;
    let ids: Vec<_> = rows.iter().filter_map(|row| row.record).collect();
    let expected = ["c", "b", "a"].map(|key| (case.name(key).id(), 1));
    assert_eq!(ids, expected);
}

async fn rows_are_found_by_operation_record_and_time(case: &Case) {
    let begun = case.now();
    three(case).await;
    put(case, "refund").await;
    let count = async |set: &dyn Fn(&mut AuditQuery)| {
        let mut query = case.audit_query();
        set(&mut query);
        case.audit(query).await.rows.len()
    };
    assert_eq!(count(&|_| {}).await, 4);
    let operation = |query: &mut AuditQuery| query.operation = "charge".to_owned();
    assert_eq!(count(&operation).await, 3);
    let record = |query: &mut AuditQuery| query.record = Some(case.name("b").id());
    assert_eq!(count(&record).await, 1);
    let second = begun.after(secs(60));
    let from = |query: &mut AuditQuery| query.from = Some(second);
    assert_eq!(count(&from).await, 3);
    let before = |query: &mut AuditQuery| query.before = Some(second);
    assert_eq!(count(&before).await, 1);
    let within = |query: &mut AuditQuery| {
        query.from = Some(second);
        query.before = Some(second.after(TICK));
    };
    assert_eq!(count(&within).await, 1);
}

async fn pages_of_rows_lose_and_repeat_nothing(case: &Case) {
    // All of one moment, so that pages end between them.
    for at in 0..7 {
        case.completed(&format!("k{at}")).await;
    }
    for at in 0..7 {
        case.forget(&format!("k{at}")).await.recorded();
    }
    let all = case.audit(case.audit_query()).await.rows;
    assert_eq!(all.len(), 7);
    for max in [1, 3, 7] {
        let mut seen = Vec::new();
        let mut after: Option<AuditPlace> = None;
        loop {
            let query = AuditQuery {
                after,
                max,
                ..case.audit_query()
            };
            let page = case.audit(query).await;
            assert!(page.rows.len() <= max);
            seen.extend(page.rows);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, all, "{max} a page");
    }
}

async fn rows_of_another_tenant_are_not_found(case: &Case) {
    three(case).await;
    let query = AuditQuery {
        tenant: format!("{}-other", case.tenant),
        ..case.audit_query()
    };
    assert!(case.audit(query.clone()).await.rows.is_empty());
    let query = AuditQuery {
        record: Some(case.name("a").id()),
        ..query
    };
    assert!(case.audit(query).await.rows.is_empty());
}
