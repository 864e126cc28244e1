//! Resolve under a claim: what it may say, when, and what it still tells once it is over.

use super::calls::*;
use super::fixture::*;
use crate::Reading;
use crate::command::{Disposition, Finding, Refusal, Resolve};
use crate::decide::{AuditAction, By, Decision, NOT_APPLIED, Trace, may_deny};
use crate::record::{GrantReason, PendingReason, State};
use crate::token::Held;

fn denials() -> [Finding; 3] {
    [
        Finding::NotApplied,
        resolver_takes_over(7),
        found_failed("declined"),
    ]
}

fn findings() -> [Finding; 5] {
    let [not_applied, take_over, failed] = denials();
    [
        applied("done"),
        not_applied,
        take_over,
        failed,
        still_unknown(),
    ]
}

fn by_a_claim(told: &Decision, wanted: AuditAction) -> bool {
    told.traces.iter().any(|trace| {
        matches!(trace, Trace::Audit { action, by: By::Claim, actor, evidence, .. }
            if *action == wanted && actor == "finder" && evidence == "looked it up")
    })
}

/// Under this claim nothing may be said any more, and *applied* contradicts.
fn too_late(row: &Row, held: Held, state: State) {
    let over = Refusal::ClaimOver { state };
    for finding in findings() {
        let mut row = row.clone();
        let was = row.record().contradicted;
        let told = row.ask(resolve_by(held, finding.clone()));
        assert_eq!(told.refusal(), over, "{finding:?}");
        if matches!(finding, Finding::Applied(_)) && state != State::Completed {
            assert!(row.record().contradicted && told.has_evidence());
            assert_eq!(by_a_claim(&told, AuditAction::Contradicted), !was);
        } else {
            let told = told.changes_nothing();
            assert!(told.traces.is_empty(), "{finding:?}");
        }
    }
}

#[test]
fn each_finding_leads_where_it_says_and_is_audited_as_the_claims() {
    let expected = [
        (State::Completed, AuditAction::ResolvedApplied),
        (State::FailedRetryable, AuditAction::ResolvedNotApplied),
        (State::Processing, AuditAction::ResolvedTakeOver),
        (State::FailedFinal, AuditAction::ResolvedFailed),
        (State::Pending, AuditAction::ResolvedStillUnknown),
    ];
    for (finding, (state, action)) in findings().into_iter().zip(expected) {
        for (mut row, held) in [claimed(), claimed_after_doubt()] {
            let told = row.ask(resolve_by(held, finding.clone()));
            assert!(told.answer.is_ok(), "{finding:?}: {:?}", told.answer);
            assert_eq!(row.state(), state);
            assert!(by_a_claim(&told, action));
            assert!(!told.audits(AuditAction::ContradictsReport));
            assert!(row.record().running_claim(row.now).is_none());
        }
    }
}

#[test]
fn claim_that_ran_out_keeps_the_right_to_resolve_while_it_is_the_newest() {
    for finding in findings() {
        let (mut row, held) = claimed();
        row.pass(CLAIM * 10);
        assert!(row.ask(resolve_by(held, finding)).answer.is_ok());
    }
    let (mut row, first) = claimed();
    row.pass(CLAIM).claimed(2);
    too_late(&row, first, State::Pending);
}

#[test]
fn claim_says_no_effect_only_if_it_was_taken_after_lease_end_plus_settling_time() {
    // Due before the settling time is over, by its holder's word.
    let mut row = running();
    let token = row.token();
    row.ask(crate::command::MarkPending {
        check_after: Some(MICRO),
        ..mark_pending(token, "timeout")
    });
    row.lapse();
    let end = row.now;
    for (taken, early) in [
        (end, true),
        (T0.after(LEASE + SETTLE - MICRO), true),
        (end.after(SETTLE), false),
    ] {
        let mut row = row.clone();
        row.now = taken;
        let held = row.claimed(1);
        // However long it waits: when it looked at the provider is what counts.
        row.pass(SETTLE * 2);
        for finding in denials() {
            let told = row.decide(resolve_by(held, finding));
            if early {
                assert_eq!(told.changes_nothing().refusal(), Refusal::Settling);
            } else {
                assert!(told.answer.is_ok(), "{:?}", told.answer);
            }
        }
        for finding in [applied("done"), still_unknown()] {
            assert!(row.decide(resolve_by(held, finding)).answer.is_ok());
        }
    }
}

