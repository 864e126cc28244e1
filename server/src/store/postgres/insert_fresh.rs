//! Fast path of Reserve: inserts records that nobody has, in one statement. The unique key
//! decides who is first. A key that is there already is left alone and answered from a
//! read: the statement's snapshot may be older than the row that stands in the way.

use std::sync::LazyLock;

use reprise_domain::{Record, RecordId, Timestamp};

use super::column::{Blob, Code, Moment, columns, unnest};
use super::database::{Database, Fault, TIMELINE};
use super::row::{blob, text};

columns! {
    /// What the plan of a first grant sets, moments as microseconds from now.
    FreshRow, FreshArrays {
        id: Blob,
        tenant: String,
        operation: String,
        subject: Option<String>,
        key: String,
        revision: i64,
        state: i16,
        generation: i32,
        fingerprint_scheme: i16,
        fingerprint_rule: Option<String>,
        fingerprint_digest: Blob,
        attempt: i32,
        attempt_id: Blob,
        fence: i64,
        lease_in: i64,
        lease_us: i64,
        on_lapse: i16,
        repeat_in: Option<i64>,
        why: i16,
        owner: Option<String>,
        correlation_id: Option<String>,
        instruction: Option<Blob>,
    }
}

static SQL: LazyLock<String> = LazyLock::new(|| {
    format!(
        // Waiting for another session's open insert of the same key is bounded. The insert
        // may have waited after it read its time, so the time is read again at the end.
        "with clock as materialized (
            select coalesce($1, clock_timestamp()) as now, {TIMELINE} as timeline,
                set_config('lock_timeout', $2, true)
        ), fresh as (
            insert into reprise.record (
                id, tenant, operation, subject, key, revision, created_at, updated_at, state,
                generation, fingerprint_scheme, fingerprint_rule, fingerprint_digest, attempt,
                attempt_id, fence, granted_at, lease_end, lease_us, on_lapse, repeat_until, why,
                owner, correlation_id, instruction)
            select
                p.id, p.tenant, p.operation, p.subject, p.key, p.revision, c.now, c.now, p.state,
                p.generation, p.fingerprint_scheme, p.fingerprint_rule, p.fingerprint_digest,
                p.attempt, p.attempt_id,
                greatest(p.fence, (extract(epoch from c.now) * 1000000)::bigint),
                c.now, c.now + p.lease_in * interval '1 microsecond', p.lease_us, p.on_lapse,
                c.now + p.repeat_in * interval '1 microsecond', p.why, p.owner,
                p.correlation_id, p.instruction
            from {plans} cross join clock c
            order by p.id
            on conflict (id) do nothing
            returning id
        )
        select coalesce($1, clock_timestamp()), c.timeline, f.id, c.now
        from clock c left join fresh f on true",
        plans = unnest(3, "p", FreshArrays::NAMES),
    )
});

/// A record that was inserted.
pub(super) struct Inserted {
    pub(super) id: RecordId,
    /// When it was granted.
    pub(super) granted_at: Timestamp,
    /// After its insert; later where that had to wait.
    pub(super) now: Timestamp,
}

/// Inserts those of the planned records whose keys are free.
pub(super) async fn insert_fresh(
    database: &Database,
    plans: impl Iterator<Item = &Record>,
) -> Result<Vec<Inserted>, Fault> {
    let mut arrays = FreshArrays::default();
    plans.for_each(|plan| arrays.push(row(plan)));
    let (now, timeout) = (database.test_now(), super::LOCK_TIMEOUT);
    let mut params = super::prologue(&now);
    params.push((&timeout, tokio_postgres::types::Type::TEXT));
    params.extend(arrays.params());
    let clocked = database.run_clocked(&SQL, &params).await?;
    let inserted = clocked.rows.iter().map(|row| {
        let Some(id) = row.try_get::<_, Option<Blob>>(2)? else {
            return Ok(None);
        };
        let (now, granted_at): (Moment, Moment) = (row.try_get(0)?, row.try_get(3)?);
        Ok(Some(Inserted {
            id: super::record_id(&id),
            granted_at: granted_at.0,
            now: now.0,
        }))
    });
    inserted
        .filter_map(Result::transpose)
        .collect::<Result<_, _>>()
        .map_err(Fault::Refused)
}

fn row(plan: &Record) -> FreshRow {
    let attempt = &plan.attempt;
    FreshRow {
        id: Blob::copy(&plan.name.id().0),
        tenant: plan.name.tenant().to_owned(),
        operation: plan.name.operation().to_owned(),
        subject: text(plan.name.subject()),
        key: plan.name.key().to_owned(),
        revision: plan.revision.cast_signed(),
        state: plan.state.code(),
        generation: plan.generation.cast_signed(),
        fingerprint_scheme: plan.fingerprint.scheme.code(),
        fingerprint_rule: text(plan.fingerprint.rule.as_str()),
        fingerprint_digest: Blob::copy(&plan.fingerprint.digest),
        attempt: attempt.number.cast_signed(),
        attempt_id: Blob::copy(&attempt.id.0),
        fence: attempt.fence.cast_signed(),
        lease_in: attempt.lease_end.0,
        lease_us: reprise_domain::time::micros(attempt.lease),
        on_lapse: attempt.on_lapse.code(),
        repeat_in: attempt.repeat_until.map(|until| until.0),
        why: attempt.why.code(),
        owner: text(&attempt.owner),
        correlation_id: text(&plan.correlation_id),
        instruction: blob(&plan.instruction),
    }
}
