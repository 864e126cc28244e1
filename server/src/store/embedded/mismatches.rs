//! Repeats with another payload: counted, and bounded.

use reprise_domain::{RecordId, Timestamp};
use reprise_fingerprint::{Fingerprint, RuleId};
use rusqlite::{Connection, params};

use super::cells::{Reader, cells};
use super::fault;
use crate::store::{Error, MISMATCHES_MAX, SeenMismatch};

/// Counts what was seen. What is known of a record that was removed meanwhile is dropped.
pub(super) fn note(
    connection: &Connection,
    seen: &[(RecordId, Fingerprint, u64)],
    now: Timestamp,
) -> Result<(), Error> {
    for (id, fingerprint, count) in seen {
        let Fingerprint {
            scheme,
            rule,
            digest,
        } = fingerprint;
        connection
            .prepare_cached(
                "insert into mismatch (record, scheme, rule, digest, count, first_at, last_at)
                 select ?1, ?2, ?3, ?4, ?5, ?6, ?6
                 where exists (select 1 from records where id = ?1)
                     and ((select count(*) from mismatch where record = ?1) < ?7
                         or exists (select 1 from mismatch where record = ?1 and scheme = ?2
                             and rule = ?3 and digest = ?4))
                 on conflict (record, scheme, rule, digest) do update
                     set count = count + excluded.count, last_at = excluded.last_at",
            )
            .and_then(|mut upsert| {
                upsert.execute(params![
                    id.0,
                    scheme.as_str(),
                    rule.as_str(),
                    digest,
                    i64::try_from(*count).unwrap_or(i64::MAX),
                    now.0,
                    MISMATCHES_MAX as i64
                ])
            })
            .map_err(fault::of_record(*id))?;
    }
    Ok(())
}

/// What was counted for a record, oldest first.
pub(super) fn of(connection: &Connection, id: RecordId) -> Result<Vec<SeenMismatch>, Error> {
    let mut select = connection
        .prepare_cached(
            "select scheme, rule, digest, count, first_at, last_at
             from mismatch where record = ?1 order by seq",
        )
        .map_err(fault::of_record(id))?;
    let rows = select
        .query_map([id.0], cells)
        .map_err(fault::of_record(id))?;
    rows.map(|cells| {
        let row = Reader::plain(cells.map_err(fault::of_record(id))?);
        read(row).ok_or(Error::Damaged(id))
    })
    .collect()
}

fn read(mut row: Reader) -> Option<SeenMismatch> {
    Some(SeenMismatch {
        fingerprint: Fingerprint {
            scheme: row.text()?.parse().ok()?,
            rule: RuleId::try_from(row.text()?).ok()?,
            digest: row.array()?,
        },
        count: row.count()?,
        first_at: row.time()?,
        last_at: row.time()?,
    })
}

/// Removes those of a record.
pub(super) fn remove(connection: &Connection, id: RecordId) -> Result<(), Error> {
    connection
        .prepare_cached("delete from mismatch where record = ?1")
        .and_then(|mut delete| delete.execute([id.0]))
        .map(drop)
        .map_err(fault::of_record(id))
}
