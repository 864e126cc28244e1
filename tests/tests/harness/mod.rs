//! The harness does what the other tests rely on.

mod pgbouncer;
mod postgres;
mod process;
mod proxy;
mod reprise_bin;

use anyhow::Result;
use tokio_postgres::{Client, NoTls};

/// A session that ends with the test's runtime.
async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
