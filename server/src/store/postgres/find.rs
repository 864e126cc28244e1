//! Reads one record strongly, by its id or by the effect key of any of its generations.

use std::sync::LazyLock;
use std::time::Instant;

use reprise_domain::{Record, RecordId, Timestamp};
use tokio_postgres::types::Type;

use super::column::{Moment, Uuid, under};
use super::database::Database;
use super::row::{RecordArrays, RecordRow};
use crate::store::{Error, Target};

static SQL: LazyLock<String> = LazyLock::new(|| {
    format!(
        // An effect key stands for a range of ids that holds one record but for chance.
        "select coalesce($1, statement_timestamp()), {columns} from reprise.record r
         where r.id between $2 and $3 and r.tenant = $4
         order by r.id limit 16",
        columns = under("r", RecordArrays::NAMES),
    )
});

pub(super) async fn find(
    database: &Database,
    tenant: &str,
    target: Target,
    deadline: Instant,
) -> Result<Option<(Record, Timestamp)>, Error> {
    let (first, last) = match target {
        Target::Id(id) => (id, id),
        Target::EffectKey(key) => key.range(),
    };
    let (first, last) = (Uuid::of(&first), Uuid::of(&last));
    let now = database.test_now();
    let mut params = super::prologue(&now);
    params.push((&first, Type::UUID));
    params.push((&last, Type::UUID));
    params.push((&tenant, Type::TEXT));
    for row in database.run_usual(&SQL, &params, deadline).await? {
        let now: Moment = row.try_get(0).map_err(Error::internal)?;
        let stored = RecordRow::read(&row, 1).map_err(Error::internal)?;
        let record = super::record(stored)?;
        if is_meant(target, &record.name.id(), record.generation) {
            return Ok(Some((record, now.0)));
        }
    }
    Ok(None)
}

fn is_meant(target: Target, id: &RecordId, generation: u32) -> bool {
    match target {
        Target::Id(wanted) => wanted == *id,
        Target::EffectKey(key) => key.belongs_to(id, generation),
    }
}
