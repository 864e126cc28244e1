//! Reserve: each row of its table for a new attempt, the newest id, an earlier id and
//! another payload.

use std::time::Duration;

use reprise_fingerprint::{Fingerprint, Scheme};

use super::calls::*;
use super::fixture::*;
use crate::Reading;
use crate::command::{Finding, MismatchReason, Outcome, Refusal, Reserve};
use crate::decide::{AuditAction, Ending, Trace};
use crate::record::{EARLIER_IDS_MAX, GrantReason, PendingReason, State};
use crate::time::Timestamp;

fn other_payload(attempt: u8) -> Reserve {
    Reserve {
        fingerprints: vec![payload(2)],
        ..reserve(attempt)
    }
}

/// The last column of the table: whoever asks, and nothing is written.
fn mismatches(mut row: Row) {
    for attempt in [1, 9] {
        let told = row.ask(other_payload(attempt)).changes_nothing();
        let different = Outcome::Mismatch(MismatchReason::DifferentPayload);
        assert_eq!(told.outcome(), different);
    }
}

/// As attempt 2 after an earlier attempt 1 that failed.
fn second_attempt(row: &mut Row) {
    let token = row.token();
    row.ask(retryable(token, "busy"));
    row.grant(2);
}

#[test]
fn first_caller_acquires() {
    let mut row = running();
    let record = row.record();
    assert_eq!((record.revision, record.state), (1, State::Processing));
    assert_eq!(record.attempt.number, 1);
    assert_eq!(record.attempt.why, GrantReason::First);
    assert_eq!(record.attempt.fence, T0.0.unsigned_abs());
    assert_eq!(row.lease_left(), LEASE);
    assert!(row.ask(other_payload(1)).change.is_none());
}

#[test]
fn own_length_of_lease_is_granted() {
    let mut row = Row::new(unless_sent());
    row.ask(Reserve {
        lease: Some(Duration::from_secs(5)),
        ..reserve(1)
    });
    assert_eq!(row.lease_left(), Duration::from_secs(5));
}

#[test]
fn key_whose_memory_is_over_is_acquired_first_with_any_payload() {
    for row in [completed(), failed_final(), failed_retryable()] {
        for ask in [other_payload(1), reserve(1), reserve(9)] {
            let mut row = row.clone();
            let (revision, fence) = (row.revision(), row.record().attempt.fence);
            let outcome = row.record().outcome.clone().expect("an outcome");
            row.now = outcome.memory_until;
            assert_eq!(row.reads(), Reading::Over);
            let stored = ask.fingerprints[0].clone();
            assert_eq!(row.ask(ask).outcome(), ACQUIRED);
            let record = row.record();
            assert_eq!(record.attempt.why, GrantReason::First);
            assert_eq!((record.attempt.number, record.generation), (1, 1));
            assert_eq!(
                (record.fingerprint.clone(), record.outcome.clone()),
                (stored, None)
            );
            assert_eq!(record.revision, revision + 1);
            assert!(record.attempt.fence > fence);
        }
    }
}

#[test]
fn running_lease_makes_others_wait() {
    let mut row = running();
    let told = row.ask(reserve(2)).changes_nothing();
    assert_eq!(told.outcome(), Outcome::Processing);
    second_attempt(&mut row);
    assert_eq!(
        row.ask(reserve(1)).changes_nothing().outcome(),
        Outcome::Processing
    );
    mismatches(row);
}

#[test]
fn holder_that_asks_again_gets_the_same_grant_not_prolonged() {
    let mut row = running();
    let (token, end) = (row.token(), row.record().attempt.lease_end);
    row.pass(LEASE / 2);
    assert_eq!(row.ask(reserve(1)).outcome(), AGAIN);
    assert_eq!(row.token(), token);
    assert_eq!(row.record().attempt.lease_end, end);
    assert_eq!(row.revision(), 2);
}

#[test]
fn holder_that_used_its_token_is_answered_processing() {
    let mut row = running();
    let token = row.token();
    row.ask(renew(token, LEASE));
    assert_eq!(
        row.ask(reserve(1)).changes_nothing().outcome(),
        Outcome::Processing
    );
}

