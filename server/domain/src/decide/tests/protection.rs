//! What keeps the provider from acting twice: effect keys, the lapse rules, attempts
//! that are unaccounted, records that are contradicted.

use std::time::Duration;

use super::calls::*;
use super::fixture::*;
use crate::command::{Finding, MarkSending, Outcome, Refusal, Reserve, Resolve};
use crate::policy::Policy;
use crate::record::{PendingReason, State};
use crate::time::Timestamp;
use crate::{Reading, View};

fn repeat_until(row: &Row) -> Timestamp {
    row.record().attempt.repeat_until.expect("under TAKE_OVER")
}

/// Fails retryably and is granted anew, which leaves an earlier attempt unaccounted.
fn fail_and_grant(row: &mut Row, attempt: u8) {
    let token = row.token();
    row.ask(retryable(token, "busy"));
    row.grant(attempt);
}

#[test]
fn effect_key_stays_however_the_last_attempt_ended() {
    let mut row = running_under(take_over());
    let key = row.record().effect_key();
    row.lapse().grant(2);
    fail_and_grant(&mut row, 3);
    row.ask(give_back(3));
    row.grant(4);
    row.lapse();
    row.override_with(Finding::NotApplied);
    row.grant(5);
    row.lapse();
    row.override_with(resolver_takes_over(6));
    assert_eq!(row.record().attempt.number, 6);
    assert_eq!(
        (row.record().generation, row.record().effect_key()),
        (1, key)
    );
}

#[test]
fn spent_effect_key_is_renewed_with_the_next_grant_once() {
    let mut row = running();
    let key = row.record().effect_key();
    let token = row.token();
    row.ask(spent(retryable(token, "declined")));
    assert_eq!(row.record().effect_key(), key, "until somebody begins anew");
    row.grant(2);
    assert_eq!(row.record().generation, 2);
    assert_ne!(row.record().effect_key(), key);
    fail_and_grant(&mut row, 3);
    assert_eq!(row.record().generation, 2);
}

#[test]
fn resolution_may_say_that_the_effect_key_is_spent() {
    for finding in [Finding::NotApplied, resolver_takes_over(2)] {
        let mut row = lapsed();
        let revision = row.revision();
        let take_over = matches!(finding, Finding::TakeOver { .. });
        row.ask(Resolve {
            effect_key_spent: true,
            ..resolve(revision, finding)
        });
        if !take_over {
            row.grant(2);
        }
        assert_eq!(row.record().generation, 2);
    }
}

#[test]
fn attempts_of_a_generation_send_the_same_request() {
    let with = |attempt, instruction: &'static str| Reserve {
        instruction: instruction.into(),
        ..reserve(attempt)
    };
    let mut row = Row::new(unless_sent());
    row.ask(with(1, "first"));
    let token = row.token();
    row.ask(MarkSending {
        provider_reference: "ch_1".to_owned(),
        ..mark_sending(token)
    });
    row.ask(retryable(token, "busy"));
    row.ask(with(2, "second"));
    assert_eq!(row.record().instruction, "first");
    let token = row.token();
    row.ask(spent(retryable(token, "declined")));
    row.ask(with(3, "third"));
    assert_eq!(row.record().instruction, "third");
    assert_eq!(row.record().provider_reference, "");
}

#[test]
fn unrepeatable_operation_is_pending_from_the_end_of_its_lease() {
    let mut row = running();
    row.pass(LEASE - MICRO);
    assert_eq!(row.reads(), Reading::Running { remaining: MICRO });
    row.pass(MICRO);
    assert_eq!(row.uncertain(), Some(PendingReason::LeaseExpired));
    let Reading::Pending(uncertain) = row.reads() else {
        panic!("reads as {:?}", row.reads());
    };
    assert_eq!(uncertain.since, T0.after(LEASE));
    assert_eq!(uncertain.next_check, T0.after(LEASE + SETTLE));
}

#[test]
fn lapse_before_the_mark_is_taken_over_and_accounted_for() {
    let mut row = takeable();
    row.grant(2);
    assert!(!row.record().unaccounted);
    assert_eq!(row.record().attempt.repeat_until, None);
}

#[test]
fn lapse_after_the_mark_is_pending() {
    let mut row = running_under(unless_sent());
    let token = row.token();
    row.ask(mark_sending(token));
    row.lapse();
    let told = row.ask(reserve(2)).changes_nothing();
    let sent = PendingReason::LeaseExpiredAfterSending;
    assert_eq!(told.outcome(), pending_for(sent, false));
}

