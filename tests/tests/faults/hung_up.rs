//! Callers that hang up: what was granted to nobody is given back, and nothing is left
//! behind in the pool of connections.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use reprise_client::proto::{FailureKind, State};
use reprise_client::{Client, Outcome};
use reprise_tests::poll::until_true;
use tokio::task::JoinSet;

use super::calls::*;
use super::site::{Backend, Site, client};

const CALLS: u64 = 2_000;
const POOL: usize = 2;

on_both_stores! {
    grants_whose_callers_hung_up_are_given_back_by_the_client
}

/// Every commit of the database waits this long, up to 100 ms.
async fn slow_down(site: &Site, commit: Duration) -> Result<()> {
    let session = site.session().await?;
    let name: String = session
        .query_one("select current_database()", &[])
        .await?
        .get(0);
    let micros = commit.as_micros();
    session
        .batch_execute(&format!(
            "alter database \"{name}\" set commit_delay = {micros};
             alter database \"{name}\" set commit_siblings = 0;"
        ))
        .await?;
    Ok(())
}

fn deadline(call: u64) -> Duration {
    Duration::from_millis(1 + call % 20)
}

async fn grants_whose_callers_hung_up_are_given_back_by_the_client(backend: Backend) -> Result<()> {
    let site = Site::new(backend)?.pool_size(POOL);
    if backend == Backend::Postgres {
        slow_down(&site, Duration::from_millis(5)).await?;
    }
    let server = site.serve()?;
    let hasty = client(server.addr())?;
    ensure!(look(&hasty, "warm").await?.is_none());

    let mut calls = JoinSet::new();
    for call in 0..CALLS {
        let hasty = hasty.with_deadline(deadline(call));
        calls.spawn(async move { (call, hasty.reserve(&reserve(format!("k{call}"))).await) });
    }
    let patient = client(server.addr())?;
    let mut acknowledged = HashMap::new();
    while let Some(call) = calls.join_next().await {
        let (call, answer) = call?;
        match answer {
            Ok(reserved) => {
                let Outcome::Acquired(acquired) = reserved.outcome else {
                    bail!("k{call} is fresh: {:?}", reserved.outcome);
                };
                let key = format!("k{call}");
                let result = body(Bytes::from(key.clone()));
                let report = complete(&key, &acquired.token, result.clone());
                patient.complete(report).await?;
                acknowledged.insert(key, result);
            }
            Err(error) => ensure!(error.outcome_unknown() || error.never_sent(), "{error}"),
        }
    }
    println!(
        "{} of {CALLS} callers had their answer in time",
        acknowledged.len()
    );
    ensure!(hasty.close(LIMIT * 2).await, "the client still gives back");

    check_left_nothing_held(&patient, CALLS).await?;
    for (key, result) in &acknowledged {
        ensure!(&result_of(&patient, key).await? == result, "{key} is gone");
    }
    check_goes_on(&patient).await?;
    if backend == Backend::Postgres {
        check_sessions(&site).await?;
    }
    Ok(())
}

/// Each commit takes longer than any caller waits, so that no grant is ever answered, and
/// these callers give nothing back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_whose_callers_hung_up_are_given_back_by_the_server() -> Result<()> {
    let site = Site::new(Backend::Postgres)?.pool_size(POOL);
    slow_down(&site, Duration::from_millis(100)).await?;
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
    let stubs = Arc::new(stubs);

    let mut calls = JoinSet::new();
    for call in 0..CALLS {
        let stubs = Arc::clone(&stubs);
        calls.spawn(async move {
            let mut stub = stubs[usize::try_from(call)? % stubs.len()].clone();
            let request = reserve_request(&format!("k{call}"), "the payload")?;
            let waited = within(deadline(call), request);
            // Also without a time-out of its own, a caller may just go away.
            let answer = tokio::time::timeout(deadline(call), stub.reserve(waited)).await;
            anyhow::Ok(answer.is_ok_and(|answer| answer.is_ok()))
        });
    }
    while let Some(answered) = calls.join_next().await {
        ensure!(!answered??, "a commit took less than its delay");
    }

    let patient = client(server.addr())?;
    let mut left: Vec<u64> = (0..CALLS).collect();
    until_true("all grants to be given back", LIMIT, async || {
        let mut held = Vec::new();
        for call in left.drain(..) {
            if !matches!(is_held(&patient, call).await, Ok(false)) {
                held.push(call);
            }
        }
        left = held;
        left.is_empty()
    })
    .await
    .with_context(|| format!("held: {left:?}"))?;
    check_goes_on(&patient).await?;
    check_sessions(&site).await
}

/// Whether the grant of a call is still out. What is not on record never entered a batch.
async fn is_held(client: &Client, call: u64) -> Result<bool> {
    let Some(found) = look(client, &format!("k{call}")).await? else {
        return Ok(false);
    };
    match (found.record.state(), found.record.failure_kind()) {
        (State::Processing, _) => Ok(true),
        (State::Failed, FailureKind::Retryable) | (State::Completed, _) => Ok(false),
        _ => bail!("k{call}: {found:?}"),
    }
}

async fn check_left_nothing_held(client: &Client, calls: u64) -> Result<()> {
    let mut held = Vec::new();
    for call in 0..calls {
        if is_held(client, call).await? {
            held.push(call);
        }
    }
    ensure!(held.is_empty(), "{} are held: {held:?}", held.len());
    Ok(())
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
