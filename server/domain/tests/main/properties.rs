//! Properties of random lives: commands by callers with old, new and forged tokens, a
//! person, passing time, policies that change between. And that `decide` answers about
//! every record, also those that no life leads to.

mod lists;
mod lives;
mod records;
mod time;

use proptest::prelude::*;

use crate::calls::{Row, T0, renew_claim};
use crate::command::{
    Answer, Authority, Command, Disposition, Finding, Holder, Lessee, Outcome, Refusal,
};
use crate::decide::Decision;
use crate::reading::Reading;
use crate::record::{EARLIER_IDS_MAX, Record, State};
use crate::token::Held;
use lives::{Life, step, steps};

fn is_grant(decision: &Decision) -> bool {
    let again = Outcome::Acquired { again: false };
    matches!(&decision.answer, Ok(Answer::Outcome(outcome, _)) if *outcome == again)
}

/// What is said, without the record that it is said about.
fn said(decision: &Decision) -> String {
    match &decision.answer {
        Ok(Answer::Outcome(outcome, view)) => format!("{outcome:?}, {:?}", view.reading),
        Ok(Answer::Reported(disposition, view)) => format!("{disposition:?}, {:?}", view.reading),
        Ok(Answer::Leased(view)) => format!("leased, {:?}", view.reading),
        Ok(Answer::Closed(view)) => format!("closed, {:?}", view.reading),
        Ok(Answer::Claimed(view)) => format!("claimed, {:?}", view.reading),
        Ok(Answer::Held(_)) => "held".to_owned(),
        Err(refusal) => format!("{refusal:?}"),
    }
}

/// The token of a report, if one came with it.
fn token_in(command: &Command) -> Option<Held> {
    match command {
        Command::MarkSending(mark) => Some(mark.held),
        Command::Complete(complete) => Some(complete.held),
        Command::MarkPending(mark) => Some(mark.held),
        Command::Renew(renew) => match renew.lessee {
            Lessee::Attempt(held) => Some(held),
            Lessee::Claim(_) => None,
        },
        Command::Fail(fail) => match fail.holder {
            Holder::Token(held) => Some(held),
            Holder::AttemptId(_) => None,
        },
        Command::Reserve(_)
        | Command::GiveBack(_)
        | Command::Claim(_)
        | Command::Resolve(_)
        | Command::Forget(_)
        | Command::Sweep => None,
    }
}

/// May this command change what is on record?
fn is_entitled(record: &Record, command: &Command) -> bool {
    let attempt = &record.attempt;
    if let Some(held) = token_in(command) {
        return held.authentic && held.attempt == attempt.number && held.fence == attempt.fence;
    }
    match command {
        Command::Fail(fail) => match fail.holder {
            Holder::AttemptId(id) => id == attempt.id && !attempt.used,
            Holder::Token(_) => unreachable!("has a token"),
        },
        Command::GiveBack(back) => back.revision == record.revision,
        Command::Forget(forget) => forget.revision == record.revision,
        Command::Renew(renew) => match renew.lessee {
            Lessee::Claim(held) => is_newest_claim(record, held),
            Lessee::Attempt(_) => unreachable!("has a token"),
        },
        Command::Resolve(resolve) => match (resolve.authority, &resolve.finding) {
            // Asked again by a resolver that was granted the attempt.
            (_, Finding::TakeOver { attempt_id, .. }) if *attempt_id == attempt.id => true,
            (Authority::Claim(held), _) => is_newest_claim(record, held),
            (Authority::Operator { revision }, _) => revision == record.revision,
        },
        Command::Reserve(_) | Command::Claim(_) | Command::Sweep => true,
        Command::MarkSending(_) | Command::Complete(_) | Command::MarkPending(_) => {
            unreachable!("has a token")
        }
    }
}

fn is_newest_claim(record: &Record, held: Held) -> bool {
    held.authentic
        && held.attempt == record.attempt.number
        && record
            .claim
            .as_ref()
            .is_some_and(|claim| claim.fence == held.fence)
}

/// Without a right a report leaves one mark at most: that it contradicts.
fn only_contradicts(before: &Record, after: &Record) -> bool {
    let mut as_before = after.clone();
    as_before.revision = before.revision;
    as_before.updated_at = before.updated_at;
    as_before.contradicted = before.contradicted;
    // The lapse may be written down on the way.
    if before.state != State::Pending && after.state == State::Pending {
        as_before.state = before.state;
        as_before.pending.clone_from(&before.pending);
    }
    after.contradicted && as_before == *before
}