#[test]
fn spent_key_does_not_help_a_claim_that_was_taken_too_early() {
    let mut row = pending();
    let token = row.token();
    row.ask(renew(token, LEASE * 3));
    row.pass(SETTLE).lapse();
    let held = row.claimed(1);
    let told = row.decide(Resolve {
        effect_key_spent: true,
        ..resolve_by(held, Finding::NotApplied)
    });
    assert_eq!(told.changes_nothing().refusal(), Refusal::Settling);
}

#[test]
fn settling_time_is_the_policys_in_force() {
    let (row, held) = claimed();
    let longer = row.clone().under(crate::Policy {
        settle_after: SETTLE * 2,
        ..crate::Policy::default()
    });
    let told = longer.decide(resolve_by(held, Finding::NotApplied));
    assert_eq!(told.refusal(), Refusal::Settling);
}

/// PENDING under TAKE_OVER by its holder's word, under a claim that may deny.
fn claimed_under_take_over() -> (Row, Held) {
    let mut row = running_under(take_over());
    let token = row.token();
    row.ask(mark_pending(token, "timeout"));
    let held = row.settle().claimed(1);
    (row, held)
}

#[test]
fn claim_says_no_effect_only_while_the_provider_still_remembers() {
    let (mut row, held) = claimed_under_take_over();
    row.now = T0.after(WITHIN - MICRO);
    for finding in denials() {
        assert!(row.decide(resolve_by(held, finding)).answer.is_ok());
    }
    row.pass(MICRO);
    for finding in denials() {
        let told = row.decide(resolve_by(held, finding.clone()));
        assert_eq!(told.changes_nothing().refusal(), Refusal::TooLateToTell);
        let told = row.decide(Resolve {
            effect_key_spent: true,
            ..resolve_by(held, finding)
        });
        assert!(told.answer.is_ok(), "the provider has decided");
    }
    for finding in [applied("done"), still_unknown()] {
        assert!(row.decide(resolve_by(held, finding)).answer.is_ok());
    }
    for finding in denials() {
        let mut row = row.clone();
        assert!(row.override_with(finding).answer.is_ok(), "a person may");
    }
}

#[test]
fn it_is_too_late_to_tell_by_the_oldest_attempt_that_is_not_accounted_for() {
    let (mut row, _) = unaccounted();
    let token = row.token();
    row.ask(mark_pending(token, "timeout"));
    let held = row.settle().claimed(1);
    row.now = T0.after(WITHIN - MICRO);
    let not_applied = || resolve_by(held, Finding::NotApplied);
    assert!(row.decide(not_applied()).answer.is_ok());
    row.pass(MICRO);
    assert_eq!(row.decide(not_applied()).refusal(), Refusal::TooLateToTell);
}

#[test]
fn what_may_be_denied_is_told_beforehand() {
    let (mut row, _) = claimed_under_take_over();
    let told = |row: &Row, spent| {
        let claim = row.record().claim.as_ref().expect("a claim");
        may_deny(row.record(), claim, &row.policy, spent, row.now)
    };
    assert_eq!(told(&row, false), Ok(()));
    row.now = T0.after(WITHIN);
    assert_eq!(told(&row, false), Err(Refusal::TooLateToTell));
    assert_eq!(told(&row, true), Ok(()));
}

#[test]
fn resolution_is_repeated_under_the_same_claim() {
    for finding in findings() {
        let (mut row, held) = claimed();
        row.ask(resolve_by(held, finding.clone()));
        row.pass(CLAIM * 2);
        let told = row.ask(resolve_by(held, finding.clone()));
        if matches!(finding, Finding::TakeOver { .. }) {
            assert_ne!(told.outcome(), ACQUIRED, "not a second time");
        } else {
            let told = told.changes_nothing();
            assert_eq!(told.disposition(), Disposition::Repeated);
            assert!(told.traces.is_empty());
        }
    }
}

#[test]
fn lost_answer_to_a_claims_resolution_is_recorded_still_one_grant_later() {
    let (mut row, held) = claimed();
    let not_applied = || resolve_by(held, Finding::NotApplied);
    row.ask(not_applied());
    row.grant(2);
    let told = row.ask(not_applied()).changes_nothing();
    assert_eq!(told.disposition(), Disposition::Repeated);
    let token = row.token();
    row.ask(retryable(token, "busy"));
    row.grant(3);
    let state = State::Processing;
    let told = row.ask(not_applied()).changes_nothing();
    assert_eq!(told.refusal(), Refusal::ClaimOver { state });
}

#[test]
fn two_workers_that_find_the_same_are_both_told_so() {
    let (mut row, first) = claimed();
    let second = row.pass(CLAIM).claimed(2);
    row.ask(resolve_by(second, applied("done")));
    let told = row.ask(resolve_by(first, applied("done")));
    let told = told.changes_nothing();
    assert_eq!(told.disposition(), Disposition::Repeated);
    too_late_but(&row, first, applied("other"));
}