#[test]
fn lapsed_attempt_is_taken_over_where_allowed() {
    for policy in [unless_sent(), take_over()] {
        let mut row = running_under(policy);
        let fence = row.record().attempt.fence;
        row.lapse();
        assert_eq!(row.reads(), Reading::Takeable);
        let told = row.ask(reserve(2));
        assert_eq!(told.outcome(), ACQUIRED);
        assert!(told.audits(AuditAction::TakenOver));
        let lapsed = |trace: &Trace| {
            matches!(
                trace,
                Trace::History {
                    attempt: 1,
                    ending: Ending::Lapsed,
                    ..
                }
            )
        };
        assert!(told.traces.iter().any(lapsed));
        let attempt = &row.record().attempt;
        assert_eq!(
            (attempt.number, attempt.why),
            (2, GrantReason::AfterLapsedLease)
        );
        assert!(attempt.fence > fence);
    }
}

#[test]
fn lapsed_holder_that_asks_again_gets_a_fresh_lease_of_the_same_grant() {
    let mut row = takeable();
    let token = row.token();
    row.pass(LEASE);
    assert_eq!(row.ask(reserve(1)).outcome(), AGAIN);
    assert_eq!(row.token(), token);
    assert_eq!(row.lease_left(), LEASE);
    assert!(matches!(row.reads(), Reading::Running { .. }));
}

#[test]
fn lapsed_holder_that_used_its_token_is_over() {
    let mut row = running_under(unless_sent());
    let token = row.token();
    row.ask(renew(token, LEASE));
    row.lapse();
    assert_eq!(
        row.ask(reserve(1)).changes_nothing().refusal(),
        Refusal::AttemptOver
    );
    assert_eq!(row.ask(reserve(2)).outcome(), ACQUIRED);
}

#[test]
fn earlier_id_never_takes_over() {
    let mut row = running_under(unless_sent());
    second_attempt(&mut row);
    row.lapse();
    assert_eq!(
        row.ask(reserve(1)).changes_nothing().refusal(),
        Refusal::AttemptOver
    );
    mismatches(row);
}

#[test]
fn lapsed_lease_of_an_unrepeatable_operation_is_pending() {
    let mut row = lapsed();
    let expired = PendingReason::LeaseExpired;
    let told = row.ask(reserve(2)).changes_nothing();
    assert_eq!(told.outcome(), pending_for(expired, false));
    let told = row.ask(reserve(1)).changes_nothing();
    assert_eq!(told.outcome(), pending_for(expired, true));
    assert!(!row.record().attempt.used, "its token is answered with it");
    mismatches(row);
}

#[test]
fn earlier_id_meets_a_lapse_like_a_new_one() {
    let mut row = running();
    second_attempt(&mut row);
    row.lapse();
    let told = row.ask(reserve(1)).changes_nothing();
    assert_eq!(
        told.outcome(),
        pending_for(PendingReason::LeaseExpired, false)
    );
}

#[test]
fn pending_is_answered_to_everybody_and_is_yours_to_its_holder() {
    for (mut row, used) in [(pending(), true), (pending_unused(), false)] {
        let reason = row.uncertain().expect("reads as PENDING");
        let told = row.ask(reserve(2)).changes_nothing();
        assert_eq!(told.outcome(), pending_for(reason, false));
        let told = row.ask(reserve(1)).changes_nothing();
        assert_eq!(told.outcome(), pending_for(reason, true));
        assert_eq!(row.record().attempt.used, used);
        mismatches(row);
    }
    let mut row = running();
    second_attempt(&mut row);
    let token = row.token();
    row.ask(mark_pending(token, "timeout"));
    let told = row.ask(reserve(1)).changes_nothing();
    assert_eq!(told.outcome(), pending_for(PendingReason::Reported, false));
}

#[test]
fn pending_never_decays() {
    let mut row = pending();
    row.now = Timestamp::FAR;
    assert_eq!(row.uncertain(), Some(PendingReason::Reported));
    let mut row = running();
    row.now = Timestamp::FAR;
    assert_eq!(row.uncertain(), Some(PendingReason::LeaseExpired));
}

#[test]
fn retryable_failure_frees_the_key_for_a_new_attempt_only() {
    let mut row = failed_retryable();
    assert_eq!(
        row.ask(reserve(1)).changes_nothing().refusal(),
        Refusal::AttemptOver
    );
    mismatches(row.clone());
    let told = row.ask(reserve(2));
    assert_eq!(told.outcome(), ACQUIRED);
    let attempt = &row.record().attempt;
    assert_eq!(
        (attempt.number, attempt.why),
        (2, GrantReason::AfterRetryableFailure)
    );
    let left = row
        .record()
        .outcome
        .as_ref()
        .expect("what the earlier attempt left");
    assert_eq!(left.content.code, "busy");
    let failed = |trace: &Trace| matches!(trace, Trace::History { ending: Ending::FailedRetryable, code, .. } if code == "busy");
    assert!(told.traces.iter().any(failed));
    let token = row.token();
    row.ask(retryable(token, "busy"));
    assert_eq!(
        row.ask(reserve(1)).changes_nothing().refusal(),
        Refusal::AttemptOver
    );
}

