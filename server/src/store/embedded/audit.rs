//! Lists of audit rows, for people.

use reprise_domain::decide::AuditAction;
use reprise_domain::{RecordId, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::cells::{Reader, Writer, cells};
use super::fault;
use super::words::Word;
use crate::store::{AuditPage, AuditPlace, AuditQuery, AuditRow, Audited, Error};

/// A row that is not what was written.
#[derive(Debug, thiserror::Error)]
#[error("an audit row is damaged")]
struct Damaged;

/// Newest first, so that the caller stops at the earliest moment that it wants.
pub(super) const OF_TENANT: &str = "\
    select at, seq, actor, action, authority, tenant, operation, record, attempt, evidence
    from audit
    where tenant = ?1 and (at, seq) < (?2, ?3) and (?4 = '' or operation = ?4)
    order by at desc, seq desc";

pub(super) const OF_RECORD: &str = "\
    select at, seq, actor, action, authority, tenant, operation, record, attempt, evidence
    from audit indexed by audit_record
    where record = ?5 and tenant = ?1 and (at, seq) < (?2, ?3) and (?4 = '' or operation = ?4)
    order by at desc, seq desc";

/// A page of audit rows.
pub(super) fn page(connection: &Connection, query: &AuditQuery) -> Result<AuditPage, Error> {
    let statement = match query.record {
        Some(_) => OF_RECORD,
        None => OF_TENANT,
    };
    let mut select = connection
        .prepare_cached(statement)
        .map_err(fault::general)?;
    let mut parameters = parameters(query);
    parameters.truncate(select.parameter_count());
    let mut rows = select
        .query(params_from_iter(parameters))
        .map_err(fault::general)?;
    let mut page = AuditPage {
        rows: Vec::new(),
        next: None,
    };
    let mut last = None;
    while let Some(row) = rows.next().map_err(fault::general)? {
        if page.rows.len() >= query.max {
            page.next = last;
            break;
        }
        let cells = cells(row).map_err(fault::general)?;
        let (place, row) = read(cells).ok_or_else(|| Error::internal(Damaged))?;
        if query.from.is_some_and(|from| row.at < from) {
            break;
        }
        page.rows.push(row);
        last = Some(place);
    }
    Ok(page)
}

fn parameters(query: &AuditQuery) -> Vec<Value> {
    let after = query.after.map(|(at, place)| (at, seq_of(place)));
    // Rows of that very moment, which is not wanted, have a higher `seq` than 0.
    let before = query.before.map(|before| (before, 0));
    let end = (Timestamp(i64::MAX), 0);
    let (at, seq) = after.unwrap_or(end).min(before.unwrap_or(end));
    let mut row = Writer::default();
    row.text(&query.tenant);
    row.time(at);
    row.count(seq);
    row.text(&query.operation);
    row.maybe(query.record.map(|id| id.0), Writer::bytes);
    row.plain()
}

fn read(cells: Vec<Value>) -> Option<(AuditPlace, AuditRow)> {
    let mut row = Reader::plain(cells);
    let (at, seq) = (row.time()?, row.count()?);
    let actor = row.text()?;
    let action = row.text()?;
    let by = row.word()?;
    let (tenant, operation) = (row.text()?, row.text()?);
    let id = row.maybe_sha()?;
    let attempt = row.maybe_integer()?;
    let (record, action) = match (id, attempt) {
        (Some(id), Some(attempt)) => {
            let record = (RecordId(id), attempt.try_into().ok()?);
            (
                Some(record),
                Audited::Record(AuditAction::from_word(&action)?),
            )
        }
        (None, None) if action == "policy_put" => (None, Audited::PolicyWritten),
        _ => return None,
    };
    let audited = AuditRow {
        at,
        actor,
        action,
        by,
        tenant,
        operation,
        record,
        evidence: row.text()?,
    };
    Some(((at, place_of(seq)), audited))
}

/// Rows of one moment are told apart by `seq`, the last 8 bytes of their place.
fn place_of(seq: u64) -> [u8; 16] {
    u128::from(seq).to_be_bytes()
}

/// A place of another store's stands after all rows.
fn seq_of(place: [u8; 16]) -> u64 {
    let seq = i64::try_from(u128::from_be_bytes(place)).unwrap_or(i64::MAX);
    seq.cast_unsigned()
}
