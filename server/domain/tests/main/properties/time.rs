//! What time does by itself, and what it must not do: whether or not anybody wrote down
//! what it did, and while nobody is granted an attempt.

use std::mem::discriminant;

use super::{is_grant, said};
use crate::calls::Row;
use crate::command::{Answer, Command};
use crate::decide::Decision;
use crate::policy::{Mode, Policy};
use crate::reading::{Reading, holds_until};
use crate::record::{Record, State};
use crate::time::Timestamp;

/// Time ends no PENDING.
pub(super) fn check_passed(before: &Row, after: &Row) {
    if before.record.is_some() && matches!(before.reads(), Reading::Pending(_)) {
        assert!(matches!(after.reads(), Reading::Pending(_)));
    }
}

/// Whether somebody wrote down what time did makes no difference to anybody.
pub(super) fn check_written(row: &Row, command: &Command) {
    let Some(record) = &row.record else {
        return;
    };
    let mut swept = row.clone();
    let told = swept.ask(Command::Sweep);
    assert!(told.traces.is_empty());
    assert_eq!(swept.reads(), row.reads());
    let writes = record.state != State::Pending && matches!(row.reads(), Reading::Pending(_));
    assert_eq!(told.change.is_some(), writes);
    if !writes {
        return;
    }
    if let Some(written) = &mut swept.record {
        written.revision = record.revision;
    }
    // The server's own give-back goes by the revision, which writing raises; another sweep
    // has nothing left to write.
    if matches!(command, Command::GiveBack(_) | Command::Sweep) {
        return;
    }
    let (here, there) = (row.decide(command.clone()), swept.decide(command.clone()));
    assert_eq!(said(&here), said(&there), "{command:?}");
    assert_eq!(here.traces, there.traces, "{command:?}");
    assert_eq!(here.erase, there.erase);
    if let (Some(here), Some(there)) = (&here.change, &there.change) {
        assert_eq!(settled(here), settled(there), "{command:?}");
    } else {
        assert_eq!((here.change, there.change), (None, None), "{command:?}");
    }
}

/// Without what a write always moves.
fn settled(record: &Record) -> Record {
    Record {
        updated_at: Timestamp(0),
        ..record.clone()
    }
}

/// What is said, whatever the time is.
fn kind(decision: &Decision) -> String {
    let reading = match &decision.answer {
        Ok(
            Answer::Outcome(_, view)
            | Answer::Reported(_, view)
            | Answer::Leased(view)
            | Answer::Closed(view)
            | Answer::Claimed(view),
        ) => Some(discriminant(&view.reading)),
        Ok(Answer::Held(view)) => view.as_ref().map(|view| discriminant(&view.reading)),
        Err(_) => None,
    };
    let answer = match &decision.answer {
        Ok(Answer::Outcome(outcome, _)) => format!("{outcome:?}"),
        Ok(Answer::Reported(disposition, _)) => format!("{disposition:?}"),
        Ok(other) => format!("{:?}", discriminant(other)),
        Err(refusal) => format!("{refusal:?}"),
    };
    let writes = decision.change.is_some();
    format!("{answer}, {reading:?}, {writes}, {}", decision.traces.len())
}

/// A decision holds until the next moment that the record knows of.
pub(super) fn check_holds(row: &Row, command: &Command) {
    let Some(record) = &row.record else {
        return;
    };
    let until = holds_until(record, row.now);
    assert!(until > row.now);
    let early = matches!(command, Command::Claim(_)) && record.state != State::Pending;
    if early {
        return;
    }
    let mut later = row.clone();
    later.now = Timestamp(until.0 - 1);
    let (here, there) = (row.decide(command.clone()), later.decide(command.clone()));
    assert_eq!(kind(&here), kind(&there), "{command:?} until {until:?}");
}

/// While nobody is granted an attempt, whoever would be is told so and nothing is written;
/// all else is as ever.
pub(super) fn check_held(row: &Row, command: &Command) {
    let decide = |mode| {
        let policy = Policy {
            mode,
            ..(*row.policy).clone()
        };
        let row = Row {
            policy: policy.into(),
            ..row.clone()
        };
        row.decide(command.clone())
    };
    let (enforced, held) = (decide(Mode::Enforce), decide(Mode::Hold));
    if is_grant(&enforced) {
        assert!(matches!(held.answer, Ok(Answer::Held(_))), "{command:?}");
        let writes = (held.change, held.traces.len(), held.work, held.erase);
        assert_eq!(writes, (None, 0, None, false));
    } else {
        assert_eq!(enforced, held);
    }
}
