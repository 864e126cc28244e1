//! An operator's override: what it may say, when, and what becomes of it.

use std::time::Duration;

use super::calls::*;
use super::fixture::*;
use crate::Reading;
use crate::command::{Disposition, Finding, Outcome, Refusal, Resolve};
use crate::content::Content;
use crate::decide::{AuditAction, Ending, NOT_APPLIED, Trace};
use crate::record::{GrantReason, PendingReason, State};

fn findings() -> [Finding; 5] {
    [
        applied("done"),
        Finding::NotApplied,
        found_failed("declined"),
        resolver_takes_over(7),
        still_unknown(),
    ]
}

fn is_mild(finding: &Finding) -> bool {
    matches!(finding, Finding::Applied(_) | Finding::StillUnknown { .. })
}

/// All findings are accepted; each leads where it says, and is audited.
fn resolves(row: &Row) {
    for finding in findings() {
        let mut row = row.clone();
        let (state, action) = match &finding {
            Finding::Applied(_) => (State::Completed, AuditAction::ResolvedApplied),
            Finding::NotApplied => (State::FailedRetryable, AuditAction::ResolvedNotApplied),
            Finding::Failed(_) => (State::FailedFinal, AuditAction::ResolvedFailed),
            Finding::TakeOver { .. } => (State::Processing, AuditAction::ResolvedTakeOver),
            Finding::StillUnknown { .. } => (State::Pending, AuditAction::ResolvedStillUnknown),
        };
        let told = row.override_with(finding.clone());
        assert!(told.answer.is_ok(), "{finding:?}: {:?}", told.answer);
        assert_eq!(row.state(), state);
        assert!(told.audits(action));
        let by_ann = |trace: &Trace| {
            matches!(trace, Trace::Audit { actor, evidence, .. }
                if actor == "ann" && evidence == "looked it up")
        };
        assert!(told.traces.iter().any(by_ann));
    }
}

fn refuses(row: &Row, findings: impl IntoIterator<Item = Finding>, refusal: Refusal) {
    for finding in findings {
        let mut row = row.clone();
        let told = row.override_with(finding).changes_nothing();
        assert_eq!(told.refusal(), refusal);
        assert!(told.traces.is_empty());
    }
}

#[test]
fn whatever_reads_as_pending_is_resolved() {
    let (mut unknown, _) = unaccounted();
    unknown.pass(WITHIN);
    for row in [lapsed(), pending_unused(), contradictory(), unknown] {
        resolves(&row);
    }
    resolves(pending().lapse());
    resolves(contradicted().lapse());
}

#[test]
fn override_acts_on_lapsed_processing_and_on_a_retryable_failure() {
    for row in [takeable(), failed_retryable(), freed(), given_back()] {
        resolves(&row);
    }
}

#[test]
fn override_on_a_running_attempt_is_refused() {
    refuses(&running(), findings(), Refusal::LeaseRunning);
    refuses(&contradicted(), findings(), Refusal::LeaseRunning);
}

#[test]
fn pending_with_a_running_lease_may_only_be_found_applied_or_unknown() {
    let (mild, decisive) = findings().into_iter().partition::<Vec<_>, _>(is_mild);
    refuses(&pending(), decisive, Refusal::LeaseRunning);
    for finding in mild {
        assert!(pending().override_with(finding).answer.is_ok());
    }
}

#[test]
fn final_failure_may_only_be_found_applied_or_unknown() {
    let (mild, decisive) = findings().into_iter().partition::<Vec<_>, _>(is_mild);
    refuses(&failed_final(), decisive, Refusal::OutcomeAlreadyRecorded);
    for finding in mild {
        assert!(failed_final().override_with(finding).answer.is_ok());
    }
    let mut row = failed_final();
    row.override_with(still_unknown());
    assert_eq!(row.uncertain(), Some(PendingReason::Reported));
}

#[test]
fn completed_and_tombstones_are_never_resolved_otherwise() {
    let refusal = Refusal::OutcomeAlreadyRecorded;
    let other = [
        applied("other"),
        Finding::NotApplied,
        found_failed("declined"),
        resolver_takes_over(7),
        still_unknown(),
    ];
    refuses(&completed(), other.clone(), refusal);
    refuses(&tombstone(completed()), other.clone(), refusal);
    refuses(&tombstone(failed_final()), other, refusal);
}

#[test]
fn override_carries_the_revision_that_it_read() {
    let mut row = lapsed();
    let read = row.revision();
    row.override_with(still_unknown());
    for finding in findings() {
        let told = row.ask(resolve(read + 7, finding)).changes_nothing();
        assert_eq!(told.refusal(), Refusal::RevisionChanged);
    }
}

