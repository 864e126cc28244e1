//! Callers that hang up: what was granted to nobody is given back, and nothing is left
//! behind in the pool of connections.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use reprise_client::proto::{Content, FailureKind, State};
use reprise_client::{Client, Outcome};
use reprise_tests::poll::until_true;
use reprise_tests::postgres::{PostgresServer, Version};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::calls::*;
use super::ledger::Load;
use super::site::{Backend, Site, client};

const CALLS: usize = 2_000;
/// Calls under way at once: few enough to be sent before they are given up.
const LANES: usize = 8;
const POOL: usize = 2;

on_both_stores! {
    grants_whose_callers_hung_up_are_given_back_by_the_client
}

/// Every commit of the database waits this long, up to 100 ms.
async fn slow_down(site: &Site, commit: Duration) -> Result<()> {
    let micros = commit.as_micros().to_string();
    site.alter("commit_delay", &micros).await?;
    site.alter("commit_siblings", "0").await
}

fn deadline(call: usize) -> Duration {
    Duration::from_millis(1) * u32::try_from(1 + call % 20).unwrap_or(1)
}

async fn grants_whose_callers_hung_up_are_given_back_by_the_client(backend: Backend) -> Result<()> {
    let site = Site::new(backend)?.pool_size(POOL);
    if backend == Backend::Postgres {
        slow_down(&site, Duration::from_millis(5)).await?;
    }
    let server = site.serve()?;
    let hasty = client(server.addr())?;
    ensure!(look(&hasty, "warm").await?.is_none());

    let patient = client(server.addr())?;
    let load = Load::start(&patient, 2);
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let (hasty, patient) = (hasty.clone(), patient.clone());
        lanes.spawn(async move {
            let mut acknowledged = HashMap::new();
            for call in (lane..CALLS).step_by(LANES) {
                let key = format!("k{call}");
                if let Some(result) = call_in_haste(&hasty, &patient, call).await? {
                    acknowledged.insert(key, result);
                }
            }
            anyhow::Ok(acknowledged)
        });
    }
    let mut acknowledged = HashMap::new();
    while let Some(lane) = lanes.join_next().await {
        acknowledged.extend(lane??);
    }
    println!(
        "{} of {CALLS} callers had their answer in time",
        acknowledged.len()
    );
    ensure!(hasty.close(LIMIT * 2).await, "the client still gives back");
    let ledger = load.stop().await?;
    println!(
        "{} transitions were acknowledged beside them",
        ledger.acknowledged()
    );
    ledger.check(&patient).await?;

    let given_back = check_nothing_is_held(&patient).await?;
    println!("{given_back} grants were given back");
    // The embedded store may be faster than any hang-up.
    let slow = backend == Backend::Postgres;
    ensure!(
        given_back > 0 || !slow,
        "no grant was lost: nothing was tried"
    );
    for (key, result) in &acknowledged {
        ensure!(&result_of(&patient, key).await? == result, "{key} is gone");
    }
    check_goes_on(&patient).await?;
    if backend == Backend::Postgres {
        check_sessions(&site).await?;
    }
    Ok(())
}

/// One Reserve with a short deadline; who is granted completes without haste, and answers
/// what was acknowledged.
async fn call_in_haste(hasty: &Client, patient: &Client, call: usize) -> Result<Option<Content>> {
    let key = format!("k{call}");
    let hasty = hasty.with_deadline(deadline(call));
    match hasty.reserve(&reserve(key.clone())).await {
        Ok(reserved) => {
            let Outcome::Acquired(acquired) = reserved.outcome else {
                bail!("{key} is fresh: {:?}", reserved.outcome);
            };
            let result = body(Bytes::from(key.clone()));
            let report = complete(&key, &acquired.token, result.clone());
            patient.complete(report).await?;
            Ok(Some(result))
        }
        Err(error) => {
            ensure!(error.outcome_unknown() || error.never_sent(), "{error}");
            Ok(None)
        }
    }
}

