//! What a worker tells its owner: for counters and logs, never for decisions.

use std::time::Duration;

use reprise_proto::v1::RecordName;

use crate::ending::Ran;
use crate::error::{ClaimOver, Error};
use crate::outcome::Resolved;

/// Something that a worker did or met.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Records were claimed.
    Claimed {
        /// How many.
        count: usize,
    },
    /// No records could be claimed; it is tried again.
    NotClaimed {
        /// Why.
        error: &'a Error,
    },
    /// A finding is on record.
    Resolved {
        /// Of which record.
        record: &'a RecordName,
        /// The answer: how the record reads now, and whether it was known before.
        resolved: &'a Resolved,
    },
    /// A record stays pending.
    StillUnknown {
        /// Which.
        record: &'a RecordName,
        /// Why.
        why: Why<'a>,
        /// When it is due again.
        check_after: Duration,
    },
    /// A claim is over: a report, another claim or an operator was faster. Nothing more
    /// comes of it, but that a finding [`Applied`](crate::Finding::Applied) is still told.
    ClaimOver {
        /// Whose.
        record: &'a RecordName,
        /// How the record reads now.
        over: ClaimOver,
    },
    /// An effect that was taken over has ended.
    CarriedOut {
        /// Of which record.
        record: &'a RecordName,
        /// What it came to, as [`Client::run`](crate::Client::run) answers it.
        ran: &'a Result<Ran, Error>,
    },
    /// A finding could not be recorded. The claim's lease runs out, and the record is due
    /// again.
    NotResolved {
        /// Of which record.
        record: &'a RecordName,
        /// Why.
        error: &'a Error,
    },
    /// A claim was given back without having been worked on, since the worker stops.
    Released {
        /// Whose.
        record: &'a RecordName,
    },
}

impl Event<'_> {
    /// One line, without anything that callers stored.
    pub(super) fn log(&self) {
        match self {
            Event::Claimed { count } => tracing::debug!(count, "records claimed"),
            Event::NotClaimed { error } => tracing::warn!(%error, "no records could be claimed"),
            Event::Resolved { record, resolved } => {
                let state = resolved.record.state().as_str_name();
                tracing::info!(operation = record.operation, state, "record resolved");
            }
            Event::StillUnknown {
                record,
                check_after,
                ..
            } => {
                tracing::debug!(operation = record.operation, ?check_after, "still unknown");
            }
            Event::ClaimOver { record, over } => {
                tracing::info!(operation = record.operation, ?over, "a claim is over");
            }
            Event::CarriedOut { record, ran } => {
                let failed = ran.as_ref().err().map(tracing::field::display);
                tracing::info!(
                    operation = record.operation,
                    failed,
                    "taken over and carried out"
                );
            }
            Event::NotResolved { record, error } => {
                tracing::warn!(operation = record.operation, %error, "a finding is not on record");
            }
            Event::Released { record } => {
                tracing::debug!(operation = record.operation, "a claim is given back");
            }
        }
    }
}

/// Why a record stays pending.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Why<'a> {
    /// The function said so.
    Said,
    /// The function ended in an error or a panic.
    Failed(&'a str),
    /// It is too early, or too late, to say that the effect did not take place.
    MayNotDeny,
    /// An operator holds the operation: nothing may be taken over.
    Held,
    /// The finding itself was refused, e.g. for a field.
    Refused(&'a Error),
}
