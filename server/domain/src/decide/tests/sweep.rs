//! Sweep: what time has done is written down, and when to look again is said. One tick
//! before and after each moment.

use std::time::Duration;

use super::calls::*;
use super::fixture::*;
use crate::Reading;
use crate::command::{Answer, Command, Refusal};
use crate::decide::{Decision, Trace, Work};
use crate::record::{PendingReason, State};
use crate::time::Timestamp;

fn sweep(row: &mut Row) -> Decision {
    let reads = row.record.is_some().then(|| row.reads());
    let told = row.ask(Command::Sweep);
    assert!(told.traces.is_empty() && !told.erase);
    if let Some(reads) = reads {
        assert_eq!(row.reads(), reads, "nobody sees that it was written");
    }
    told
}

fn at(row: &Row, now: Timestamp) -> Row {
    Row { now, ..row.clone() }
}

/// Nothing is written, and the service looks again then.
fn looks_again(mut row: Row, at: Timestamp) {
    let told = sweep(&mut row).changes_nothing();
    assert!(told.is_closed());
    assert_eq!(told.work, Some(Work::Look { at }));
}

fn closes(mut row: Row) {
    let told = sweep(&mut row).changes_nothing();
    assert_eq!(told.work, Some(Work::Close));
}

/// That it reads as PENDING is written; somebody has to find out from `due` on.
fn writes(mut row: Row, reason: PendingReason, since: Timestamp, due: Timestamp) -> Row {
    let before = row.record().clone();
    let told = sweep(&mut row);
    assert!(matches!(&told.answer, Ok(Answer::Closed(view)) if *view.record == *row.record()));
    let work = Work::FindOut {
        due,
        since,
        reason,
        claim: None,
    };
    assert_eq!(told.work, Some(work));
    let record = row.record();
    assert_eq!(record.state, State::Pending);
    let pending = record.pending.clone().expect("pending");
    assert_eq!((pending.reason, pending.since), (reason, since));
    assert_eq!(pending.next_check.max(record.attempt.lease_end), due);
    let mut as_before = record.clone();
    as_before.revision = before.revision;
    as_before.updated_at = before.updated_at;
    as_before.state = before.state;
    as_before.pending = None;
    assert_eq!(as_before, before, "all else stays");
    let told = sweep(&mut row).changes_nothing();
    assert_eq!(told.work, Some(work), "once");
    row
}

#[test]
fn running_attempt_is_looked_at_when_its_lease_ends() {
    let row = running();
    let end = row.record().attempt.lease_end;
    looks_again(at(&row, end.before()), end);
    let reason = PendingReason::LeaseExpired;
    writes(at(&row, end), reason, end, end.after(SETTLE));
}

trait Before {
    fn before(self) -> Self;
}

impl Before for Timestamp {
    fn before(self) -> Self {
        Self(self.0 - 1)
    }
}

#[test]
fn lapse_after_the_mark_is_written_as_such() {
    let mut row = running_under(unless_sent());
    let token = row.token();
    row.pass(LEASE / 2).ask(mark_sending(token));
    let end = row.record().attempt.lease_end;
    looks_again(at(&row, end.before()), end);
    let reason = PendingReason::LeaseExpiredAfterSending;
    writes(at(&row, end), reason, end, end.after(SETTLE));
}

#[test]
fn lapse_that_may_be_taken_over_for_ever_is_looked_at_daily() {
    let row = takeable();
    let tomorrow = row.now.after(Duration::from_hours(24));
    looks_again(row, tomorrow);
}

#[test]
fn take_over_ends_at_repeat_until_also_when_nobody_asks_again() {
    let row = running_under(take_over());
    let (end, until) = (row.record().attempt.lease_end, T0.after(WITHIN));
    looks_again(at(&row, end.before()), end);
    looks_again(at(&row, end), until);
    looks_again(at(&row, until.before()), until);
    let due = end.after(SETTLE);
    writes(at(&row, until), PendingReason::LeaseExpired, until, due);
}

#[test]
fn failure_that_is_too_late_to_repeat_is_written() {
    let (mut row, _) = unaccounted();
    let token = row.token();
    row.ask(retryable(token, "busy"));
    let until = T0.after(WITHIN);
    looks_again(row.clone(), until);
    looks_again(at(&row, until.before()), until);
    let reason = PendingReason::EarlierAttemptUnknown;
    let row = writes(at(&row, until), reason, until, until.after(SETTLE));
    assert!(row.record().outcome.is_some(), "what was reported stays");
}

