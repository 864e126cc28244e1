//! Reads the revisions of many records: how a server sees what others have written.

use std::collections::HashMap;
use std::time::Instant;

use reprise_domain::RecordId;
use tokio_postgres::types::Type;

use super::column::Uuid;
use super::database::Database;
use crate::store::Error;

const SQL: &str = "select r.id, r.revision
    from unnest($1) as p(id) join reprise.record r on r.id = p.id";

pub(super) async fn revisions(
    database: &Database,
    ids: &[RecordId],
    deadline: Instant,
) -> Result<Vec<(RecordId, u64)>, Error> {
    let whole: HashMap<Uuid, RecordId> = ids.iter().map(|id| (Uuid::of(id), *id)).collect();
    let ids: Vec<Uuid> = whole.keys().copied().collect();
    let rows = database
        .run_usual(SQL, &[(&ids, Type::UUID_ARRAY)], deadline)
        .await?;
    rows.iter()
        .map(|row| {
            let (id, revision): (Uuid, i64) = (row.try_get(0)?, row.try_get(1)?);
            Ok(whole.get(&id).map(|id| (*id, revision.cast_unsigned())))
        })
        .filter_map(Result::transpose)
        .collect::<Result<_, tokio_postgres::Error>>()
        .map_err(Error::internal)
}
