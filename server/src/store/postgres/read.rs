//! Reads what a batch decides on: rows by id, and a time to judge them at.

use std::collections::HashMap;
use std::sync::LazyLock;

use reprise_domain::{RecordName, Timestamp};
use tokio_postgres::types::Type;

use super::column::{Uuid, under, unnest};
use super::database::{Database, Fault, TIMELINE};
use super::row::{RecordArrays, RecordRow};

static SQL: LazyLock<String> = LazyLock::new(|| {
    format!(
        // The statement's own time is not later than its snapshot: a lease that is over at
        // that time was not renewed by anybody whom the snapshot does not show.
        "with clock as materialized (
            select coalesce($1, statement_timestamp()) as now, {TIMELINE} as timeline
        )
        select c.now, c.timeline, {columns}
        from clock c left join (
            {names} join reprise.record r on r.id = p.id and r.tenant = p.tenant
        ) on true",
        columns = under("r", RecordArrays::NAMES),
        names = unnest(2, "p", &["id", "tenant"]),
    )
});

/// The rows of those of the named records that exist, by the halves of their ids.
pub(super) async fn read(
    database: &Database,
    names: impl Iterator<Item = &RecordName>,
) -> Result<(Timestamp, HashMap<Uuid, RecordRow>), Fault> {
    let (ids, tenants): (Vec<Uuid>, Vec<&str>) = names
        .map(|name| (Uuid::of(&name.id()), name.tenant()))
        .unzip();
    let now = database.test_now();
    let mut params = super::prologue(&now);
    params.push((&ids, Type::UUID_ARRAY));
    params.push((&tenants, Type::TEXT_ARRAY));
    let clocked = database.run_clocked(&SQL, &params).await?;
    let rows = super::present(&clocked.rows)
        .map(|row| RecordRow::read(row, 2).map(|row| (row.id, row)))
        .collect::<Result<_, _>>()
        .map_err(Fault::Refused)?;
    Ok((clocked.now, rows))
}
