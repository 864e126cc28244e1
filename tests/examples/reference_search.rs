//! How long does it take to find a payment by what the provider calls it?
//!
//! `cargo run --release -p reprise-tests --example reference_search -- [records]`
//!
//! On a private PostgreSQL 15 with its own defaults: by default 5,000,000 completed records,
//! their references filed as the walk files them, and a thousand searches by provider
//! reference and by resource id, one after the other.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use reprise::store::postgres::{Config, Options, Postgres, migrate};
use reprise::store::{RecordsQuery, Store};
use reprise_domain::Timestamp;
use reprise_tests::bulk::{self, Bulk};
use reprise_tests::postgres::{PostgresServer, Version};
use tokio_postgres::NoTls;

const SEARCHES: i64 = 1_000;
const HOUR: Duration = Duration::from_secs(3600);

#[tokio::main]
async fn main() -> Result<()> {
    let records: i64 = match std::env::args().nth(1) {
        Some(text) => text.parse().context("how many records")?,
        None => 5_000_000,
    };
    let server = PostgresServer::start(Version::V15, &[])?;
    server.create_database("reprise")?;
    let url = server.database_url("reprise");
    let config = Config::new(url.clone());
    migrate(&url).await?;
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);
    load(&client, records).await?;

    let store = Postgres::connect(config, Options::default()).await?;
    for by_provider in [true, false] {
        let mut times = Vec::new();
        for at in 0..SEARCHES {
            let n = (at * 4_999_999) % records;
            let mut query = RecordsQuery {
                tenant: "shop".to_owned(),
                max: 10,
                ..RecordsQuery::default()
            };
            match by_provider {
                true => query.provider_reference = format!("pr-order-{n}"),
                false => query.resource_id = format!("order-order-{n}"),
            }
            let began = Instant::now();
            let page = store.records(query).await?;
            times.push(began.elapsed());
            ensure!(page.records.len() == 1, "{n}: {} found", page.records.len());
            ensure!(page.records[0].name.key() == format!("order-{n}"));
        }
        times.sort();
        println!(
            "by {}: p50 {:.2?}, p99 {:.2?}, longest {:.2?}",
            if by_provider {
                "provider reference"
            } else {
                "resource id"
            },
            times[times.len() / 2],
            times[times.len() * 99 / 100],
            times[times.len() - 1],
        );
    }
    Ok(())
}

async fn load(client: &tokio_postgres::Client, records: i64) -> Result<()> {
    let began = Instant::now();
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
    let bulk = Bulk {
        tenant: "shop",
        prefix: "order-",
        count: records,
        state: 3,
        granted_from: Timestamp(i64::try_from(now)? - 48 * 3_600_000_000),
        every: Duration::from_millis(20),
        lease: Duration::from_secs(30),
        result_retention: 72 * HOUR,
        memory_retention: 24 * 35 * HOUR,
        body: b"{\"charge\": \"done\"}",
    };
    bulk::insert(client, &bulk).await?;
    client
        .batch_execute(
            "insert into reprise.reference (id, tenant, kind, reference)
                 select id, tenant, 1, resource_id from reprise.record
                 union all select id, tenant, 2, provider_reference from reprise.record;
             analyze reprise.reference",
        )
        .await?;
    println!("{records} records loaded in {:.1?}", began.elapsed());
    Ok(())
}
