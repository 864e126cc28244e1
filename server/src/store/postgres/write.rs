//! Writes what was decided, where the row is still the one that was decided on, with the
//! side rows in the same statement.
//!
//! A decision depends on the clock only by comparing it with moments that are in the row.
//! So one that was made at an earlier time still holds as long as the row has the same
//! revision and none of those moments has come since: the statement locks the row, reads
//! the clock after that, and writes only before the first of them. A lease that is given
//! out counts too, so none is over before it began.

use std::collections::HashMap;
use std::sync::LazyLock;

use reprise_domain::{Record, RecordId, RecordName, Timestamp, Trace};
use tokio_postgres::types::Type;

use super::column::{Blob, Moment, columns, under, unnest};
use super::database::{Database, Fault, TIMELINE};
use super::row::{RecordArrays, RecordRow};
use super::safety::durable_commit;
use super::trace::{AUDIT, EVIDENCE, HISTORY, REPLACED, TraceArrays, TraceRow};

/// Evidence that is kept of one record.
const EVIDENCE_MAX: i64 = 16;

columns! {
    /// What must still be so.
    GuardRow, GuardArrays {
        expected: Option<i64>,
        valid_until: Moment,
    }
}

/// The first five columns are the name, which no update touches.
const NAME_COLUMNS: usize = 5;

static SQL: LazyLock<String> = LazyLock::new(|| {
    let names = RecordArrays::NAMES;
    let first_guard = 6;
    let first_trace = first_guard + GuardArrays::NAMES.len() + names.len();
    let set: Vec<String> = names[NAME_COLUMNS..]
        .iter()
        .map(|name| format!("{name} = p.{name}"))
        .collect();
    format!(
        "with p as materialized (
            select * from {plans}
        ), held as materialized (
            select r.id from reprise.record r where r.id = any($4)
            order by r.id for no key update skip locked
        ), clock as materialized (
            select coalesce($1, clock_timestamp()) as now, {TIMELINE} as timeline,
                set_config('lock_timeout', $2, true), {durable_commit}
            from (select count(*) from held) locked
        ), updated as (
            update reprise.record r set {set}
            from p join held h on h.id = p.id cross join clock c
            where r.id = p.id and r.tenant = p.tenant and r.revision = p.expected
                and c.now < p.valid_until
            returning r.id
        ), inserted as (
            insert into reprise.record ({names})
            select {from_plan} from p cross join clock c
            where p.expected is null and c.now < p.valid_until
            order by p.id
            on conflict (id) do nothing
            returning id
        ), written as (
            select id from updated union all select id from inserted
        ), t as materialized (
            select * from {traces}
            where t.id = any($5) or t.id in (select id from written)
        ), evidence as (
            insert into reprise.evidence (id, attempt, digest, reported, code, at)
            select id, attempt, bytes, what, note, at from (
                select t.*, row_number() over (partition by t.id order by t.line) + (
                    select count(*) from reprise.evidence e where e.id = t.id) as nth
                from t where t.kind = {EVIDENCE}
            ) t where nth <= {EVIDENCE_MAX} order by line
            on conflict do nothing
        ), history as (
            insert into reprise.history (id, attempt, attempt_id, owner, granted_at, ended_at,
                ending, code, provider_reference)
            select id, attempt, attempt_id, actor, granted_at, at, what, note, reference
            from t where t.kind = {HISTORY} order by line
        ), replaced as (
            insert into reprise.replaced (id, attempt, provider_reference, instruction, at)
            select id, attempt, reference, bytes, at
            from t where t.kind = {REPLACED} order by line
        ), audit as (
            insert into reprise.audit (tenant, operation, id, attempt, action, actor, evidence, at)
            select tenant, operation, id, attempt, what, actor, note, at
            from t where t.kind = {AUDIT} order by line
        )
        select c.now, c.timeline, r.id, r.written, coalesce($1, clock_timestamp())
        from clock c left join (
            select id, true as written from written
            union all
            select id, false from held where id not in (select id from written)
        ) r on true",
        durable_commit = durable_commit("$3"),
        plans = unnest(first_guard, "p", &[GuardArrays::NAMES, names].concat()),
        set = set.join(", "),
        names = names.join(", "),
        from_plan = under("p", names),
        traces = with_lines(&unnest(first_trace, "t", TraceArrays::NAMES)),
    )
});

