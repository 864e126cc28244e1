//! Claim, and Renew of claims: who may find out, when, and under which fence.

use std::time::Duration;

use super::calls::*;
use super::fixture::*;
use crate::command::{Claim, Disposition, Finding, Refusal};
use crate::record::{PendingReason, State};
use crate::token::Held;

fn is_closed_to_claims(row: &Row) {
    let told = row.decide(claim(9)).changes_nothing();
    assert!(told.is_closed(), "{:?}", told.answer);
    assert!(told.traces.is_empty() && told.work.is_none());
}

/// May be claimed now, and could not a microsecond before.
fn is_due_just_now(row: &Row) {
    let mut before = row.clone();
    before.now.0 -= 1;
    is_closed_to_claims(&before);
    assert!(row.decide(claim(9)).is_claimed());
}

fn is_over(row: &mut Row, claim: Held, state: State) {
    let told = row.ask(renew_claim(claim, CLAIM)).changes_nothing();
    assert_eq!(told.refusal(), Refusal::ClaimOver { state });
    assert!(told.traces.is_empty());
}

#[test]
fn claim_says_who_found_out_when_and_for_how_long() {
    let mut row = lapsed();
    let holder = row.token();
    let claim = row.settle().claimed(1);
    let kept = row.record().claim.clone().expect("a claim");
    assert_eq!((kept.taken_at, kept.lease), (row.now, CLAIM));
    assert_eq!(kept.lease_end, row.now.after(CLAIM));
    assert_eq!((kept.owner.as_str(), kept.over), ("finder-1", false));
    assert!(claim.fence > holder.fence);
    assert_eq!(row.token(), holder, "the token stays the newest");
}

#[test]
fn a_lapse_is_first_due_at_lease_end_plus_settling_time_and_written_down_by_the_claim() {
    let mut row = lapsed();
    let since = row.now;
    row.pass(SETTLE);
    is_due_just_now(&row);
    row.claimed(1);
    assert_eq!(row.state(), State::Pending);
    let pending = row.record().pending.clone().expect("pending");
    assert_eq!(
        (pending.reason, pending.since),
        (PendingReason::LeaseExpired, since)
    );
}

#[test]
fn what_was_marked_pending_is_due_when_its_holder_says_but_never_beside_its_lease() {
    let mut row = pending();
    row.pass(SETTLE);
    is_due_just_now(&row);
    let mut soon = running();
    let token = soon.token();
    soon.ask(crate::command::MarkPending {
        check_after: Some(Duration::from_secs(1)),
        ..mark_pending(token, "timeout")
    });
    soon.lapse();
    is_due_just_now(&soon);
    let mut renewed = pending();
    let token = renewed.token();
    renewed.pass(LEASE / 2).ask(renew(token, SETTLE * 2));
    renewed.lapse();
    is_due_just_now(&renewed);
}

#[test]
fn a_retryable_failure_too_late_to_repeat_is_due_a_settling_time_later() {
    let (mut row, _) = unaccounted();
    let token = row.token();
    row.ask(retryable(token, "busy"));
    row.now = T0.after(WITHIN).after(SETTLE);
    is_due_just_now(&row);
    row.claimed(1);
    assert_eq!(row.state(), State::Pending);
    assert_eq!(row.uncertain(), Some(PendingReason::EarlierAttemptUnknown));
}

#[test]
fn still_unknown_moves_when_it_is_due_again() {
    let (mut row, held) = claimed();
    row.ask(resolve_by(
        held,
        Finding::StillUnknown {
            check_after: Some(Duration::from_hours(1)),
            provider_reference: String::new(),
        },
    ));
    row.pass(Duration::from_hours(1));
    is_due_just_now(&row);
}

#[test]
fn nothing_is_to_be_found_out_where_nothing_is_uncertain() {
    let mut taken_over = takeable();
    taken_over.grant(2);
    for row in [
        running(),
        takeable(),
        contradicted(),
        failed_retryable(),
        undelivered_grant(),
        given_back(),
        freed(),
        completed(),
        failed_final(),
        tombstone(completed()),
        taken_over,
    ] {
        is_closed_to_claims(&row);
    }
    let none = Row::new(crate::Policy::default());
    assert_eq!(none.decide(claim(1)).refusal(), Refusal::RecordNotFound);
    let mut over = completed();
    over.pass(over.policy.memory_retention);
    assert_eq!(over.decide(claim(1)).refusal(), Refusal::RecordNotFound);
}

