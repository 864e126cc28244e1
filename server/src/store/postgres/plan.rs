//! Plans of the one-round-trip fast path: what `decide` makes of the usual row at moment
//! zero. A plan is only ever carried out on a row that is the assumed one; which row that
//! is, the domain says ([`reprise_domain::assume`]), and the statements check it.

use std::time::Duration;

use reprise_domain::command::{Answer, Command, Holder, Lessee, Outcome, Request};
use reprise_domain::{Record, Timestamp, assume, decide, record};

/// What settles a command in one statement.
pub(super) enum Plan {
    /// There is no record: insert this one.
    Fresh(Box<Record>),
    /// PROCESSING under this very token: change it.
    Held(Box<HeldPlan>),
}

/// The change of a held record.
pub(super) struct HeldPlan {
    /// As decided at moment zero; what it leaves as assumed stays as it is in the row.
    pub(super) change: Record,
    /// Variant and disposition of the answer; its view is the assumed record's.
    pub(super) answer: Answer,
    /// The decision holds only while the lease runs.
    pub(super) lease_must_run: bool,
}

/// The plan for a command, if it has one.
pub(super) fn of(request: &Request) -> Option<Plan> {
    let held = match &request.command {
        // How old an intent is depends on the time.
        Command::Reserve(reserve) if reserve.intent_time.is_none() => return fresh(request),
        Command::Complete(complete) => complete.held,
        Command::MarkSending(mark) => mark.held,
        Command::Renew(renew) => match renew.lessee {
            // A lease that ends at once is news to the worklist.
            Lessee::Attempt(held) if renew.lease != Some(Duration::ZERO) => held,
            Lessee::Attempt(_) | Lessee::Claim(_) => return None,
        },
        Command::Fail(fail) => match fail.holder {
            Holder::Token(held) => held,
            Holder::AttemptId(_) => return None,
        },
        Command::Reserve(_)
        | Command::MarkPending(_)
        | Command::GiveBack(_)
        | Command::Claim(_)
        | Command::Resolve(_)
        | Command::Forget(_)
        | Command::Sweep => return None,
    };
    let assumed = assume::held(&request.name, &held);
    let decision = decide(Some(&assumed), request, assume::NOW);
    let change = *decision.change?;
    let answer = decision.answer.ok()?;
    if !decision.traces.is_empty() || decision.work.is_some() {
        return None;
    }
    Some(Plan::Held(Box::new(HeldPlan {
        change,
        answer,
        // A late Complete counts like one in time; everything else moves or ends a lease.
        lease_must_run: !matches!(request.command, Command::Complete(_)),
    })))
}

fn fresh(request: &Request) -> Option<Plan> {
    let decision = decide(None, request, assume::NOW);
    match decision.answer {
        Ok(Answer::Outcome(Outcome::Acquired { again: false }, _)) => {
            Some(Plan::Fresh(decision.change?))
        }
        _ => None,
    }
}

/// How far a lease end lies from now, in microseconds; none when the plan leaves it alone.
pub(super) fn offset(moment: Timestamp) -> Option<i64> {
    (moment != Timestamp::FAR).then_some(moment.0)
}

/// Moves a record of moments as offsets to where the clock stands.
pub(super) fn shift(record: &mut Record, now: Timestamp) {
    let shift = |moment: &mut Timestamp| moment.0 = moment.0.saturating_add(now.0);
    let attempt = &mut record.attempt;
    shift(&mut record.created_at);
    shift(&mut record.updated_at);
    shift(&mut attempt.granted_at);
    shift(&mut attempt.lease_end);
    attempt.repeat_until.as_mut().map(shift);
    attempt.fence = attempt.fence.max(u64::try_from(now.0).unwrap_or(0));
    record.outcome = record
        .outcome
        .take()
        .map(|outcome| shifted_outcome(outcome, now));
}

/// As [`shift`], of an outcome.
pub(super) fn shifted_outcome(mut outcome: record::Outcome, now: Timestamp) -> record::Outcome {
    for moment in [
        &mut outcome.recorded_at,
        &mut outcome.result_until,
        &mut outcome.memory_until,
    ] {
        moment.0 = moment.0.saturating_add(now.0);
    }
    outcome
}
