//! PostgreSQL killed and frozen under load.

use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use reprise::store::postgres::{Config, Options, Postgres, migrate};
use reprise_tests::poll;
use reprise_tests::postgres::{PostgresServer, Version};
use tokio::task::JoinHandle;

use super::caller::Caller;
use super::{count, database, open, session};

const WORKERS: usize = 32;
const LIVES: usize = 60;
const RECOVERY: Duration = Duration::from_secs(30);

/// Workers that live on through faults; the counter says how many lives are over.
fn load(store: &Arc<Postgres>) -> (Vec<JoinHandle<Result<()>>>, Arc<AtomicUsize>) {
    let done = Arc::new(AtomicUsize::new(0));
    let workers = (0..WORKERS).map(|worker| {
        let (store, done) = (Arc::clone(store), Arc::clone(&done));
        tokio::spawn(async move {
            for life in 0..LIVES {
                Caller::new(&store, &format!("k{worker}-{life}"))
                    .with_patience(Duration::from_secs(5))
                    .lifecycle_through_faults(Instant::now() + RECOVERY)
                    .await?;
                done.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        })
    });
    (workers.collect(), done)
}

async fn some_lives(done: &AtomicUsize) -> Result<()> {
    let before = done.load(Ordering::SeqCst);
    poll::until_true("lives to go on", RECOVERY, async || {
        done.load(Ordering::SeqCst) >= before + WORKERS
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_kill_9_of_the_database() -> Result<()> {
    let mut server = PostgresServer::start(Version::V15, &[])?;
    let url = server.fresh_database()?;
    migrate(&url).await?;
    let store = Arc::new(open(Config::new(url.clone())).await?);
    let (workers, done) = load(&store);
    for _ in 0..2 {
        some_lives(&done).await?;
        server.kill_9()?;
        server.restart()?;
    }
    for worker in workers {
        worker.await??;
    }
    let completed = "select count(*) from reprise.record where state = 3 and attempt is null";
    let lives = i64::try_from(WORKERS * LIVES)?;
    assert_eq!(count(&session(&url).await?, completed).await?, lives);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_database_is_unavailable_and_comes_back() -> Result<()> {
    let server = PostgresServer::start(Version::V15, &[])?;
    let url = server.fresh_database()?;
    migrate(&url).await?;
    let mut config = Config::new(url.clone());
    config.statement_time = Duration::from_secs(1);
    let store = Arc::new(open(config).await?);
    let (workers, done) = load(&store);
    some_lives(&done).await?;
    server.freeze()?;
    let caller = Caller::new(&store, "frozen").with_patience(Duration::from_secs(2));
    let start = Instant::now();
    let answer = caller.reserve().await;
    assert!(
        matches!(answer, Err(reprise::store::Error::Unavailable(_))),
        "{answer:?}"
    );
    assert!(start.elapsed() < Duration::from_secs(10));
    server.thaw()?;
    caller
        .lifecycle_through_faults(Instant::now() + RECOVERY)
        .await?;
    for worker in workers {
        worker.await??;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_gave_up_on_its_replica_is_not_acknowledged() -> Result<()> {
    let server = PostgresServer::start(Version::V15, &[])?;
    let url = server.fresh_database()?;
    migrate(&url).await?;
    let mut config = Config::new(url.clone());
    config.statement_time = RECOVERY;
    let store = Arc::new(open(config).await?);
    let admin = session(&url).await?;
    // A replica that never comes: commits wait for it.
    admin
        .batch_execute("alter system set synchronous_standby_names = 'nobody'")
        .await?;
    admin.batch_execute("select pg_reload_conf()").await?;
    // The setting takes effect a moment later: the first commit that waits is cancelled.
    let cancel = "select count(pg_cancel_backend(pid)) from pg_stat_activity
        where wait_event = 'SyncRep'";
    let mut waited = None;
    for number in 0.. {
        let caller = Caller::new(&store, &format!("k{number}"));
        let asking = {
            let caller = caller.clone();
            tokio::spawn(async move { caller.reserve().await })
        };
        poll::until_true("an answer", RECOVERY, async || {
            let cancelled = count(&admin, cancel).await.is_ok_and(|n| n > 0);
            if cancelled {
                waited = Some(caller.clone());
            }
            cancelled || asking.is_finished()
        })
        .await?;
        let answer = asking.await?;
        if waited.is_some() {
            let unknown = matches!(answer, Err(reprise::store::Error::Unavailable(_)));
            assert!(unknown, "{answer:?}");
            break;
        }
    }
    let caller = waited.context("a commit that waited")?;
    // The truth, once there is no replica to wait for: the same attempt holds the key.
    admin
        .batch_execute("alter system reset synchronous_standby_names")
        .await?;
    admin.batch_execute("select pg_reload_conf()").await?;
    caller
        .lifecycle_through_faults(Instant::now() + RECOVERY)
        .await
}

/// Has the test below play the server that panics, on this database.
const PANICKING: &str = "REPRISE_TEST_PANICKING";

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_writer_panics_ends_and_keeps_what_was_written() -> Result<()> {
    if let Ok(url) = std::env::var(PANICKING) {
        let options = Options {
            on_change: Some(Arc::new(|_| panic!("as the test wants it"))),
            ..Options::default()
        };
        let store = Arc::new(Postgres::connect(Config::new(url), options).await?);
        let caller = Caller::new(&store, "k1").with_patience(Duration::from_secs(5));
        let answer = caller.reserve().await;
        // It may arrive while the process ends.
        tokio::time::sleep(Duration::from_secs(10)).await;
        anyhow::bail!("the process goes on: {answer:?}");
    }
    let url = database(Version::V15).await?;
    let this =
        "postgres_store::crashes::a_server_whose_writer_panics_ends_and_keeps_what_was_written";
    let ended = std::process::Command::new(std::env::current_exe()?)
        .args(["--exact", this])
        .env(PANICKING, &url)
        .output()?;
    const SIGABRT: i32 = 6;
    assert_eq!(ended.status.signal(), Some(SIGABRT), "{ended:?}");
    let records = "select count(*) from reprise.record";
    assert_eq!(count(&session(&url).await?, records).await?, 1);
    Ok(())
}
