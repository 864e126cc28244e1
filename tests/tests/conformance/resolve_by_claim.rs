//! Resolve under a claim: what it may say, when, and what it still tells once it is over.

use reprise_domain::command::{FailureKind, Finding, Refusal};
use reprise_domain::decide::{AuditAction, By};
use reprise_domain::record::{GrantReason, PendingReason, State};
use reprise_domain::{Reading, Trace};

use super::case::{
    Case, TICK, applied, error, found, new_id, other_result, result, secs, still_unknown, take_over,
};
use super::finding::{CLAIM, Claimed, found_failed};

stamp![
    applied_completes_and_is_replayed,
    not_applied_frees_the_key,
    failed_is_final,
    still_unknown_moves_the_next_check,
    a_resolver_takes_over_and_goes_on,
    a_resolver_is_answered_again,
    a_resolution_is_audited_as_the_claims,
    a_resolution_is_repeated_after_the_claim_ran_out,
    a_claim_that_ran_out_still_resolves,
    a_superseded_claim_resolves_nothing,
    a_claim_taken_before_the_settling_time_denies_nothing,
    the_settling_time_counts_from_when_the_claim_was_taken,
    a_claim_denies_until_the_last_tick_of_repeat_until,
    a_spent_key_may_be_told_after_repeat_until,
    an_operator_may_deny_after_repeat_until,
    a_spent_key_begins_a_generation,
    a_claim_resolves_contradictory_reports,
    applied_counts_after_a_report_freed_the_key,
    applied_counts_after_the_grant_was_given_back,
    applied_contradicts_after_the_next_grant,
    applied_contradicts_a_final_failure,
    applied_changes_nothing_on_a_completed_record,
    evidence_of_claims_is_bounded,
    two_workers_that_find_the_same_are_told_so,
];

fn taking_over() -> Finding {
    Finding::TakeOver {
        attempt_id: new_id(),
        lease: None,
    }
}

fn denials() -> [Finding; 3] {
    [Finding::NotApplied, taking_over(), found_failed("NO")]
}

async fn audits(case: &Case, key: &str) -> Vec<(AuditAction, By)> {
    let traces = case.traces(key).await.into_iter();
    traces
        .filter_map(|trace| match trace {
            Trace::Audit { action, by, .. } => Some((action, by)),
            _ => None,
        })
        .collect()
}

async fn applied_completes_and_is_replayed(case: &Case) {
    let (_, claim) = case.claimed("k").await;
    case.resolve_by(&claim, applied()).await.recorded();
    let view = case.reserve("k").await.replayed();
    assert_eq!(view.reading, Reading::Completed { gone: false });
    let outcome = view.record.outcome.expect("an outcome");
    assert_eq!(outcome.content, result());
    assert!(view.record.claim.is_some_and(|claim| claim.over));
}

async fn not_applied_frees_the_key(case: &Case) {
    let (_, claim) = case.claimed("k").await;
    case.resolve_by(&claim, Finding::NotApplied)
        .await
        .recorded();
    let grant = case.reserve("k").await.granted();
    assert_eq!(grant.number(), 2);
    assert!(grant.fence() > claim.fence());
}

async fn failed_is_final(case: &Case) {
    let (_, claim) = case.claimed("k").await;
    let finding = Finding::Failed(found(error()));
    case.resolve_by(&claim, finding).await.recorded();
    let view = case.reserve("k").await.replayed();
    assert_eq!(view.reading, Reading::FailedFinal { gone: false });
    assert_eq!(view.record.outcome.expect("an outcome").content, error());
}

async fn still_unknown_moves_the_next_check(case: &Case) {
    let (_, claim) = case.claimed("k").await;
    let finding = Finding::StillUnknown {
        check_after: Some(secs(3600)),
        provider_reference: "ch_9".to_owned(),
    };
    case.resolve_by(&claim, finding).await.recorded();
    let record = case.record("k").await;
    assert_eq!(record.provider_reference, "ch_9");
    let pending = record.pending.expect("pending");
    assert_eq!(pending.next_check, case.now().after(secs(3600)));
    assert_eq!(pending.reason, PendingReason::LeaseExpired);
}

async fn a_resolver_takes_over_and_goes_on(case: &Case) {
    let (first, claim) = case.claimed("k").await;
    let grant = case.resolve_by(&claim, taking_over()).await.granted();
    assert_eq!(grant.record().attempt.why, GrantReason::AfterResolution);
    assert_eq!(grant.record().attempt.owner, "finder");
    case.mark_sending(&grant).await.leased();
    case.complete(&grant, result()).await.recorded();
    let told = case.complete(&first, result()).await;
    told.refused(Refusal::StaleToken);
}

