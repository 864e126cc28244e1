//! How side rows lie in their tables. One list of columns carries all kinds to and from
//! the statements, which know the tables.

use bytes::Bytes;
use reprise_domain::decide::{AuditAction, By, Ending, Reported, Trace};
use reprise_domain::record::{AttemptId, ReportKind};
use reprise_domain::{RecordName, Timestamp};

use super::column::{Blob, Code, Moment, Uuid, codes, columns};
use super::row::{Unreadable, blob, coded, fixed, text};

columns! {
    /// A side row of any kind.
    TraceRow, TraceArrays {
        kind: i16,
        id: Uuid,
        attempt: i32,
        at: Moment,
        what: Option<i16>,
        actor: Option<String>,
        note: Option<String>,
        reference: Option<String>,
        attempt_id: Option<Blob>,
        granted_at: Option<Moment>,
        bytes: Option<Blob>,
        tenant: String,
        operation: String,
        authority: Option<i16>,
    }
}

/// Kinds of side rows.
pub(super) const EVIDENCE: i16 = 1;
pub(super) const HISTORY: i16 = 2;
pub(super) const REPLACED: i16 = 3;
pub(super) const AUDIT: i16 = 4;

codes! {
    Ending { Lapsed = 1, FailedRetryable = 2, GivenBack = 3, Resolved = 4 }
    AuditAction {
        TakenOver = 1,
        Contradicted = 2,
        ContradictsResolution = 3,
        ResolvedApplied = 4,
        ResolvedNotApplied = 5,
        ResolvedTakeOver = 6,
        ResolvedFailed = 7,
        ResolvedStillUnknown = 8,
        ContradictsReport = 9,
        Forgotten = 10,
    }
    By { Caller = 1, Claim = 2, Operator = 3 }
}

/// An outcome's number, or the next one for MarkPending.
pub(super) const REPORTED_PENDING: i16 = 4;

impl TraceRow {
    fn empty(kind: i16, name: &RecordName, attempt: u32, at: Timestamp) -> Self {
        Self {
            kind,
            id: Uuid::of(&name.id()),
            attempt: attempt.cast_signed(),
            at: Moment(at),
            what: None,
            actor: None,
            note: None,
            reference: None,
            attempt_id: None,
            granted_at: None,
            bytes: None,
            tenant: name.tenant().to_owned(),
            operation: name.operation().to_owned(),
            authority: None,
        }
    }

    /// The side row of a record.
    pub(super) fn of(name: &RecordName, trace: &Trace) -> Self {
        match trace {
            Trace::Evidence {
                attempt,
                reported,
                code,
                digest,
                at,
            } => Self {
                what: Some(match reported {
                    Reported::Outcome(kind) => kind.code(),
                    Reported::Pending => REPORTED_PENDING,
                }),
                note: text(code),
                bytes: Some(Blob::copy(digest)),
                ..Self::empty(EVIDENCE, name, *attempt, *at)
            },
            Trace::History {
                attempt,
                attempt_id,
                owner,
                granted_at,
                ended_at,
                ending,
                code,
                provider_reference,
            } => Self {
                what: Some(ending.code()),
                actor: text(owner),
                note: text(code),
                reference: text(provider_reference),
                attempt_id: Some(Blob::copy(&attempt_id.0)),
                granted_at: Some(Moment(*granted_at)),
                ..Self::empty(HISTORY, name, *attempt, *ended_at)
            },
            Trace::Replaced {
                attempt,
                provider_reference,
                instruction,
                at,
            } => Self {
                reference: text(provider_reference),
                bytes: blob(instruction),
                ..Self::empty(REPLACED, name, *attempt, *at)
            },
            Trace::Audit {
                attempt,
                action,
                by,
                actor,
                evidence,
                at,
            } => Self {
                what: Some(action.code()),
                actor: text(actor),
                note: text(evidence),
                // People are told the whole id.
                bytes: Some(Blob::copy(&name.id().0[16..])),
                authority: Some(by.code()),
                ..Self::empty(AUDIT, name, *attempt, *at)
            },
        }
    }
}

impl TryFrom<TraceRow> for Trace {
    type Error = Unreadable;

    fn try_from(row: TraceRow) -> Result<Self, Unreadable> {
        let what = row.what.unwrap_or(0);
        let (attempt, at) = (row.attempt.cast_unsigned(), row.at.0);
        let (actor, note) = (row.actor.unwrap_or_default(), row.note.unwrap_or_default());
        let provider_reference = row.reference.unwrap_or_default();
        let bytes = row.bytes.unwrap_or_default();
        Ok(match row.kind {
            EVIDENCE => Self::Evidence {
                attempt,
                reported: if what == REPORTED_PENDING {
                    Reported::Pending
                } else {
                    Reported::Outcome(coded::<ReportKind>("reported", what)?)
                },
                code: note,
                digest: fixed("digest", &bytes)?,
                at,
            },
            HISTORY => Self::History {
                attempt,
                attempt_id: AttemptId(fixed("attempt_id", &row.attempt_id.unwrap_or_default())?),
                owner: actor,
                granted_at: row.granted_at.ok_or(Unreadable::Column("granted_at"))?.0,
                ended_at: at,
                ending: coded("ending", what)?,
                code: note,
                provider_reference,
            },
            REPLACED => Self::Replaced {
                attempt,
                provider_reference,
                instruction: Bytes::clone(&bytes.0),
                at,
            },
            AUDIT => Self::Audit {
                attempt,
                action: coded("action", what)?,
                by: coded("authority", row.authority.unwrap_or(0))?,
                actor,
                evidence: note,
                at,
            },
            _ => return Err(Unreadable::Column("kind")),
        })
    }
}
