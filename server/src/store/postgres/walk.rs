//! The walk over grants: each is visited once, a little behind the clock, by whichever
//! server comes first. It files what the usual life of a record, which writes nothing but
//! its row, leaves to be filed.
//!
//! None may be passed by, also not one that commits late. So it goes no further than the
//! beginning of the oldest transaction that may still write records: whoever writes to the
//! table has locked it before it reads the clock for its grants. That is asked in a
//! statement before the one that visits, since the latter's view of the records is older
//! than anything that it reads later.

use std::sync::LazyLock;
use std::time::Instant;

use tokio_postgres::types::Type;

use super::column::{FIRST_ID, Moment};
use super::database::Database;
use super::filing;
use super::safety::durable_commit;
use super::usual;
use super::work::LOOK;
use crate::store::{Error, Walked};

/// Grants that one step visits.
const STEP: i64 = 1000;

/// Up to when all grants are there to be seen. Transactions are read before locks: one that
/// took its lock in between began after all of this. Of one whose beginning is not to be
/// seen, of another role or prepared, a minute is assumed.
const HORIZON: &str = "with clock as materialized (
        select coalesce($1, clock_timestamp()) as now
    ), activity as materialized (
        select pid, xact_start, state from pg_stat_activity
    ), locks as materialized (
        select l.pid from pg_locks l
        where (select count(*) from activity) > 0 and l.locktype = 'relation'
            and l.database = (select oid from pg_database where datname = current_database())
            and l.relation = 'reprise.record'::regclass
            and l.mode = 'RowExclusiveLock' and l.pid is distinct from pg_backend_pid()
    )
    select least(c.now - interval '2 seconds', (
        select min(case
            when l.pid is null or (a.pid is not null and a.state is null)
                then c.now - interval '1 minute'
            else a.xact_start end)
        from locks l left join activity a on a.pid = l.pid))
    from clock c";

/// Visits what was granted after the place where the walk stands and before `$4`. A place
/// after the clock is one of before the clock was set back: what was granted since then
/// was passed by, so the walk begins again some way back. Visiting twice does no harm.
static VISIT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "with place as materialized (
            select granted_at, id from reprise.walk where one limit 1 for update skip locked
        ), clock as materialized (
            select coalesce($1, clock_timestamp()) as now,
                set_config('lock_timeout', $2, true), {durable_commit}
            from (select count(*) from place) locked
        ), start as materialized (
            select
                case when p.granted_at > c.now
                    then $4 - interval '10 minutes' else p.granted_at end as granted_at,
                case when p.granted_at > c.now then {FIRST_ID} else p.id end as id
            from place p cross join clock c
        ), f as materialized (
            select r.* from start s cross join lateral (
                select r.id, r.tenant, r.operation, r.state, r.granted_at,
                    case when r.state = 1 then {lease_end} end as lease_end,
                    {closed} as closed, case when {closed} then r.recorded_at end as recorded_at,
                    {result_until} as result_until, {memory_until} as memory_until,
                    {has_bytes} as has_bytes,
                    r.resource_id, r.provider_reference, r.content_reference
                from reprise.record r
                where r.granted_at >= s.granted_at and r.granted_at < $4
                    and (r.granted_at > s.granted_at or r.id > s.id)
                order by r.granted_at, r.id limit {STEP}
            ) r
        ), looks as (
            insert into reprise.worklist (id, tenant, operation, kind, due)
            select f.id, f.tenant, f.operation, {LOOK},
                coalesce(f.lease_end, c.now)
            from f cross join clock c where not f.closed order by f.id
            on conflict (id) do nothing
        ), removals as (
            {removals}
        ), filed as (
            {references}
        ), visited as materialized (
            select count(*) as n from f
        ), moved as (
            update reprise.walk w set granted_at = m.granted_at, id = m.id
            from (
                (select f.granted_at, f.id from f cross join visited v where v.n = {STEP}
                    order by f.granted_at desc, f.id desc limit 1)
                union all
                select $4, {FIRST_ID} from start s cross join visited v
                    where v.n < {STEP} and s.granted_at < $4
            ) m
        )
        select n from visited",
        durable_commit = durable_commit("$3"),
        closed = filing::closed("r"),
        lease_end = usual::lease_end_of("r"),
        result_until = usual::result_until_of("r"),
        memory_until = usual::memory_until_of("r"),
        has_bytes = filing::has_bytes("r"),
        removals = filing::removals("f"),
        references = filing::references("f"),
    )
});

pub(super) async fn walk(database: &Database, deadline: Instant) -> Result<Walked, Error> {
    let now = database.test_now();
    let rows = database
        .run_usual(HORIZON, &super::prologue(&now), deadline)
        .await?;
    let horizon: Moment = super::first(&rows)?.try_get(0).map_err(Error::internal)?;
    let (timeout, commit) = (super::LOCK_TIMEOUT, database.if_commit_is_off());
    let mut params = super::prologue(&now);
    params.push((&timeout, Type::TEXT));
    params.push((&commit, Type::TEXT));
    params.push((&horizon, Type::TIMESTAMPTZ));
    let rows = database.run_usual(&VISIT, &params, deadline).await?;
    let visited: i64 = super::first(&rows)?.try_get(0).map_err(Error::internal)?;
    Ok(Walked {
        visited: visited.unsigned_abs(),
        more: visited == STEP,
    })
}
