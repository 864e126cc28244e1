//! Hands out what the service itself has to look at.

use std::sync::LazyLock;
use std::time::Instant;

use reprise_domain::RecordName;
use reprise_domain::record::ClaimId;
use tokio_postgres::types::Type;

use super::column::{Blob, Param};
use super::database::Database;
use super::safety::durable_commit;
use super::work::LOOK;
use crate::store::Error;

/// What is handed out is put off, so that no other server gets it meanwhile; the look moves
/// or closes the entry. Entries without a record go.
static SQL: LazyLock<String> = LazyLock::new(|| {
    format!(
        "with clock as materialized (
            select coalesce($1, clock_timestamp()) as now,
                set_config('lock_timeout', $2, true), {durable_commit}
        ), due as materialized (
            select w.id, w.due from reprise.worklist w
            where w.kind = {LOOK} and w.due <= (select now from clock)
            order by w.due limit $4 for update skip locked
        ), known as materialized (
            select d.due, r.id, r.tenant, r.operation, r.subject, r.key
            from due d join reprise.record r on r.id = d.id
        ), put_off as (
            update reprise.worklist set due = (select now from clock) + interval '3 seconds'
            where id = any(array(select id from known))
        ), dropped as (
            delete from reprise.worklist
            where id = any(array(select id from due except select id from known))
        )
        select tenant, operation, subject, key from known order by due",
        durable_commit = durable_commit("$3"),
    )
});

pub(super) async fn to_look_at(
    database: &Database,
    max: usize,
    deadline: Instant,
) -> Result<Vec<RecordName>, Error> {
    let (now, timeout) = (database.test_now(), super::LOCK_TIMEOUT);
    let commit = database.if_commit_is_off();
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let mut params = super::prologue(&now);
    params.push((&timeout, Type::TEXT));
    params.push((&commit, Type::TEXT));
    params.push((&max, Type::INT8));
    let rows = database.run(&SQL, &params, deadline).await?;
    rows.iter().map(|row| super::name(row, 0)).collect()
}

/// Names handed to callers of the call with this id.
const CLAIMED: &str = "select r.tenant, r.operation, r.subject, r.key
    from reprise.worklist w join reprise.record r on r.id = w.id
    where w.claim_id = $1 and w.tenant = $2
    order by w.id";

pub(super) async fn claimed(
    database: &Database,
    tenant: &str,
    claim: ClaimId,
    deadline: Instant,
) -> Result<Vec<RecordName>, Error> {
    let claim = Blob::copy(&claim.0);
    let params: [Param<'_>; 2] = [(&claim, Type::BYTEA), (&tenant, Type::TEXT)];
    let rows = database.run(CLAIMED, &params, deadline).await?;
    rows.iter().map(|row| super::name(row, 0)).collect()
}
