//! One key whose row another session holds: its neighbours go on, and whoever asks for
//! it learns the truth once the row is free.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use reprise_client::proto::ReserveResponse;
use reprise_client::proto::reserve_response::Outcome;
use reprise_tests::reprise_bin::ServerProcess;
use tokio::task::{JoinHandle, JoinSet};
use tonic::{Response, Status};

use super::calls::*;
use super::site::{Backend, Site, client};

const NEIGHBOURS: usize = 1_000;
const CALLERS: usize = 32;

/// Lets `NEIGHBOURS` fresh keys live, many at once, each call sent once.
async fn neighbours(first: &Stub, prefix: &str) -> Result<Duration> {
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (mut stub, prefix) = (first.clone(), prefix.to_owned());
        callers.spawn(async move {
            for at in (caller..NEIGHBOURS).step_by(CALLERS) {
                live(&mut stub, &format!("{prefix}{at}")).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    Ok(began.elapsed())
}

/// Moves the row of a key out of the table and holds an open insert of it.
async fn hold_insert(session: &tokio_postgres::Client, key: &str) -> Result<()> {
    // Each on its own: in one message they would be one transaction.
    for statement in [
        format!("create temp table kept as select * from reprise.record where key = '{key}'"),
        format!("delete from reprise.record where key = '{key}'"),
        "begin".to_owned(),
        "insert into reprise.record select * from kept".to_owned(),
    ] {
        session.batch_execute(&statement).await?;
    }
    Ok(())
}

type Asking = JoinHandle<Result<Response<ReserveResponse>, Status>>;

fn ask(stub: &Stub, key: &str) -> Result<Asking> {
    let mut stub = stub.clone();
    let request = reserve_request(key, "the payload")?;
    // Longer than the neighbours take: it is the row that holds this call up.
    Ok(tokio::spawn(async move {
        stub.reserve(within(LIMIT * 4, request)).await
    }))
}

/// Eight callers ask for the stuck key, and its neighbours live on meanwhile; then the
/// holder ends as `end` says. Answers what the key's callers were answered.
async fn beside_a_stuck_row(server: &ServerProcess, site: &Site, end: &str) -> Result<Tally> {
    let mut first = stub(server.addr())?;
    acquire(&mut first, "stuck").await?;
    let free = neighbours(&first, "free").await?;

    let session = site.session().await?;
    hold_insert(&session, "stuck").await?;
    let mut asking: Vec<Asking> = (0..8)
        .map(|_| ask(&first, "stuck"))
        .collect::<Result<_>>()?;
    let beside = neighbours(&first, "beside").await?;
    println!("{NEIGHBOURS} keys: {free:?}, beside a stuck row: {beside:?}");
    for early in asking.extract_if(.., |asking| asking.is_finished()) {
        let answer = early.await?;
        ensure!(
            matches!(&answer, Err(status) if is_open(status)),
            "{answer:?}"
        );
    }
    println!("{} of its callers still wait", asking.len());
    session.batch_execute(end).await?;

    let mut tally = Tally::default();
    for asked in asking {
        match asked.await? {
            Ok(answer) => match answer.into_inner().outcome {
                Some(Outcome::Acquired(_)) => tally.acquired += 1,
                Some(Outcome::Processing(_)) => tally.processing += 1,
                other => bail!("{other:?}"),
            },
            // Held up for too long: unknown, and nothing else.
            Err(status) => ensure!(is_open(&status), "{status:?}"),
        }
    }
    println!("the stuck key's callers: {tally:?}");
    Ok(tally)
}

/// What the callers of the stuck key were answered, errors aside.
#[derive(Debug, Default)]
struct Tally {
    acquired: usize,
    processing: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_an_open_insert_that_is_committed_other_keys_go_on() -> Result<()> {
    let site = Site::new(Backend::Postgres)?.pool_size(4);
    let server = site.serve()?;
    let tally = beside_a_stuck_row(&server, &site, "commit").await?;
    // The row that was committed is somebody's grant.
    assert_eq!(tally.acquired, 0);
    let reserved = client(server.addr())?.reserve(&reserve("stuck")).await?;
    assert!(
        matches!(reserved.outcome, reprise_client::Outcome::Processing(_)),
        "{reserved:?}"
    );
    assert_eq!(reserved.record.attempt, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_an_open_insert_that_is_rolled_back_other_keys_go_on() -> Result<()> {
    let site = Site::new(Backend::Postgres)?.pool_size(4);
    let server = site.serve()?;
    let tally = beside_a_stuck_row(&server, &site, "rollback").await?;
    let client = client(server.addr())?;
    let reserved = client.reserve(&reserve("stuck")).await?;
    match reserved.outcome {
        reprise_client::Outcome::Acquired(_) => assert_eq!(tally.acquired, 0),
        // One of the eight has it: by an answer, or its outcome is still unknown to it.
        reprise_client::Outcome::Processing(_) => assert!(tally.acquired <= 1),
        other => bail!("{other:?}"),
    }
    Ok(())
}
