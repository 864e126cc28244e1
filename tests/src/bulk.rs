//! Many records at once, as a table of a database that has long been in use. They are
//! inserted beside the store, so nothing of them is filed: that is left to the walk.

use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use reprise_domain::content::Body;
use reprise_domain::{Content, Timestamp};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

/// What the records have in common. Their keys are a prefix and a number from 0.
#[derive(Clone, Debug)]
pub struct Bulk {
    /// Of their names; operation `charge`, no subject.
    pub tenant: &'static str,
    /// Of their keys.
    pub prefix: &'static str,
    /// How many.
    pub count: i64,
    /// 1 processing, 2 pending, 3 completed.
    pub state: i16,
    /// Grant of the first one, and from one grant to the next.
    pub granted_from: Timestamp,
    /// As above.
    pub every: Duration,
    /// From the grant to the end of the lease.
    pub lease: Duration,
    /// Of completed ones: from a second after the grant to the end of the body.
    pub result_retention: Duration,
    /// Of completed ones: as above, to the end of the record.
    pub memory_retention: Duration,
    /// Of completed ones; none without bytes.
    pub body: &'static [u8],
}

/// Ids are those of the names; what is as usual is null.
const INSERT: &str = "insert into reprise.record (id, tenant, operation, key, revision, lease_us,
        granted_at, state, attempt_id, fingerprint_digest, provider_reference, resource_id,
        recorded_at, result_until, memory_until, report_kind, report_digest, used, code,
        content_reference, body, checksum, pending_reason, pending_since, next_check)
    select encode(substr(sha256(int8send(16) || 'reprise-record-1'
            || int8send(octet_length($1)) || convert_to($1, 'UTF8')
            || int8send(6) || 'charge' || int8send(0)
            || int8send(octet_length($2 || n)) || convert_to($2 || n, 'UTF8')),
            1, 16), 'hex')::uuid,
        $1, 'charge', $2 || n, 2, nullif($7::bigint, 30000000), at, $4,
        decode(md5($2 || n), 'hex'), sha256(''), case when $12 then 'pr-' || $2 || n end,
        case when $12 then 'order-' || $2 || n end,
        case when done then at + interval '1 second' end,
        case when done then
            at + interval '1 second' + nullif($8::bigint, 259200000000) * interval '1 microsecond' end,
        case when done then
            at + interval '1 second' + nullif($9::bigint, 3024000000000) * interval '1 microsecond' end,
        case when done then 1 end, case when done then $13::bytea end,
        case when $4 <> 1 then true end,
        case when done then '201' end, case when done and $12 then 'pr-' || $2 || n end,
        case when done then $10::bytea end, case when done then $11::bytea end,
        case when $4 = 2 then 1 end,
        case when $4 = 2 then at end,
        case when $4 = 2 then at + ($7 + 60000000) * interval '1 microsecond' end
    from generate_series(0, $3 - 1) n
    cross join lateral (select to_timestamp($5::float8 / 1000000)
        + n * $6 * interval '1 microsecond' as at, $4 = 3 as done) t";

/// Inserts them, each with a resource id and a provider reference.
///
/// # Errors
/// What the database says.
pub async fn insert(client: &Client, bulk: &Bulk) -> Result<()> {
    put(client, bulk, true).await
}

/// Inserts them without references, which the simplest life does not have.
///
/// # Errors
/// What the database says.
pub async fn insert_unreferenced(client: &Client, bulk: &Bulk) -> Result<()> {
    put(client, bulk, false).await
}

async fn put(client: &Client, bulk: &Bulk, referenced: bool) -> Result<()> {
    let content = Content {
        body: (!bulk.body.is_empty()).then(|| Body::Data(Bytes::from_static(bulk.body))),
        ..Content::of_code("201")
    };
    let body = (!bulk.body.is_empty()).then_some(bulk.body);
    let (micros, from) = (reprise_domain::time::micros, bulk.granted_from.0);
    // The digest of a report takes a checksum's place where it covers all that is kept.
    let digest = content.digest();
    let checksum = referenced.then(|| content.checksum());
    let statement = client
        .prepare_typed(
            INSERT,
            &[
                Type::TEXT,
                Type::TEXT,
                Type::INT8,
                Type::INT2,
                Type::INT8,
                Type::INT8,
                Type::INT8,
                Type::INT8,
                Type::INT8,
                Type::BYTEA,
                Type::BYTEA,
                Type::BOOL,
                Type::BYTEA,
            ],
        )
        .await?;
    client
        .execute(
            &statement,
            &[
                &bulk.tenant,
                &bulk.prefix,
                &bulk.count,
                &bulk.state,
                &from,
                &micros(bulk.every),
                &micros(bulk.lease),
                &micros(bulk.result_retention),
                &micros(bulk.memory_retention),
                &body,
                &checksum.as_ref().map(|checksum| &checksum[..]),
                &referenced,
                &&digest[..],
            ],
        )
        .await?;
    client.batch_execute("analyze reprise.record").await?;
    Ok(())
}
