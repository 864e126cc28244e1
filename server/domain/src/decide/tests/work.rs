//! What each change means for the record's entry on the worklist.

use std::time::Duration;

use super::calls::*;
use super::fixture::*;
use crate::command::{Command, Finding};
use crate::decide::Work;
use crate::record::PendingReason;
use crate::time::Timestamp;

fn work(row: &mut Row, ask: impl Ask) -> Option<Work> {
    let told = row.ask(ask);
    assert!(told.change.is_some(), "{:?}", told.answer);
    told.work
}

fn find_out(due: Timestamp, since: Timestamp, reason: PendingReason) -> Option<Work> {
    Some(Work::FindOut {
        due,
        since,
        reason,
        claim: None,
    })
}

#[test]
fn usual_life_never_touches_the_worklist() {
    let mut row = Row::new(crate::Policy::default());
    assert_eq!(work(&mut row, reserve(1)), None);
    let token = row.token();
    assert_eq!(work(&mut row, reserve(1)), None, "again");
    assert_eq!(work(&mut row, mark_sending(token)), None);
    row.pass(LEASE / 2);
    assert_eq!(work(&mut row, renew(token, LEASE)), None);
    for report in [
        complete(token, "done").command(),
        failed(token, "declined").command(),
        retryable(token, "busy").command(),
    ] {
        assert_eq!(work(&mut row.clone(), report), None);
    }
}

#[test]
fn answers_that_write_nothing_leave_the_entry() {
    for row in [running(), pending(), completed(), failed_retryable()] {
        let mut row = row;
        let told = row.ask(claim(1));
        assert!(told.work.is_none() && told.change.is_none());
    }
}

#[test]
fn lease_that_ends_earlier_is_looked_at_earlier() {
    let mut row = running();
    let token = row.token();
    let told = work(&mut row, renew(token, Duration::from_secs(5)));
    let at = T0.after(Duration::from_secs(5));
    assert_eq!(told, Some(Work::Look { at }));
    let told = work(&mut row, renew(token, Duration::ZERO));
    assert_eq!(told, Some(Work::Look { at: T0 }));
}

#[test]
fn lease_that_runs_anew_after_a_lapse_is_looked_at_anew() {
    for revive in [renew(token_one(), None).command(), reserve(1).command()] {
        let mut row = takeable();
        let token = row.token();
        let revive = match revive {
            Command::Renew(_) => renew(token, None).command(),
            other => other,
        };
        let at = row.now.after(LEASE);
        assert_eq!(work(&mut row, revive), Some(Work::Look { at }));
    }
}

fn token_one() -> crate::token::Held {
    running().token()
}

#[test]
fn doubt_is_to_be_found_out_about() {
    let mut row = running();
    let token = row.token();
    let told = work(&mut row, mark_pending(token, "timeout"));
    let due = T0.after(SETTLE);
    assert_eq!(told, find_out(due, T0, PendingReason::Reported));
    let soon = crate::command::MarkPending {
        check_after: Some(Duration::ZERO),
        digest: [7; 32],
        ..mark_pending(token, "soon")
    };
    let told = work(&mut row, soon);
    let due = T0.after(LEASE);
    assert_eq!(
        told,
        find_out(due, T0, PendingReason::Reported),
        "never beside its lease"
    );
    let told = work(&mut row, renew(token, Duration::ZERO));
    assert_eq!(told, find_out(T0, T0, PendingReason::Reported));
}

#[test]
fn claims_are_noted_with_their_ends() {
    let (mut row, held) = claimed();
    let since = T0.after(LEASE);
    let noted = |row: &Row, until| {
        Some(Work::FindOut {
            due: since.after(SETTLE),
            since,
            reason: PendingReason::LeaseExpired,
            claim: Some((claim(1).id, until)),
        })
        .filter(|_| row.record().running_claim(row.now).is_some())
    };
    row.pass(LEASE);
    let told = work(&mut row, renew_claim(held, None));
    assert_eq!(told, noted(&row, row.now.after(CLAIM)));
    assert!(told.is_some());
    let told = work(&mut row, renew_claim(held, Duration::ZERO));
    let due = since.after(SETTLE);
    assert_eq!(told, find_out(due, since, PendingReason::LeaseExpired));
    let told = work(&mut row, claim(1));
    assert_eq!(told, noted(&row, row.now.after(CLAIM)));
}

