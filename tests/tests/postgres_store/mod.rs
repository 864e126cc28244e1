//! The Postgres store against real servers: races, stuck rows, crashes, poolers, schemas.
//! What records mean is the conformance suite's matter.

mod caller;
mod crashes;
mod lifecycles;
mod lists;
mod pooler;
mod races;
mod removal;
mod safety;
mod schema;
mod stuck;
mod walk;
mod worklist;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use reprise::store::postgres::{Config, Options, Postgres, migrate};
use reprise::store::{Store, TestClock};
use reprise_domain::Timestamp;
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

/// A moment in 2026, where test clocks begin.
const BEGINNING: Timestamp = Timestamp(1_780_000_000_000_000);

/// A store that goes by a clock that is moved by hand.
async fn clocked(url: &str, clock: &TestClock) -> Result<Arc<Postgres>> {
    let options = Options {
        clock: Some(clock.clone()),
        ..Options::default()
    };
    let store = Postgres::connect(Config::new(url), options).await?;
    Ok(Arc::new(store))
}

/// Walks to the end; how many grants were visited.
async fn walk(store: &Postgres) -> Result<u64> {
    let mut visited = 0;
    loop {
        let walked = store.walk().await?;
        visited += walked.visited;
        if !walked.more {
            return Ok(visited);
        }
    }
}

/// Removes all that is due: bodies and records.
async fn remove(store: &Postgres) -> Result<(u64, u64)> {
    let (mut bodies, mut records) = (0, 0);
    loop {
        let removed = store.remove().await?;
        bodies += removed.bodies;
        records += removed.records;
        if !removed.more {
            return Ok((bodies, records));
        }
    }
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
