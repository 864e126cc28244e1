//! What somebody has to find out about: lists and counts of the worklist.

use std::sync::LazyLock;
use std::time::Instant;

use reprise_domain::Timestamp;
use tokio_postgres::types::Type;

use super::column::{Moment, Uuid};
use super::database::Database;
use super::row::{self, RecordRow, coded};
use super::work::FIND_OUT;
use crate::store::{Error, PendingCount, PendingPage, PendingQuery};

static LIST: LazyLock<String> = LazyLock::new(|| {
    format!(
        // One row at least, for the time.
        "with clock as materialized (
            select coalesce($1, statement_timestamp()) as now
        )
        select c.now, x.* from clock c left join lateral (
            select w.due, {columns}
            from reprise.worklist w join reprise.record r on r.id = w.id
            where w.tenant = $2 and w.kind = {FIND_OUT} and ($3 = '' or w.operation = $3)
                and (not $4 or {is_due})
                and ($5::timestamptz is null or (w.due, w.id) > ($5, $6))
            order by w.due, w.id limit $7
        ) x on true",
        columns = row::narrow("r"),
        is_due = is_due("w", "c.now"),
    )
});

static COUNT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "select w.operation, w.reason, count(*),
            count(*) filter (where {is_due}),
            count(*) filter (where w.claimed_until > c.now), min(w.since)
        from reprise.worklist w
            cross join (select coalesce($1, statement_timestamp()) as now) c
        where w.tenant = $2 and w.kind = {FIND_OUT} and ($3 = '' or w.operation = $3)
        group by w.operation, w.reason order by w.operation, w.reason",
        is_due = is_due("w", "c.now"),
    )
});

/// The entry is due, and under no claim that runs.
fn is_due(entry: &str, now: &str) -> String {
    format!(
        "({entry}.due <= {now} and ({entry}.claimed_until is null or {entry}.claimed_until <= {now}))"
    )
}

pub(super) async fn pending(
    database: &Database,
    query: PendingQuery,
    deadline: Instant,
) -> Result<PendingPage, Error> {
    let now = database.test_now();
    let max = i64::try_from(query.max).unwrap_or(i64::MAX);
    let after_due = query.after.map(|(due, _)| Moment(due));
    let after_id = query.after.map(|(_, id)| Uuid::of(&id));
    let mut params = super::prologue(&now);
    params.push((&query.tenant, Type::TEXT));
    params.push((&query.operation, Type::TEXT));
    params.push((&query.only_due, Type::BOOL));
    params.push((&after_due, Type::TIMESTAMPTZ));
    params.push((&after_id, Type::UUID));
    params.push((&max, Type::INT8));
    let rows = database.run(&LIST, &params, deadline).await?;
    let now: Moment = super::first(&rows)?.try_get(0).map_err(Error::internal)?;
    let mut entries = Vec::with_capacity(rows.len());
    let (mut looked_at, mut last) = (0, None);
    for row in &rows {
        if let Some(due) = row
            .try_get::<_, Option<Moment>>(1)
            .map_err(Error::internal)?
        {
            let record = RecordRow::read(row, 2).map_err(Error::internal)?;
            looked_at += 1;
            last = Some((due.0, record.id.place()));
            entries.extend(super::listed(record)?.map(|record| (due.0, record)));
        }
    }
    Ok(PendingPage {
        now: now.0,
        entries,
        next: last.filter(|_| looked_at >= query.max),
    })
}

pub(super) async fn count_pending(
    database: &Database,
    tenant: &str,
    operation: &str,
    deadline: Instant,
) -> Result<Vec<PendingCount>, Error> {
    let now = database.test_now();
    let mut params = super::prologue(&now);
    params.push((&tenant, Type::TEXT));
    params.push((&operation, Type::TEXT));
    let rows = database.run(&COUNT, &params, deadline).await?;
    rows.iter()
        .map(|row| {
            let count = |at| row.try_get::<_, i64>(at).map(i64::unsigned_abs);
            let reason: i16 = row.try_get(1).map_err(Error::internal)?;
            let oldest: Option<Moment> = row.try_get(5).map_err(Error::internal)?;
            Ok(PendingCount {
                operation: row.try_get(0).map_err(Error::internal)?,
                reason: coded("reason", reason).map_err(Error::internal)?,
                total: count(2).map_err(Error::internal)?,
                due: count(3).map_err(Error::internal)?,
                claimed: count(4).map_err(Error::internal)?,
                oldest: oldest.map_or(Timestamp(0), |moment| moment.0),
            })
        })
        .collect()
}