/// Each commit takes longer than any caller waits, so that no grant is ever answered, and
/// these callers give nothing back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_whose_callers_hung_up_are_given_back_by_the_server() -> Result<()> {
    // On a server of its own with one writer: else the flush of a neighbour's commit, or
    // of the background writer, would end the delay of this one early.
    let postgres = PostgresServer::start(
        Version::V15,
        &[
            ("commit_delay", "100000"),
            ("commit_siblings", "0"),
            ("wal_writer_delay", "10s"),
            ("autovacuum", "off"),
        ],
    )?;
    let site = Site::on(&postgres.fresh_database()?).pool_size(POOL);
    let server = site.serve()?;
    let mut stubs = Vec::new();
    for _ in 0..8 {
        let mut stub = stub(server.addr())?;
        ensure!(
            stub.lookup(lookup("warm")).await.is_err(),
            "a record from nowhere"
        );
        stubs.push(stub);
    }

    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let mut stub = stubs[lane % stubs.len()].clone();
        lanes.spawn(async move {
            for call in (lane..CALLS).step_by(LANES) {
                let request = reserve_request(&format!("k{call}"), "the payload")?;
                let waited = within(deadline(call), request);
                // Also without a time-out of its own, a caller may just go away.
                let answer = timeout(deadline(call), stub.reserve(waited)).await;
                let answered = answer.is_ok_and(|answer| answer.is_ok());
                ensure!(!answered, "a commit took less than its delay");
            }
            anyhow::Ok(())
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane??;
    }

    let patient = client(server.addr())?;
    let mut given_back = Ok(0);
    until_true("all grants to be given back", LIMIT, async || {
        given_back = check_nothing_is_held(&patient).await;
        given_back.is_ok()
    })
    .await
    .with_context(|| format!("{given_back:?}"))?;
    let given_back = given_back?;
    println!("{given_back} grants were given back");
    ensure!(given_back > 0, "no grant was lost: nothing was tried");
    check_goes_on(&patient).await?;
    check_sessions(&site).await
}

/// No grant is still out. What is not on record never entered a batch. Answers how many
/// were given back.
async fn check_nothing_is_held(client: &Client) -> Result<usize> {
    let mut given_back = 0;
    let mut held = Vec::new();
    for call in 0..CALLS {
        let Some(found) = look(client, &format!("k{call}")).await? else {
            continue;
        };
        match (found.record.state(), found.record.failure_kind()) {
            (State::Failed, FailureKind::Retryable) => given_back += 1,
            (State::Completed, _) => {}
            (State::Processing, _) => held.push(call),
            _ => bail!("k{call}: {found:?}"),
        }
    }
    ensure!(held.is_empty(), "{} are held: {held:?}", held.len());
    Ok(given_back)
}

/// Fifty ordinary lives, half of them on keys that were given back.
async fn check_goes_on(client: &Client) -> Result<()> {
    for life in 0..50 {
        let key = match life % 2 {
            0 => format!("fresh{life}"),
            _ => format!("k{life}"),
        };
        let reserved = client.reserve(&reserve(key.clone())).await?;
        match reserved.outcome {
            Outcome::Acquired(acquired) => {
                client
                    .complete(complete(&key, &acquired.token, body("late")))
                    .await?;
            }
            Outcome::Completed(_) if life % 2 == 1 => {}
            other => bail!("{key}: {other:?}"),
        }
    }
    Ok(())
}

/// No transaction is open, and the pool has not grown.
async fn check_sessions(site: &Site) -> Result<()> {
    let session = site.session().await?;
    let row = session
        .query_one(
            "select count(*) filter (where state like 'idle in transaction%'), count(*)
             from pg_stat_activity
             where datname = current_database() and pid <> pg_backend_pid()
               and backend_type = 'client backend'",
            &[],
        )
        .await?;
    let (open, all): (i64, i64) = (row.get(0), row.get(1));
    ensure!(open == 0, "{open} sessions are idle in a transaction");
    println!("{all} sessions for a pool of {POOL}");
    Ok(())
}
