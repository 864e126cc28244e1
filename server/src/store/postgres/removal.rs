//! Removes what has come to its end: headers and bodies, records with their side rows, old
//! audit rows. A step takes the longest due entry of the schedule, looks through some of
//! its grants, and carries out in one further statement what it found, so that each is
//! short and locks few rows. While a server is at an entry, others take the next one; an
//! entry whose server died is free again after a while.
//!
//! What the step saw is checked again under each row's lock: a record that was revived
//! meanwhile stays. What somebody else has locked is skipped, and looked for again later.

use std::sync::LazyLock;
use std::time::Instant;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::column::{Blob, FIRST_ID, Moment, Param, Uuid, columns, unnest};
use super::content::{self, ContentColumns};
use super::database::Database;
use super::filing::{closed, has_bytes};
use super::safety::durable_commit;
use super::usual;
use super::work::SIDE_TABLES;
use crate::store::{AUDIT_RETENTION, Error, Removed};

/// Grants, and audit rows, that one step looks through.
const STEP: i64 = 500;
/// Bytes of headers and bodies that one step fetches, to remember what they were; one record
/// at least.
const STEP_BYTES: i64 = 4 * 1024 * 1024;

/// Takes an entry, if one is due, and answers it with those of its next grants that are to
/// lose headers and body. Removes audit rows on the way.
static TAKE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "with clock as materialized (
            select coalesce($1, clock_timestamp()) as now,
                set_config('lock_timeout', $2, true), {durable_commit}
        ), pick as materialized (
            select e.due, e.granted_from, e.granted_to from reprise.removal e
            where e.due <= (select now from clock)
                and (e.taken_until is null or e.taken_until <= (select now from clock))
            order by e.due, e.granted_from, e.granted_to limit 1 for update skip locked
        ), taken as (
            update reprise.removal e set taken_until = c.now + interval '30 seconds'
            from pick p cross join clock c
            where (e.due, e.granted_from, e.granted_to) = (p.due, p.granted_from, p.granted_to)
            returning e.due, e.granted_from, e.granted_to, e.taken_until,
                coalesce(e.position_at, e.granted_from) as start_at,
                coalesce(e.position_id, {FIRST_ID}) as start_id
        ), old as (
            delete from reprise.audit where ctid = any(array(
                select ctid from reprise.audit
                where at < (select now from clock) - $4 * interval '1 microsecond'
                order by at limit {STEP} for update skip locked))
            returning 1
        ), batch as materialized (
            select r.*, case when r.strips then r.bytes else 0 end as fetched
            from taken t cross join lateral (
                select r.id, r.granted_at, {closed} and {result_until} <= (select now from clock)
                        and {memory_until} > (select now from clock)
                        and {has_bytes} as strips,
                    coalesce(octet_length(r.body), 0) + coalesce(octet_length(r.headers), 0)
                        as bytes
                from reprise.record r
                where r.granted_at >= t.start_at and r.granted_at < t.granted_to
                    and (r.granted_at > t.start_at or r.id > t.start_id)
                order by r.granted_at, r.id limit {STEP}
            ) r
        ), part as materialized (
            select * from (
                select b.*, sum(b.fetched) over (order by b.granted_at, b.id) - b.fetched as before
                from batch b) b
            where before < {STEP_BYTES}
        ), last as (
            select granted_at, id from part order by granted_at desc, id desc limit 1
        )
        select (select count(*) from old), t.due, t.granted_from, t.granted_to, t.taken_until,
            t.start_at, t.start_id, l.granted_at, l.id,
            (select count(*) < {STEP} from batch)
                and (select count(*) from part) = (select count(*) from batch),
            r.id, r.revision, r.code, r.headers, r.body, r.body_size, r.body_sha256, r.checksum,
            r.content_reference, r.resource_id, r.report_digest, r.tenant, r.operation,
            r.subject, r.key
        from (select) one left join taken t on true left join last l on true
            left join (part p join reprise.record r on r.id = p.id and p.strips) on true",
        durable_commit = durable_commit("$3"),
        closed = closed("r"),
        result_until = usual::result_until_of("r"),
        memory_until = usual::memory_until_of("r"),
        has_bytes = has_bytes("r"),
    )
});

columns! {
    /// What stays of a body.
    StrippedRow, StrippedArrays {
        id: Uuid,
        revision: i64,
        body_size: Option<i64>,
        body_sha256: Option<Blob>,
        checksum: Option<Blob>,
    }
}

