//! The Postgres store against real servers: races, stuck rows, crashes, poolers, schemas.
//! What records mean is the conformance suite's matter.

mod caller;
mod crashes;
mod lifecycles;
mod pooler;
mod races;
mod safety;
mod schema;
mod stuck;

use std::time::{Duration, Instant};

use anyhow::Result;
use reprise::store::postgres::{Config, Options, Postgres, migrate};
use reprise_tests::postgres::{PostgresServer, Version};
use tokio_postgres::{Client, NoTls};

const VERSIONS: [Version; 2] = [Version::V15, Version::V18];

/// A migrated database of its own on a shared server.
async fn database(version: Version) -> Result<String> {
    let url = PostgresServer::shared(version)?.fresh_database()?;
    migrate(&url).await?;
    Ok(url)
}

async fn open(config: Config) -> Result<Postgres> {
    Ok(Postgres::connect(config, Options::default()).await?)
}

/// A session beside the store's.
async fn session(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn count(client: &Client, sql: &str) -> Result<i64> {
    Ok(client.query_one(sql, &[]).await?.get(0))
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}
