//! References that a record has or had, filed for people who know nothing else of it.

use reprise_domain::{Record, RecordId, RecordName, Trace};
use rusqlite::{Connection, params};

use super::fault;
use crate::store::Error;

pub(super) const RESOURCE: &str = "resource";
pub(super) const PROVIDER: &str = "provider";

/// Whether something is to be filed of a record.
pub(super) fn has_any(record: &Record) -> bool {
    let of_outcome = record.outcome.as_ref().is_some_and(|outcome| {
        let content = &outcome.content;
        !content.resource_id.is_empty() || !content.provider_reference.is_empty()
    });
    of_outcome || !record.resource_id.is_empty() || !record.provider_reference.is_empty()
}

/// Files what stands in a record.
pub(super) fn file(connection: &Connection, record: &Record) -> Result<(), Error> {
    let name = &record.name;
    put(connection, name, RESOURCE, &record.resource_id)?;
    put(connection, name, PROVIDER, &record.provider_reference)?;
    let Some(outcome) = &record.outcome else {
        return Ok(());
    };
    let content = &outcome.content;
    if content.resource_id != record.resource_id {
        put(connection, name, RESOURCE, &content.resource_id)?;
    }
    if content.provider_reference != record.provider_reference {
        put(connection, name, PROVIDER, &content.provider_reference)?;
    }
    Ok(())
}

/// Files the reference that a side row keeps: the record may have another one now.
pub(super) fn file_former(
    connection: &Connection,
    name: &RecordName,
    trace: &Trace,
) -> Result<(), Error> {
    match trace {
        Trace::Replaced {
            provider_reference, ..
        }
        | Trace::History {
            provider_reference, ..
        } => put(connection, name, PROVIDER, provider_reference),
        Trace::Evidence { .. } | Trace::Audit { .. } => Ok(()),
    }
}

fn put(connection: &Connection, name: &RecordName, kind: &str, text: &str) -> Result<(), Error> {
    if text.is_empty() {
        return Ok(());
    }
    connection
        .prepare_cached(
            "insert or ignore into reference (tenant, kind, reference, record)
             values (?, ?, ?, ?)",
        )
        .and_then(|mut insert| insert.execute(params![name.tenant(), kind, text, name.id().0]))
        .map(drop)
        .map_err(fault::of_record(name.id()))
}

/// Removes those of a record.
pub(super) fn remove(connection: &Connection, id: RecordId) -> Result<(), Error> {
    connection
        .prepare_cached("delete from reference where record = ?1")
        .and_then(|mut delete| delete.execute([id.0]))
        .map(drop)
        .map_err(fault::of_record(id))
}
