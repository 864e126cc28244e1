//! Lists records by what people know of them, newest grant first: by a filed reference, at
//! once in any table; by all else along the grants, a bounded number of them a call.

use std::sync::LazyLock;
use std::time::Instant;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::column::{Code, Moment, Param, Uuid};
use super::database::Database;
use super::row::{self, RecordRow};
use super::usual;
use crate::store::{Error, RecordsPage, RecordsQuery};

/// Grants of all tenants that one call looks at.
const LOOKED_AT_MAX: usize = 5000;

/// All filters but those over references, on the row `r`.
fn filters() -> String {
    format!(
        "r.tenant = $2 and ($3 = '' or r.operation = $3)
        and ($4::text is null or coalesce(r.subject, '') = $4)
        and ($5::smallint is null or r.state = $5)
        and ($6::timestamptz is null or {created_at} >= $6)
        and ($7::timestamptz is null or {created_at} < $7)
        and starts_with(r.key, $8)
        and ($9 = '' or r.correlation_id = $9)",
        created_at = usual::created_at_of("r"),
    )
}

/// The place in the order is behind the one where the page before ended.
const BEHIND: &str = "($10::timestamptz is null
            or r.granted_at <= $10 and (r.granted_at < $10 or r.id < $11))";

/// Walks along the grants. What is looked at stays narrow until it is known to fit. A record
/// was not granted before it was created, so the walk ends where that is too early.
static ALONG_GRANTS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "with looked as materialized (
            select r.id, r.granted_at, {filters} as fits
            from reprise.record r
            where {BEHIND} and r.granted_at >= coalesce($6, '-infinity')
            order by r.granted_at desc, r.id desc limit {LOOKED_AT_MAX}
        ), page as materialized (
            select id from looked where fits order by granted_at desc, id desc limit $12
        ), last as (
            select id, granted_at from looked order by granted_at, id limit 1
        )
        select coalesce($1, statement_timestamp()), (select count(*) from looked),
            l.granted_at, l.id, x.*
        from (select) one left join last l on true left join (
            select {columns} from page join reprise.record r on r.id = page.id
        ) x on true
        order by x.granted_at desc, x.id desc",
        columns = row::narrow("r"),
        filters = filters(),
    )
});

/// Goes by the filed references, of which records have few.
static BY_REFERENCE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "with named as materialized (
            select f.id from reprise.reference f
            where f.tenant = $2 and f.kind = case when $13 <> '' then 1 else 2 end
                and f.reference = case when $13 <> '' then $13 else $14 end
                and ($13 = '' or $14 = '' or exists (
                    select from reprise.reference o
                    where o.id = f.id and o.kind = 2 and o.reference = $14))
        )
        select coalesce($1, statement_timestamp()), 0::bigint, null::timestamptz, null::uuid, x.*
        from (select) one left join (
            select {columns}
            from named n join reprise.record r on r.id = n.id
            where {filters} and {BEHIND}
            order by r.granted_at desc, r.id desc limit $12
        ) x on true
        order by x.granted_at desc, x.id desc",
        columns = row::narrow("r"),
        filters = filters(),
    )
});

pub(super) async fn records(
    database: &Database,
    query: RecordsQuery,
    deadline: Instant,
) -> Result<RecordsPage, Error> {
    let by_reference = !(query.resource_id.is_empty() && query.provider_reference.is_empty());
    let now = database.test_now();
    let state = query.state.map(Code::code);
    let created_from = query.created_from.map(Moment);
    let created_before = query.created_before.map(Moment);
    let after_at = query.after.map(|(at, _)| Moment(at));
    let after_id = query.after.map(|(_, id)| Uuid::of(&id));
    let max = i64::try_from(query.max).unwrap_or(i64::MAX);
    let mut params: Vec<Param<'_>> = super::prologue(&now);
    params.push((&query.tenant, Type::TEXT));
    params.push((&query.operation, Type::TEXT));
    params.push((&query.subject, Type::TEXT));
    params.push((&state, Type::INT2));
    params.push((&created_from, Type::TIMESTAMPTZ));
    params.push((&created_before, Type::TIMESTAMPTZ));
    params.push((&query.key_prefix, Type::TEXT));
    params.push((&query.correlation_id, Type::TEXT));
    params.push((&after_at, Type::TIMESTAMPTZ));
    params.push((&after_id, Type::UUID));
    params.push((&max, Type::INT8));
    let sql: &str = if by_reference {
        params.push((&query.resource_id, Type::TEXT));
        params.push((&query.provider_reference, Type::TEXT));
        &BY_REFERENCE
    } else {
        &ALONG_GRANTS
    };
    let rows = database.run(sql, &params, deadline).await?;
    page(&rows, query.max, by_reference)
}

fn page(rows: &[Row], max: usize, by_reference: bool) -> Result<RecordsPage, Error> {
    let first = super::first(rows)?;
    let now: Moment = first.try_get(0).map_err(Error::internal)?;
    let looked_at: i64 = first.try_get(1).map_err(Error::internal)?;
    let last_at: Option<Moment> = first.try_get(2).map_err(Error::internal)?;
    let last_id: Option<Uuid> = first.try_get(3).map_err(Error::internal)?;
    let mut records = Vec::with_capacity(rows.len());
    for row in rows {
        // The first column of the record, its id.
        if row
            .try_get::<_, Option<Uuid>>(4)
            .map_err(Error::internal)?
            .is_some()
        {
            let record = RecordRow::read(row, 4).map_err(Error::internal)?;
            records.extend(super::listed(record)?);
        }
    }
    let last = last_at.zip(last_id).map(|(at, id)| (at.0, id.place()));
    let all_seen = usize::try_from(looked_at).unwrap_or(usize::MAX) < LOOKED_AT_MAX;
    let next = if records.len() >= max {
        let place = records.last().map(|record| {
            (
                record.attempt.granted_at,
                Uuid::of(&record.name.id()).place(),
            )
        });
        let at_the_end = !by_reference && all_seen && place == last;
        place.filter(|_| !at_the_end)
    } else {
        last.filter(|_| !all_seen)
    };
    Ok(RecordsPage {
        now: now.0,
        records,
        next,
    })
}