/// Numbers the rows of `unnest(...) as t(...)`, to keep their order.
fn with_lines(unnest: &str) -> String {
    unnest
        .replace(") as t(", ") with ordinality as t(")
        .trim_end_matches(')')
        .to_owned()
        + ", line)"
}

/// What is to be written of one record.
pub(super) struct Write<'a> {
    pub(super) name: &'a RecordName,
    /// None leaves the row alone and writes the side rows in any case.
    pub(super) change: Option<&'a Record>,
    /// Revision of the row that was decided on; none when there was no row.
    pub(super) expected: Option<u64>,
    /// The decision holds until then.
    pub(super) valid_until: Timestamp,
    pub(super) traces: &'a [Trace],
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Done,
    /// The row, or the time, is another one by now.
    Changed,
    /// Somebody holds the row.
    Locked,
}

/// What became of each write, and the time that goes with it.
pub(super) async fn write(
    database: &Database,
    writes: &[Write<'_>],
) -> Result<(Timestamp, HashMap<RecordId, Written>), Fault> {
    let (mut records, mut guards) = (RecordArrays::default(), GuardArrays::default());
    let mut traces = TraceArrays::default();
    let (mut existing, mut unguarded) = (Vec::new(), Vec::new());
    let mut outcome = HashMap::with_capacity(writes.len());
    for write in writes {
        let id = Blob::copy(&write.name.id().0);
        // Until the statement says more: a held row is locked, a new one was not inserted.
        let (unless, list) = match (write.change, write.expected) {
            (None, _) => (Written::Done, Some(&mut unguarded)),
            (Some(_), Some(_)) => (Written::Locked, Some(&mut existing)),
            (Some(_), None) => (Written::Changed, None),
        };
        outcome.insert(write.name.id(), unless);
        if let Some(list) = list {
            list.push(id);
        }
        if let Some(change) = write.change {
            records.push(RecordRow::from(change));
            guards.push(GuardRow {
                expected: write.expected.map(u64::cast_signed),
                valid_until: Moment(write.valid_until),
            });
        }
        for trace in write.traces {
            traces.push(TraceRow::of(write.name, trace));
        }
    }
    let (now, timeout) = (database.test_now(), super::LOCK_TIMEOUT);
    let commit = database.if_commit_is_off();
    let mut params = super::prologue(&now);
    params.push((&timeout, Type::TEXT));
    params.push((&commit, Type::TEXT));
    params.push((&existing, Type::BYTEA_ARRAY));
    params.push((&unguarded, Type::BYTEA_ARRAY));
    params.extend(guards.params());
    params.extend(records.params());
    params.extend(traces.params());
    let clocked = database.run_clocked(&SQL, &params).await?;
    let valid_until: HashMap<RecordId, Timestamp> = writes
        .iter()
        .map(|write| (write.name.id(), write.valid_until))
        .collect();
    for row in super::present(&clocked.rows) {
        let id: Blob = row.try_get(2).map_err(Fault::Refused)?;
        let written: bool = row.try_get(3).map_err(Fault::Refused)?;
        let after: Moment = row.try_get(4).map_err(Fault::Refused)?;
        let id = super::record_id(&id);
        // An insert may have waited after the time was read. The row is there, but what
        // was decided for it may be over: a new look tells.
        let in_time = valid_until.get(&id).is_some_and(|until| after.0 < *until);
        let result = if written && in_time {
            Written::Done
        } else {
            Written::Changed
        };
        outcome.insert(id, result);
    }
    Ok((clocked.now, outcome))
}
