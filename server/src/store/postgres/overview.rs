//! How the store is, for people and for metrics.

use std::sync::LazyLock;
use std::time::Instant;

use super::column::Moment;
use super::database::Database;
use crate::store::{Error, OPEN_COUNT_MAX, Overview};

static SQL: LazyLock<String> = LazyLock::new(|| {
    format!(
        "select coalesce($1, statement_timestamp()),
            (select granted_at from reprise.walk),
            (select count(*) from (select from reprise.worklist limit {OPEN_COUNT_MAX}) w),
            (select min(due) from reprise.removal)"
    )
});

pub(super) async fn overview(database: &Database, deadline: Instant) -> Result<Overview, Error> {
    let now = database.test_now();
    let rows = database.run(&SQL, &super::prologue(&now), deadline).await?;
    let row = super::first(&rows)?;
    let moment = |at| row.try_get::<_, Moment>(at).map_err(Error::internal);
    let open: i64 = row.try_get(2).map_err(Error::internal)?;
    let due: Option<Moment> = row.try_get(3).map_err(Error::internal)?;
    Ok(Overview {
        kind: "postgres",
        now: moment(0)?.0,
        walked_to: moment(1)?.0,
        open: open.unsigned_abs(),
        removal_due: due.map(|moment| moment.0),
    })
}
