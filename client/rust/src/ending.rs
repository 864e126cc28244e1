//! How a run ended, as its caller sees it. Knows nothing of how it came about.

use std::time::SystemTime;

use reprise_proto::v1::{
    Adjustment, Content, FailureKind, Mismatch, Pending, Processing, ProcessingReason,
    RecordSummary, ResultGone, StartOver,
};

use crate::effect::Verdict;
use crate::error::Error;
use crate::outcome::{Found, Outcome, Reading, Reserved};
use crate::report::worth_another_round;

/// What a run came to.
#[derive(Debug)]
pub struct Ran {
    /// How it ended.
    pub ending: Ending,
    /// When the outcome was first recorded, if it was not this run's effect that had it:
    /// what is answered is then a replay.
    pub replayed: Option<SystemTime>,
    /// Whether the intent may begin again under a new key.
    pub start_over: StartOver,
    /// The record, as it was last seen.
    pub record: RecordSummary,
    /// What of this run's report was not kept as sent.
    pub adjusted: Vec<Adjustment>,
    /// What did not go as it should, the effect aside.
    pub warnings: Vec<Warning>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// The effect took place, now or earlier; this is its result.
    Completed(Content),
    /// It is decided that the effect does not take place; this is the error.
    Failed(Content),
    /// The effect did not take place, and this very key may be tried again.
    NothingHappened(Content),
    /// The grant came with less than a third of its lease left. The effect was not called,
    /// and the key may be tried again.
    TooLate,
    /// This run's effect may have taken place; the record is pending.
    Unknown,
    /// Somebody else is at it, or an operator holds the operation ([`Ending::is_held`]).
    Processing(Processing),
    /// The effect may have taken place. Never start over.
    Pending(Pending),
    /// The key was used with another payload.
    Mismatch(Mismatch),
    /// The outcome is known, its bytes are gone.
    ResultGone(ResultGone),
}

impl Ending {
    /// Nobody is at it: an operator holds the operation, its tenant or all, so that nobody
    /// is granted an attempt. Nothing was written; ask again later.
    pub fn is_held(&self) -> bool {
        matches!(self, Ending::Processing(it) if it.reason() == ProcessingReason::Held)
    }
}

/// What did not go as it should. The effect was called once, and ended as `own` says.
#[derive(Debug)]
#[non_exhaustive]
pub enum Warning {
    /// The report was refused (e.g. [`StaleToken`](crate::Reason::StaleToken) or
    /// [`OutcomeAlreadyRecorded`](crate::Reason::OutcomeAlreadyRecorded)); what is
    /// answered is what is on record. A second effect is possible, and the server keeps
    /// what it was told as evidence.
    OtherOutcomeRecorded {
        /// What this run's effect came to.
        own: Verdict,
        /// The refusal.
        cause: Error,
    },
    /// A resolution had recorded the same outcome with other bytes, which are answered.
    AlreadyRecorded {
        /// What this run's effect came to.
        own: Verdict,
    },
    /// The report did not get through yet; it is repeated in the background.
    NotRecordedYet {
        /// Why the first round failed.
        cause: Error,
    },
    /// The report cannot be recorded; the attempt's lease will lapse.
    NotRecorded {
        /// Why not.
        cause: Error,
    },
    /// What is on record could not be read. What is answered is the effect's own result,
    /// or [`Ending::Unknown`] where it had none.
    NotRead {
        /// Why not.
        cause: Error,
    },
}

impl Warning {
    pub(crate) fn undelivered(cause: Error) -> Warning {
        match worth_another_round(&cause) {
            true => Warning::NotRecordedYet { cause },
            false => Warning::NotRecorded { cause },
        }
    }
}

impl Ran {
    /// The effect's result, if it took place.
    pub fn result(&self) -> Option<&Content> {
        match &self.ending {
            Ending::Completed(result) => Some(result),
            _ => None,
        }
    }

    /// What this run's own effect came to, before anybody confirmed it.
    pub(crate) fn own(record: RecordSummary, verdict: Verdict) -> Ran {
        let (ending, start_over) = match verdict {
            Verdict::Done(result) => (Ending::Completed(result), StartOver::No),
            Verdict::NothingHappened(error) => (Ending::NothingHappened(error), StartOver::No),
            Verdict::Refused { error, .. } => (Ending::Failed(error), StartOver::Unknown),
            Verdict::Unknown(_) => (Ending::Unknown, StartOver::Unknown),
        };
        Ran::new(record, ending, start_over)
    }

    /// The effect was not called, and the attempt was given back.
    pub(crate) fn too_late(record: RecordSummary) -> Ran {
        Ran::new(record, Ending::TooLate, StartOver::No)
    }

    /// What Reserve found in place of a grant. A grant is no ending: it reads as unknown.
    pub(crate) fn found(reserved: Reserved) -> Ran {
        let mut replayed = None;
        let ending = match reserved.outcome {
            Outcome::Completed(it) => {
                replayed = Some(it.time);
                Ending::Completed(it.content)
            }
            Outcome::Failed(it) => {
                replayed = Some(it.time);
                Ending::Failed(it.content)
            }
            Outcome::Processing(it) => Ending::Processing(it),
            Outcome::Pending(it) => Ending::Pending(it),
            Outcome::Mismatch(it) => Ending::Mismatch(it),
            Outcome::ResultGone(it) => Ending::ResultGone(it),
            Outcome::Acquired(_) => Ending::Unknown,
        };
        Ran {
            replayed,
            ..Ran::new(reserved.record, ending, reserved.start_over)
        }
    }

    /// What is on record after a report that did not count.
    pub(crate) fn read(found: Found) -> Ran {
        let retryable = found.record.failure_kind() == FailureKind::Retryable;
        let mut replayed = None;
        let ending = match found.reading {
            Reading::Completed(it) => {
                replayed = Some(it.time);
                Ending::Completed(it.content)
            }
            Reading::Failed(it) => {
                replayed = Some(it.time);
                match retryable {
                    true => Ending::NothingHappened(it.content),
                    false => Ending::Failed(it.content),
                }
            }
            Reading::Processing(it) => Ending::Processing(it),
            Reading::Pending(it) => Ending::Pending(it),
            Reading::ResultGone(it) => Ending::ResultGone(it),
        };
        Ran {
            replayed,
            ..Ran::new(found.record, ending, found.start_over)
        }
    }

    /// The same, when what is on record contradicts the effect and could not be read.
    pub(crate) fn unread(mut self, cause: Error) -> Ran {
        if !matches!(self.ending, Ending::Completed(_)) {
            self.ending = Ending::Unknown;
            self.start_over = StartOver::Unknown;
        }
        self.warned(Warning::NotRead { cause })
    }

    /// The same, on record. A refusal that counts permits to start over.
    pub(crate) fn recorded(mut self, record: RecordSummary) -> Ran {
        if matches!(self.ending, Ending::Failed(_)) {
            self.start_over = StartOver::Yes;
        }
        self.record = record;
        self
    }

    pub(crate) fn warned(mut self, warning: Warning) -> Ran {
        self.warnings.push(warning);
        self
    }

    fn new(record: RecordSummary, ending: Ending, start_over: StartOver) -> Ran {
        Ran {
            ending,
            replayed: None,
            start_over,
            record,
            adjusted: Vec::new(),
            warnings: Vec::new(),
        }
    }
}