/// A finding that speaks for all attempts.
fn concludes(command: &Command) -> bool {
    matches!(command, Command::Resolve(resolve)
        if !matches!(resolve.finding, Finding::StillUnknown { .. }))
}

/// What holds of every decision about every record.
fn check_decision(row: &Row, command: &Command, decision: &Decision) {
    let now = row.now;
    if let Err(refusal) = decision.answer
        && decision.change.is_some()
    {
        let contradicts = matches!(
            refusal,
            Refusal::StaleToken | Refusal::OutcomeAlreadyRecorded | Refusal::ClaimOver { .. }
        );
        assert!(contradicts, "{refusal} changes");
    }
    let Some(after) = decision.change.as_deref() else {
        assert!(!is_grant(decision), "a grant is written");
        return;
    };
    let before = row.record.as_ref().filter(|_| row.reads() != Reading::Over);
    let Some(before) = before else {
        assert!(is_grant(decision) && after.attempt.number == 1);
        return;
    };
    if before.state == State::Completed {
        assert!(
            only_erases(before, after),
            "what took place does not change"
        );
        assert!(matches!(command, Command::Forget(_)));
    }
    assert!(after.last_fence() >= before.last_fence());
    if is_grant(decision) {
        assert!(after.attempt.fence > before.last_fence());
        assert_eq!(after.claim, None);
        assert!(after.attempt.fence >= u64::try_from(now.0).expect("after 1970"));
        assert!(after.attempt.number > before.attempt.number || before.attempt.number == u32::MAX);
        assert!(matches!(command, Command::Reserve(_) | Command::Resolve(_)));
        if !concludes(command) {
            assert!(matches!(
                row.reads(),
                Reading::Takeable | Reading::FailedRetryable
            ));
            assert!(!before.contradicted);
            let until = before.attempt.repeat_until;
            assert!(!before.unaccounted || until.is_none_or(|until| now < until));
        }
        let renewed = u32::from(before.key_spent || after.generation > before.generation);
        assert_eq!(after.generation, before.generation.saturating_add(renewed));
    } else {
        let token = |record: &Record| (record.attempt.number, record.attempt.fence);
        assert_eq!(token(before), token(after));
        assert_eq!(before.attempt.id, after.attempt.id);
        assert_eq!(before.generation, after.generation);
    }
    if decision.answer.is_err() || !is_entitled(before, command) {
        assert!(
            only_contradicts(before, after),
            "{command:?} has no right to this"
        );
        assert!(matches!(
            command,
            Command::Complete(_) | Command::Resolve(_)
        ));
    }
    check_claim(before, after, command, now);
    if matches!(row.reads(), Reading::Pending(_)) && after.state != State::Pending {
        assert!(may_end_pending(command), "{command:?} ends PENDING");
    }
    let spent = matches!(command, Command::Fail(fail) if fail.effect_key_spent);
    let completed = after.state == State::Completed;
    if before.unaccounted && !after.unaccounted {
        assert!(completed || spent || concludes(command));
    }
    if before.contradicted && !after.contradicted {
        assert!(concludes(command));
    }
    if after.unaccounted && after.attempt.lease_end != before.attempt.lease_end {
        let end = after.attempt.lease_end;
        let until = after.attempt.repeat_until;
        assert!(end <= now || until.is_none_or(|until| end <= until));
    }
}

/// But for the bytes that callers stored, all stays.
fn only_erases(before: &Record, after: &Record) -> bool {
    let mut as_before = after.clone();
    as_before.revision = before.revision;
    as_before.updated_at = before.updated_at;
    as_before.instruction.clone_from(&before.instruction);
    as_before.outcome.clone_from(&before.outcome);
    // One that still runs here is none that a life leads to; no write leaves it.
    as_before.claim.clone_from(&before.claim);
    !after.has_bytes() && as_before == *before
}

