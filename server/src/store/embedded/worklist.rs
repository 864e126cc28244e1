//! The worklist: records that somebody has to look at later. It holds what `decide` said
//! about them, and no rule.

use std::sync::LazyLock;
use std::time::Duration;

use reprise_domain::record::{ClaimId, PendingReason};
use reprise_domain::{RecordId, RecordName, Timestamp, Work};
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use super::cells::{Reader, Writer, cells};
use super::{fault, row};
use crate::store::{Error, PendingCount, PendingPage, PendingQuery};

/// How long a record that the server is to look at is not named again.
const PUT_OFF: Duration = Duration::from_secs(3);

/// A row that is not what was written.
#[derive(Debug, thiserror::Error)]
#[error("an entry of the worklist is damaged")]
struct Damaged;

/// Puts a record's entry in place of the one that it has, or takes it off.
pub(super) fn put(connection: &Connection, name: &RecordName, work: Work) -> Result<(), Error> {
    let id = name.id();
    if work == Work::Close {
        return remove(connection, id);
    }
    write(connection, name, work, true).map_err(fault::of_record(id))
}

/// As [`put`], but an entry that is there stays.
pub(super) fn add(connection: &Connection, name: &RecordName, work: Work) -> Result<(), Error> {
    write(connection, name, work, false).map_err(fault::of_record(name.id()))
}

/// Takes a record off the list.
pub(super) fn remove(connection: &Connection, id: RecordId) -> Result<(), Error> {
    connection
        .prepare_cached("delete from worklist where record = ?1")
        .and_then(|mut delete| delete.execute([id.0]))
        .map(drop)
        .map_err(fault::of_record(id))
}

fn write(
    connection: &Connection,
    name: &RecordName,
    work: Work,
    replace: bool,
) -> rusqlite::Result<()> {
    let mut row = Writer::default();
    row.bytes(name.id().0);
    row.text(name.tenant());
    row.text(name.operation());
    match work {
        Work::Close => return Ok(()),
        Work::Look { at } => {
            row.text("look");
            row.time(at);
            row.nulls(4);
        }
        Work::FindOut {
            due,
            since,
            reason,
            claim,
        } => {
            row.text("find_out");
            row.time(due);
            row.time(since);
            row.word(&reason);
            row.maybe(claim.map(|(id, _)| id.0), Writer::bytes);
            row.maybe(claim.map(|(_, until)| until), Writer::time);
        }
    }
    let statement = if replace {
        "insert or replace into worklist (record, tenant, operation, kind, due, since, reason,
             claim_id, claimed_until)
         values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    } else {
        "insert or ignore into worklist (record, tenant, operation, kind, due, since, reason,
             claim_id, claimed_until)
         values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    };
    let mut insert = connection.prepare_cached(statement)?;
    insert.execute(params_from_iter(row.plain())).map(drop)
}

/// Names of records that the server is to look at now, the longest due first. They are put
/// off, so that the next call answers others.
pub(super) fn to_look_at(
    connection: &Connection,
    max: usize,
    now: Timestamp,
) -> Result<Vec<RecordName>, Error> {
    let mut select = connection
        .prepare_cached(
            "select w.record, r.tenant, r.operation, r.subject, r.key
             from worklist w cross join records r on r.id = w.record
             where w.kind = 'look' and w.due <= ?1 order by w.due limit ?2",
        )
        .map_err(fault::general)?;
    let rows = select
        .query_map(params![now.0, limit(max)], cells)
        .map_err(fault::general)?;
    let rows = rows
        .collect::<rusqlite::Result<Vec<_>>>()
        .map_err(fault::general)?;
    let mut names = Vec::with_capacity(rows.len());
    let mut put_off = connection
        .prepare_cached("update worklist set due = ?2 where record = ?1")
        .map_err(fault::general)?;
    for cells in rows {
        let mut row = Reader::plain(cells);
        let id = row.array().ok_or_else(|| Error::internal(Damaged))?;
        put_off
            .execute(params![id, now.after(PUT_OFF).0])
            .map_err(fault::general)?;
        match name(&mut row).filter(|name| name.id().0 == id) {
            Some(name) => names.push(name),
            None => tracing::error!(error = %Error::Damaged(RecordId(id)), "not looked at"),
        }
    }
    Ok(names)
}

