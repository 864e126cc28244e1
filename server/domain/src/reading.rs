//! How a record reads at a moment. Lapse and the ends of retention are facts about
//! time: they are judged here, at every read, whether or not anybody wrote them down.

use std::time::Duration;

use crate::policy::{OnLapse, Policy};
use crate::record::{PendingReason, Record, State};
use crate::time::Timestamp;

/// How a record reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// PROCESSING, and the lease runs.
    Running {
        /// How long it still runs; more than zero.
        remaining: Duration,
    },
    /// PROCESSING, the lease ended, and the next caller may take over.
    Takeable,
    /// The effect may have taken place.
    Pending(Uncertain),
    /// The attempt had no effect; the next caller may try.
    FailedRetryable,
    /// The effect took place.
    Completed {
        /// Headers and body are no longer kept.
        gone: bool,
    },
    /// It is decided that the effect does not take place.
    FailedFinal {
        /// Headers and body are no longer kept.
        gone: bool,
    },
    /// The memory of the record is over: it reads as if there were none.
    Over,
}

/// How an uncertain outcome reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncertain {
    /// Why.
    pub reason: PendingReason,
    /// Since when.
    pub since: Timestamp,
    /// When finding out is worth a try.
    pub next_check: Timestamp,
}

impl Reading {
    /// Reads `record` at `now`. Of the policy only `settle_after` counts.
    #[must_use]
    pub fn of(record: &Record, policy: &Policy, now: Timestamp) -> Self {
        match record.state {
            State::Processing => lease(record, policy, now),
            State::Pending => Self::Pending(written(record, policy)),
            State::FailedRetryable => failed_retryable(record, policy, now),
            State::Completed => match retention(record, now) {
                Retention::Over => Self::Over,
                kept => Self::Completed {
                    gone: kept == Retention::Gone,
                },
            },
            State::FailedFinal => match retention(record, now) {
                Retention::Over => Self::Over,
                kept => Self::FailedFinal {
                    gone: kept == Retention::Gone,
                },
            },
        }
    }
}

fn lease(record: &Record, policy: &Policy, now: Timestamp) -> Reading {
    let attempt = &record.attempt;
    if now < attempt.lease_end {
        return Reading::Running {
            remaining: attempt.lease_end.since(now),
        };
    }
    let too_late = attempt.repeat_until.is_some_and(|until| now >= until);
    let (reason, since) = if record.contradicted {
        (PendingReason::ContradictoryReports, attempt.lease_end)
    } else if record.unaccounted && too_late {
        (
            PendingReason::EarlierAttemptUnknown,
            until_after(attempt.repeat_until, attempt.lease_end),
        )
    } else {
        match attempt.on_lapse {
            OnLapse::TakeOver if !too_late => return Reading::Takeable,
            OnLapse::TakeOverUnlessSent if !attempt.sent => return Reading::Takeable,
            OnLapse::TakeOver => (
                expired(attempt.sent),
                until_after(attempt.repeat_until, attempt.lease_end),
            ),
            OnLapse::TakeOverUnlessSent | OnLapse::Pending => {
                (expired(attempt.sent), attempt.lease_end)
            }
        }
    };
    Reading::Pending(Uncertain {
        reason,
        since,
        next_check: attempt.lease_end.after(policy.settle_after),
    })
}

fn until_after(repeat_until: Option<Timestamp>, lease_end: Timestamp) -> Timestamp {
    repeat_until.map_or(lease_end, |until| until.max(lease_end))
}

fn expired(sent: bool) -> PendingReason {
    if sent {
        PendingReason::LeaseExpiredAfterSending
    } else {
        PendingReason::LeaseExpired
    }
}

fn written(record: &Record, policy: &Policy) -> Uncertain {
    let reason = record.pending.as_ref().map(|pending| pending.reason);
    Uncertain {
        reason: if record.contradicted {
            PendingReason::ContradictoryReports
        } else {
            reason.unwrap_or(PendingReason::Reported)
        },
        since: record
            .pending
            .as_ref()
            .map_or(record.updated_at, |pending| pending.since),
        next_check: record.pending.as_ref().map_or_else(
            || record.updated_at.after(policy.settle_after),
            |pending| pending.next_check,
        ),
    }
}

fn failed_retryable(record: &Record, policy: &Policy, now: Timestamp) -> Reading {
    let attempt = &record.attempt;
    let uncertain = |reason, since: Timestamp| {
        Reading::Pending(Uncertain {
            reason,
            since,
            next_check: since.after(policy.settle_after),
        })
    };
    if record.contradicted {
        return uncertain(PendingReason::ContradictoryReports, record.updated_at);
    }
    if record.unaccounted
        && let Some(until) = attempt.repeat_until
        && now >= until
    {
        return uncertain(PendingReason::EarlierAttemptUnknown, until);
    }
    match retention(record, now) {
        // What may have had its effect is not forgotten: it is going to be PENDING.
        Retention::Over if !record.unaccounted => Reading::Over,
        _ => Reading::FailedRetryable,
    }
}

/// The next moment after `now` at which `record` may read, or be decided on, differently
/// though nobody writes to it: every moment in it that is compared with the clock. A
/// decision made at `now` holds until then. Alone a Claim that came too early for a lapse
/// that nobody wrote down does not: when that is due is for the policy in force to say, and
/// nothing was written.
#[must_use]
pub fn holds_until(record: &Record, now: Timestamp) -> Timestamp {
    let outcome = record.outcome.as_ref();
    [
        Some(record.attempt.lease_end),
        record.attempt.repeat_until,
        record.claim.as_ref().map(|claim| claim.lease_end),
        record.pending.as_ref().map(|pending| pending.next_check),
        outcome.map(|outcome| outcome.result_until),
        outcome.map(|outcome| outcome.memory_until),
    ]
    .into_iter()
    .flatten()
    .filter(|moment| *moment > now)
    .min()
    .unwrap_or(Timestamp::FAR)
}

