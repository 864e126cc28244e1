//! Statements on policies.

use reprise_domain::Timestamp;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::cells::{Reader, Writer, cells};
use super::fault;
use crate::store::{Error, PutPolicy, StoredPolicy, policy_document};

/// A policy row that is not what was written.
#[derive(Debug, thiserror::Error)]
#[error("a stored policy is damaged")]
struct Damaged;

/// All policies, in order of tenant and operation.
pub(super) fn all(connection: &Connection) -> Result<Vec<StoredPolicy>, Error> {
    let mut select = connection
        .prepare_cached(
            "select tenant, operation, document, etag, updated_at, checksum
             from policies order by tenant, operation",
        )
        .map_err(fault::general)?;
    let rows = select.query_map([], cells).map_err(fault::general)?;
    rows.map(|cells| {
        Reader::checked(cells.map_err(fault::general)?)
            .and_then(read)
            .ok_or_else(|| Error::internal(Damaged))
    })
    .collect()
}

fn read(mut row: Reader) -> Option<StoredPolicy> {
    let (tenant, operation) = (row.text()?, row.text()?);
    let (policy, mode) = policy_document::read(&row.text()?).ok()?;
    Some(StoredPolicy {
        tenant,
        operation,
        policy,
        mode,
        etag: row.text()?,
        updated_at: row.time()?,
    })
}

/// Stores a policy in place of the one with the named etag, with its audit row.
pub(super) fn put(
    connection: &Connection,
    put: PutPolicy,
    now: Timestamp,
) -> Result<StoredPolicy, Error> {
    let stored: Option<String> = connection
        .query_row(
            "select etag from policies where tenant = ? and operation = ?",
            params![put.tenant, put.operation],
            |row| row.get(0),
        )
        .optional()
        .map_err(fault::general)?;
    if stored.unwrap_or_default() != put.etag {
        return Err(Error::EtagChanged);
    }
    let document = policy_document::write(put.policy.as_ref(), put.mode);
    // Random, since a counter would repeat itself in a file that was restored.
    let etag = hex::encode(rand::random::<[u8; 8]>());
    let mut row = Writer::default();
    row.text(&put.tenant);
    row.text(&put.operation);
    row.text(&document);
    row.text(&etag);
    row.time(now);
    connection
        .execute(
            "insert into policies (tenant, operation, document, etag, updated_at, checksum)
             values (?, ?, ?, ?, ?, ?)
             on conflict (tenant, operation) do update set document = excluded.document,
                 etag = excluded.etag, updated_at = excluded.updated_at,
                 checksum = excluded.checksum",
            params_from_iter(row.summed()),
        )
        .map_err(fault::general)?;
    connection
        .execute(
            "insert into audit (tenant, operation, action, authority, actor, evidence, policy, at)
             values (?, ?, 'policy_put', 'operator', ?, ?, ?, ?)",
            params![
                put.tenant,
                put.operation,
                put.actor,
                put.reason,
                document,
                now.0
            ],
        )
        .map_err(fault::general)?;
    Ok(StoredPolicy {
        tenant: put.tenant,
        operation: put.operation,
        policy: put.policy,
        mode: put.mode,
        etag,
        updated_at: now,
    })
}
