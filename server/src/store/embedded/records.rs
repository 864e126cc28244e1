//! Statements on records.

use reprise_domain::{EffectKey, Record, RecordId};
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::cells::cells;
use super::{fault, row};
use crate::store::Error;

/// The record of this id.
pub(super) fn find(connection: &Connection, id: RecordId) -> Result<Option<Record>, Error> {
    let cells = connection
        .prepare_cached(&row::SELECT)
        .and_then(|mut select| select.query_row(params![id.0, id.0], cells).optional())
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

/// Writes a record.
pub(super) fn put(connection: &Connection, record: &Record) -> Result<(), Error> {
    connection
        .prepare_cached(&row::UPSERT)
        .and_then(|mut upsert| upsert.execute(params_from_iter(row::write(record))))
        .map(drop)
        .map_err(fault::of_record(record.name.id()))
}

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
