//! What the server answers, typed. The only place that reads answers: whatever permits an
//! effect must be understood whole, or it is [`Error::UnknownOutcome`].

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reprise_proto::v1::{
    self, Content, EarlierAttempts, GrantReason, Mismatch, OmittedBody, OnLapse, Pending,
    Processing, ProcessingReason, RecordName, RecordSummary, ReportDisposition, ResultGone,
    StartOver, State, content::Body, lookup_response, reserve_response,
};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::error::Error;
use crate::lease::Lease;
use crate::reserve::AttemptId;
use crate::retry::Answered;

/// The answer to Reserve.
#[derive(Clone, Debug, PartialEq)]
pub struct Reserved {
    /// The attempt's id, for whoever repeats the call.
    pub attempt_id: AttemptId,
    /// The record as it reads now. Without a state where an operator holds the operation
    /// and there is no record yet.
    pub record: RecordSummary,
    /// Whether the intent may begin again under a new key. What this client does not
    /// know reads as [`StartOver::Unknown`], to be treated as no.
    pub start_over: StartOver,
    /// What is the case.
    pub outcome: Outcome,
}

/// What Reserve found.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Go ahead. The only outcome that permits the effect.
    Acquired(Acquired),
    /// It took place before; this is its result.
    Completed(Recorded),
    /// It is decided that it does not take place; this is the error.
    Failed(Recorded),
    /// Somebody else is at it, or an operator holds the operation
    /// ([`Outcome::is_held`]).
    Processing(Processing),
    /// It may have taken place. Never execute, never start over.
    Pending(Pending),
    /// The key was used with another payload.
    Mismatch(Mismatch),
    /// The outcome is known, its bytes are gone.
    ResultGone(ResultGone),
}

impl Outcome {
    /// Nobody is at it: an operator holds the operation, its tenant or all, so that nobody
    /// is granted an attempt. Nothing was written; ask again later.
    pub fn is_held(&self) -> bool {
        matches!(self, Outcome::Processing(it) if it.reason() == ProcessingReason::Held)
    }
}

/// A grant: its holder has the newest attempt and may begin.
#[derive(Clone, Debug, PartialEq)]
pub struct Acquired {
    /// Proves that the caller holds the newest attempt.
    pub token: Bytes,
    /// Rises with every grant; for a resource that refuses older ones.
    pub fence: u64,
    /// Counted from the moment the request was sent.
    pub lease: Lease,
    /// When the lease ends by the server's clock. To show, not to compare.
    pub lease_expire_time: Option<SystemTime>,
    /// The provider's idempotency key: the same for every attempt of a generation.
    pub effect_key: String,
    /// Bodies over this many bytes are not kept.
    pub result_bytes_max: u64,
    /// What a lapse of this attempt means.
    pub on_lapse: OnLapse,
    /// Why the attempt was granted.
    pub reason: GrantReason,
    /// What earlier attempts left. An instruction found here is to be sent in place of a
    /// new one.
    pub earlier: EarlierAttempts,
}

/// A result or an error as it was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Byte for byte, unless its body is omitted.
    pub content: Content,
    /// When it was first recorded, by the server's clock.
    pub time: SystemTime,
}

/// The answer to Complete, Fail and MarkPending.
#[derive(Clone, Debug, PartialEq)]
pub struct Reported {
    /// What became of the report.
    pub disposition: ReportDisposition,
    /// The record as it reads now. A Fail may have led to PENDING.
    pub record: RecordSummary,
    /// What was not kept as sent.
    pub adjusted: Vec<v1::Adjustment>,
}

/// The answer to MarkSending: the effect may begin.
#[derive(Clone, Debug, PartialEq)]
pub struct Marked {
    /// The record as it reads now.
    pub record: RecordSummary,
    /// Counted from the moment the request was sent.
    pub lease: Lease,
    /// When the lease ends by the server's clock. To show, not to compare.
    pub lease_expire_time: Option<SystemTime>,
}

/// The answer to Renew.
#[derive(Clone, Debug, PartialEq)]
pub struct Renewed {
    /// The attempt has reported its outcome: nothing is left to renew.
    pub closed: bool,
    /// The record as it reads now.
    pub record: RecordSummary,
    /// Counted from the moment the request was sent.
    pub lease: Lease,
    /// When the lease ends by the server's clock. To show, not to compare.
    pub lease_expire_time: Option<SystemTime>,
}

/// The answer to Lookup.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The record's name.
    pub name: RecordName,
    /// The record as it reads now.
    pub record: RecordSummary,
    /// Whether the intent may begin again under a new key.
    pub start_over: StartOver,
    /// How it reads.
    pub reading: Reading,
}