fn too_late_but(row: &Row, held: Held, finding: Finding) {
    let state = State::Completed;
    let told = row.decide(resolve_by(held, finding)).changes_nothing();
    assert_eq!(told.refusal(), Refusal::ClaimOver { state });
    assert!(told.traces.is_empty());
}

#[test]
fn resolver_takes_over_under_its_claim() {
    let (mut row, held) = claimed();
    let told = row.ask(resolve_by(held, resolver_takes_over(7)));
    assert_eq!(told.outcome(), ACQUIRED);
    let attempt = row.record().attempt.clone();
    assert_eq!((attempt.id, attempt.number), (id(7), 2));
    assert_eq!(attempt.why, GrantReason::AfterResolution);
    assert!(attempt.fence > held.fence);
    assert_eq!(row.record().claim, None);
    let told = row.ask(resolve_by(held, resolver_takes_over(7)));
    assert_eq!(told.outcome(), AGAIN);
    let told = row.ask(resolve_by(held, resolver_takes_over(8)));
    let state = State::Processing;
    assert_eq!(told.refusal(), Refusal::ClaimOver { state });
    let token = row.token();
    assert!(row.ask(mark_sending(token)).is_leased());
}

#[test]
fn resolver_cannot_take_over_under_an_id_that_had_its_turn() {
    let (row, held) = claimed();
    let told = row.decide(resolve_by(held, resolver_takes_over(1)));
    assert_eq!(told.changes_nothing().refusal(), Refusal::AttemptOver);
}

#[test]
fn resolution_under_a_claim_speaks_for_all_attempts() {
    let (mut unknown, _) = unaccounted();
    let token = unknown.token();
    unknown.ask(mark_pending(token, "timeout"));
    for mut row in [unknown, contradictory()] {
        let held = row.settle().claimed(1);
        for finding in findings() {
            let mut row = row.clone();
            let before = (row.record().unaccounted, row.record().contradicted);
            let told = row.ask(resolve_by(held, finding.clone()));
            assert!(told.answer.is_ok(), "{finding:?}: {:?}", told.answer);
            let after = (row.record().unaccounted, row.record().contradicted);
            let unknown = matches!(finding, Finding::StillUnknown { .. });
            assert_eq!(after, if unknown { before } else { (false, false) });
        }
    }
}

#[test]
fn still_unknown_gives_the_record_back_to_whoever_is_next() {
    let (mut row, held) = claimed();
    row.ask(resolve_by(held, still_unknown()));
    too_late_after_itself(&row, held);
    assert!(row.ask(claim(2)).is_closed());
    row.pass(SETTLE).claimed(2);
}

/// The same word is repeated; all else is too late.
fn too_late_after_itself(row: &Row, held: Held) {
    let state = State::Pending;
    for finding in denials() {
        let told = row.decide(resolve_by(held, finding)).changes_nothing();
        assert_eq!(told.refusal(), Refusal::ClaimOver { state });
    }
}

#[test]
fn claim_that_a_report_ended_is_over() {
    let ended = |report: fn(Held) -> crate::command::Command| {
        let (mut row, held) = claimed();
        let token = row.token();
        row.ask(report(token));
        (row, held)
    };
    let (row, held) = ended(|token| complete(token, "other").command());
    too_late(&row, held, State::Completed);
    let (row, held) = ended(|token| failed(token, "declined").command());
    too_late(&row, held, State::FailedFinal);
    let mut gone = row;
    gone = tombstone(gone);
    too_late(&gone, held, State::FailedFinal);
}

#[test]
fn applied_still_counts_where_a_report_freed_the_key_and_nobody_was_granted_it() {
    let freed: [fn(&mut Row, Held); 3] = [
        |row, _| {
            let token = row.token();
            row.ask(retryable(token, "busy"));
        },
        |row, _| {
            row.ask(give_back(1));
        },
        |row, held| {
            row.ask(resolve_by(held, Finding::NotApplied));
        },
    ];
    for free in freed {
        let (mut row, held) = claimed();
        free(&mut row, held);
        let state = State::FailedRetryable;
        for finding in [Finding::NotApplied, found_failed("no"), still_unknown()] {
            let told = row.decide(resolve_by(held, finding)).changes_nothing();
            let repeated = told.answer.is_ok();
            assert!(repeated || told.refusal() == Refusal::ClaimOver { state });
        }
        let told = row.ask(resolve_by(held, applied("done")));
        assert_eq!(told.disposition(), Disposition::Recorded);
        assert!(by_a_claim(&told, AuditAction::ContradictsReport));
        assert!(by_a_claim(&told, AuditAction::ResolvedApplied));
        assert_eq!(row.reads(), Reading::Completed { gone: false });
        assert!(!row.record().contradicted);
        let told = row.ask(resolve_by(held, applied("done"))).changes_nothing();
        assert_eq!(told.disposition(), Disposition::Repeated);
    }
}

