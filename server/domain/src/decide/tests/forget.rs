//! Forget: what callers stored is erased, what protects the key stays.

use bytes::Bytes;

use super::calls::*;
use super::fixture::*;
use crate::Reading;
use crate::command::{Disposition, Refusal};
use crate::content::{Body, Content};
use crate::decide::{AuditAction, By, Trace};
use crate::record::{PendingReason, State};

fn error_with_body() -> Content {
    Content {
        headers: vec![("etag".to_owned(), Bytes::from_static(b"x"))],
        body: Some(Body::Data("card of Ann".into())),
        resource_id: "order-7".to_owned(),
        provider_reference: "ch_7".to_owned(),
        ..Content::of_code("declined")
    }
}

/// A row in each state that may be forgotten, with an instruction and bytes on record.
fn forgettable() -> [Row; 3] {
    let begun = || {
        let mut row = Row::new(crate::Policy::default());
        row.ask(crate::command::Reserve {
            instruction: "charge Ann".into(),
            ..reserve(1)
        });
        row
    };
    [
        {
            let mut row = begun();
            let token = row.token();
            row.ask(complete_with(token, error_with_body()));
            row
        },
        {
            let mut row = begun();
            let token = row.token();
            row.ask(fail_with(failed(token, "declined"), error_with_body()));
            row
        },
        {
            let mut row = begun();
            let token = row.token();
            row.ask(fail_with(retryable(token, "declined"), error_with_body()));
            row
        },
    ]
}

fn fail_with(fail: crate::command::Fail, error: Content) -> crate::command::Fail {
    crate::command::Fail {
        digest: crate::command::Fail::digest_of(fail.kind, false, &error),
        error,
        ..fail
    }
}

fn forgotten(mut row: Row) -> Row {
    let revision = row.revision();
    let told = row.ask(forget(revision));
    assert_eq!(told.disposition(), Disposition::Recorded);
    row
}

#[test]
fn bytes_are_erased_and_what_protects_the_key_stays() {
    for row in forgettable() {
        let before = row.record().clone();
        let after = forgotten(row);
        let record = after.record();
        assert!(before.has_bytes() && !record.has_bytes());
        assert_eq!(record.instruction, "");
        let kept = &record.outcome.as_ref().expect("an outcome").content;
        assert_eq!(*kept, error_with_body().stripped());
        let mut restored = record.clone();
        restored.revision = before.revision;
        restored.updated_at = before.updated_at;
        restored.instruction.clone_from(&before.instruction);
        restored.outcome.clone_from(&before.outcome);
        assert_eq!(restored, before);
    }
}

#[test]
fn erasure_is_audited_and_reaches_the_side_rows() {
    for mut row in forgettable() {
        let revision = row.revision();
        let told = row.ask(forget(revision));
        assert!(told.erase);
        let expected = Trace::Audit {
            attempt: 1,
            action: AuditAction::Forgotten,
            by: By::Operator,
            actor: "ann".to_owned(),
            evidence: "asked to".to_owned(),
            at: row.now,
        };
        assert_eq!(told.traces, [expected]);
    }
}

#[test]
fn final_outcomes_read_as_gone_and_a_retryable_failure_may_be_tried_again() {
    let [completed, failed, retryable] = forgettable().map(forgotten);
    assert_eq!(completed.reads(), Reading::Completed { gone: true });
    assert_eq!(failed.reads(), Reading::FailedFinal { gone: true });
    assert_eq!(retryable.reads(), Reading::FailedRetryable);
    let mut retryable = retryable;
    assert_eq!(retryable.grant(2).attempt, 2);
}

#[test]
fn tombstone_made_by_erasure_still_protects_the_key() {
    let [mut completed, mut failed, _] = forgettable().map(forgotten);
    for row in [&completed, &failed] {
        let told = row.decide(reserve(2)).changes_nothing();
        assert_eq!(told.outcome(), crate::command::Outcome::Recorded);
    }
    let token = completed.token();
    let told = completed.ask(complete_with(token, error_with_body()));
    let told = told.changes_nothing();
    assert_eq!(told.disposition(), Disposition::Repeated, "by its digest");
    let told = failed.ask(complete(token, "done"));
    assert_eq!(told.refusal(), Refusal::OutcomeAlreadyRecorded);
    assert!(failed.record().contradicted);
    let until = completed.record().outcome.as_ref().expect("an outcome");
    let until = until.memory_until;
    completed.now = until;
    assert_eq!(completed.reads(), Reading::Over);
}