#[test]
fn resolution_ends_what_was_unaccounted_and_contradicted() {
    for finding in findings() {
        let mut row = contradictory();
        row.override_with(finding.clone());
        let ended = !matches!(finding, Finding::StillUnknown { .. });
        assert_eq!(row.record().contradicted, !ended);
    }
}

#[test]
fn resolution_is_repeated_like_a_report() {
    for finding in findings() {
        let mut row = lapsed();
        let read = row.revision();
        row.ask(resolve(read, finding.clone()));
        let told = row.ask(resolve(read, finding.clone()));
        if matches!(finding, Finding::TakeOver { .. }) {
            assert_eq!(told.outcome(), AGAIN);
        } else {
            let told = told.changes_nothing();
            assert_eq!(told.disposition(), Disposition::Repeated);
            assert!(told.traces.is_empty());
        }
    }
}

#[test]
fn lost_answer_to_a_resolution_is_recorded_still_one_grant_later() {
    let mut row = lapsed();
    let read = row.revision();
    row.ask(resolve(read, Finding::NotApplied));
    row.grant(2);
    let told = row
        .ask(resolve(read, Finding::NotApplied))
        .changes_nothing();
    assert_eq!(told.disposition(), Disposition::Repeated);
    let told = row.ask(resolve(read, applied("done"))).changes_nothing();
    assert_eq!(told.refusal(), Refusal::RevisionChanged);
    let token = row.token();
    row.ask(retryable(token, "busy"));
    row.grant(3);
    let told = row
        .ask(resolve(read, Finding::NotApplied))
        .changes_nothing();
    assert_eq!(told.refusal(), Refusal::RevisionChanged, "two grants later");
}

#[test]
fn applied_again_with_what_is_recorded_is_repeated() {
    let mut row = completed();
    let same = Finding::Applied(found(done_with_body()));
    let told = row.override_with(same).changes_nothing();
    assert_eq!(told.disposition(), Disposition::Repeated);
}

#[test]
fn found_without_effect_frees_the_key() {
    let row = freed();
    assert_eq!(row.reads(), Reading::FailedRetryable);
    let outcome = row.record().outcome.clone().expect("an outcome");
    assert_eq!(outcome.content.code, NOT_APPLIED);
    assert_eq!(outcome.recorded_at, row.now);
}

#[test]
fn resolver_takes_over_in_the_same_step() {
    let mut row = lapsed();
    let (revision, fence) = (row.revision(), row.record().attempt.fence);
    let told = row.override_with(resolver_takes_over(7));
    assert_eq!(told.outcome(), ACQUIRED);
    assert_eq!(row.revision(), revision + 1);
    let attempt = &row.record().attempt;
    assert_eq!(
        (attempt.number, attempt.id, attempt.owner.as_str()),
        (2, id(7), "ann")
    );
    assert_eq!(
        (attempt.why, attempt.earlier_ids[0]),
        (GrantReason::AfterResolution, id(1))
    );
    assert!(attempt.fence > fence);
    let resolved = |trace: &Trace| {
        matches!(
            trace,
            Trace::History {
                ending: Ending::Resolved,
                ..
            }
        )
    };
    assert!(told.traces.iter().any(resolved));
    let token = row.token();
    assert!(row.ask(mark_sending(token)).is_leased());
}

#[test]
fn resolver_that_takes_over_is_asked_again_by_reserves_rules() {
    let taken = |then: fn(&mut Row)| {
        let mut row = lapsed().under(unless_sent());
        let read = row.revision();
        row.ask(resolve(read, resolver_takes_over(7)));
        then(&mut row);
        row.ask(resolve(read, resolver_takes_over(7)))
    };
    assert_eq!(taken(|_| {}).outcome(), AGAIN);
    let lapsed = taken(|row| {
        row.lapse();
    });
    assert_eq!(lapsed.outcome(), AGAIN);
    let undelivered = taken(|row| {
        let revision = row.revision();
        row.ask(undelivered(revision));
    });
    assert_eq!(undelivered.outcome(), ACQUIRED);
    let used = taken(|row| {
        let token = row.token();
        row.ask(renew(token, None));
    });
    assert_eq!(used.changes_nothing().outcome(), Outcome::Processing);
    let used_and_lapsed = taken(|row| {
        let token = row.token();
        row.ask(renew(token, Duration::ZERO));
    });
    assert_eq!(
        used_and_lapsed.changes_nothing().refusal(),
        Refusal::AttemptOver
    );
    let completed = taken(|row| {
        let token = row.token();
        row.ask(complete(token, "done"));
    });
    assert_eq!(completed.changes_nothing().outcome(), Outcome::Recorded);
    let pending = taken(|row| {
        let token = row.token();
        row.ask(mark_pending(token, "timeout"));
    });
    let yours = pending_for(PendingReason::Reported, true);
    assert_eq!(pending.changes_nothing().outcome(), yours);
    let failed = taken(|row| {
        let token = row.token();
        row.ask(retryable(token, "busy"));
    });
    assert_eq!(failed.changes_nothing().refusal(), Refusal::AttemptOver);
}

