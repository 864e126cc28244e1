//! The walk over grants: each is visited once, soon after it, so that the grant itself
//! need not be filed anywhere.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use reprise_domain::time::micros;
use reprise_domain::{RecordId, Timestamp};
use rusqlite::{Connection, params};

use super::cells::{Reader, cells};
use super::row::{self, Lean};
use super::{fault, filing, records, removal};
use crate::store::{Error, Walked};

/// How far the walk stays behind the clock: what completes meanwhile is never put on the
/// worklist.
const BEHIND: Duration = Duration::from_secs(2);
/// Grants of one step.
const STEP: usize = 500;

/// A place in the order of grants.
pub(super) type Place = (Timestamp, Vec<u8>);

/// What a step visits, as it stood at one moment.
pub(super) struct Seen {
    records: Vec<Granted>,
    /// Through which place all grants are in it.
    reached: Place,
    more: bool,
}

/// Reads what the next step visits, on a connection that holds up nobody. By the moment `now`
/// all that was granted before it is committed.
pub(super) fn look(connection: &Connection, now: Timestamp) -> Result<Seen, Error> {
    let end = Timestamp(now.0 - micros(BEHIND));
    let through = (Timestamp(end.0 + 1), Vec::new());
    let mut from = place(connection)?;
    if from > through {
        // The clock is behind the walk: all that is granted by it is to be visited as well.
        from = (end, Vec::new());
    }
    let records = granted(connection, &from, &through, STEP)?;
    let more = records.len() == STEP;
    let reached = match records.last() {
        Some(last) if more => (last.granted_at, last.id.0.to_vec()),
        _ => through,
    };
    Ok(Seen {
        records,
        reached,
        more,
    })
}

/// Files what was seen; answers too before which moment all grants were visited.
pub(super) fn file(
    connection: &Connection,
    seen: Seen,
    now: Timestamp,
) -> Result<(Walked, Timestamp), Error> {
    let visited = seen.records.len();
    let mut ends = BTreeSet::new();
    for found in seen.records {
        match found.lean {
            Ok(lean) if filing::is_plain(&lean.record) => {
                ends.extend(removal::ends(&lean.record, lean.bytes.is_some(), now));
            }
            // It may have become another one meanwhile.
            Ok(_) => match records::find_lean(connection, found.id) {
                Ok(Some(lean)) => filing::visit(connection, &lean, now)?,
                Ok(None) => {}
                Err(damaged @ Error::Damaged(_)) => not_visited(&damaged),
                Err(error) => return Err(error),
            },
            Err(damaged) => not_visited(&damaged),
        }
    }
    removal::schedule(connection, ends)?;
    if visited > 0 {
        let (at, id) = &seen.reached;
        connection
            .prepare_cached("update meta set walked_at = ?1, walked_id = ?2")
            .and_then(|mut update| update.execute(params![at.0, id]))
            .map_err(fault::general)?;
    }
    let walked = Walked {
        visited: visited as u64,
        more: seen.more,
    };
    Ok((walked, seen.reached.0))
}

/// Whoever reads the record is told; the walk must not stand still for it.
fn not_visited(damaged: &Error) {
    tracing::error!(error = %damaged, "not visited by the walk");
}

/// Where the walk stands, as far as it was written.
pub(super) fn place(connection: &Connection) -> Result<Place, Error> {
    connection
        .query_row("select walked_at, walked_id from meta", [], |row| {
            Ok((Timestamp(row.get(0)?), row.get(1)?))
        })
        .map_err(fault::general)
}

/// A record on the way.
pub(super) struct Granted {
    pub(super) granted_at: Timestamp,
    pub(super) id: RecordId,
    pub(super) lean: Result<Lean, Error>,
}

pub(super) static GRANTED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "select granted_at, id, {} from records
         where (granted_at, id) > (?1, ?2) and (granted_at, id) < (?3, ?4)
         order by granted_at, id limit ?5",
        *row::LEAN
    )
});

/// The first `max` records between two places, in order of their newest grant.
pub(super) fn granted(
    connection: &Connection,
    after: &Place,
    before: &Place,
    max: usize,
) -> Result<Vec<Granted>, Error> {
    let mut select = connection
        .prepare_cached(&GRANTED)
        .map_err(fault::general)?;
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let rows = select
        .query_map(
            params![after.0.0, after.1, before.0.0, before.1, max],
            cells,
        )
        .map_err(fault::general)?;
    rows.map(|cells| {
        let mut columns = cells.map_err(fault::general)?;
        let lean = columns.split_off(2);
        let mut place = Reader::plain(columns);
        let (Some(granted_at), Some(id)) = (place.time(), place.array().map(RecordId)) else {
            return Err(Error::internal("an index over grants is damaged"));
        };
        Ok(Granted {
            granted_at,
            id,
            lean: row::read_lean(lean).ok_or(Error::Damaged(id)),
        })
    })
    .collect()
}
