//! The secret that all servers of a database share: whoever is first makes it.

use std::sync::LazyLock;
use std::time::Instant;

use reprise_domain::token::TokenKey;
use tokio_postgres::types::Type;

use super::column::{Blob, Param};
use super::database::{Database, Fault};
use super::row::fixed;
use super::safety::durable_commit;
use crate::store::Error;

static OFFER: LazyLock<String> = LazyLock::new(|| {
    format!(
        "with durable as materialized (select {durable_commit})
        insert into reprise.meta (name, value) select 'token_key', $1 from durable
        on conflict (name) do nothing",
        durable_commit = durable_commit("$2"),
    )
});
/// A statement of its own: the one above cannot see the row that it lost to.
const READ: &str = "select value from reprise.meta where name = 'token_key'";

pub(super) async fn token_key(database: &Database, deadline: Instant) -> Result<TokenKey, Fault> {
    let missing = || Fault::Unavailable(Error::unavailable("the database keeps no token key"));
    let mut rows = database.run(READ, &[], deadline).await?;
    if rows.is_empty() {
        let offer = Blob::copy(&rand::random::<[u8; 32]>());
        let commit = database.if_commit_is_off();
        let params: [Param<'_>; 2] = [(&offer, Type::BYTEA), (&commit, Type::TEXT)];
        database.run(&OFFER, &params, deadline).await?;
        rows = database.run(READ, &[], deadline).await?;
    }
    let row = rows.first().ok_or_else(missing)?;
    let value: Blob = row.try_get(0).map_err(Fault::Refused)?;
    let secret = fixed("value", &value)
        .map_err(|unreadable| Fault::Unavailable(Error::internal(unreadable)))?;
    Ok(TokenKey::new(secret))
}
