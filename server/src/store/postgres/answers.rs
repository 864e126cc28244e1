//! Answers of plans and decisions, with the record as it was written.

use reprise_domain::command::Answer;
use reprise_domain::policy::Policy;
use reprise_domain::{Record, Timestamp, View};

use super::plan::{HeldPlan, shifted_outcome};
use super::record;
use super::row::RecordRow;
use crate::store::Error;

/// The plan's answer about the row that it was carried out on.
pub(super) fn answer(
    plan: HeldPlan,
    mut row: RecordRow,
    policy: &Policy,
    now: Timestamp,
) -> Result<Answer, Error> {
    let outcome = plan.change.outcome;
    if outcome.is_some() {
        // Its bytes are ours and were not sent back.
        row.recorded_at = None;
    }
    let mut changed = record(row)?;
    changed.updated_at = now;
    if let Some(outcome) = outcome {
        changed.outcome = Some(shifted_outcome(outcome, now));
    }
    Ok(viewed(plan.answer, |_| View::of(changed, policy, now)))
}

/// The same answer with another view.
pub(super) fn viewed(answer: Answer, of: impl FnOnce(Box<Record>) -> View) -> Answer {
    match answer {
        Answer::Outcome(outcome, view) => Answer::Outcome(outcome, of(view.record)),
        Answer::Reported(disposition, view) => Answer::Reported(disposition, of(view.record)),
        Answer::Leased(view) => Answer::Leased(of(view.record)),
        Answer::Closed(view) => Answer::Closed(of(view.record)),
        Answer::Claimed(view) => Answer::Claimed(of(view.record)),
        Answer::Held(view) => Answer::Held(view.map(|view| Box::new(of(view.record)))),
    }
}

pub(super) fn view(answer: &Answer) -> Option<&View> {
    match answer {
        Answer::Outcome(_, view)
        | Answer::Reported(_, view)
        | Answer::Leased(view)
        | Answer::Closed(view)
        | Answer::Claimed(view) => Some(view),
        Answer::Held(view) => view.as_deref(),
    }
}