#[test]
fn contradictory_reports_are_found_out_about() {
    let mut row = contradictory();
    row.settle().claimed(1);
    assert_eq!(row.uncertain(), Some(PendingReason::ContradictoryReports));
    let mut lapsed = contradicted();
    lapsed.settle().claimed(1);
    assert_eq!(
        lapsed.uncertain(),
        Some(PendingReason::ContradictoryReports)
    );
}

#[test]
fn claim_that_runs_keeps_others_out_until_its_lease_ends() {
    let (mut row, first) = claimed();
    row.pass(CLAIM);
    is_due_just_now(&row);
    let second = row.claimed(2);
    assert!(second.fence > first.fence);
    is_over(&mut row, first, State::Pending);
}

#[test]
fn claim_id_asked_again_is_answered_its_claim_not_prolonged() {
    let (mut row, first) = claimed();
    let before = row.record().clone();
    row.pass(CLAIM - MICRO);
    let again = row.ask(claim(1)).changes_nothing();
    assert!(again.is_claimed());
    assert_eq!(*row.record(), before);
    row.pass(MICRO);
    assert_ne!(row.claimed(1), first, "one that ran out is taken anew");
}

#[test]
fn claim_id_of_a_claim_that_ended_is_answered_nothing_before_it_is_due() {
    let (mut row, held) = claimed();
    row.ask(resolve_by(held, still_unknown()));
    assert!(row.ask(claim(1)).changes_nothing().is_closed());
    row.pass(SETTLE);
    assert_ne!(row.claimed(1), held);
}

#[test]
fn lapsed_claim_blocks_nothing() {
    let (mut row, _) = claimed();
    let token = row.token();
    row.pass(CLAIM);
    let told = row.ask(mark_sending(token)).changes_nothing();
    assert_eq!(told.refusal(), Refusal::LeaseExpired);
    let told = row.ask(renew(token, LEASE)).changes_nothing();
    assert_eq!(told.refusal(), Refusal::LeaseExpired);
}

#[test]
fn renewal_of_a_claim_moves_its_end_also_earlier() {
    let (mut row, held) = claimed();
    row.pass(CLAIM / 2);
    assert!(row.ask(renew_claim(held, None)).is_claimed());
    let end = |row: &Row| row.record().claim.as_ref().expect("a claim").lease_end;
    assert_eq!(end(&row), row.now.after(CLAIM), "its own length");
    row.ask(renew_claim(held, LEASE));
    assert_eq!(end(&row), row.now.after(LEASE));
    row.ask(renew_claim(held, Duration::ZERO));
    is_over(&mut row, held, State::Pending);
    row.claimed(2);
}

#[test]
fn renewal_of_a_claim_changes_nothing_else() {
    let (mut row, held) = claimed();
    let before = row.record().clone();
    row.pass(LEASE).ask(renew_claim(held, CLAIM));
    let mut after = row.record().clone();
    after.revision = before.revision;
    after.updated_at = before.updated_at;
    after.claim.clone_from(&before.claim);
    assert_eq!(after, before);
}

#[test]
fn claim_that_ran_out_is_not_renewed() {
    let (mut row, held) = claimed();
    row.pass(CLAIM - MICRO);
    assert!(row.decide(renew_claim(held, CLAIM)).is_claimed());
    row.pass(MICRO);
    is_over(&mut row, held, State::Pending);
}

#[test]
fn claim_that_is_over_is_answered_how_the_record_reads() {
    let ended = |end: fn(&mut Row, Held)| {
        let (mut row, held) = claimed();
        end(&mut row, held);
        (row, held)
    };
    let (mut row, held) = ended(|row, _| {
        let token = row.token();
        row.ask(complete(token, "done"));
    });
    is_over(&mut row, held, State::Completed);
    let (mut row, held) = ended(|row, _| {
        let token = row.token();
        row.ask(failed(token, "declined"));
    });
    is_over(&mut row, held, State::FailedFinal);
    let (mut row, held) = ended(|row, held| {
        row.ask(resolve_by(held, Finding::NotApplied));
    });
    is_over(&mut row, held, State::FailedRetryable);
    row.grant(2);
    is_over(&mut row, held, State::Processing);
    row.lapse();
    is_over(&mut row, held, State::Pending);
}

