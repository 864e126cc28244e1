//! Removal of what is over: headers and bodies, then whole records, then audit rows.
//!
//! A schedule of windows says when something that was granted in them ends; a window that
//! is due is gone through in small steps, and each record is judged as it stands then.

use std::time::Duration;

use reprise_domain::time::micros;
use reprise_domain::{Record, RecordId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::walk::{self, Granted, Place};
use super::{fault, mismatches, records, references, traces, worklist};
use crate::store::{AUDIT_RETENTION, Error, Removed};

/// Records of one step that are looked at.
const STEP: usize = 500;
/// Records of one step that are changed.
const CHANGES_MAX: u64 = 100;
/// Bytes of headers and bodies of one step.
const BYTES_MAX: u64 = 1 << 20;
/// Audit rows of one step.
const AUDIT_STEP: i64 = 500;
/// Ends are rounded by their period divided by this.
const GRAINS: i64 = 64;
const GRAIN_MIN: Duration = Duration::from_secs(1);
const WINDOW_MAX: Duration = Duration::from_hours(1);

/// Where something ends that was granted within a window: when that is due, and the window.
pub(super) type End = (i64, i64, i64);

/// Puts the ends of a closed record on the schedule.
pub(super) fn file(
    connection: &Connection,
    record: &Record,
    has_bytes: bool,
    now: Timestamp,
) -> Result<(), Error> {
    schedule(connection, ends(record, has_bytes, now))
}

/// The ends of a closed record. Many records have the same ones.
pub(super) fn ends(record: &Record, has_bytes: bool, now: Timestamp) -> impl Iterator<Item = End> {
    let granted_at = record.attempt.granted_at;
    let ends = record.outcome.as_ref().map(move |outcome| {
        let of_bytes = has_bytes.then_some(outcome.result_until);
        let ends = of_bytes.into_iter().chain([outcome.memory_until]);
        ends.map(move |end| end_of(granted_at, outcome.recorded_at, end, now))
    });
    ends.into_iter().flatten()
}

fn end_of(granted_at: Timestamp, recorded_at: Timestamp, end: Timestamp, now: Timestamp) -> End {
    let period = end.0.saturating_sub(recorded_at.0);
    let grain = (period / GRAINS).max(micros(GRAIN_MIN));
    // Later than now: the window that is being gone through may have passed the record.
    let due = round_up(end.0.max(now.0 + 1), grain);
    // Short memories have many ends; their windows are narrow, so that a record is not
    // looked at for each of them.
    let window = grain.min(micros(WINDOW_MAX));
    let from = granted_at.0.div_euclid(window) * window;
    (due, from, from + window)
}

/// Puts ends on the schedule.
pub(super) fn schedule(
    connection: &Connection,
    ends: impl IntoIterator<Item = End>,
) -> Result<(), Error> {
    for (due, from, before) in ends {
        connection
            .prepare_cached(
                "insert or ignore into removal
                     (due, granted_from, granted_before, walked_at, walked_id)
                 values (?1, ?2, ?3, ?2, x'')",
            )
            .and_then(|mut insert| insert.execute(params![due, from, before]))
            .map_err(fault::general)?;
    }
    Ok(())
}

fn round_up(moment: i64, grain: i64) -> i64 {
    let over = moment.rem_euclid(grain);
    match over {
        0 => moment,
        _ => moment.saturating_add(grain - over),
    }
}

/// A window of the schedule, and how far it was gone through.
struct Window {
    due: i64,
    from: i64,
    before: i64,
    walked: Place,
}

/// One step.
pub(super) fn step(connection: &Connection, now: Timestamp) -> Result<Removed, Error> {
    let mut removed = Removed::default();
    if let Some(window) = oldest_due(connection, now)? {
        go_through(connection, &window, &mut removed, now)?;
        removed.more = oldest_due(connection, now)?.is_some();
    }
    removed.more |= remove_audit(connection, now)?;
    Ok(removed)
}

/// When the oldest window is due.
pub(super) fn oldest(connection: &Connection) -> Result<Option<Timestamp>, Error> {
    connection
        .query_row("select min(due) from removal", [], |row| row.get(0))
        .map(|due: Option<i64>| due.map(Timestamp))
        .map_err(fault::general)
}

fn oldest_due(connection: &Connection, now: Timestamp) -> Result<Option<Window>, Error> {
    connection
        .prepare_cached(
            "select due, granted_from, granted_before, walked_at, walked_id from removal
             where due <= ?1 order by due, granted_from, granted_before limit 1",
        )
        .and_then(|mut select| {
            select
                .query_row([now.0], |row| {
                    Ok(Window {
                        due: row.get(0)?,
                        from: row.get(1)?,
                        before: row.get(2)?,
                        walked: (Timestamp(row.get(3)?), row.get(4)?),
                    })
                })
                .optional()
        })
        .map_err(fault::general)
}

fn go_through(
    connection: &Connection,
    window: &Window,
    removed: &mut Removed,
    now: Timestamp,
) -> Result<(), Error> {
    let end = (Timestamp(window.before), Vec::new());
    let found = walk::granted(connection, &window.walked, &end, STEP)?;
    let all = found.len() < STEP;
    let mut bytes = 0;
    let mut stopped = None;
    let mut last = None;
    for granted in found {
        if removed.bodies + removed.records >= CHANGES_MAX || bytes >= BYTES_MAX {
            stopped = last.clone();
            break;
        }
        last = Some((granted.granted_at, granted.id.0.to_vec()));
        bytes += judge(connection, granted, removed, now)?;
    }
    let key = params![window.due, window.from, window.before];
    let go_on = match stopped {
        Some(place) => Some(place),
        None if all => None,
        None => last,
    };
    match go_on {
        None => connection
            .prepare_cached(
                "delete from removal
                 where due = ?1 and granted_from = ?2 and granted_before = ?3",
            )
            .and_then(|mut delete| delete.execute(key)),
        Some((at, id)) => connection
            .prepare_cached(
                "update removal set walked_at = ?4, walked_id = ?5
                 where due = ?1 and granted_from = ?2 and granted_before = ?3",
            )
            .and_then(|mut update| {
                update.execute(params![window.due, window.from, window.before, at.0, id])
            }),
    }
    .map(drop)
    .map_err(fault::general)
}

/// Removes of a record what is over; answers how many bytes of headers and body that was.
fn judge(
    connection: &Connection,
    granted: Granted,
    removed: &mut Removed,
    now: Timestamp,
) -> Result<u64, Error> {
    let lean = match granted.lean {
        Ok(lean) => lean,
        // What cannot be read cannot be judged: it may be uncertain.
        Err(damaged) => {
            tracing::error!(error = %damaged, "not removed");
            return Ok(0);
        }
    };
    let (record, bytes) = (&lean.record, lean.bytes);
    let Some(outcome) = &record.outcome else {
        return Ok(0);
    };
    if !record.is_closed() {
        return Ok(0);
    }
    if now >= outcome.memory_until {
        forget(connection, record)?;
        removed.records += 1;
        return Ok(bytes.unwrap_or(0));
    }
    if now >= outcome.result_until
        && let Some(bytes) = bytes
    {
        removed.bodies += strip(connection, record)?;
        return Ok(bytes);
    }
    Ok(0)
}

fn forget(connection: &Connection, record: &Record) -> Result<(), Error> {
    let id = record.name.id();
    records::remove(connection, id)?;
    forget_side_rows(connection, id)
}

/// Removes what stands beside a record whose memory is over, but not what people did.
pub(super) fn forget_side_rows(connection: &Connection, id: RecordId) -> Result<(), Error> {
    worklist::remove(connection, id)?;
    references::remove(connection, id)?;
    mismatches::remove(connection, id)?;
    traces::remove(connection, id)
}

/// Answers how many records were stripped: none where headers and body are damaged, which
/// whoever reads the record is told.
fn strip(connection: &Connection, lean: &Record) -> Result<u64, Error> {
    let id = lean.name.id();
    let whole = match records::find(connection, id) {
        Ok(Some(whole)) => whole,
        Ok(None) => return Ok(0),
        Err(damaged @ Error::Damaged(_)) => {
            tracing::error!(error = %damaged, "not stripped");
            return Ok(0);
        }
        Err(error) => return Err(error),
    };
    let stripped = whole.clone().tombstone();
    records::put(connection, Some(&whole), &stripped)?;
    Ok(1)
}

/// Removes the oldest audit rows where they are too old; answers whether there may be more.
fn remove_audit(connection: &Connection, now: Timestamp) -> Result<bool, Error> {
    let before = now.0.saturating_sub(micros(AUDIT_RETENTION));
    // Their moments rise with `seq`, so that no index over all moments is needed.
    let removed = connection
        .prepare_cached(
            "delete from audit where at < ?1 and seq in
                 (select seq from audit order by seq limit ?2)",
        )
        .and_then(|mut delete| delete.execute(params![before, AUDIT_STEP]))
        .map_err(fault::general)?;
    Ok(i64::try_from(removed) == Ok(AUDIT_STEP))
}