#[test]
fn what_leaves_pending_is_closed() {
    for report in [
        |token| complete(token, "done").command(),
        |token| failed(token, "declined").command(),
        |token| retryable(token, "busy").command(),
    ] {
        for (mut row, _) in [claimed(), claimed_after_doubt()] {
            let token = row.token();
            assert_eq!(work(&mut row, report(token)), Some(Work::Close));
        }
    }
    for finding in [
        applied("done"),
        Finding::NotApplied,
        found_failed("declined"),
        resolver_takes_over(7),
    ] {
        let (mut row, held) = claimed();
        let told = work(&mut row, resolve_by(held, finding));
        assert_eq!(told, Some(Work::Close));
    }
    let (mut row, _) = claimed();
    assert_eq!(work(&mut row, give_back(1)), Some(Work::Close));
}

#[test]
fn still_unknown_is_found_out_about_later() {
    let (mut row, held) = claimed();
    let told = work(&mut row, resolve_by(held, still_unknown()));
    let (due, since) = (row.now.after(SETTLE), T0.after(LEASE));
    assert_eq!(told, find_out(due, since, PendingReason::LeaseExpired));
}

#[test]
fn contradiction_of_what_is_closed_opens_it() {
    let mut row = failed_retryable();
    let token = row.token();
    let told = work(&mut row, complete(token, "done"));
    let due = T0.after(SETTLE);
    assert_eq!(told, find_out(due, T0, PendingReason::ContradictoryReports));
    // A lapse that could be taken over was closed, and reads as PENDING now.
    let mut row = running_under(unless_sent());
    let first = row.token();
    row.lapse().grant(2);
    row.lapse();
    let told = work(&mut row, complete(first, "done"));
    let at = row.record().attempt.lease_end;
    assert_eq!(told, Some(Work::Look { at }));
}

#[test]
fn failure_beside_an_attempt_that_is_unknown_is_looked_at_when_it_is_too_late() {
    let (mut row, _) = unaccounted();
    let token = row.token();
    let at = T0.after(WITHIN);
    let told = work(&mut row.clone(), retryable(token, "busy"));
    assert_eq!(told, Some(Work::Look { at }));
    let told = work(&mut row, failed(token, "declined"));
    let due = row.now.after(SETTLE);
    let reason = PendingReason::EarlierAttemptUnknown;
    assert_eq!(told, find_out(due, row.now, reason));
}

#[test]
fn next_grant_closes_the_entry_of_the_one_before() {
    // The walk leaves an entry that is there: one that lies later than the end of the new
    // lease would hide its lapse.
    let mut long = Row::new(crate::Policy::default());
    long.ask(crate::command::Reserve {
        lease: Some(Duration::from_mins(15)),
        ..reserve(1)
    });
    let token = long.token();
    long.ask(retryable(token, "busy"));
    assert_eq!(work(&mut long, reserve(2)), Some(Work::Close));
    let mut lapsed = running_under(take_over());
    lapsed.lapse().ask(Command::Sweep);
    let mut lapsed = lapsed.under(crate::Policy::default());
    assert_eq!(work(&mut lapsed, reserve(2)), Some(Work::Close));
    let mut over = completed();
    over.pass(over.policy.memory_retention);
    assert_eq!(work(&mut over, reserve(2)), Some(Work::Close));
}

#[test]
fn erasure_leaves_the_worklist() {
    for mut row in [completed(), failed_final(), failed_retryable()] {
        let revision = row.revision();
        assert_eq!(work(&mut row, forget(revision)), None);
    }
}