#[test]
fn resolver_asks_again_whatever_revision_it_has_read_meanwhile() {
    let mut row = lapsed();
    assert_eq!(
        row.override_with(resolver_takes_over(7)).outcome(),
        ACQUIRED
    );
    assert_eq!(row.override_with(resolver_takes_over(7)).outcome(), AGAIN);
    let other = row.override_with(resolver_takes_over(8));
    assert_eq!(other.refusal(), Refusal::LeaseRunning);
}

#[test]
fn same_final_error_found_again_is_repeated() {
    let mut row = lapsed();
    row.override_with(found_failed("declined"));
    let told = row
        .override_with(found_failed("declined"))
        .changes_nothing();
    assert_eq!(told.disposition(), Disposition::Repeated);
    refuses(
        &row,
        [found_failed("other")],
        Refusal::OutcomeAlreadyRecorded,
    );
}

#[test]
fn resolver_cannot_take_over_under_an_id_that_had_its_turn() {
    let mut row = failed_retryable();
    row.grant(2);
    row.lapse();
    for attempt in [1, 2] {
        refuses(&row, [resolver_takes_over(attempt)], Refusal::AttemptOver);
    }
}

#[test]
fn resolver_of_a_spent_key_begins_a_new_request() {
    let mut row = Row::new(crate::Policy::default());
    row.ask(crate::command::Reserve {
        instruction: "under the old key".into(),
        ..reserve(1)
    });
    row.lapse();
    let mut kept = row.clone();
    kept.override_with(resolver_takes_over(7));
    assert_eq!(kept.record().instruction, "under the old key");
    let revision = row.revision();
    row.ask(Resolve {
        effect_key_spent: true,
        ..resolve(revision, resolver_takes_over(7))
    });
    assert_eq!(row.record().generation, 2);
    assert_eq!(row.record().instruction, "");
}

#[test]
fn still_unknown_moves_the_next_check_and_notes_what_was_found() {
    let mut row = lapsed();
    let since = row.now;
    row.pass(SETTLE);
    row.override_with(Finding::StillUnknown {
        check_after: Some(Duration::from_hours(1)),
        provider_reference: "ch_7".to_owned(),
    });
    let Reading::Pending(uncertain) = row.reads() else {
        panic!("reads as {:?}", row.reads());
    };
    assert_eq!(uncertain.reason, PendingReason::LeaseExpired);
    assert_eq!(uncertain.since, since);
    assert_eq!(uncertain.next_check, row.now.after(Duration::from_hours(1)));
    assert_eq!(row.record().provider_reference, "ch_7");
    row.override_with(still_unknown());
    let next_check = row.record().pending.as_ref().expect("pending").next_check;
    assert_eq!(next_check, row.now.after(SETTLE));
    let told = row.override_with(Finding::StillUnknown {
        check_after: None,
        provider_reference: "ch_8".to_owned(),
    });
    let replaced = |trace: &Trace| matches!(trace, Trace::Replaced { provider_reference, .. } if provider_reference == "ch_7");
    assert!(told.traces.iter().any(replaced));
}

#[test]
fn still_unknown_keeps_others_from_taking_over() {
    let mut row = takeable();
    row.override_with(still_unknown());
    assert_eq!(row.uncertain(), Some(PendingReason::LeaseExpired));
    assert!(row.ask(reserve(2)).change.is_none());
}

#[test]
fn resolution_fixes_what_is_replayed_and_for_how_long() {
    let mut row = lapsed();
    row.override_with(Finding::Applied(found(Content {
        provider_reference: "ch_7".to_owned(),
        ..done_with_body()
    })));
    let outcome = row.record().outcome.clone().expect("an outcome");
    assert_eq!(outcome.content.body, done_with_body().body);
    assert_eq!(
        outcome.memory_until,
        row.now.after(row.policy.memory_retention)
    );
    assert_eq!(row.record().provider_reference, "ch_7");
    assert_eq!(row.record().pending, None);
}
