//! MarkPending by the newest token, in each row of the report table.

use std::time::Duration;

use super::calls::*;
use super::fixture::*;
use crate::Reading;
use crate::command::{Disposition, MarkPending, Refusal};
use crate::decide::Trace;
use crate::record::{PENDING_DIGESTS_MAX, PendingReason, State};

fn adds(mut row: Row, reason: PendingReason) -> Row {
    let token = row.token();
    let told = row.ask(mark_pending(token, "no answer"));
    assert_eq!(told.disposition(), Disposition::Recorded);
    assert_eq!(row.state(), State::Pending);
    assert_eq!(row.uncertain(), Some(reason));
    let pending = row.record().pending.clone().expect("why it is pending");
    assert_eq!(pending.detail, "no answer");
    let told = row.ask(mark_pending(token, "no answer")).changes_nothing();
    assert_eq!(told.disposition(), Disposition::Repeated);
    row
}

fn refused(mut row: Row, refusal: Refusal) {
    let token = row.token();
    let told = row.ask(mark_pending(token, "no answer")).changes_nothing();
    assert_eq!(told.refusal(), refusal);
}

#[test]
fn doubt_under_a_running_lease_makes_the_record_pending() {
    let row = adds(running(), PendingReason::Reported);
    assert_eq!(row.lease_left(), LEASE, "the lease runs on");
}

#[test]
fn each_of_many_reports_of_doubt_is_known_again() {
    let mut row = running();
    let token = row.token();
    let doubts = [(); PENDING_DIGESTS_MAX].iter().enumerate();
    let doubts: Vec<String> = doubts.map(|(at, ())| format!("doubt {at}")).collect();
    for doubt in &doubts {
        let told = row.ask(mark_pending(token, doubt));
        assert_eq!(told.disposition(), Disposition::Recorded);
    }
    for doubt in &doubts {
        let told = row.ask(mark_pending(token, doubt)).changes_nothing();
        assert_eq!(told.disposition(), Disposition::Repeated);
    }
}

#[test]
fn doubt_after_a_lapse_keeps_others_from_taking_over() {
    let mut row = adds(takeable(), PendingReason::Reported);
    assert!(row.ask(reserve(2)).change.is_none());
}

#[test]
fn doubt_after_a_lapse_that_reads_as_pending_adds_to_it() {
    let row = lapsed();
    let since = row.now;
    let mut row = row;
    row.pass(SETTLE / 2);
    let row = adds(row, PendingReason::LeaseExpired);
    let Reading::Pending(uncertain) = row.reads() else {
        panic!("reads as {:?}", row.reads());
    };
    assert_eq!(uncertain.since, since);
    assert_eq!(uncertain.next_check, since.after(SETTLE));
}

#[test]
fn doubt_adds_to_pending() {
    adds(pending(), PendingReason::Reported);
    adds(pending_unused(), PendingReason::LeaseExpired);
}

#[test]
fn doubt_adds_to_a_contradicted_record() {
    adds(contradictory(), PendingReason::ContradictoryReports);
    adds(contradicted(), PendingReason::ContradictoryReports);
}

#[test]
fn doubt_after_its_own_retryable_failure_is_over() {
    refused(failed_retryable(), Refusal::AttemptOver);
    refused(undelivered_grant(), Refusal::AttemptOver);
    refused(given_back(), Refusal::AttemptOver);
}

#[test]
fn doubt_after_a_resolution_freed_the_key_makes_it_pending() {
    adds(freed(), PendingReason::Reported);
}

#[test]
fn doubt_about_a_final_outcome_is_refused() {
    for row in [completed(), failed_final()] {
        refused(row.clone(), Refusal::OutcomeAlreadyRecorded);
        refused(tombstone(row), Refusal::OutcomeAlreadyRecorded);
    }
}

#[test]
fn accepted_doubt_is_repeated_in_every_state() {
    let doubted = |then: fn(&mut Row)| {
        let mut row = pending();
        then(&mut row);
        let token = row.token();
        let told = row.ask(mark_pending(token, "timeout")).changes_nothing();
        assert_eq!(told.disposition(), Disposition::Repeated);
    };
    doubted(|row| {
        row.lapse();
    });
    doubted(|row| {
        let token = row.token();
        row.ask(complete(token, "done"));
    });
    doubted(|row| {
        let token = row.token();
        row.ask(failed(token, "declined"));
        row.now = row
            .record()
            .outcome
            .clone()
            .expect("an outcome")
            .result_until;
    });
    doubted(|row| {
        let token = row.token();
        row.ask(retryable(token, "busy"));
    });
    doubted(|row| {
        let token = row.token();
        row.ask(retryable(token, "busy"));
        row.ask(complete(token, "done"));
    });
}

#[test]
fn next_check_is_after_the_settling_time_unless_asked_for() {
    let mut row = running();
    let token = row.token();
    row.ask(mark_pending(token, "timeout"));
    let next_check = |row: &Row| row.record().pending.as_ref().expect("pending").next_check;
    assert_eq!(next_check(&row), T0.after(SETTLE));
    row.pass(LEASE).ask(mark_pending(token, "still nothing"));
    assert_eq!(
        next_check(&row),
        T0.after(SETTLE),
        "adding does not postpone it"
    );
    let wanted = Some(Duration::from_secs(5));
    row.ask(MarkPending {
        check_after: wanted,
        digest: MarkPending::digest_of("soon", "", b"", wanted),
        ..mark_pending(token, "soon")
    });
    assert_eq!(next_check(&row), row.now.after(Duration::from_secs(5)));
}

#[test]
fn newer_references_replace_older_ones_which_go_to_the_history() {
    let mut row = pending();
    let token = row.token();
    let mark = |reference: &str, instruction: &'static str| MarkPending {
        provider_reference: reference.to_owned(),
        instruction: instruction.into(),
        digest: MarkPending::digest_of("", reference, instruction.as_bytes(), None),
        ..mark_pending(token, "")
    };
    assert!(row.ask(mark("ch_1", "first")).traces.is_empty());
    let told = row.ask(mark("ch_2", "second"));
    let replaced = Trace::Replaced {
        attempt: 1,
        provider_reference: "ch_1".to_owned(),
        instruction: "first".into(),
        at: row.now,
    };
    assert_eq!(told.traces, [replaced]);
    assert_eq!(row.record().provider_reference, "ch_2");
    assert_eq!(row.record().instruction, "second");
    row.ask(mark("", ""));
    assert_eq!(
        row.record().provider_reference,
        "ch_2",
        "not given, not replaced"
    );
    let detail = &row.record().pending.as_ref().expect("pending").detail;
    assert_eq!(detail, "timeout");
}