#[test]
fn lapse_while_an_earlier_attempt_is_unknown_is_written_at_repeat_until() {
    let (row, _) = unaccounted();
    let (end, until) = (row.record().attempt.lease_end, T0.after(WITHIN));
    looks_again(at(&row, end), until);
    let reason = PendingReason::EarlierAttemptUnknown;
    writes(at(&row, until), reason, until, end.after(SETTLE));
}

#[test]
fn contradicted_lapse_is_written() {
    let row = contradicted();
    let end = row.record().attempt.lease_end;
    looks_again(at(&row, end.before()), end);
    let reason = PendingReason::ContradictoryReports;
    writes(at(&row, end), reason, end, end.after(SETTLE));
}

#[test]
fn what_is_pending_stays_for_whoever_finds_out() {
    let mut row = pending();
    let due = T0.after(SETTLE);
    let work = |claim| Work::FindOut {
        due,
        since: T0,
        reason: PendingReason::Reported,
        claim,
    };
    for now in [T0, T0.after(LEASE), due.before(), due] {
        row.now = now;
        let told = sweep(&mut row).changes_nothing();
        assert_eq!(told.work, Some(work(None)));
    }
    row.claimed(1);
    let told = sweep(&mut row).changes_nothing();
    let running = (claim(1).id, row.now.after(CLAIM));
    assert_eq!(told.work, Some(work(Some(running))));
    row.pass(CLAIM);
    let told = sweep(&mut row).changes_nothing();
    assert_eq!(told.work, Some(work(None)), "a claim that ran out is none");
}

#[test]
fn what_is_settled_is_closed() {
    for row in [
        completed(),
        failed_final(),
        failed_retryable(),
        undelivered_grant(),
        given_back(),
        freed(),
        tombstone(completed()),
        tombstone(failed_final()),
    ] {
        closes(row);
    }
    let mut over = completed();
    over.pass(over.policy.memory_retention);
    closes(over);
}

#[test]
fn settling_never_passes_by_itself() {
    let mut row = pending();
    row.pass(Duration::from_hours(24 * 365));
    let told = sweep(&mut row).changes_nothing();
    assert!(matches!(told.work, Some(Work::FindOut { .. })));
}

#[test]
fn entry_of_a_record_that_is_gone_is_closed() {
    let mut row = Row::new(crate::Policy::default());
    let told = sweep(&mut row).changes_nothing();
    assert_eq!(told.refusal(), Refusal::RecordNotFound);
    assert_eq!(told.work, Some(Work::Close));
}

#[test]
fn lapse_that_was_written_down_keeps_the_words_of_doubt_and_the_claim() {
    let (mut row, held) = claimed_after_doubt();
    let before = row.record().clone();
    sweep(&mut row).changes_nothing();
    assert_eq!(*row.record(), before);
    assert!(row.ask(renew_claim(held, CLAIM)).is_claimed());
    assert_eq!(row.reads(), Reading::of(row.record(), &row.policy, row.now));
}

#[test]
fn attempt_that_is_revived_after_a_sweep_of_a_take_over_is_looked_at_anew() {
    let mut row = running_under(take_over());
    let token = row.token();
    row.lapse();
    sweep(&mut row).changes_nothing();
    let told = row.ask(renew(token, LEASE));
    let at = row.now.after(LEASE);
    assert_eq!(told.work, Some(Work::Look { at }));
}

#[test]
fn contradiction_moves_nothing_of_a_lapse_whether_or_not_it_was_written_down() {
    // PENDING since repeat_until, which is later than the end of the lease.
    for written in [false, true] {
        let (mut row, first) = unaccounted();
        row.now = T0.after(WITHIN).after(LEASE);
        if written {
            sweep(&mut row);
        }
        let told = row.ask(complete(first, "done"));
        assert_eq!(told.refusal(), Refusal::StaleToken);
        let Reading::Pending(uncertain) = row.reads() else {
            panic!("reads as {:?}", row.reads());
        };
        assert_eq!(uncertain.reason, PendingReason::ContradictoryReports);
        assert_eq!(uncertain.since, T0.after(WITHIN));
    }
}

#[test]
fn history_names_the_code_of_a_failure_that_was_written_down_as_pending() {
    for written in [false, true] {
        let (mut row, _) = unaccounted();
        let token = row.token();
        row.ask(retryable(token, "busy"));
        row.now = T0.after(WITHIN);
        if written {
            sweep(&mut row);
        }
        let told = row.override_with(resolver_takes_over(7));
        let named = |trace: &Trace| matches!(trace, Trace::History { code, .. } if code == "busy");
        assert!(told.traces.iter().any(named), "{:?}", told.traces);
    }
}