#[test]
fn memory_lasts_as_long_as_without_erasure() {
    for mut row in forgettable() {
        let until = |row: &Row| {
            let outcome = row.record().outcome.clone().expect("an outcome");
            (outcome.result_until, outcome.memory_until)
        };
        let (_, memory) = until(&row);
        row.pass(LEASE);
        let now = row.now;
        let row = forgotten(row);
        assert_eq!(until(&row), (now, memory));
    }
    let mut old = tombstone(completed());
    old.pass(LEASE);
    let ended = old.record().outcome.clone().expect("an outcome");
    let old = forgotten(old);
    let kept = old.record().outcome.as_ref().expect("an outcome");
    assert_eq!(kept.result_until, ended.result_until, "never later");
}

#[test]
fn uncertain_and_running_records_are_not_forgotten() {
    let (mut unknown, _) = unaccounted();
    let token = unknown.token();
    unknown.ask(retryable(token, "busy"));
    unknown.now = T0.after(WITHIN);
    let refused = [
        (running(), Refusal::LeaseRunning),
        (takeable(), Refusal::LeaseRunning),
        (contradicted(), Refusal::LeaseRunning),
        (lapsed(), Refusal::RecordPending),
        (pending(), Refusal::RecordPending),
        (claimed().0, Refusal::RecordPending),
        (contradictory(), Refusal::RecordPending),
        (unknown, Refusal::RecordPending),
    ];
    for (row, refusal) in refused {
        let told = row.decide(forget(row.revision())).changes_nothing();
        assert_eq!(told.refusal(), refusal);
        assert!(!told.erase && told.traces.is_empty());
    }
    let none = Row::new(crate::Policy::default());
    assert_eq!(none.decide(forget(0)).refusal(), Refusal::RecordNotFound);
    let mut over = completed();
    over.pass(over.policy.memory_retention);
    let told = over.decide(forget(over.revision()));
    assert_eq!(told.refusal(), Refusal::RecordNotFound);
}

#[test]
fn erasure_carries_the_revision_that_was_read() {
    for row in forgettable() {
        for revision in [row.revision() - 1, row.revision() + 1] {
            let told = row.decide(forget(revision)).changes_nothing();
            assert_eq!(told.refusal(), Refusal::RevisionChanged);
            assert!(!told.erase && told.traces.is_empty());
        }
    }
}

#[test]
fn erasure_sent_again_is_repeated_and_leaves_no_second_audit_row() {
    for row in forgettable() {
        let read = row.revision();
        let mut row = forgotten(row);
        let told = row.ask(forget(read)).changes_nothing();
        assert_eq!(told.disposition(), Disposition::Repeated);
        assert!(told.traces.is_empty());
        assert!(told.erase, "side rows may have come since");
    }
}

#[test]
fn what_is_recorded_after_an_erasure_is_not_erased_by_the_old_one_sent_again() {
    let [_, _, row] = forgettable();
    let read = row.revision();
    let mut row = forgotten(row);
    let token = row.grant(2);
    row.ask(complete_with(token, error_with_body()));
    let told = row.ask(forget(read)).changes_nothing();
    assert_eq!(told.refusal(), Refusal::RevisionChanged);
    assert!(!told.erase);
}

#[test]
fn next_attempt_after_an_erasure_brings_its_own_instruction() {
    let [_, _, row] = forgettable();
    let mut row = forgotten(row);
    row.ask(crate::command::Reserve {
        instruction: "charge Bob".into(),
        ..reserve(2)
    });
    assert_eq!(row.record().instruction, "charge Bob");
    assert_eq!(row.record().generation, 1, "under the same effect key");
}

#[test]
fn erasure_does_not_end_what_is_uncertain_about_an_earlier_attempt() {
    let (mut row, _) = unaccounted();
    let token = row.token();
    row.ask(fail_with(retryable(token, "busy"), error_with_body()));
    let mut row = forgotten(row);
    assert_eq!(row.state(), State::FailedRetryable);
    row.now = T0.after(WITHIN);
    assert_eq!(row.uncertain(), Some(PendingReason::EarlierAttemptUnknown));
}
