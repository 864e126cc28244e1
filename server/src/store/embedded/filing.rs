//! What is filed of a record beside its row: that somebody looks at it later, when it is
//! removed, how people find it. By the walk; and after it by what changes a record that the
//! walk does not come to again. Who reserves and completes in time pays nothing for it.

use reprise_domain::record::State;
use reprise_domain::{Record, Timestamp, Work};
use rusqlite::Connection;

use super::row::Lean;
use super::{references, removal, worklist};
use crate::store::Error;
use crate::store::queue::Folded;

/// Files a record that the walk visits.
pub(super) fn visit(connection: &Connection, lean: &Lean, now: Timestamp) -> Result<(), Error> {
    let record = &lean.record;
    references::file(connection, record)?;
    if record.is_closed() {
        return removal::file(connection, record, lean.bytes.is_some(), now);
    }
    let at = match record.state {
        State::Processing => record.attempt.lease_end,
        _ => now,
    };
    worklist::add(connection, &record.name, Work::Look { at })
}

/// Whether only ends of retention are to be filed of a record. What it becomes after that is
/// filed by what changes it, or visited again.
pub(super) fn is_plain(record: &Record) -> bool {
    record.is_closed() && !references::has_any(record)
}

/// Whether the walk, or the look that it puts on the worklist, would miss or find late what
/// was decided.
pub(super) fn is_due(found: Option<&Record>, folded: &Folded, now: Timestamp) -> bool {
    let looked_at_later = found
        .is_none_or(|before| before.state == State::Processing && now < before.attempt.lease_end);
    let changed_late = folded.change.is_some() && !looked_at_later;
    folded.work.is_some() || changed_late
}

/// Files what the walk would miss or find late.
pub(super) fn after_a_write(
    connection: &Connection,
    found: Option<&Record>,
    folded: &Folded,
    now: Timestamp,
) -> Result<(), Error> {
    let Some(record) = folded.change.as_deref().or(found) else {
        return Ok(());
    };
    if !is_due(found, folded, now) {
        return Ok(());
    }
    references::file(connection, record)?;
    if !record.is_closed() {
        return Ok(());
    }
    removal::file(connection, record, record.loses_bytes(), now)
}
