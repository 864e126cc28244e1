//! Reads all side rows of a record.

use std::sync::LazyLock;
use std::time::Instant;

use reprise_domain::{RecordId, Trace};
use tokio_postgres::types::Type;

use super::column::Uuid;
use super::database::Database;
use super::trace::{AUDIT, EVIDENCE, HISTORY, REPLACED, TraceRow};
use crate::store::Error;

/// The columns of [`TraceRow`], in its order, from each of the tables.
static SQL: LazyLock<String> = LazyLock::new(|| {
    format!(
        "select {EVIDENCE}::smallint as kind, id, attempt, at, reported as what,
            null as actor, code as note, null as reference, null::bytea as attempt_id,
            null::timestamptz as granted_at, digest as bytes, '' as tenant, '' as operation,
            null::smallint as authority, written_at
        from reprise.evidence where id = $1
        union all
        select {HISTORY}::smallint, id, attempt, ended_at, ending, owner, code,
            provider_reference, attempt_id, granted_at, null, '', '', null, written_at
        from reprise.history where id = $1
        union all
        select {REPLACED}::smallint, id, attempt, at, null, null, null,
            provider_reference, null, null, instruction, '', '', null, written_at
        from reprise.replaced where id = $1
        union all
        select {AUDIT}::smallint, id, attempt, at, action, actor, evidence,
            null, null, null, null, tenant, operation, authority, written_at
        from reprise.audit where id = $1
        order by kind, written_at"
    )
});

pub(super) async fn traces(
    database: &Database,
    id: &RecordId,
    deadline: Instant,
) -> Result<Vec<Trace>, Error> {
    let id = Uuid::of(id);
    let rows = database.run(&SQL, &[(&id, Type::UUID)], deadline).await?;
    rows.iter()
        .map(|row| {
            let row = TraceRow::read(row, 0).map_err(Error::internal)?;
            Trace::try_from(row).map_err(Error::internal)
        })
        .collect()
}