#[derive(PartialEq, Eq)]
enum Retention {
    Kept,
    Gone,
    Over,
}

fn retention(record: &Record, now: Timestamp) -> Retention {
    match &record.outcome {
        Some(outcome) if now >= outcome.memory_until => Retention::Over,
        Some(outcome) if now >= outcome.result_until => Retention::Gone,
        Some(_) => Retention::Kept,
        // A tombstone that lost even its outcome still knows that there was one.
        None => Retention::Gone,
    }
}

/// May the intent begin again under a new key?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartOver {
    /// It took place, is being tried, or this key may be tried again.
    No,
    /// It is decided that it does not take place.
    Yes,
    /// Nobody knows.
    Unknown,
}

/// A record together with how it read when it was decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// After the change, if there was one.
    pub record: Box<Record>,
    /// Of that record at `now`.
    pub reading: Reading,
    /// The store's clock at the decision.
    pub now: Timestamp,
}

impl View {
    /// Reads `record` at `now`.
    #[must_use]
    pub fn of(record: impl Into<Box<Record>>, policy: &Policy, now: Timestamp) -> Self {
        let record = record.into();
        let reading = Reading::of(&record, policy, now);
        Self {
            record,
            reading,
            now,
        }
    }

    /// May the intent begin again under a new key?
    #[must_use]
    pub fn start_over(&self) -> StartOver {
        match self.reading {
            Reading::Pending(_) => StartOver::Unknown,
            Reading::FailedFinal { .. } if self.record.contradicted => StartOver::Unknown,
            Reading::FailedFinal { .. } => StartOver::Yes,
            Reading::Running { .. }
            | Reading::Takeable
            | Reading::FailedRetryable
            | Reading::Completed { .. }
            | Reading::Over => StartOver::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::RecordName;
    use crate::record::Outcome;
    use crate::token::Held;

    const NOW: Timestamp = Timestamp(1_800_000_000_000_000);

    fn record(state: State) -> Record {
        let name = RecordName::new("shop", "charge", "", "order-1").expect("a valid name");
        let held = Held {
            attempt: 1,
            fence: 1,
            authentic: true,
        };
        let mut record = crate::assume::held(&name, &held);
        record.state = state;
        record.attempt.lease_end = NOW;
        record
    }

    fn reads(record: &Record) -> Reading {
        Reading::of(record, &Policy::default(), NOW)
    }

    #[test]
    fn lease_is_over_at_its_end() {
        let mut record = record(State::Processing);
        assert!(matches!(reads(&record), Reading::Pending(_)));
        record.attempt.lease_end = NOW.after(Duration::from_micros(1));
        let remaining = Duration::from_micros(1);
        assert_eq!(reads(&record), Reading::Running { remaining });
    }

    #[test]
    fn only_settle_after_of_the_policy_in_force_counts() {
        let record = record(State::Processing);
        let policy = Policy {
            on_lapse: OnLapse::TakeOver,
            settle_after: Duration::from_secs(5),
            ..Policy::default()
        };
        let uncertain = Uncertain {
            reason: PendingReason::LeaseExpired,
            since: NOW,
            next_check: NOW.after(Duration::from_secs(5)),
        };
        assert_eq!(
            Reading::of(&record, &policy, NOW),
            Reading::Pending(uncertain)
        );
    }

    #[test]
    fn contradicted_pending_always_says_so() {
        let mut record = record(State::Pending);
        record.contradicted = true;
        record.pending = Some(crate::record::Pending {
            reason: PendingReason::Reported,
            detail: String::new(),
            since: NOW,
            next_check: NOW,
        });
        let Reading::Pending(uncertain) = reads(&record) else {
            panic!("reads as {:?}", reads(&record));
        };
        assert_eq!(uncertain.reason, PendingReason::ContradictoryReports);
    }

    #[test]
    fn tombstone_without_its_outcome_is_still_a_tombstone() {
        assert_eq!(
            reads(&record(State::Completed)),
            Reading::Completed { gone: true }
        );
        assert_eq!(
            reads(&record(State::FailedFinal)),
            Reading::FailedFinal { gone: true }
        );
    }

    #[test]
    fn starting_over_is_free_only_after_a_final_failure_that_nobody_contradicts() {
        let start_over = |record: Record| View::of(record, &Policy::default(), NOW).start_over();
        let far = Outcome {
            content: crate::Content::default(),
            recorded_at: NOW,
            result_until: Timestamp::FAR,
            memory_until: Timestamp::FAR,
        };
        for (state, expected) in [
            (State::Processing, StartOver::Unknown),
            (State::Pending, StartOver::Unknown),
            (State::Completed, StartOver::No),
            (State::FailedRetryable, StartOver::No),
            (State::FailedFinal, StartOver::Yes),
        ] {
            let mut record = record(state);
            record.outcome = Some(far.clone());
            assert_eq!(start_over(record.clone()), expected, "{state:?}");
            record.contradicted = true;
            let doubtful = if state == State::Completed {
                StartOver::No
            } else {
                StartOver::Unknown
            };
            assert_eq!(
                start_over(record.clone()),
                doubtful,
                "{state:?} contradicted"
            );
            record.attempt.lease_end = Timestamp::FAR;
            if state == State::Processing {
                assert_eq!(start_over(record), StartOver::No);
            }
        }
    }
}