#[test]
fn claim_that_was_not_given_out_is_worth_nothing() {
    let (mut row, held) = claimed();
    let forged = Held {
        authentic: false,
        ..held
    };
    is_over(&mut row, forged, State::Pending);
    let token = row.token();
    is_over(&mut row, token, State::Pending);
    let other = Held {
        attempt: held.attempt + 1,
        ..held
    };
    is_over(&mut row, other, State::Pending);
    let none = Row::new(crate::Policy::default());
    let told = none.decide(renew_claim(held, CLAIM));
    assert_eq!(told.refusal(), Refusal::RecordNotFound);
}

#[test]
fn claim_ends_with_the_next_grant() {
    let (mut row, held) = claimed();
    row.ask(resolve_by(held, Finding::NotApplied));
    assert!(row.record().claim.is_some(), "it may still tell");
    row.grant(2);
    assert_eq!(row.record().claim, None);
    is_over(&mut row, held, State::Processing);
}

#[test]
fn override_ends_any_claim() {
    for finding in [
        applied("done"),
        Finding::NotApplied,
        found_failed("declined"),
        resolver_takes_over(7),
        still_unknown(),
    ] {
        let (mut row, held) = claimed();
        assert!(row.override_with(finding.clone()).answer.is_ok());
        let state = row.state();
        assert!(row.record().running_claim(row.now).is_none(), "{finding:?}");
        is_over(&mut row, held, state);
    }
}

#[test]
fn fences_rise_over_grants_and_claims() {
    let mut row = lapsed();
    let mut fences = vec![row.token().fence];
    row.settle();
    for number in 1..4 {
        fences.push(row.claimed(number).fence);
        row.ask(renew_claim(row.newest_claim(), Duration::ZERO));
    }
    let held = row.newest_claim();
    row.ask(resolve_by(held, Finding::NotApplied));
    fences.push(row.grant(2).fence);
    let token = row.token();
    row.ask(mark_pending(token, "timeout"));
    fences.push(row.settle().claimed(4).fence);
    let held = row.newest_claim();
    row.ask(resolve_by(held, resolver_takes_over(7)));
    fences.push(row.token().fence);
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

#[test]
fn fences_rise_also_when_the_clock_stands_behind_them_or_the_row_is_used_again() {
    let (mut row, held) = claimed();
    let ahead = held.fence + 1_000_000_000;
    if let Some(record) = &mut row.record {
        record.attempt.fence = ahead;
        record.claim = None;
    }
    assert_eq!(row.claimed(2).fence, ahead + 1);
    let held = row.newest_claim();
    row.ask(resolve_by(held, applied("done")));
    row.pass(row.policy.memory_retention);
    if let Some(claim) = row.record.as_mut().and_then(|it| it.claim.as_mut()) {
        claim.fence = u64::try_from(row.now.0).expect("after 1970") + 7;
    }
    let last = row.record().last_fence();
    assert_eq!(row.grant(2).fence, last + 1);
    assert_eq!(row.record().claim, None);
}

#[test]
fn claim_is_no_token_for_reports_of_the_attempt() {
    let (mut row, held) = claimed();
    let told = row.ask(complete(held, "done"));
    assert_eq!(told.refusal(), Refusal::StaleToken);
}

#[test]
fn claims_go_on_while_nobody_is_granted_an_attempt() {
    let mut row = lapsed().under(holding(crate::Policy::default()));
    let held = row.settle().claimed(1);
    assert!(row.ask(renew_claim(held, CLAIM)).is_claimed());
    let told = row.ask(resolve_by(held, applied("done")));
    assert_eq!(told.disposition(), Disposition::Recorded);
}

#[test]
fn length_of_a_claim_is_its_own() {
    let mut row = lapsed();
    row.settle().ask(Claim {
        lease: Duration::from_secs(5),
        ..claim(1)
    });
    let held = row.newest_claim();
    row.pass(Duration::from_secs(3))
        .ask(renew_claim(held, None));
    let kept = row.record().claim.as_ref().expect("a claim");
    assert_eq!(kept.lease_end, row.now.after(Duration::from_secs(5)));
}