/// How a record reads.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// The effect took place.
    Completed(Recorded),
    /// The effect did not take place; the record's failure kind says what may follow.
    Failed(Recorded),
    /// Somebody is at it.
    Processing(Processing),
    /// It may have taken place.
    Pending(Pending),
    /// The outcome is known, its bytes are gone.
    ResultGone(ResultGone),
}

/// The answer to Resolve.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// Recorded or repeated; unspecified where it was held.
    pub disposition: ReportDisposition,
    /// The record as it reads now.
    pub record: RecordSummary,
    /// With take over: the grant. None when the attempt went on since; execute nothing.
    pub acquired: Option<Acquired>,
    /// With take over: an operator holds the operation. Nothing was written and nothing may
    /// be executed; to be repeated later.
    pub held: Option<Processing>,
    /// What was not kept as sent.
    pub adjusted: Vec<v1::Adjustment>,
}

/// `content` as it is sent: a body over `bytes_max` is replaced by its size and digest.
#[must_use]
pub fn omit_over(content: Content, bytes_max: u64) -> Content {
    match &content.body {
        Some(Body::Data(data)) if data.len() as u64 > bytes_max => {
            let omitted = OmittedBody {
                size: data.len() as u64,
                sha256: Bytes::copy_from_slice(&Sha256::digest(data)),
            };
            Content {
                body: Some(Body::Omitted(omitted)),
                ..content
            }
        }
        _ => content,
    }
}