async fn a_resolver_is_answered_again(case: &Case) {
    let (_, claim) = case.claimed("k").await;
    let finding = taking_over();
    let grant = case.resolve_by(&claim, finding.clone()).await.granted();
    let again = case.resolve_by(&claim, finding).await.again();
    assert_eq!(again.held, grant.held);
    let told = case.resolve_by(&claim, taking_over()).await;
    told.claim_over(State::Processing);
}

async fn a_resolution_is_audited_as_the_claims(case: &Case) {
    let (_, claim) = case.claimed("k").await;
    case.resolve_by(&claim, still_unknown()).await.recorded();
    case.advance(secs(60));
    let claim = case.claim("k").await.claimed();
    case.resolve_by(&claim, applied()).await.recorded();
    let expected = [
        (AuditAction::ResolvedStillUnknown, By::Claim),
        (AuditAction::ResolvedApplied, By::Claim),
    ];
    assert_eq!(audits(case, "k").await, expected);
}

async fn a_resolution_is_repeated_after_the_claim_ran_out(case: &Case) {
    for (at, finding) in [applied(), Finding::NotApplied, found_failed("NO")]
        .into_iter()
        .enumerate()
    {
        let key = format!("k{at}");
        let (_, claim) = case.claimed(&key).await;
        case.resolve_by(&claim, finding.clone()).await.recorded();
        case.advance(CLAIM * 2);
        let record = case.record(&key).await;
        case.resolve_by(&claim, finding).await.repeated();
        assert_eq!(case.record(&key).await, record);
        assert_eq!(audits(case, &key).await.len(), 1);
    }
}

async fn a_claim_that_ran_out_still_resolves(case: &Case) {
    let (_, claim) = case.claimed("k").await;
    case.advance(CLAIM * 10);
    case.resolve_by(&claim, Finding::NotApplied)
        .await
        .recorded();
}

async fn a_superseded_claim_resolves_nothing(case: &Case) {
    let (_, first) = case.claimed("k").await;
    case.advance(CLAIM);
    let second = case.claim("k").await.claimed();
    for finding in denials().into_iter().chain([still_unknown()]) {
        case.resolve_by(&first, finding)
            .await
            .claim_over(State::Pending);
    }
    let record = case.record("k").await;
    assert_eq!(record, *second.view.record);
    case.resolve_by(&second, Finding::NotApplied)
        .await
        .recorded();
}

/// PENDING, due as soon as its lease ends, under a claim taken then.
async fn claimed_early(case: &Case) -> Claimed {
    let grant = case.reserve("k").await.granted();
    let soon = Some(TICK);
    let told = case.mark_pending_with(&grant, "timeout", "", "", soon);
    told.await.recorded();
    case.advance(secs(30));
    case.claim("k").await.claimed()
}

async fn a_claim_taken_before_the_settling_time_denies_nothing(case: &Case) {
    let claim = claimed_early(case).await;
    for finding in denials() {
        let told = case.resolve_by(&claim, finding).await;
        told.refused(Refusal::Settling);
    }
    case.resolve_by(&claim, still_unknown()).await.recorded();
    case.advance(secs(60));
    let claim = case.claim("k").await.claimed();
    case.resolve_by(&claim, Finding::NotApplied)
        .await
        .recorded();
}

async fn the_settling_time_counts_from_when_the_claim_was_taken(case: &Case) {
    let claim = claimed_early(case).await;
    case.advance(secs(600));
    let told = case.resolve_by(&claim, Finding::NotApplied).await;
    told.refused(Refusal::Settling);
    case.resolve_by(&claim, applied()).await.recorded();
}

/// PENDING under TAKE_OVER, until repeat_until at ten minutes.
async fn claimed_under_take_over(case: &Case) -> Claimed {
    let grant = case.reserve("k").await.granted();
    case.mark_pending(&grant, "timeout").await.recorded();
    case.settle("k").await;
    case.claim("k").await.claimed()
}

async fn a_claim_denies_until_the_last_tick_of_repeat_until(case: &Case) {
    let case = case.under(take_over());
    let begun = case.now();
    let claim = claimed_under_take_over(&case).await;
    case.advance(begun.after(secs(600)).since(case.now()));
    let told = case.resolve_by(&claim, Finding::NotApplied).await;
    told.refused(Refusal::TooLateToTell);

    let name = reprise_domain::RecordName::new(&case.tenant, "charge", "customer-1", "other");
    let name = name.expect("a valid name");
    let begun = case.now();
    let grant = case.reserve_name(name).await.granted();
    case.mark_pending(&grant, "timeout").await.recorded();
    case.settle("other").await;
    let claim = case.claim("other").await.claimed();
    case.advance(begun.after(secs(600) - TICK).since(case.now()));
    case.resolve_by(&claim, Finding::NotApplied)
        .await
        .recorded();
}

