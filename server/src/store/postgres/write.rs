//! Writes what was decided, where the row is still the one that was decided on, with the
//! side rows in the same statement.
//!
//! A decision depends on the clock only by comparing it with moments that are in the row.
//! So one that was made at an earlier time still holds as long as the row has the same
//! revision and none of those moments has come since: the statement locks the row, reads
//! the clock after that, and writes only before the first of them. A lease that is given
//! out counts too, so none is over before it began.
//!
//! The entry on the worklist changes with the record. Where the record stays as it is, the
//! entry still changes only if the row is the one that was decided on: else a look that
//! found nothing open would drop what somebody else has just opened.

use std::collections::HashMap;
use std::sync::LazyLock;

use reprise_domain::record::State;
use reprise_domain::{Record, RecordName, Timestamp, Trace, Work};
use tokio_postgres::types::Type;

use super::column::{Moment, Param, Uuid, columns, under, unnest, with_lines};
use super::database::{Database, Fault, TIMELINE};
use super::filing::{FiledArrays, FiledRow};
use super::row::{RecordArrays, RecordRow};
use super::safety::durable_commit;
use super::trace::{AUDIT, EVIDENCE, HISTORY, REPLACED, TraceArrays, TraceRow};
use super::work::{self, KeptArrays, KeptRow, WorkArrays, WorkRow};
use crate::store::{EVIDENCE_MAX, REPLACED_MAX};

columns! {
    /// What must still be so.
    GuardRow, GuardArrays {
        expected: Option<i64>,
        valid_until: Moment,
    }
}

/// The first five columns are the name, which no update touches.
const NAME_COLUMNS: usize = 5;

/// For batches that change records and leave side rows.
static SQL: LazyLock<String> = LazyLock::new(|| statement(false));
/// For those that also touch the worklist, file or erase.
static SQL_TENDING: LazyLock<String> = LazyLock::new(|| statement(true));

fn statement(tending: bool) -> String {
    let names = RecordArrays::NAMES;
    let first_guard = 6;
    let first_trace = first_guard + GuardArrays::NAMES.len() + names.len();
    let first_kept = first_trace + TraceArrays::NAMES.len();
    let first_work = first_kept + KeptArrays::NAMES.len();
    let first_filed = first_work + WorkArrays::NAMES.len();
    let erased = first_filed + FiledArrays::NAMES.len();
    let set: Vec<String> = names[NAME_COLUMNS..]
        .iter()
        .map(|name| format!("{name} = p.{name}"))
        .collect();
    let (kept, also_kept, tended) = if tending {
        (
            format!("{}, ", work::kept(first_kept)),
            " union all select id from kept",
            format!(", {}", work::tended(first_work, first_filed, erased)),
        )
    } else {
        (String::new(), "", String::new())
    };
    format!(
        "with p as materialized (
            select * from {plans}
        ), held as materialized (
            select r.id, r.revision from reprise.record r where r.id = any($4)
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
        ), {kept}written as (
            select id from updated union all select id from inserted{also_kept}
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
            select id, attempt, reference, bytes, at from (
                select t.*, row_number() over (partition by t.id order by t.line) + (
                    select count(*) from reprise.replaced e where e.id = t.id) as nth
                from t where t.kind = {REPLACED}
            ) t where nth <= {REPLACED_MAX} order by line
        ), audit as (
            insert into reprise.audit (tenant, operation, id, id_end, attempt, action, authority,
                actor, evidence, at)
            select tenant, operation, id, bytes, attempt, what, authority, actor, note, at
            from t where t.kind = {AUDIT} order by line
        ){tended}
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
}

/// What is to be written of one record.
pub(super) struct Write<'a> {
    pub(super) name: &'a RecordName,
    /// None leaves the row as it is.
    pub(super) change: Option<&'a Record>,
    /// The row that was decided on; none when there was none.
    pub(super) base: Option<&'a Record>,
    /// The decision holds until then.
    pub(super) valid_until: Timestamp,
    pub(super) traces: &'a [Trace],
    /// What becomes of the worklist's entry.
    pub(super) work: Option<&'a Work>,
    /// What side rows hold of callers' bytes goes.
    pub(super) erase: bool,
    /// Side rows are of a former life of the key, whose memory is over, and go.
    pub(super) anew: bool,
}

impl Write<'_> {
    /// Side rows alone are written in any case; all else needs the row that was decided on.
    fn is_guarded(&self) -> bool {
        self.change.is_some() || self.work.is_some() || self.erase
    }

    fn expected(&self) -> Option<i64> {
        self.base.map(|base| base.revision.cast_signed())
    }
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