#[test]
fn repeatable_operation_is_taken_over_until_the_provider_may_forget() {
    let mut row = running_under(take_over());
    assert_eq!(repeat_until(&row), T0.after(WITHIN));
    row.pass(WITHIN - MICRO);
    assert_eq!(row.reads(), Reading::Takeable);
    let mut late = row.clone();
    row.grant(2);
    assert_eq!(row.lease_left(), MICRO);
    late.pass(MICRO);
    let told = late.ask(reserve(2)).changes_nothing();
    assert_eq!(
        told.outcome(),
        pending_for(PendingReason::LeaseExpired, false)
    );
    let Reading::Pending(uncertain) = late.reads() else {
        panic!("reads as {:?}", late.reads());
    };
    assert_eq!(uncertain.since, T0.after(WITHIN), "also when nobody asked");
}

#[test]
fn sent_mark_is_told_when_a_repeatable_operation_is_pending_at_last() {
    let mut row = running_under(take_over());
    let token = row.token();
    row.ask(mark_sending(token));
    row.pass(WITHIN);
    assert_eq!(
        row.uncertain(),
        Some(PendingReason::LeaseExpiredAfterSending)
    );
}

#[test]
fn attempt_taken_over_unmarked_is_unaccounted_by_its_own_grant() {
    let (mut row, _) = unaccounted();
    assert_eq!(repeat_until(&row), T0.after(WITHIN));
    row.lapse().grant(3);
    assert_eq!(
        repeat_until(&row),
        T0.after(WITHIN),
        "the oldest one counts"
    );
    fail_and_grant(&mut row, 4);
    assert_eq!(repeat_until(&row), T0.after(WITHIN));
}

#[test]
fn attempt_that_is_accounted_for_does_not_shorten_the_next() {
    let mut row = running_under(take_over());
    row.pass(LEASE / 2);
    fail_and_grant(&mut row, 2);
    assert!(!row.record().unaccounted);
    assert_eq!(repeat_until(&row), row.now.after(WITHIN));
}

#[test]
fn no_lease_reaches_beyond_the_last_moment_to_repeat() {
    let (mut row, _) = unaccounted();
    let until = repeat_until(&row);
    row.now = Timestamp(until.0 - 1_000_000);
    let second = Duration::from_secs(1);
    let mut again = row.clone();
    assert_eq!(again.ask(reserve(2)).outcome(), AGAIN);
    assert_eq!(again.lease_left(), second);
    let mut granted = row.clone();
    granted.grant(3);
    assert_eq!(granted.lease_left(), second);
    let token = row.token();
    row.ask(mark_sending(token));
    assert_eq!(row.lease_left(), second);
    row.ask(renew(token, LEASE));
    assert_eq!(row.lease_left(), second);
    fail_and_grant(&mut row, 3);
    assert_eq!(row.lease_left(), second);
    let token = row.token();
    row.ask(mark_pending(token, "timeout"));
    row.ask(renew(token, LEASE));
    assert_eq!(row.lease_left(), second);
}

#[test]
fn nobody_is_granted_after_the_last_moment_to_repeat() {
    let unknown = PendingReason::EarlierAttemptUnknown;
    let (lapsed, _) = unaccounted();
    let mut failed = lapsed.clone();
    let token = failed.token();
    failed.ask(retryable(token, "busy"));
    for mut row in [lapsed, failed] {
        row.now = Timestamp(T0.after(WITHIN).0 - 1);
        assert_eq!(row.uncertain(), None);
        for policy in [take_over(), unless_sent(), Policy::default()] {
            let mut row = row.clone().under(policy);
            row.pass(MICRO);
            let told = row.ask(reserve(3)).changes_nothing();
            assert_eq!(told.outcome(), pending_for(unknown, false));
            row.now = Timestamp::FAR;
            assert_eq!(row.uncertain(), Some(unknown), "and it is never forgotten");
        }
    }
}

#[test]
fn policy_in_force_meanwhile_does_not_free_an_unaccounted_record() {
    let (row, _) = unaccounted();
    let mut row = row.under(unless_sent());
    row.lapse().grant(3);
    assert_eq!(repeat_until(&row), T0.after(WITHIN));
    assert!(row.record().unaccounted);
    row.pass(WITHIN);
    assert_eq!(row.uncertain(), Some(PendingReason::EarlierAttemptUnknown));
}

