//! The secret that all servers of a database share: whoever is first makes it.

use std::time::Instant;

use reprise_domain::token::TokenKey;
use tokio_postgres::types::Type;

use super::column::Blob;
use super::database::{Database, Fault};
use super::row::fixed;
use crate::store::Error;

const OFFER: &str = "insert into reprise.meta (name, value) values ('token_key', $1)
    on conflict (name) do nothing";
/// A statement of its own: the one above cannot see the row that it lost to.
const READ: &str = "select value from reprise.meta where name = 'token_key'";

pub(super) async fn token_key(database: &Database, deadline: Instant) -> Result<TokenKey, Fault> {
    let missing = || Fault::Unavailable(Error::unavailable("the database keeps no token key"));
    let mut rows = database.run(READ, &[], deadline).await?;
    if rows.is_empty() {
        let offer = Blob::copy(&rand::random::<[u8; 32]>());
        database
            .run(OFFER, &[(&offer, Type::BYTEA)], deadline)
            .await?;
        rows = database.run(READ, &[], deadline).await?;
    }
    let row = rows.first().ok_or_else(missing)?;
    let value: Blob = row.try_get(0).map_err(Fault::Refused)?;
    let secret = fixed("value", &value)
        .map_err(|unreadable| Fault::Unavailable(Error::internal(unreadable)))?;
    Ok(TokenKey::new(secret))
}
