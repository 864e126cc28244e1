//! The fast path: first grants and reports by holders, in one statement and one commit.

use std::sync::LazyLock;

use reprise_domain::{Record, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::column::{Moment, Rows, Uuid, only, unnest};
use super::database::{Database, Fault, TIMELINE};
use super::fresh::{self, FreshArrays};
use super::held::{self, PlanArrays, PlanRow};
use super::plan::HeldPlan;
use super::row::{RecordArrays, RecordRow};
use super::safety;

/// Which parts a statement has: a lone command is planned and run for itself alone.
#[derive(Clone, Copy)]
struct Shape {
    /// Inserts.
    fresh: bool,
    /// Changes.
    held: bool,
    /// Locks what it changes as far as a lease is judged or moved.
    lock: bool,
    /// Inserts or changes more than one.
    many: bool,
}

impl Shape {
    const COUNT: usize = 16;

    fn number(self) -> usize {
        [self.fresh, self.held, self.lock, self.many]
            .into_iter()
            .fold(0, |number, part| 2 * number + usize::from(part))
    }

    fn of(number: usize) -> Self {
        let has = |bit| number & bit != 0;
        Self {
            fresh: has(8),
            held: has(4),
            lock: has(2),
            many: has(1),
        }
    }

    fn sql(self) -> String {
        let mut param = 4;
        let mut next = |count| {
            param += count;
            param - count
        };
        let rows: Rows = if self.many { unnest } else { only };
        let locked = self.lock.then(|| next(1));
        let plans = self.held.then(|| next(PlanArrays::NAMES.len()));
        let records = self.fresh.then(|| next(FreshArrays::NAMES.len()));
        let mut parts = Vec::new();
        if let Some(plans) = plans {
            parts.push(format!(
                "p as materialized (select * from {})",
                held::plans(plans, rows)
            ));
        }
        // Rows whose lease is judged or moved are locked first, skipping those that others
        // hold, and the clock is read after that, so that no lease is judged or given out by
        // a time that waited. Outcomes do not depend on the time: they are written without
        // that. They may wait for whoever holds the row, and an insert for another session's
        // open insert of the same key: that is bounded, and the time is read again at the end.
        let after = match locked {
            Some(ids) => {
                parts.push(format!(
                    "held as materialized (
                        select r.id from reprise.record r where r.id = any(${ids})
                        order by r.id for no key update skip locked)"
                ));
                "from (select count(*) from held) locked"
            }
            None => "",
        };
        parts.push(format!(
            "clock as materialized (
                select coalesce($1, clock_timestamp()) as now, {TIMELINE} as timeline,
                    set_config('lock_timeout', $2, true), {durable_commit} {after})",
            durable_commit = safety::durable_commit("$3"),
        ));
        if self.held {
            parts.push(format!("changed as ({})", held::update(self.lock)));
        }
        if let Some(records) = records {
            parts.push(format!("fresh as ({})", fresh::insert(records, rows)));
        }
        let settled = match (self.fresh, self.held) {
            (true, true) => format!(
                "select f.id as fresh_id, {nulls} from fresh f
                union all select null, r.* from changed r",
                nulls = vec!["null"; RecordArrays::NAMES.len()].join(", "),
            ),
            (true, false) => "select f.id as fresh_id from fresh f".to_owned(),
            (false, _) => "select null::uuid as fresh_id, r.* from changed r".to_owned(),
        };
        format!(
            "with {parts}
            select c.now, c.timeline, coalesce($1, clock_timestamp()), x.*
            from clock c left join ({settled}) x on true",
            parts = parts.join(", "),
        )
    }
}

static SQL: LazyLock<[String; Shape::COUNT]> =
    LazyLock::new(|| std::array::from_fn(|number| Shape::of(number).sql()));

/// What of a batch was settled.
#[derive(Default)]
pub(super) struct Settled {
    pub(super) inserted: Vec<Inserted>,
    /// Rows that were changed. Those with an outcome lack its headers and body.
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

/// Inserts those of the `fresh` records whose keys are free, and changes those of the `held`
/// ones that are as assumed; both in the order of their ids.
pub(super) async fn fast(
    database: &Database,
    fresh: impl Iterator<Item = &Record>,
    held: impl Iterator<Item = &HeldPlan>,
) -> Result<Settled, Fault> {
    let (mut records, mut plans) = (FreshArrays::default(), PlanArrays::default());
    let mut locked: Vec<Uuid> = Vec::new();
    let mut shape = Shape::of(0);
    for record in fresh {
        records.push(record.into());
        shape.many |= shape.fresh;
        shape.fresh = true;
    }
    for plan in held {
        let row = PlanRow::from(plan);
        if row.lease_must_run {
            locked.push(row.id);
            shape.lock = true;
        }
        plans.push(row);
        shape.many |= shape.held;
        shape.held = true;
    }
    let (now, timeout) = (database.test_now(), super::LOCK_TIMEOUT);
    let commit = database.if_commit_is_off();
    let mut params = super::prologue(&now);
    params.push((&timeout, Type::TEXT));
    params.push((&commit, Type::TEXT));
    if shape.lock {
        params.push((&locked, Type::UUID_ARRAY));
    }
    if shape.held {
        params.extend(plans.params());
    }
    if shape.fresh {
        params.extend(records.params());
    }
    let clocked = database.run_clocked(&SQL[shape.number()], &params).await?;
    let mut settled = Settled {
        now: clocked.now,
        ..Settled::default()
    };
    for row in &clocked.rows {
        settled.take(row, shape.held).map_err(Fault::Refused)?;
    }
    Ok(settled)
}

impl Settled {
    fn take(&mut self, row: &Row, has_changed: bool) -> Result<(), tokio_postgres::Error> {
        if let Some(id) = row.try_get(3)? {
            let after: Moment = row.try_get(2)?;
            self.inserted.push(Inserted {
                id,
                granted_at: self.now,
                now: after.0,
            });
        } else if has_changed && row.try_get::<_, Option<Uuid>>(4)?.is_some() {
            self.changed.push(RecordRow::read(row, 4)?);
        }
        Ok(())
    }
}
