//! Reads and writes policies.

use std::sync::LazyLock;
use std::time::Instant;

use tokio_postgres::types::Type;

use super::audit::POLICY_WRITTEN;
use super::column::Moment;
use super::database::Database;
use super::safety::durable_commit;
use crate::store::policy_document::{read, write};
use crate::store::{Error, PutPolicy, StoredPolicy};

const LIST: &str = "select tenant, operation, document, etag, updated_at
    from reprise.policy order by tenant, operation";

/// The etag is compared in the statement that writes, and the audit row goes with it.
/// Authority 3 is an operator's.
static PUT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "with clock as materialized (
            select coalesce($1, clock_timestamp()) as now, {durable_commit}
        ), added as (
            insert into reprise.policy (tenant, operation, document, etag, updated_at)
            select $2, $3, $4, $5, c.now from clock c where $6 = ''
            on conflict (tenant, operation) do nothing
            returning updated_at
        ), replaced as (
            update reprise.policy p set document = $4, etag = $5, updated_at = c.now
            from clock c
            where p.tenant = $2 and p.operation = $3 and p.etag = $6 and $6 <> ''
            returning p.updated_at
        ), written as (
            select updated_at from added union all select updated_at from replaced
        ), audited as (
            insert into reprise.audit (tenant, operation, action, authority, actor, evidence,
                at)
            select $2, $3, {POLICY_WRITTEN}, 3, $7, $8, updated_at from written
        )
        select updated_at from written",
        durable_commit = durable_commit("$9"),
    )
});

pub(super) async fn policies(
    database: &Database,
    deadline: Instant,
) -> Result<Vec<StoredPolicy>, Error> {
    let rows = database.run(LIST, &[], deadline).await?;
    rows.iter()
        .map(|row| {
            let column = |at| row.try_get::<_, String>(at).map_err(Error::internal);
            let updated_at: Moment = row.try_get(4).map_err(Error::internal)?;
            let (policy, mode) = read(&column(2)?).map_err(Error::internal)?;
            Ok(StoredPolicy {
                tenant: column(0)?,
                operation: column(1)?,
                policy,
                mode,
                etag: column(3)?,
                updated_at: updated_at.0,
            })
        })
        .collect()
}

pub(super) async fn put(
    database: &Database,
    put: PutPolicy,
    deadline: Instant,
) -> Result<StoredPolicy, Error> {
    let now = database.test_now();
    let commit = database.if_commit_is_off();
    let document = write(put.policy.as_ref(), put.mode);
    let etag = hex::encode(rand::random::<[u8; 16]>());
    let actor = super::row::text(&put.actor);
    let reason = super::row::text(&put.reason);
    let mut params = super::prologue(&now);
    for text in [&put.tenant, &put.operation, &document, &etag, &put.etag] {
        params.push((text, Type::TEXT));
    }
    params.push((&actor, Type::TEXT));
    params.push((&reason, Type::TEXT));
    params.push((&commit, Type::TEXT));
    let rows = database.run(&PUT, &params, deadline).await?;
    let row = rows.first().ok_or(Error::EtagChanged)?;
    let updated_at: Moment = row.try_get(0).map_err(Error::internal)?;
    Ok(StoredPolicy {
        tenant: put.tenant,
        operation: put.operation,
        policy: put.policy,
        mode: put.mode,
        etag,
        updated_at: updated_at.0,
    })
}