async fn a_spent_key_may_be_told_after_repeat_until(case: &Case) {
    let case = case.under(take_over());
    let claim = claimed_under_take_over(&case).await;
    case.advance(secs(600));
    let told = case.resolve_by_spent(&claim, Finding::NotApplied).await;
    told.recorded();
}

async fn an_operator_may_deny_after_repeat_until(case: &Case) {
    let case = case.under(take_over());
    let claim = claimed_under_take_over(&case).await;
    case.advance(secs(600));
    case.resolve("k", Finding::NotApplied).await.recorded();
    let told = case.renew_claim(&claim, None).await;
    told.claim_over(State::FailedRetryable);
}

async fn a_spent_key_begins_a_generation(case: &Case) {
    let (first, claim) = case.claimed("k").await;
    let told = case.resolve_by_spent(&claim, Finding::NotApplied).await;
    told.recorded();
    let grant = case.reserve("k").await.granted();
    assert_eq!(grant.record().generation, 2);
    assert_ne!(grant.record().effect_key(), first.record().effect_key());
}

async fn a_claim_resolves_contradictory_reports(case: &Case) {
    let grant = case.failed("k", FailureKind::Retryable).await;
    let told = case.complete(&grant, result()).await;
    told.refused(Refusal::OutcomeAlreadyRecorded);
    case.advance(secs(60));
    case.settle("k").await;
    let claim = case.claim("k").await.claimed();
    case.resolve_by(&claim, applied()).await.recorded();
    let record = case.record("k").await;
    assert!(!record.contradicted && record.state == State::Completed);
}

async fn applied_counts_after_a_report_freed_the_key(case: &Case) {
    let (grant, claim) = case.claimed("k").await;
    let told = case.fail(&grant, FailureKind::Retryable, error()).await;
    told.recorded();
    let told = case.resolve_by(&claim, Finding::NotApplied).await;
    told.claim_over(State::FailedRetryable);
    case.resolve_by(&claim, applied()).await.recorded();
    assert_eq!(case.record("k").await.state, State::Completed);
    let audits = audits(case, "k").await;
    assert!(audits.contains(&(AuditAction::ContradictsReport, By::Claim)));
}

async fn applied_counts_after_the_grant_was_given_back(case: &Case) {
    let (grant, claim) = case.claimed("k").await;
    case.fail_by_attempt_id("k", grant.id).await.recorded();
    case.resolve_by(&claim, applied()).await.recorded();
    case.reserve("k").await.replayed();
}

async fn applied_contradicts_after_the_next_grant(case: &Case) {
    let (grant, claim) = case.claimed("k").await;
    let told = case.fail(&grant, FailureKind::Retryable, error()).await;
    told.recorded();
    let second = case.reserve("k").await.granted();
    case.resolve_by(&claim, applied())
        .await
        .claim_over(State::Processing);
    assert!(case.record("k").await.contradicted);
    assert_eq!(case.evidence("k").await.len(), 1);
    let told = case.mark_sending(&second).await;
    told.refused(Refusal::Contradicted);
    case.advance(secs(30));
    let told = case.reserve("k").await;
    told.pending(PendingReason::ContradictoryReports);
}

async fn applied_contradicts_a_final_failure(case: &Case) {
    let (grant, claim) = case.claimed("k").await;
    let told = case.fail(&grant, FailureKind::Final, error()).await;
    told.recorded();
    case.resolve_by(&claim, applied())
        .await
        .claim_over(State::FailedFinal);
    let view = case.reserve("k").await.replayed();
    assert_eq!(
        view.start_over(),
        reprise_domain::reading::StartOver::Unknown
    );
}

async fn applied_changes_nothing_on_a_completed_record(case: &Case) {
    let (grant, claim) = case.claimed("k").await;
    case.complete(&grant, result()).await.recorded();
    let record = case.record("k").await;
    let told = case
        .resolve_by(&claim, Finding::Applied(found(other_result())))
        .await;
    told.claim_over(State::Completed);
    assert_eq!(case.record("k").await, record);
    case.resolve_by(&claim, applied()).await.repeated();
}

async fn evidence_of_claims_is_bounded(case: &Case) {
    let (_, claim) = case.claimed("k").await;
    case.advance(CLAIM);
    case.claim("k").await.claimed();
    for at in 0..20 {
        let content = reprise_domain::Content::of_code(&format!("CODE_{at}"));
        case.resolve_by(&claim, Finding::Applied(found(content)))
            .await
            .claim_over(State::Pending);
    }
    assert_eq!(case.evidence("k").await.len(), 16);
    assert_eq!(audits(case, "k").await.len(), 1);
}

async fn two_workers_that_find_the_same_are_told_so(case: &Case) {
    let (_, first) = case.claimed("k").await;
    case.advance(CLAIM);
    let second = case.claim("k").await.claimed();
    case.resolve_by(&second, applied()).await.recorded();
    case.resolve_by(&first, applied()).await.repeated();
}