#[test]
fn grant_given_back_by_the_server_is_granted_to_the_same_id() {
    let mut row = undelivered_grant();
    let fence = row.record().attempt.fence;
    assert_eq!(row.ask(reserve(1)).outcome(), ACQUIRED);
    let attempt = &row.record().attempt;
    assert_eq!(attempt.number, 2);
    assert!(attempt.fence > fence && attempt.earlier_ids.is_empty());
}

#[test]
fn grant_given_back_by_its_client_is_over_for_that_id() {
    let mut row = given_back();
    assert_eq!(
        row.ask(reserve(1)).changes_nothing().refusal(),
        Refusal::AttemptOver
    );
    assert_eq!(row.ask(reserve(2)).outcome(), ACQUIRED);
}

#[test]
fn key_freed_by_a_resolution_is_granted_to_new_attempts() {
    let mut row = freed();
    assert_eq!(
        row.ask(reserve(1)).changes_nothing().refusal(),
        Refusal::AttemptOver
    );
    let told = row.ask(reserve(2));
    assert_eq!(told.outcome(), ACQUIRED);
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
}

#[test]
fn final_outcomes_are_replayed_to_every_id_then_their_tombstones() {
    for row in [completed(), failed_final()] {
        for mut row in [row.clone(), tombstone(row)] {
            for attempt in [1, 9] {
                let told = row.ask(reserve(attempt)).changes_nothing();
                assert_eq!(told.outcome(), Outcome::Recorded);
            }
            mismatches(row);
        }
    }
    let mut row = running();
    second_attempt(&mut row);
    let token = row.token();
    row.ask(complete(token, "done"));
    assert_eq!(
        row.ask(reserve(1)).changes_nothing().outcome(),
        Outcome::Recorded
    );
}

#[test]
fn payload_is_compared_before_the_attempt_id() {
    let mut row = contradictory();
    mismatches(row.clone());
    row.override_with(Finding::NotApplied);
    mismatches(row);
}

#[test]
fn record_is_compared_under_its_own_scheme_and_rule() {
    let json = |digest| Fingerprint {
        scheme: Scheme::Json,
        ..payload(digest)
    };
    let offering = |fingerprints: Vec<Fingerprint>| Reserve {
        fingerprints,
        ..reserve(2)
    };
    let row = running();
    let outcome = |fingerprints| row.decide(offering(fingerprints)).outcome();
    assert_eq!(
        outcome(vec![json(1)]),
        Outcome::Mismatch(MismatchReason::NotComparable)
    );
    assert_eq!(outcome(vec![json(9), payload(1)]), Outcome::Processing);
    assert_eq!(
        outcome(vec![json(1), payload(9)]),
        Outcome::Mismatch(MismatchReason::DifferentPayload)
    );
}

#[test]
fn four_earlier_ids_are_known_and_older_ones_are_new() {
    let mut row = running();
    for attempt in 2..=6 {
        let token = row.token();
        row.ask(retryable(token, "busy"));
        row.grant(attempt);
    }
    let earlier = &row.record().attempt.earlier_ids;
    assert_eq!(*earlier, [5, 4, 3, 2].map(id));
    assert_eq!(earlier.len(), EARLIER_IDS_MAX);
    let token = row.token();
    row.ask(retryable(token, "busy"));
    assert_eq!(row.ask(reserve(2)).refusal(), Refusal::AttemptOver);
    assert_eq!(row.ask(reserve(1)).outcome(), ACQUIRED);
}

#[test]
fn fence_is_the_clock_and_never_falls_behind_the_last_one() {
    let mut row = failed_retryable();
    row.now = Timestamp(T0.0 - 1_000_000);
    let fence = row.record().attempt.fence;
    row.grant(2);
    assert_eq!(row.record().attempt.fence, fence + 1);
    let token = row.token();
    row.ask(retryable(token, "busy"));
    row.now = T0.after(LEASE);
    row.grant(3);
    assert_eq!(row.record().attempt.fence, row.now.0.unsigned_abs());
}
