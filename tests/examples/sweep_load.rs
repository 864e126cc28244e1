//! What do callers feel while three servers walk, look and remove?
//!
//! `cargo run --release -p reprise-tests --example sweep_load -- [records]`
//!
//! On a private PostgreSQL 15 with its own defaults: by default 2,000,000 completed records
//! past the end of their memory, 1,000 whose lease has ended and 1,000 pending ones among
//! them. Three stores file, look at and remove them until nothing is left, while callers
//! reserve expired keys. Checks that nothing that is open was touched and that what each
//! server removed adds up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use reprise::store::Store;
use reprise::store::postgres::{Config, Options, Postgres, migrate};
use reprise_domain::command::{Answer, Command, Outcome, Reserve};
use reprise_domain::record::AttemptId;
use reprise_domain::{Policy, RecordName, Request, Timestamp};
use reprise_fingerprint::{Fingerprint, RuleId, Scheme};
use reprise_tests::bulk::{self, Bulk};
use reprise_tests::postgres::{PostgresServer, Version};
use tokio_postgres::{Client, NoTls};

const OPEN: i64 = 1_000;
const CALLERS: u64 = 8;
/// How often each caller reserves: a load that the machine carries with ease, so that times
/// tell what the removal adds.
const EVERY: Duration = Duration::from_millis(10);
const BEFORE: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(1800);

#[tokio::main]
async fn main() -> Result<()> {
    let records: i64 = match std::env::args().nth(1) {
        Some(text) => text.parse().context("how many records")?,
        None => 2_000_000,
    };
    let server = PostgresServer::start(Version::V15, &[("max_wal_size", "4GB")])?;
    let url = server.fresh_database()?;
    migrate(&url).await?;
    let beside = session(&url).await?;
    load(&beside, records).await?;

    let stores = [
        connect(&url).await?,
        connect(&url).await?,
        connect(&url).await?,
    ];
    let reserved = Arc::new(AtomicU64::new(0));
    let alone = reserve_until(&stores[0], records, &reserved, &Stop::after(BEFORE)).await?;
    report("reserves before", alone);

    let stop = Stop::after(LIMIT);
    let begun = Instant::now();
    let work = stores.iter().map(|store| {
        let (store, stop) = (Arc::clone(store), stop.clone());
        tokio::spawn(async move { upkeep(&store, &stop).await })
    });
    let work: Vec<_> = work.collect();
    let watching = tokio::spawn(watch(url.clone(), stop.clone()));
    let during = reserve_until(&stores[0], records, &reserved, &stop).await?;
    let took = begun.elapsed();
    watching.await??;
    let mut removed = Vec::new();
    for server in work {
        removed.push(server.await??);
    }
    report("reserves during", during);
    println!("all done in {took:.1?}");
    for (number, done) in removed.iter().enumerate() {
        println!(
            "server {number}: visited {}, looked at {}, stripped {}, removed {}",
            done.visited, done.looked_at, done.bodies, done.records
        );
    }
    check(
        &beside,
        records,
        removed.iter().map(|done| done.records).sum(),
    )
    .await
}

async fn session(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn connect(url: &str) -> Result<Arc<Postgres>> {
    let store = Postgres::connect(Config::new(url), Options::default()).await?;
    Ok(Arc::new(store))
}

/// Grants of six hours, forty days ago.
async fn load(beside: &Client, records: i64) -> Result<()> {
    let begun = Instant::now();
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let granted = now - Duration::from_hours(24 * 40);
    let hours = Duration::from_hours(6);
    let done = Bulk {
        tenant: "t1",
        prefix: "done-",
        count: records,
        state: 3,
        granted_from: Timestamp(i64::try_from(granted.as_micros())?),
        every: hours / u32::try_from(records)?,
        lease: Duration::from_secs(30),
        result_retention: Duration::from_hours(72),
        memory_retention: Duration::from_hours(24 * 35),
        body: b"{\"charged\":\"100 EUR\",\"receipt\":\"4711\"}",
    };
    let open = |prefix, state| Bulk {
        prefix,
        state,
        count: OPEN,
        every: hours / 1000,
        ..done.clone()
    };
    bulk::insert(beside, &done).await?;
    bulk::insert(beside, &open("busy-", 1)).await?;
    bulk::insert(beside, &open("uncertain-", 2)).await?;
    beside.batch_execute("vacuum analyze").await?;
    beside.batch_execute("checkpoint").await?;
    println!("{records} records loaded in {:.1?}", begun.elapsed());
    Ok(())
}

/// When to stop.
#[derive(Clone)]
struct Stop {
    at: Instant,
    done: Arc<AtomicBool>,
}

impl Stop {
    fn after(time: Duration) -> Self {
        Self {
            at: Instant::now() + time,
            done: Arc::default(),
        }
    }

    fn is_now(&self) -> bool {
        self.done.load(Ordering::SeqCst) || Instant::now() >= self.at
    }
}

/// Callers, each of which reserves an expired key now and then; the times of their calls.
async fn reserve_until(
    store: &Arc<Postgres>,
    records: i64,
    reserved: &Arc<AtomicU64>,
    stop: &Stop,
) -> Result<Vec<Duration>> {
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (store, stop) = (Arc::clone(store), stop.clone());
            let reserved = Arc::clone(reserved);
            tokio::spawn(async move {
                let mut times = Vec::new();
                let mut ticks = tokio::time::interval(EVERY);
                while !stop.is_now() {
                    ticks.tick().await;
                    // Spread over all of them.
                    let nth = reserved.fetch_add(1, Ordering::SeqCst);
                    let key = nth.wrapping_mul(7_919) % records.unsigned_abs();
                    let begun = Instant::now();
                    reserve(&store, &format!("done-{key}")).await?;
                    times.push(begun.elapsed());
                }
                anyhow::Ok(times)
            })
        })
        .collect();
    let mut times = Vec::new();
    for caller in callers {
        times.extend(caller.await??);
    }
    Ok(times)
}

