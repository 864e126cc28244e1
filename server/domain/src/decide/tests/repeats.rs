//! Tokens that are not the newest, what is kept of what they say, and reports that are
//! sent again after the next grant.

use super::calls::*;
use super::fixture::*;
use crate::command::{Disposition, Refusal};
use crate::decide::{Decision, Reported, Trace};
use crate::record::ReportKind;
use crate::token::Held;

/// Attempt 1 taken over by attempt 2; attempt 1's token.
fn taken_over() -> (Row, Held) {
    let mut row = takeable();
    let first = row.token();
    row.grant(2);
    (row, first)
}

fn evidence(told: &Decision) -> Vec<(u32, Reported, &str)> {
    told.traces
        .iter()
        .filter_map(|trace| match trace {
            Trace::Evidence {
                attempt,
                reported,
                code,
                ..
            } => Some((*attempt, *reported, code.as_str())),
            _ => None,
        })
        .collect()
}

#[test]
fn reports_about_no_record_are_refused() {
    let token = running().token();
    let mut forgotten = completed();
    forgotten.now = forgotten
        .record()
        .outcome
        .clone()
        .expect("an outcome")
        .memory_until;
    for mut row in [Row::new(unless_sent()), forgotten] {
        let asks = [
            row.ask(complete(token, "done")),
            row.ask(retryable(token, "busy")),
            row.ask(failed(token, "no")),
            row.ask(give_back(1)),
            row.ask(mark_pending(token, "")),
            row.ask(mark_sending(token)),
            row.ask(renew(token, None)),
            row.ask(resolve(1, applied("done"))),
        ];
        for told in asks {
            assert_eq!(told.refusal(), Refusal::RecordNotFound);
        }
    }
}

#[test]
fn stale_reports_are_refused_and_kept_as_evidence_but_a_retryable_failure() {
    let (mut row, first) = taken_over();
    let told = row.ask(mark_pending(first, "timeout")).changes_nothing();
    assert_eq!(told.refusal(), Refusal::StaleToken);
    assert_eq!(evidence(&told), [(1, Reported::Pending, "timeout")]);
    let told = row.ask(failed(first, "declined")).changes_nothing();
    assert_eq!(told.refusal(), Refusal::StaleToken);
    let kind = Reported::Outcome(ReportKind::FailedFinal);
    assert_eq!(evidence(&told), [(1, kind, "declined")]);
    let told = row.ask(retryable(first, "busy")).changes_nothing();
    assert_eq!(told.refusal(), Refusal::StaleToken);
    assert_eq!(evidence(&told), []);
    let told = row.ask(complete(first, "done"));
    assert_eq!(told.refusal(), Refusal::StaleToken);
    let kind = Reported::Outcome(ReportKind::Completed);
    assert_eq!(evidence(&told), [(1, kind, "done")]);
    assert!(row.record().contradicted);
}

#[test]
fn token_that_was_never_given_out_leaves_and_sets_nothing() {
    for mut row in [running(), taken_over().0, failed_retryable()] {
        let forged = Held {
            authentic: false,
            ..row.token()
        };
        for told in [
            row.ask(complete(forged, "done")),
            row.ask(failed(forged, "no")),
            row.ask(mark_pending(forged, "")),
            row.ask(mark_sending(forged)),
            row.ask(renew(forged, None)),
        ] {
            let told = told.changes_nothing();
            assert_eq!(told.refusal(), Refusal::StaleToken);
            assert!(told.traces.is_empty());
        }
    }
}

#[test]
fn token_of_a_forgotten_record_is_stale_on_its_successor() {
    let mut row = completed();
    let old = row.token();
    row.now = row
        .record()
        .outcome
        .clone()
        .expect("an outcome")
        .memory_until;
    row.grant(2);
    assert_eq!(row.record().attempt.number, old.attempt);
    assert_eq!(row.ask(mark_sending(old)).refusal(), Refusal::StaleToken);
}

#[test]
fn lost_failure_report_is_recorded_still_after_the_next_grant() {
    let mut row = failed_retryable();
    let first = row.token();
    row.grant(2);
    let told = row.ask(retryable(first, "busy")).changes_nothing();
    assert_eq!(told.disposition(), Disposition::Repeated);
    let told = row.ask(retryable(first, "other")).changes_nothing();
    assert_eq!(told.refusal(), Refusal::StaleToken);
    let second = row.token();
    row.ask(retryable(second, "busy"));
    row.grant(3);
    let told = row.ask(retryable(first, "busy")).changes_nothing();
    assert_eq!(told.refusal(), Refusal::StaleToken, "two grants later");
}

#[test]
fn lost_doubt_is_recorded_still_after_the_next_grant() {
    let mut row = pending();
    let first = row.token();
    row.ask(retryable(first, "busy"));
    row.grant(2);
    let told = row.ask(mark_pending(first, "timeout")).changes_nothing();
    assert_eq!(told.disposition(), Disposition::Repeated);
    let told = row.ask(mark_pending(first, "other")).changes_nothing();
    assert_eq!(told.refusal(), Refusal::StaleToken);
}

#[test]
fn complete_by_the_attempt_before_contradicts_its_remembered_failure() {
    let mut row = failed_retryable();
    let first = row.token();
    row.grant(2);
    assert_eq!(
        row.ask(complete(first, "done")).refusal(),
        Refusal::StaleToken
    );
    assert!(row.record().contradicted);
    let told = row.ask(complete(first, "done")).changes_nothing();
    assert_eq!(told.refusal(), Refusal::StaleToken);
    let told = row.ask(retryable(first, "busy")).changes_nothing();
    assert_eq!(told.disposition(), Disposition::Repeated);
}

#[test]
fn report_counts_as_long_as_its_token_is_the_newest() {
    let mut row = running();
    row.pass(LEASE * 1000);
    let token = row.token();
    let told = row.ask(complete(token, "done"));
    assert_eq!(told.disposition(), Disposition::Recorded);
}

#[test]
fn reports_and_grants_use_the_token_up() {
    let used = |then: fn(&mut Row, Held)| {
        let mut row = running();
        assert!(!row.record().attempt.used);
        let token = row.token();
        then(&mut row, token);
        row.record().attempt.used
    };
    assert!(!used(|row, _| drop(row.ask(reserve(1)))));
    assert!(!used(|row, _| drop(row.ask(give_back(1)))));
    assert!(used(|row, token| drop(row.ask(complete(token, "done")))));
    assert!(used(|row, token| drop(row.ask(retryable(token, "busy")))));
    assert!(used(|row, token| drop(row.ask(mark_pending(token, "")))));
    assert!(used(|row, token| drop(row.ask(mark_sending(token)))));
    assert!(used(|row, token| drop(row.ask(renew(token, None)))));
}
