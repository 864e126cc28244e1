//! Lists of records, for people.

use std::sync::LazyLock;

use reprise_domain::{Record, RecordId, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use super::cells::Writer;
use super::references::{PROVIDER, RESOURCE};
use super::walk::Place;
use super::{fault, records};
use crate::store::{Error, RecordsPage, RecordsQuery};

/// Records that one page looks at.
const LOOKED_AT_MAX: usize = 10_000;

/// Whether a record is the tenant's and passes the filters that are not found by an index.
const FITS: &str = "tenant = ?3 and (?4 = '' or operation = ?4) and (?5 is null or subject = ?5) \
    and (?6 is null or state = ?6) and (?7 is null or created_at >= ?7) \
    and (?8 is null or created_at < ?8) and substr(key, 1, length(?9)) = ?9 \
    and (?10 = '' or correlation_id = ?10)";

/// All records, newest grant first, with whether they fit.
pub(super) static ALL: LazyLock<String> = LazyLock::new(|| {
    format!(
        "select granted_at, id, {FITS} from records
         where (granted_at, id) < (?1, ?2) order by granted_at desc, id desc"
    )
});

/// As [`ALL`], of the records that have or had the references.
pub(super) static REFERRED: LazyLock<String> = LazyLock::new(|| {
    let filed = |place: u8, kind: &str| {
        format!(
            "(?{place} = '' or exists (select 1 from reference
                 where tenant = ?3 and kind = '{kind}' and reference = ?{place} and record = id))"
        )
    };
    format!(
        "select granted_at, id, {FITS} from records
         where id in (select record from reference
                      where tenant = ?3 and kind = iif(?11 = '', '{PROVIDER}', '{RESOURCE}')
                          and reference = iif(?11 = '', ?12, ?11))
             and {} and {} and (granted_at, id) < (?1, ?2)
         order by granted_at desc, id desc",
        filed(11, RESOURCE),
        filed(12, PROVIDER)
    )
});

/// A page of records.
pub(super) fn records(
    connection: &Connection,
    query: &RecordsQuery,
    now: Timestamp,
) -> Result<RecordsPage, Error> {
    let by_reference = !query.resource_id.is_empty() || !query.provider_reference.is_empty();
    let statement = if by_reference { &REFERRED } else { &ALL };
    let mut select = connection
        .prepare_cached(statement)
        .map_err(fault::general)?;
    let mut parameters = parameters(query);
    parameters.truncate(select.parameter_count());
    let mut rows = select
        .query(params_from_iter(parameters))
        .map_err(fault::general)?;
    let mut page = RecordsPage {
        now,
        records: Vec::new(),
        next: None,
    };
    let mut last = None;
    let mut looked_at = 0;
    while let Some(row) = rows.next().map_err(fault::general)? {
        if page.records.len() >= query.max || looked_at >= LOOKED_AT_MAX {
            page.next = last;
            break;
        }
        let (place, fits) = read(row).map_err(fault::general)?;
        // The first grant is no later than the newest.
        if query.created_from.is_some_and(|from| place.0 < from) {
            break;
        }
        if fits {
            page.records.extend(record(connection, place.1)?);
        }
        last = Some(place);
        looked_at += 1;
    }
    Ok(page)
}

fn parameters(query: &RecordsQuery) -> Vec<Value> {
    let mut row = Writer::default();
    let (at, id): Place = match query.after {
        Some((at, id)) => (at, id.0.to_vec()),
        None => (Timestamp(i64::MAX), Vec::new()),
    };
    row.time(at);
    row.bytes(id);
    row.text(&query.tenant);
    row.text(&query.operation);
    row.maybe(query.subject.as_ref(), |row, subject| row.text(subject));
    row.maybe(query.state.as_ref(), Writer::word);
    row.maybe(query.created_from, Writer::time);
    row.maybe(query.created_before, Writer::time);
    row.text(&query.key_prefix);
    row.text(&query.correlation_id);
    row.text(&query.resource_id);
    row.text(&query.provider_reference);
    row.plain()
}

fn read(row: &Row<'_>) -> rusqlite::Result<((Timestamp, RecordId), bool)> {
    let place = (Timestamp(row.get(0)?), RecordId(row.get(1)?));
    Ok((place, row.get(2)?))
}

/// One that is damaged must not keep people from all others.
fn record(connection: &Connection, id: RecordId) -> Result<Option<Record>, Error> {
    match records::find_lean(connection, id) {
        Ok(found) => Ok(found.map(|lean| lean.record)),
        Err(damaged @ Error::Damaged(_)) => {
            tracing::error!(error = %damaged, "not listed");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