/// A claim is taken by Claim alone, and only where none runs; its fence is the highest.
fn check_claim(before: &Record, after: &Record, command: &Command, now: crate::time::Timestamp) {
    let fence = |record: &Record| record.claim.as_ref().map(|claim| claim.fence);
    if let Some(taken) = fence(after).filter(|taken| Some(*taken) != fence(before)) {
        assert!(matches!(command, Command::Claim(_)));
        assert!(before.running_claim(now).is_none(), "never two");
        assert!(now >= before.attempt.lease_end, "never beside a lease");
        assert!(taken > before.last_fence());
        assert_eq!(after.state, State::Pending);
    }
}

/// A report, a resolution, or the attempt's own give-back.
fn may_end_pending(command: &Command) -> bool {
    matches!(
        command,
        Command::Complete(_) | Command::Fail(_) | Command::Resolve(_) | Command::GiveBack(_)
    )
}

/// The same report again is the same report.
fn check_repeat(row: &Row, command: &Command, decision: &Decision) {
    if let (Command::Claim(_), Ok(Answer::Claimed(view))) = (command, &decision.answer)
        && view.record.running_claim(row.now).is_some()
    {
        let again = row.decide(command.clone());
        assert_eq!(
            (again.change, again.answer),
            (None, decision.answer.clone())
        );
        return;
    }
    let Ok(Answer::Reported(Disposition::Recorded, _)) = &decision.answer else {
        return;
    };
    let again = row.decide(command.clone());
    assert_eq!(again.change, None);
    assert!(
        matches!(
            &again.answer,
            Ok(Answer::Reported(Disposition::Repeated, _))
        ) || matches!(command, Command::GiveBack(_)),
        "{command:?}: {:?}",
        again.answer
    );
}

/// What holds of a record that came about in a life.
fn check_record(row: &Row) {
    let Some(record) = &row.record else {
        return;
    };
    let attempt = &record.attempt;
    let mut ids = attempt.earlier_ids.clone();
    assert!(ids.len() <= EARLIER_IDS_MAX);
    ids.push(attempt.id);
    ids.sort_by_key(|id| id.0);
    ids.dedup();
    assert_eq!(ids.len(), attempt.earlier_ids.len() + 1, "each id once");
    assert_eq!(record.state == State::Pending, record.pending.is_some());
    if record.unaccounted {
        let until = attempt
            .repeat_until
            .expect("unaccounted under TAKE_OVER alone");
        assert!(attempt.lease_end <= until);
    }
    if row.reads() == Reading::Over {
        assert!(!matches!(record.state, State::Processing | State::Pending));
    }
}

/// At most one claim runs, never beside a lease, and it is the newest one.
fn check_claims(life: &Life) {
    let row = &life.row;
    let Some(record) = row.record.as_ref().filter(|_| row.reads() != Reading::Over) else {
        return;
    };
    let running = record.running_claim(row.now);
    if running.is_some() {
        assert_eq!(record.state, State::Pending);
        assert!(row.now >= record.attempt.lease_end);
    }
    for held in &life.claims {
        let renewed = row.decide(renew_claim(*held, None)).answer.is_ok();
        let runs = running.is_some_and(|claim| claim.fence == held.fence);
        assert_eq!(renewed, runs, "{held:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lives_keep_the_invariants(steps in steps(40)) {
        let mut life = Life::new();
        let mut list = lists::List::default();
        for (number, step) in steps.iter().enumerate() {
            let asleep = life.row.clone();
            let command = life.prepare(step);
            let before = life.row.clone();
            time::check_passed(&asleep, &before);
            list.check(&before, number % 2 == 0);
            time::check_written(&before, &command);
            time::check_holds(&before, &command);
            time::check_held(&before, &command);
            let decision = life.row.ask(command.clone());
            list.note(&decision);
            check_decision(&before, &command, &decision);
            check_repeat(&life.row, &command, &decision);
            check_record(&life.row);
            life.remember();
            check_claims(&life);
            list.check(&life.row, number % 3 == 0);
        }
    }

    #[test]
    fn every_record_has_a_decision(record in records::record(), step in step(), at in 0_i64..200_000_000) {
        let mut life = Life::new();
        life.row.record = Some(record);
        life.row.now = crate::time::Timestamp(T0.0 - 100_000_000 + at);
        life.remember();
        let command = life.prepare(&step);
        let before = life.row.clone();
        time::check_held(&before, &command);
        let decision = life.row.ask(command.clone());
        check_decision(&before, &command, &decision);
        prop_assert_eq!(decision, before.decide(command), "the same again");
    }
}