/// The writes as parameters.
#[derive(Default)]
struct Arrays {
    existing: Vec<Uuid>,
    unguarded: Vec<Uuid>,
    guards: GuardArrays,
    records: RecordArrays,
    traces: TraceArrays,
    /// What stays as it is while something about it changes.
    kept: KeptArrays,
    works: WorkArrays,
    filed: FiledArrays,
    erased: Vec<Uuid>,
    anew: Vec<Uuid>,
    /// Some of the last five are not empty.
    tending: bool,
}

impl Arrays {
    fn push(&mut self, write: &Write<'_>) {
        let id = Uuid::of(&write.name.id());
        let valid_until = Moment(write.valid_until);
        let expected = write.expected();
        if !write.is_guarded() {
            self.unguarded.push(id);
        } else if expected.is_some() {
            self.existing.push(id);
        }
        if let Some(change) = write.change {
            self.records.push(RecordRow::from(change));
            self.guards.push(GuardRow {
                expected,
                valid_until,
            });
        } else if write.is_guarded() {
            self.tending = true;
            self.kept.push(KeptRow {
                id,
                expected,
                valid_until,
            });
        }
        for trace in write.traces {
            self.traces.push(TraceRow::of(write.name, trace));
        }
        if let Some(work) = write.work {
            self.tending = true;
            self.works.push(WorkRow::of(write.name, work));
        }
        if write.erase {
            self.tending = true;
            self.erased.push(id);
        }
        if write.anew {
            self.tending = true;
            self.anew.push(id);
        }
        if let Some(record) = write.change.or(write.base)
            && write.is_guarded()
        {
            self.file(record, write.traces);
        }
    }

    /// What is running is filed later, by the walk or by who ends it.
    fn file(&mut self, record: &Record, traces: &[Trace]) {
        let of_record = (record.state != State::Processing).then(|| FiledRow::of(record));
        let of_traces = traces
            .iter()
            .filter_map(|trace| FiledRow::of_trace(record, trace));
        for row in of_record.into_iter().chain(of_traces) {
            self.tending = true;
            self.filed.push(row);
        }
    }

    fn params(&self) -> Vec<Param<'_>> {
        let mut params: Vec<Param<'_>> = vec![
            (&self.existing, Type::UUID_ARRAY),
            (&self.unguarded, Type::UUID_ARRAY),
        ];
        params.extend(self.guards.params());
        params.extend(self.records.params());
        params.extend(self.traces.params());
        if self.tending {
            params.extend(self.kept.params());
            params.extend(self.works.params());
            params.extend(self.filed.params());
            params.push((&self.erased, Type::UUID_ARRAY));
            params.push((&self.anew, Type::UUID_ARRAY));
        }
        params
    }
}

/// What became of each write, and the time that goes with it.
pub(super) async fn write(
    database: &Database,
    writes: &[Write<'_>],
) -> Result<(Timestamp, HashMap<Uuid, Written>), Fault> {
    let mut arrays = Arrays::default();
    let mut outcome = HashMap::with_capacity(writes.len());
    for write in writes {
        // Until the statement says more: a held row is locked, a new one was not inserted.
        let unless = match (write.is_guarded(), write.base) {
            (false, _) => Written::Done,
            (true, Some(_)) => Written::Locked,
            (true, None) => Written::Changed,
        };
        outcome.insert(Uuid::of(&write.name.id()), unless);
        arrays.push(write);
    }
    let (now, timeout) = (database.test_now(), super::LOCK_TIMEOUT);
    let commit = database.if_commit_is_off();
    let mut params = super::prologue(&now);
    params.push((&timeout, Type::TEXT));
    params.push((&commit, Type::TEXT));
    params.extend(arrays.params());
    let sql: &str = if arrays.tending { &SQL_TENDING } else { &SQL };
    let clocked = database.run_clocked(sql, &params).await?;
    let valid_until: HashMap<Uuid, Timestamp> = writes
        .iter()
        .map(|write| (Uuid::of(&write.name.id()), write.valid_until))
        .collect();
    for row in super::present(&clocked.rows) {
        let id: Uuid = row.try_get(2).map_err(Fault::Refused)?;
        let written: bool = row.try_get(3).map_err(Fault::Refused)?;
        let after: Moment = row.try_get(4).map_err(Fault::Refused)?;
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
