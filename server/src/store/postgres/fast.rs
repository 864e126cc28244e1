//! The fast path: first grants and reports by holders, in one statement and one commit.

use std::sync::LazyLock;

use reprise_domain::{Record, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::column::{Moment, Uuid};
use super::database::{Database, Fault, TIMELINE};
use super::fresh::{self, FreshArrays};
use super::held::{self, PlanArrays, PlanRow};
use super::plan::HeldPlan;
use super::row::RecordRow;
use super::safety;

static SQL: LazyLock<String> = LazyLock::new(|| {
    format!(
        // Rows whose lease is judged or moved are locked first, skipping those that others
        // hold, and the clock is read after that, so that no lease is judged or given out by
        // a time that waited. Outcomes do not depend on the time: they are written without
        // that. They may wait for whoever holds the row, and an insert for another session's
        // open insert of the same key: that is bounded, and the time is read again at the end.
        "with p as materialized (
            select * from {plans}
        ), held as materialized (
            select r.id from reprise.record r where r.id = any($4)
            order by r.id for no key update skip locked
        ), clock as materialized (
            select coalesce($1, clock_timestamp()) as now, {TIMELINE} as timeline,
                set_config('lock_timeout', $2, true), {durable_commit}
            from (select count(*) from held) locked
        ), changed as (
            {update}
        ), fresh as (
            {insert}
        )
        select c.now, c.timeline, coalesce($1, clock_timestamp()), x.*
        from clock c
        left join (select f.id as fresh_id, r.* from changed r full join fresh f on f.id = r.id) x
            on true",
        durable_commit = safety::durable_commit("$3"),
        plans = held::plans(5),
        update = held::update(),
        insert = fresh::insert(5 + PlanArrays::NAMES.len()),
    )
});

/// What of a batch was settled.
#[derive(Default)]
pub(super) struct Settled {
    pub(super) inserted: Vec<Inserted>,
    /// Changed rows; those with an outcome lack its headers and body.
    pub(super) changed: Vec<RecordRow>,
    /// The time of the changes.
    pub(super) now: Timestamp,
}

/// A record that was inserted.
pub(super) struct Inserted {
    pub(super) id: Uuid,
    /// When it was granted.
    pub(super) granted_at: Timestamp,
    /// After its insert; later where that had to wait.
    pub(super) now: Timestamp,
}

/// Inserts those of the `fresh` records whose keys are free, and changes those of the
/// `held` ones that are as assumed.
pub(super) async fn fast(
    database: &Database,
    fresh: impl Iterator<Item = &Record>,
    held: impl Iterator<Item = &HeldPlan>,
) -> Result<Settled, Fault> {
    let (mut records, mut plans) = (FreshArrays::default(), PlanArrays::default());
    fresh.for_each(|record| records.push(record.into()));
    let mut locked: Vec<Uuid> = Vec::new();
    for plan in held {
        let row = PlanRow::from(plan);
        if row.lease_must_run {
            locked.push(row.id);
        }
        plans.push(row);
    }
    let (now, timeout) = (database.test_now(), super::LOCK_TIMEOUT);
    let commit = database.if_commit_is_off();
    let mut params = super::prologue(&now);
    params.push((&timeout, Type::TEXT));
    params.push((&commit, Type::TEXT));
    params.push((&locked, Type::UUID_ARRAY));
    params.extend(plans.params());
    params.extend(records.params());
    let clocked = database.run_clocked(&SQL, &params).await?;
    let mut settled = Settled {
        now: clocked.now,
        ..Settled::default()
    };
    for row in &clocked.rows {
        settled.take(row).map_err(Fault::Refused)?;
    }
    Ok(settled)
}

impl Settled {
    fn take(&mut self, row: &Row) -> Result<(), tokio_postgres::Error> {
        if let Some(id) = row.try_get(3)? {
            let after: Moment = row.try_get(2)?;
            self.inserted.push(Inserted {
                id,
                granted_at: self.now,
                now: after.0,
            });
        } else if row.try_get::<_, Option<Uuid>>(4)?.is_some() {
            self.changed.push(RecordRow::read(row, 4)?);
        }
        Ok(())
    }
}