#[test]
fn complete_or_a_resolution_accounts_for_all_attempts() {
    let (mut row, _) = unaccounted();
    let token = row.token();
    row.ask(complete(token, "done"));
    assert!(!row.record().unaccounted);
    for finding in [
        Finding::NotApplied,
        applied("done"),
        found_failed("declined"),
        resolver_takes_over(3),
    ] {
        let (mut row, _) = unaccounted();
        row.pass(WITHIN);
        row.override_with(finding);
        assert!(!row.record().unaccounted);
    }
    let (mut row, _) = unaccounted();
    row.pass(WITHIN);
    row.override_with(still_unknown());
    assert!(row.record().unaccounted);
}

#[test]
fn no_stale_report_accounts_for_an_attempt() {
    for stale in [retryable, failed] {
        for effect_key_spent in [false, true] {
            let (mut row, first) = unaccounted();
            let report = stale(first, "no");
            let report = if effect_key_spent {
                spent(report)
            } else {
                report
            };
            assert_eq!(row.ask(report).refusal(), Refusal::StaleToken);
            assert!(row.record().unaccounted && !row.record().key_spent);
        }
    }
    let (mut row, first) = unaccounted();
    row.ask(complete(first, "done"));
    assert!(row.record().unaccounted);
}

#[test]
fn settings_that_rule_an_attempt_are_those_of_its_grant() {
    let mut row = running_under(take_over());
    row.policy = Policy {
        lease: LEASE * 2,
        ..Policy::default()
    }
    .into();
    row.pass(LEASE);
    assert_eq!(row.reads(), Reading::Takeable);
    assert_eq!(row.ask(reserve(1)).outcome(), AGAIN);
    assert_eq!(row.lease_left(), LEASE);
    let token = row.token();
    row.ask(renew(token, None));
    assert_eq!(row.lease_left(), LEASE);
    row.lapse().grant(2);
    assert_eq!(row.lease_left(), LEASE * 2);
    row.lapse();
    assert_eq!(row.uncertain(), Some(PendingReason::LeaseExpired));

    let mut row = running().under(take_over());
    row.lapse();
    assert_eq!(row.uncertain(), Some(PendingReason::LeaseExpired));
}

#[test]
fn contradicted_record_grants_nothing_until_a_resolution() {
    let why = PendingReason::ContradictoryReports;
    for policy in [unless_sent(), take_over(), Policy::default()] {
        let mut row = contradicted_under(policy);
        let told = row.ask(reserve(2)).changes_nothing();
        assert_eq!(told.outcome(), pending_for(why, true), "again");
        assert_eq!(row.ask(reserve(3)).outcome(), Outcome::Processing);
        row.lapse();
        for attempt in [2, 3] {
            let told = row.ask(reserve(attempt)).changes_nothing();
            assert_eq!(told.outcome(), pending_for(why, attempt == 2));
        }
        row.override_with(still_unknown());
        assert_eq!(row.uncertain(), Some(why));
        row.override_with(Finding::NotApplied);
        assert!(!row.record().contradicted);
        row.grant(3);
    }
}

#[test]
fn contradicted_record_still_takes_its_holders_complete() {
    let mut row = contradicted();
    let token = row.token();
    row.ask(complete(token, "done"));
    assert_eq!(row.state(), State::Completed);
}

#[test]
fn stale_complete_contradicts_every_state_but_completed() {
    let stale_complete = |then: fn(&mut Row)| {
        let mut row = takeable();
        let first = row.token();
        row.grant(2);
        then(&mut row);
        let told = row.ask(complete(first, "done"));
        assert_eq!(told.refusal(), Refusal::StaleToken);
        assert!(told.has_evidence());
        row
    };
    let why = Some(PendingReason::ContradictoryReports);
    let mut running = stale_complete(|_| {});
    assert!(matches!(running.reads(), Reading::Running { .. }));
    assert_eq!(running.lapse().uncertain(), why);
    let pending = stale_complete(|row| {
        let token = row.token();
        row.ask(mark_pending(token, "timeout"));
    });
    assert_eq!(pending.uncertain(), why);
    let failed_retryable = stale_complete(|row| {
        let token = row.token();
        row.ask(retryable(token, "busy"));
    });
    assert_eq!(
        (failed_retryable.state(), failed_retryable.uncertain()),
        (State::Pending, why)
    );
    let failed_final = stale_complete(|row| {
        let token = row.token();
        row.ask(failed(token, "declined"));
    });
    assert_eq!(failed_final.state(), State::FailedFinal);
    let view = View::of(
        failed_final.record().clone(),
        &failed_final.policy,
        failed_final.now,
    );
    assert_eq!(view.start_over(), crate::reading::StartOver::Unknown);
    let completed = stale_complete(|row| {
        let token = row.token();
        row.ask(complete(token, "done"));
    });
    assert!(!completed.record().contradicted);
}
