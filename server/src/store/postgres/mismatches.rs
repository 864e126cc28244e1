//! Counts repeats with another payload, a bounded number of fingerprints a record.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Instant;

use reprise_domain::RecordId;
use reprise_fingerprint::{Fingerprint, RuleId};
use tokio_postgres::types::Type;

use super::column::{Blob, Code, Moment, Uuid, columns, unnest};
use super::database::Database;
use super::row::{Unreadable, coded, fixed};
use super::safety::durable_commit;
use crate::store::{Error, MISMATCHES_MAX, SeenMismatch};

columns! {
    /// Some repeats with one other payload.
    SeenRow, SeenArrays {
        id: Uuid,
        scheme: i16,
        rule: String,
        digest: Blob,
        count: i64,
    }
}

/// Races for a place that one call may lose.
const RACES_MAX: usize = 8;

/// Adds to what is counted, and gives what is new the next free places of its record. A
/// place that somebody else took meanwhile is lost; the rows answered are those that found
/// one neither way although there is one left.
static NOTE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "with clock as materialized (
            select coalesce($1, clock_timestamp()) as now,
                set_config('lock_timeout', $2, true), {durable_commit}
        ), m as materialized (
            select * from {seen}
        ), held as materialized (
            select x.id, x.slot, m.line
            from m join reprise.mismatch x on x.id = m.id and x.scheme = m.scheme
                and x.rule = m.rule and x.digest = m.digest
            order by x.id, x.slot for update of x
        ), added as (
            update reprise.mismatch x set count = x.count + m.count,
                last_at = greatest(x.last_at, c.now)
            from held h join m on m.line = h.line cross join clock c
            where x.id = h.id and x.slot = h.slot
        ), n as materialized (
            select m.*, row_number() over (partition by m.id order by m.line) + (
                select coalesce(max(x.slot), 0) from reprise.mismatch x where x.id = m.id) as slot
            from m where m.line not in (select line from held)
                and exists (select from reprise.record r where r.id = m.id)
        ), begun as (
            insert into reprise.mismatch
                (id, slot, scheme, rule, digest, count, first_at, last_at)
            select n.id, n.slot, n.scheme, n.rule, n.digest, n.count, c.now, c.now
            from n cross join clock c where n.slot <= {MISMATCHES_MAX} order by n.id, n.slot
            on conflict do nothing
            returning id, slot
        )
        select n.line from n left join begun b on b.id = n.id and b.slot = n.slot
        where n.slot <= {MISMATCHES_MAX} and b.id is null",
        durable_commit = durable_commit("$3"),
        seen = super::column::with_lines(&unnest(4, "m", SeenArrays::NAMES)),
    )
});

const READ: &str = "select scheme, rule, digest, count, first_at, last_at
    from reprise.mismatch where id = $1 order by first_at, slot";

pub(super) async fn note(
    database: &Database,
    seen: Vec<(RecordId, Fingerprint, u64)>,
    deadline: Instant,
) -> Result<(), Error> {
    let mut rows = summed(seen);
    let commit = database.if_commit_is_off();
    let timeout = super::LOCK_TIMEOUT;
    for _ in 0..RACES_MAX {
        if rows.is_empty() {
            return Ok(());
        }
        let mut arrays = SeenArrays::default();
        rows.iter().cloned().for_each(|row| arrays.push(row));
        let now = database.test_now();
        let mut params = super::prologue(&now);
        params.push((&timeout, Type::TEXT));
        params.push((&commit, Type::TEXT));
        params.extend(arrays.params());
        let lost = database.run(&NOTE, &params, deadline).await?;
        let lines: Vec<i64> = lost
            .iter()
            .map(|row| row.try_get(0))
            .collect::<Result<_, _>>()
            .map_err(Error::internal)?;
        rows = lines
            .into_iter()
            .filter_map(|line| {
                rows.get(usize::try_from(line).ok()?.checked_sub(1)?)
                    .cloned()
            })
            .collect();
    }
    if rows.is_empty() {
        return Ok(());
    }
    Err(Error::Contention)
}

/// Each fingerprint of a record once, in the order in which they first occur.
fn summed(seen: Vec<(RecordId, Fingerprint, u64)>) -> Vec<SeenRow> {
    let mut places: HashMap<(RecordId, Fingerprint), usize> = HashMap::new();
    let mut rows: Vec<SeenRow> = Vec::new();
    for (id, fingerprint, count) in seen {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let row = SeenRow {
            id: Uuid::of(&id),
            scheme: fingerprint.scheme.code(),
            rule: fingerprint.rule.as_str().to_owned(),
            digest: Blob::copy(&fingerprint.digest),
            count: 0,
        };
        let place = *places.entry((id, fingerprint)).or_insert_with(|| {
            rows.push(row);
            rows.len() - 1
        });
        rows[place].count = rows[place].count.saturating_add(count);
    }
    rows
}

pub(super) async fn mismatches(
    database: &Database,
    id: &RecordId,
    deadline: Instant,
) -> Result<Vec<SeenMismatch>, Error> {
    let id = Uuid::of(id);
    let rows = database.run(READ, &[(&id, Type::UUID)], deadline).await?;
    rows.iter()
        .map(|row| {
            let moment = |at| row.try_get::<_, Moment>(at).map_err(Error::internal);
            let scheme: i16 = row.try_get(0).map_err(Error::internal)?;
            let rule: String = row.try_get(1).map_err(Error::internal)?;
            let digest: Blob = row.try_get(2).map_err(Error::internal)?;
            let count: i64 = row.try_get(3).map_err(Error::internal)?;
            Ok(SeenMismatch {
                fingerprint: Fingerprint {
                    scheme: coded("scheme", scheme).map_err(Error::internal)?,
                    rule: RuleId::try_from(rule)
                        .map_err(|_| Error::internal(Unreadable::Column("rule")))?,
                    digest: fixed("digest", &digest).map_err(Error::internal)?,
                },
                count: count.unsigned_abs(),
                first_at: moment(4)?.0,
                last_at: moment(5)?.0,
            })
        })
        .collect()
}
