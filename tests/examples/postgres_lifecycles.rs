//! How many lifecycles (Reserve, then Complete) a second does the Postgres store carry?
//!
//! `cargo run --release -p reprise-tests --example postgres_lifecycles -- \
//!     [callers] [writers] [body bytes] [prepared]`
//!
//! Runs on a private PostgreSQL 15 with its own defaults, fsync included, for ten seconds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use reprise::store::Store;
use reprise::store::postgres::{Config, Options, Postgres, migrate};
use reprise_tests::lifecycle::lifecycle;
use reprise_tests::postgres::{PostgresServer, Version};

const DURATION: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| match arguments.get(at) {
        Some(text) => text.parse().with_context(|| format!("argument {}", at + 1)),
        None => Ok(default),
    };
    let (callers, body_bytes) = (number(0, 64)?, number(2, 200)?);
    let server = PostgresServer::start(Version::V15, &[])?;
    let url = server.fresh_database()?;
    migrate(&url).await?;
    let mut config = Config::new(url.clone());
    config.writers = number(1, config.writers)?;
    config.prepared = arguments.get(3).map(|mode| mode == "prepared");
    println!("{callers} callers, {body_bytes} bytes of body, {config:?}");
    let store = Arc::new(Postgres::connect(config, Options::default()).await?);
    let body = Bytes::from(vec![b'x'; body_bytes]);
    let start = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let (store, body) = (Arc::clone(&store), body.clone());
            tokio::spawn(async move {
                let mut times = Vec::new();
                while start.elapsed() < DURATION {
                    let begun = Instant::now();
                    lifecycle(store.as_ref(), &format!("k{caller}-{}", times.len()), &body).await?;
                    times.push(begun.elapsed());
                }
                anyhow::Ok(times)
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await??);
    }
    let elapsed = start.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 1000];
    println!(
        "{:.0} lifecycles/s; one takes {:?} (median), {:?} (99 %), {:?} (99.9 %)",
        times.len() as f64 / elapsed,
        at(500),
        at(990),
        at(999),
    );
    store.close().await?;
    report_updates(&url).await
}

async fn report_updates(url: &str) -> Result<()> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    let row = client
        .query_one(
            "select n_tup_upd, n_tup_hot_upd, pg_total_relation_size('reprise.record'),
                (select avg(pg_column_size(r.*))::float8 from reprise.record r)
             from pg_stat_user_tables where relname = 'record'",
            &[],
        )
        .await?;
    let (updates, hot, bytes): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    println!(
        "{hot} of {updates} updates stayed on their page; {} bytes of disk and {:.0} of row a record",
        bytes / updates.max(1),
        row.get::<_, f64>(3),
    );
    Ok(())
}