/// Names of records whose entry names a call for claims.
pub(super) fn claimed(
    connection: &Connection,
    tenant: &str,
    claim: ClaimId,
) -> Result<Vec<RecordName>, Error> {
    let mut select = connection
        .prepare_cached(
            "select r.tenant, r.operation, r.subject, r.key
             from worklist w cross join records r on r.id = w.record
             where w.tenant = ?1 and w.claim_id = ?2 order by w.record",
        )
        .map_err(fault::general)?;
    let rows = select
        .query_map(params![tenant, claim.0], cells)
        .map_err(fault::general)?;
    rows.map(|cells| {
        name(&mut Reader::plain(cells.map_err(fault::general)?))
            .ok_or_else(|| Error::internal(Damaged))
    })
    .collect()
}

pub(super) static PENDING: LazyLock<String> = LazyLock::new(|| {
    // The list leads, in its order: its entries are few, records are many.
    format!(
        "select due, record, {}
         from (select due, record from worklist
               where kind = 'find_out' and tenant = ?1 and (due, record) > (?2, ?3)
                   and due <= ?5 and (?4 = '' or operation = ?4)
                   and (claimed_until is null or claimed_until <= ?5))
             cross join records on id = record
         order by due, record",
        *row::LEAN
    )
});

/// A page of what a tenant is to find out about.
pub(super) fn pending(
    connection: &Connection,
    query: &PendingQuery,
    now: Timestamp,
) -> Result<PendingPage, Error> {
    let (after, after_id) = match query.after {
        Some((due, id)) => (due.0, id.0.to_vec()),
        None => (i64::MIN, Vec::new()),
    };
    // By what moment an entry is due, and its claim over.
    let by = if query.only_due { now.0 } else { i64::MAX };
    let mut select = connection
        .prepare_cached(&PENDING)
        .map_err(fault::general)?;
    let mut rows = select
        .query(params![query.tenant, after, after_id, query.operation, by])
        .map_err(fault::general)?;
    let (mut entries, mut last) = (Vec::new(), None);
    while entries.len() < query.max
        && let Some(found) = rows.next().map_err(fault::general)?
    {
        let mut columns = cells(found).map_err(fault::general)?;
        let lean = columns.split_off(2);
        let mut entry = Reader::plain(columns);
        let place = (entry.time(), entry.array());
        let (Some(due), Some(id)) = place else {
            return Err(Error::internal(Damaged));
        };
        last = Some((due, RecordId(id)));
        // One that is damaged must not keep people from all others.
        match row::read_lean(lean) {
            Some(lean) => entries.push((due, lean.record)),
            None => tracing::error!(error = %Error::Damaged(RecordId(id)), "not listed"),
        }
    }
    let next = last.filter(|_| entries.len() >= query.max);
    Ok(PendingPage { now, entries, next })
}

/// Counts what a tenant is to find out about.
pub(super) fn count(
    connection: &Connection,
    tenant: &str,
    operation: &str,
    now: Timestamp,
) -> Result<Vec<PendingCount>, Error> {
    let mut select = connection
        .prepare_cached(
            "select operation, reason, count(*),
                 sum(due <= ?3 and ifnull(claimed_until, ?3) <= ?3),
                 sum(ifnull(claimed_until, ?3) > ?3), min(since)
             from worklist
             where kind = 'find_out' and tenant = ?1 and (?2 = '' or operation = ?2)
             group by operation, reason",
        )
        .map_err(fault::general)?;
    let rows = select
        .query_map(params![tenant, operation, now.0], cells)
        .map_err(fault::general)?;
    let mut counts = rows
        .map(|cells| {
            read_count(cells.map_err(fault::general)?).ok_or_else(|| Error::internal(Damaged))
        })
        .collect::<Result<Vec<_>, _>>()?;
    counts.sort_by(|one, other| {
        let key = |count: &PendingCount| count.reason as u8;
        (&one.operation, key(one)).cmp(&(&other.operation, key(other)))
    });
    Ok(counts)
}

fn read_count(cells: Vec<Value>) -> Option<PendingCount> {
    let mut row = Reader::plain(cells);
    Some(PendingCount {
        operation: row.text()?,
        reason: row.word::<PendingReason>()?,
        total: row.count()?,
        due: row.count()?,
        claimed: row.count()?,
        oldest: row.time()?,
    })
}

/// Counts all entries, up to `max`.
pub(super) fn open(connection: &Connection, max: u64) -> Result<u64, Error> {
    connection
        .prepare_cached("select count(*) from (select 1 from worklist limit ?1)")
        .and_then(|mut select| {
            select.query_row([i64::try_from(max).unwrap_or(i64::MAX)], |row| row.get(0))
        })
        .map(i64::cast_unsigned)
        .map_err(fault::general)
}

fn name(row: &mut Reader) -> Option<RecordName> {
    RecordName::new(row.text()?, row.text()?, row.text()?, row.text()?).ok()
}

fn limit(max: usize) -> i64 {
    i64::try_from(max).unwrap_or(i64::MAX)
}