/// Removes and strips what lies between the places `($8, $9)` and `($10, $11)`, and moves
/// the entry on, or ends it when `$12` says that this was the last of it. A locked row is
/// found again by where it lies; one that was written between this statement's view and its
/// lock lies elsewhere, and is missed.
static CARRY_OUT: LazyLock<String> = LazyLock::new(|| {
    let over = format!(
        "r.granted_at between $8 and $10 and (r.granted_at > $8 or r.id > $9)
                and (r.granted_at < $10 or r.id <= $11)
                and {closed} and {memory_until} <= (select now from clock)",
        closed = closed("r"),
        memory_until = usual::memory_until_of("r"),
    );
    let side_rows: Vec<String> = SIDE_TABLES
        .iter()
        .chain(&["worklist"])
        .map(|table| {
            format!(
                "of_{table} as (
            delete from reprise.{table} where id = any(array(select id from gone))
        )"
            )
        })
        .collect();
    let entry = "(due, granted_from, granted_to, taken_until) = ($4, $5, $6, $7)";
    format!(
        "with clock as materialized (
            select coalesce($1, clock_timestamp()) as now,
                set_config('lock_timeout', $2, true), {durable_commit}
        ), over as materialized (
            select r.id from reprise.record r where {over}
        ), doomed as materialized (
            select r.ctid from reprise.record r where {over}
            order by r.id for update of r skip locked
        ), gone as (
            delete from reprise.record where ctid = any(array(select ctid from doomed))
            returning id
        ), {side_rows}, s as materialized (
            select * from {stripped}
        ), held as materialized (
            select r.ctid, r.id, r.revision from reprise.record r
            where r.id = any(array(select id from s))
            order by r.id for no key update skip locked
        ), stripped as (
            update reprise.record r set headers = null, body = null, body_size = s.body_size,
                body_sha256 = s.body_sha256, checksum = s.checksum,
                instruction = case when r.state = 4 then r.instruction end
            from s join held h on h.id = s.id and h.revision = s.revision
            where r.ctid = h.ctid
            returning r.id
        ), missed as materialized (
            select (select count(*) from over) - (select count(*) from gone)
                + (select count(*) from s) - (select count(*) from stripped) as n
        ), moved as (
            update reprise.removal
            set position_at = $10, position_id = $11, taken_until = null
            where {entry} and not $12
        ), ended as (
            delete from reprise.removal where {entry} and $12
        ), again as (
            insert into reprise.removal (due, granted_from, granted_to)
            select date_trunc('second', c.now) + interval '30 seconds', $8,
                $10 + interval '1 microsecond'
            from missed m cross join clock c where m.n > 0
            on conflict do nothing
        )
        select (select count(*) from gone), (select count(*) from stripped)",
        durable_commit = durable_commit("$3"),
        side_rows = side_rows.join(", "),
        stripped = unnest(13, "s", StrippedArrays::NAMES),
    )
});

/// An entry that this server is at, and a part of its grants.
struct Taken {
    due: Moment,
    granted_from: Moment,
    granted_to: Moment,
    taken_until: Moment,
    start: (Moment, Uuid),
    end: (Option<Moment>, Option<Uuid>),
    is_last: bool,
}

pub(super) async fn remove(database: &Database, deadline: Instant) -> Result<Removed, Error> {
    let now = database.test_now();
    let (timeout, commit) = (super::LOCK_TIMEOUT, database.if_commit_is_off());
    let audit_kept = reprise_domain::time::micros(AUDIT_RETENTION);
    let mut params = super::prologue(&now);
    params.push((&timeout, Type::TEXT));
    params.push((&commit, Type::TEXT));
    params.push((&audit_kept, Type::INT8));
    let rows = database.run_usual(&TAKE, &params, deadline).await?;
    let first = super::first(&rows)?;
    let audited: i64 = first.try_get(0).map_err(Error::internal)?;
    let Some(taken) = Taken::read(first).map_err(Error::internal)? else {
        return Ok(Removed {
            more: audited == STEP,
            ..Removed::default()
        });
    };
    let mut stripped = StrippedArrays::default();
    for row in &rows {
        if let Some(row) = strip(row)? {
            stripped.push(row);
        }
    }
    // The age of audit rows is the first statement's matter alone.
    params.truncate(3);
    params.extend(taken.params());
    params.extend(stripped.params());
    let rows = database.run_usual(&CARRY_OUT, &params, deadline).await?;
    let row = super::first(&rows)?;
    let count = |at| row.try_get::<_, i64>(at).map(i64::unsigned_abs);
    Ok(Removed {
        records: count(0).map_err(Error::internal)?,
        bodies: count(1).map_err(Error::internal)?,
        more: true,
    })
}

impl Taken {
    fn read(row: &Row) -> Result<Option<Self>, tokio_postgres::Error> {
        let Some(due) = row.try_get(1)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            due,
            granted_from: row.try_get(2)?,
            granted_to: row.try_get(3)?,
            taken_until: row.try_get(4)?,
            start: (row.try_get(5)?, row.try_get(6)?),
            end: (row.try_get(7)?, row.try_get(8)?),
            is_last: row.try_get(9)?,
        }))
    }

    fn params(&self) -> Vec<Param<'_>> {
        vec![
            (&self.due, Type::TIMESTAMPTZ),
            (&self.granted_from, Type::TIMESTAMPTZ),
            (&self.granted_to, Type::TIMESTAMPTZ),
            (&self.taken_until, Type::TIMESTAMPTZ),
            (&self.start.0, Type::TIMESTAMPTZ),
            (&self.start.1, Type::UUID),
            (&self.end.0, Type::TIMESTAMPTZ),
            (&self.end.1, Type::UUID),
            (&self.is_last, Type::BOOL),
        ]
    }
}

/// What stays of the content of a row, if it is to be stripped.
fn strip(row: &Row) -> Result<Option<StrippedRow>, Error> {
    let blob = |at| row.try_get::<_, Option<Blob>>(at).map_err(Error::internal);
    let text = |at| {
        row.try_get::<_, Option<String>>(at)
            .map_err(Error::internal)
    };
    let Some(id) = row.try_get(10).map_err(Error::internal)? else {
        return Ok(None);
    };
    let revision: i64 = row.try_get(11).map_err(Error::internal)?;
    let columns = ContentColumns {
        code: text(12)?,
        reference: text(18)?,
        headers: blob(13)?,
        body: blob(14)?,
        body_size: row.try_get(15).map_err(Error::internal)?,
        body_sha256: blob(16)?,
        checksum: blob(17)?,
    };
    let Some(left) = content::stripped(columns, text(19)?, blob(20)?.as_ref()) else {
        let record = super::name(row, 21)?.id();
        // What it was is not known any more; it stays to be reported, until its memory ends.
        tracing::error!(%record, "stored bytes are damaged; they are not removed yet");
        return Ok(None);
    };
    Ok(Some(StrippedRow {
        id,
        revision,
        body_size: left.body_size,
        body_sha256: left.body_sha256,
        checksum: left.checksum,
    }))
}