/// Reads answers to one call.
#[derive(Clone, Copy)]
pub(crate) struct Reader(pub(crate) &'static str);

impl Reader {
    fn unknown(self, what: &'static str) -> Error {
        Error::UnknownOutcome { call: self.0, what }
    }

    pub(crate) fn reserved(
        self,
        attempt_id: AttemptId,
        asked: Option<Duration>,
        answer: Answered<v1::ReserveResponse>,
    ) -> Result<Reserved, Error> {
        use reserve_response::Outcome as Wire;
        let held = |it: &Processing| it.reason() == ProcessingReason::Held;
        let record = match (&answer.message.outcome, answer.message.record) {
            // Where nobody is granted the first attempt there is no record, and no state.
            (Some(Wire::Processing(it)), Some(record)) if held(it) => record,
            (_, record) => self.record(record)?,
        };
        let outcome = match answer.message.outcome {
            Some(Wire::Acquired(acquired)) => {
                if record.state() != State::Processing {
                    return Err(self.unknown("state"));
                }
                let times = Times {
                    sent: answer.sent,
                    first_sent: answer.first_sent,
                    asked,
                };
                Outcome::Acquired(self.acquired(acquired, times)?)
            }
            Some(Wire::Completed(it)) => {
                Outcome::Completed(self.recorded(it.result, it.record_time)?)
            }
            Some(Wire::Failed(it)) => Outcome::Failed(self.recorded(it.error, it.record_time)?),
            Some(Wire::Processing(it)) => Outcome::Processing(it),
            Some(Wire::Pending(it)) => Outcome::Pending(it),
            Some(Wire::Mismatch(it)) => Outcome::Mismatch(it),
            Some(Wire::ResultGone(it)) => Outcome::ResultGone(it),
            None => return Err(self.unknown("outcome")),
        };
        Ok(Reserved {
            attempt_id,
            record,
            start_over: start_over(answer.message.start_over),
            outcome,
        })
    }

    fn acquired(self, wire: v1::Acquired, times: Times) -> Result<Acquired, Error> {
        let on_lapse = wire.on_lapse();
        if on_lapse == OnLapse::Unspecified {
            return Err(self.unknown("on_lapse"));
        }
        let reason = wire.reason();
        if reason == GrantReason::Unspecified {
            return Err(self.unknown("grant reason"));
        }
        if wire.token.is_empty() || wire.effect_key.is_empty() {
            return Err(self.unknown("grant"));
        }
        let fence = wire.fence.parse().map_err(|_| self.unknown("fence"))?;
        let remaining = self.duration(wire.lease_remaining)?;
        // Granted again, the lease has run since the first try at the earliest.
        let length = times
            .asked
            .unwrap_or_else(|| remaining + times.sent.duration_since(times.first_sent));
        Ok(Acquired {
            token: wire.token,
            fence,
            lease: Lease::counted(times.sent, remaining, length),
            lease_expire_time: wire.lease_expire_time.and_then(time),
            effect_key: wire.effect_key,
            result_bytes_max: wire.result_bytes_max,
            on_lapse,
            reason,
            earlier: wire.earlier.unwrap_or_default(),
        })
    }

    pub(crate) fn reported(
        self,
        disposition: ReportDisposition,
        record: Option<RecordSummary>,
        adjusted: Vec<v1::Adjustment>,
    ) -> Result<Reported, Error> {
        Ok(Reported {
            disposition: self.disposition(disposition)?,
            record: self.record(record)?,
            adjusted,
        })
    }

    pub(crate) fn marked(
        self,
        asked: Option<Duration>,
        answer: Answered<v1::MarkSendingResponse>,
    ) -> Result<Marked, Error> {
        let record = self.record(answer.message.record)?;
        if record.state() != State::Processing {
            return Err(self.unknown("state"));
        }
        let remaining = self.duration(answer.message.lease_remaining)?;
        let lease = Lease::counted(answer.sent, remaining, asked.unwrap_or(remaining));
        Ok(Marked {
            record,
            lease,
            lease_expire_time: answer.message.lease_expire_time.and_then(time),
        })
    }

    pub(crate) fn renewed(self, answer: Answered<v1::RenewResponse>) -> Result<Renewed, Error> {
        // Absent, it counts as over.
        let remaining = match answer.message.lease_remaining {
            None => Duration::ZERO,
            remaining => self.duration(remaining)?,
        };
        Ok(Renewed {
            closed: answer.message.closed,
            record: self.record(answer.message.record)?,
            lease: Lease::counted(answer.sent, remaining, remaining),
            lease_expire_time: answer.message.lease_expire_time.and_then(time),
        })
    }

    pub(crate) fn found(self, answer: v1::LookupResponse) -> Result<Found, Error> {
        use lookup_response::Reading as Wire;
        let reading = match answer.reading {
            Some(Wire::Completed(it)) => {
                Reading::Completed(self.recorded(it.result, it.record_time)?)
            }
            Some(Wire::Failed(it)) => Reading::Failed(self.recorded(it.error, it.record_time)?),
            Some(Wire::Processing(it)) => Reading::Processing(it),
            Some(Wire::Pending(it)) => Reading::Pending(it),
            Some(Wire::ResultGone(it)) => Reading::ResultGone(it),
            None => return Err(self.unknown("reading")),
        };
        Ok(Found {
            name: answer.name.ok_or_else(|| self.unknown("name"))?,
            record: self.record(answer.record)?,
            start_over: start_over(answer.start_over),
            reading,
        })
    }

    pub(crate) fn resolved(
        self,
        asked: Option<Duration>,
        answer: Answered<v1::ResolveResponse>,
    ) -> Result<Resolved, Error> {
        let times = Times {
            sent: answer.sent,
            first_sent: answer.first_sent,
            asked,
        };
        let disposition = answer.message.disposition();
        let held = answer.message.processing;
        let acquired = answer.message.acquired;
        let record = self.record(answer.message.record)?;
        if acquired.is_some() && (held.is_some() || record.state() != State::Processing) {
            return Err(self.unknown("grant"));
        }
        Ok(Resolved {
            disposition: match &held {
                Some(_) => ReportDisposition::Unspecified,
                None => self.disposition(disposition)?,
            },
            record,
            acquired: acquired.map(|it| self.acquired(it, times)).transpose()?,
            held,
            adjusted: answer.message.adjusted,
        })
    }

    fn disposition(self, disposition: ReportDisposition) -> Result<ReportDisposition, Error> {
        match disposition {
            ReportDisposition::Unspecified => Err(self.unknown("disposition")),
            known => Ok(known),
        }
    }

    fn record(self, record: Option<RecordSummary>) -> Result<RecordSummary, Error> {
        match record {
            Some(record) if record.state() != State::Unspecified => Ok(record),
            Some(_) => Err(self.unknown("state")),
            None => Err(self.unknown("record")),
        }
    }

    fn recorded(
        self,
        content: Option<Content>,
        at: Option<prost_types::Timestamp>,
    ) -> Result<Recorded, Error> {
        Ok(Recorded {
            content: content.ok_or_else(|| self.unknown("content"))?,
            time: at.and_then(time).ok_or_else(|| self.unknown("time"))?,
        })
    }

    fn duration(self, duration: Option<prost_types::Duration>) -> Result<Duration, Error> {
        duration
            .and_then(|duration| Duration::try_from(duration).ok())
            .ok_or_else(|| self.unknown("lease"))
    }
}

/// When the answered try was sent, when the first one was, and the lease asked for.
#[derive(Clone, Copy)]
struct Times {
    sent: Instant,
    first_sent: Instant,
    asked: Option<Duration>,
}

fn time(timestamp: prost_types::Timestamp) -> Option<SystemTime> {
    SystemTime::try_from(timestamp).ok()
}

fn start_over(wire: i32) -> StartOver {
    match StartOver::try_from(wire) {
        Ok(StartOver::Unspecified) | Err(_) => StartOver::Unknown,
        Ok(known) => known,
    }
}
