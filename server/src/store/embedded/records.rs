//! Statements on records.

use std::sync::LazyLock;

use reprise_domain::{EffectKey, Record, RecordId};
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::cells::cells;
use super::fault;
use super::row::{self, Lean};
use crate::store::Error;

/// The record of this id.
pub(super) fn find(connection: &Connection, id: RecordId) -> Result<Option<Record>, Error> {
    let cells = connection
        .prepare_cached(&row::SELECT)
        .and_then(|mut select| select.query_row([id.0], cells).optional())
        .map_err(fault::of_record(id))?;
    cells
        .map(|cells| row::read(cells).ok_or(Error::Damaged(id)))
        .transpose()
}

/// The record that an effect key of any of its generations leads back to.
pub(super) fn find_by_effect_key(
    connection: &Connection,
    key: EffectKey,
) -> Result<Option<Record>, Error> {
    let (first, last) = key.range();
    let ids = connection
        .prepare_cached("select id from records where id between ?1 and ?2 order by id")
        .and_then(|mut select| {
            let ids = select.query_map(params![first.0, last.0], |row| row.get(0))?;
            ids.collect::<rusqlite::Result<Vec<[u8; 32]>>>()
        })
        .map_err(fault::general)?;
    for id in ids {
        let record = find(connection, RecordId(id))?;
        if let Some(record) = record
            && key.belongs_to(&record.name.id(), record.generation)
        {
            return Ok(Some(record));
        }
    }
    Ok(None)
}

/// The record of this id, without headers and body.
pub(super) fn find_lean(connection: &Connection, id: RecordId) -> Result<Option<Lean>, Error> {
    let cells = connection
        .prepare_cached(&SELECT_LEAN)
        .and_then(|mut select| select.query_row([id.0], cells).optional())
        .map_err(fault::of_record(id))?;
    cells
        .map(|cells| row::read_lean(cells).ok_or(Error::Damaged(id)))
        .transpose()
}

/// Writes a record in place of the one that stands there.
pub(super) fn put(
    connection: &Connection,
    before: Option<&Record>,
    record: &Record,
) -> Result<(), Error> {
    let granted = |record: &Record| (record.created_at, record.attempt.granted_at);
    let statement = match before {
        None => &row::INSERT,
        Some(before) if granted(before) == granted(record) => &row::UPDATE_ATTEMPT,
        Some(_) => &row::UPDATE,
    };
    let written = connection
        .prepare_cached(statement)
        .and_then(|mut put| put.execute(params_from_iter(row::write(record))))
        .map_err(fault::of_record(record.name.id()))?;
    match written {
        1 => Ok(()),
        _ => Err(Error::internal(Gone)),
    }
}

/// Removes a record; its side rows are for others to remove.
pub(super) fn remove(connection: &Connection, id: RecordId) -> Result<(), Error> {
    connection
        .prepare_cached("delete from records where id = ?1")
        .and_then(|mut delete| delete.execute([id.0]))
        .map(drop)
        .map_err(fault::of_record(id))
}

/// Somebody else changes the file.
#[derive(Debug, thiserror::Error)]
#[error("a record that was read is not there to be written")]
struct Gone;

static SELECT_LEAN: LazyLock<String> =
    LazyLock::new(|| format!("select {} from records where id = ?1", *row::LEAN));

/// The revisions of those of `ids` that exist. Rows are not read whole, so a damaged one
/// is only noticed by who reads the record then.
pub(super) fn revisions(
    connection: &Connection,
    ids: &[RecordId],
) -> Result<Vec<(RecordId, u64)>, Error> {
    let mut select = connection
        .prepare_cached("select revision from records where id = ?1")
        .map_err(fault::general)?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let revision: Option<i64> = select
            .query_row([id.0], |row| row.get(0))
            .optional()
            .map_err(fault::of_record(*id))?;
        found.extend(revision.map(|revision| (*id, revision.cast_unsigned())));
    }
    Ok(found)
}