#[test]
fn applied_after_the_next_grant_contradicts() {
    let (mut row, held) = claimed();
    let token = row.token();
    row.ask(retryable(token, "busy"));
    row.grant(2);
    too_late(&row, held, State::Processing);
    row.ask(resolve_by(held, applied("done")));
    let second = row.token();
    let told = row.ask(mark_sending(second)).changes_nothing();
    assert_eq!(told.refusal(), Refusal::Contradicted);
    row.lapse();
    assert_eq!(row.uncertain(), Some(PendingReason::ContradictoryReports));
}

#[test]
fn applied_under_a_superseded_claim_contradicts_where_the_key_was_freed() {
    let (mut row, first) = claimed();
    row.pass(CLAIM).claimed(2);
    let token = row.token();
    row.ask(retryable(token, "busy"));
    too_late(&row, first, State::FailedRetryable);
    row.ask(resolve_by(first, applied("done")));
    assert_eq!(row.uncertain(), Some(PendingReason::ContradictoryReports));
    assert!(
        row.decide(reserve(3)).change.is_none(),
        "nothing is granted"
    );
}

#[test]
fn applied_under_a_claim_that_was_not_given_out_sets_nothing() {
    let (mut row, held) = claimed();
    let forged = Held {
        authentic: false,
        ..held
    };
    let state = State::Pending;
    for finding in findings() {
        let told = row.ask(resolve_by(forged, finding)).changes_nothing();
        assert_eq!(told.refusal(), Refusal::ClaimOver { state });
        assert!(told.traces.is_empty());
    }
}

#[test]
fn applied_still_counts_where_it_is_too_late_to_repeat_what_a_report_freed() {
    for written in [false, true] {
        let (mut row, _) = unaccounted();
        let token = row.token();
        row.ask(mark_pending(token, "timeout"));
        let held = row.settle().claimed(1);
        row.ask(retryable(token, "busy"));
        row.now = row.now.max(T0.after(WITHIN));
        assert_eq!(row.uncertain(), Some(PendingReason::EarlierAttemptUnknown));
        if written {
            row.ask(crate::Command::Sweep);
            assert_eq!(row.state(), State::Pending);
        }
        let told = row.ask(resolve_by(held, applied("done")));
        assert_eq!(told.disposition(), Disposition::Recorded);
        assert!(by_a_claim(&told, AuditAction::ContradictsReport));
    }
}

#[test]
fn applied_after_ones_own_still_unknown_contradicts_where_no_report_freed_the_key() {
    let (mut row, _) = unaccounted();
    row.now = row.now.max(T0.after(WITHIN));
    for mut row in [row, lapsed()] {
        let held = row.settle().claimed(1);
        let check_after = Some(SETTLE * 3);
        row.ask(resolve_by(
            held,
            Finding::StillUnknown {
                check_after,
                provider_reference: String::new(),
            },
        ));
        too_late(&row, held, State::Pending);
    }
}

#[test]
fn not_applied_frees_the_key_for_the_next_caller() {
    let (mut row, held) = claimed();
    row.ask(resolve_by(held, Finding::NotApplied));
    let outcome = row.record().outcome.clone().expect("an outcome");
    assert_eq!(outcome.content.code, NOT_APPLIED);
    assert_eq!(row.grant(2).attempt, 2);
}

#[test]
fn resolution_of_nothing_is_not_found() {
    let (mut row, held) = claimed();
    row.ask(resolve_by(held, applied("done")));
    row.pass(row.policy.memory_retention);
    let told = row.ask(resolve_by(held, applied("other")));
    assert_eq!(told.changes_nothing().refusal(), Refusal::RecordNotFound);
}

#[test]
fn late_complete_after_a_claims_resolution_is_answered_as_after_a_persons() {
    let (mut row, held) = claimed();
    let token = row.token();
    row.ask(resolve_by(held, applied("done")));
    let told = row.ask(complete_with(token, done_with_body()));
    assert_eq!(told.disposition(), Disposition::AlreadyRecorded);
    let (mut freed, held) = claimed();
    freed.ask(resolve_by(held, Finding::NotApplied));
    let told = freed.ask(complete(token, "done"));
    assert!(told.audits(AuditAction::ContradictsResolution));
    assert_eq!(freed.state(), State::Completed);
}
