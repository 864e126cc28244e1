//! Many callers on the same keys at once: one grant for each key, and no error for
//! anybody. Losing a race is an answer.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use reprise_client::proto::reserve_response::Outcome;
use reprise_tests::pgbouncer::PgBouncer;
use reprise_tests::postgres::{PostgresServer, Version};
use reprise_tests::reprise_bin::ServerProcess;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::calls::{LIMIT, Stub, reserve_request, stub, within};
use super::site::{Backend, Site};

const KEYS: usize = 200;
const CONNECTIONS: usize = 8;

on_both_stores! {
    a_storm_of_64_callers_grants_each_key_once_and_errs_nobody
    a_rush_of_50_first_calls_on_each_key_is_no_outage
}

async fn a_storm_of_64_callers_grants_each_key_once_and_errs_nobody(
    backend: Backend,
) -> Result<()> {
    let site = Site::new(backend)?;
    storm(&[site.serve()?], 64).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_through_two_servers_grants_each_key_once_and_errs_nobody() -> Result<()> {
    let site = Site::new(Backend::Postgres)?;
    storm(&site.serve_all()?, 64).await
}

/// Somebody set a stricter isolation for the whole database, so that losing a race is an
/// error of the database's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_under_serializable_isolation_is_no_different() -> Result<()> {
    let site = Site::new(Backend::Postgres)?;
    site.alter("default_transaction_isolation", "serializable")
        .await?;
    storm(&site.serve_all()?, 64).await
}

/// Two servers share two connections of a pooler that gives each transaction another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_through_a_pooler_in_transaction_mode_is_no_different() -> Result<()> {
    let postgres = PostgresServer::shared(Version::V15)?;
    let pooler = PgBouncer::start(postgres, 2)?;
    let direct = postgres.fresh_database()?;
    let database = direct
        .rsplit('/')
        .next()
        .context("a URL without a database")?;
    let site = Site::on(&pooler.url(database));
    storm(&site.serve_all()?, 64).await
}

async fn a_rush_of_50_first_calls_on_each_key_is_no_outage(backend: Backend) -> Result<()> {
    let site = Site::new(backend)?;
    rush(&site.serve_all()?, 50).await
}

/// Every caller goes over all keys, and all begin at once.
async fn storm(servers: &[ServerProcess], callers: usize) -> Result<()> {
    let stubs = connections(servers)?;
    let start = Arc::new(Barrier::new(callers));
    let mut tasks = JoinSet::new();
    for caller in 0..callers {
        let mut stub = stubs[caller % stubs.len()].clone();
        let start = Arc::clone(&start);
        tasks.spawn(async move {
            start.wait().await;
            let mut answers = Vec::with_capacity(KEYS);
            for key in 0..KEYS {
                answers.push(ask(&mut stub, key, caller).await?);
            }
            anyhow::Ok(answers)
        });
    }
    let mut tallies: Vec<Tally> = vec![Tally::default(); KEYS];
    while let Some(answers) = tasks.join_next().await {
        for (tally, answer) in tallies.iter_mut().zip(answers??) {
            tally.add(answer);
        }
    }
    check(&tallies, callers, servers)
}

/// All callers of a key begin at once, on several keys side by side.
async fn rush(servers: &[ServerProcess], callers: usize) -> Result<()> {
    const LANES: usize = 8;
    let stubs = Arc::new(connections(servers)?);
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let stubs = Arc::clone(&stubs);
        lanes.spawn(async move {
            let mut tallies = Vec::new();
            for key in (lane..KEYS).step_by(LANES) {
                let mut tasks = JoinSet::new();
                for caller in 0..callers {
                    let mut stub = stubs[caller % stubs.len()].clone();
                    tasks.spawn(async move { ask(&mut stub, key, caller).await });
                }
                let mut tally = Tally::default();
                while let Some(answer) = tasks.join_next().await {
                    tally.add(answer??);
                }
                tallies.push(tally);
            }
            anyhow::Ok(tallies)
        });
    }
    let mut tallies = Vec::new();
    while let Some(lane) = lanes.join_next().await {
        tallies.extend(lane??);
    }
    check(&tallies, callers, servers)
}

fn connections(servers: &[ServerProcess]) -> Result<Vec<Stub>> {
    (0..CONNECTIONS)
        .map(|at| stub(servers[at % servers.len()].addr()))
        .collect()
}

async fn ask(stub: &mut Stub, key: usize, caller: usize) -> Result<Outcome> {
    // Both payloads reach every connection, and so every server.
    let payload = ["one", "other"][caller / CONNECTIONS % 2];
    let request = reserve_request(&format!("k{key}"), payload)?;
    let answer = stub.reserve(within(LIMIT, request)).await;
    let answer = answer.with_context(|| format!("caller {caller} on k{key}"))?;
    answer.into_inner().outcome.context("no outcome")
}

/// What the callers of one key were answered.
#[derive(Clone, Debug, Default)]
struct Tally {
    acquired: usize,
    processing: usize,
    mismatch: usize,
    other: Vec<Outcome>,
}

impl Tally {
    fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Acquired(_) => self.acquired += 1,
            Outcome::Processing(_) => self.processing += 1,
            Outcome::Mismatch(_) => self.mismatch += 1,
            other => self.other.push(other),
        }
    }
}

fn check(tallies: &[Tally], callers: usize, servers: &[ServerProcess]) -> Result<()> {
    ensure!(tallies.len() == KEYS);
    let of_one_payload = (0..callers)
        .filter(|caller| (caller / CONNECTIONS).is_multiple_of(2))
        .count();
    for tally in tallies {
        ensure!(tally.acquired == 1 && tally.other.is_empty(), "{tally:?}");
        ensure!(
            tally.processing + tally.mismatch == callers - 1,
            "{tally:?}"
        );
        let sides = [of_one_payload, callers - of_one_payload];
        ensure!(sides.contains(&tally.mismatch), "{tally:?}");
    }
    for server in servers {
        ensure!(!server.stderr().contains("ERROR"), "{}", server.stderr());
    }
    Ok(())
}