async fn reserve(store: &Postgres, key: &str) -> Result<()> {
    let request = Request {
        name: RecordName::new("t1", "charge", "", key)?,
        policy: Arc::new(Policy::default()),
        command: Command::Reserve(Reserve {
            attempt_id: AttemptId(rand::random()),
            fingerprints: vec![Fingerprint {
                scheme: Scheme::Raw,
                rule: RuleId::none(),
                digest: [7; 32],
            }],
            lease: Some(Duration::from_mins(15)),
            owner: "worker-1".to_owned(),
            correlation_id: String::new(),
            instruction: Bytes::new(),
            intent_time: None,
        }),
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    let answer = store.execute(request, deadline).await?.accept()?;
    let granted = matches!(answer, Answer::Outcome(Outcome::Acquired { .. }, _));
    ensure!(granted, "an expired key is free: {answer:?}");
    Ok(())
}

/// What a server's own work did.
#[derive(Default)]
struct Done {
    visited: u64,
    looked_at: u64,
    bodies: u64,
    records: u64,
}

async fn upkeep(store: &Postgres, stop: &Stop) -> Result<Done> {
    let mut done = Done::default();
    while !stop.is_now() {
        let began = Instant::now();
        done.visited += store.walk().await?.visited;
        for name in store.to_look_at(100).await? {
            let request = Request {
                name,
                policy: Arc::default(),
                command: Command::Sweep,
            };
            let deadline = Instant::now() + Duration::from_secs(30);
            store.execute(request, deadline).await?.accept()?;
            done.looked_at += 1;
        }
        let removed = store.remove().await?;
        done.bodies += removed.bodies;
        done.records += removed.records;
        // As a server paces its removal.
        tokio::time::sleep(3 * began.elapsed()).await;
    }
    Ok(done)
}

/// Stops all when nothing is left to remove and what was open has been looked at.
async fn watch(url: String, stop: Stop) -> Result<()> {
    let beside = session(&url).await?;
    let left = "select (select count(*) from (select from reprise.record
            where state = 3 and key like 'done-%' limit 1) r)
        + (select count(*) from (select from reprise.worklist
            where kind = 1 and due < now() limit 1) w)";
    let mut steady = 0;
    while !stop.is_now() && steady < 3 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let count: i64 = beside.query_one(left, &[]).await?.get(0);
        steady = if count == 0 { steady + 1 } else { 0 };
    }
    stop.done.store(true, Ordering::SeqCst);
    Ok(())
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 1000];
    println!(
        "{what}: {} calls, p50 {:.2?}, p99 {:.2?}, p99.9 {:.2?}, longest {:.2?}",
        times.len(),
        at(500),
        at(990),
        at(999),
        at(1000),
    );
}

async fn check(beside: &Client, records: i64, removed: u64) -> Result<()> {
    let count = async |sql: &str| -> Result<i64> { Ok(beside.query_one(sql, &[]).await?.get(0)) };
    let (busy, uncertain) = (
        count("select count(*) from reprise.record where key like 'busy-%' and state = 2").await?,
        count(
            "select count(*) from reprise.record
             where key like 'uncertain-%' and state = 2 and revision = 2",
        )
        .await?,
    );
    // A key that was reserved before its record was removed keeps the row; after that it is
    // a new one.
    let (kept, anew) = (
        count("select count(*) from reprise.record where key like 'done-%' and revision > 1"),
        count("select count(*) from reprise.record where key like 'done-%' and revision = 1"),
    );
    let (kept, anew) = (kept.await?, anew.await?);
    println!("{busy} lapsed and {uncertain} uncertain records are there");
    println!("{removed} of {records} records removed; {kept} revived in time, {anew} begun anew");
    ensure!(
        busy == OPEN && uncertain == OPEN,
        "something open was touched"
    );
    ensure!(
        i64::try_from(removed)? + kept == records,
        "what the servers removed does not add up"
    );
    Ok(())
}
