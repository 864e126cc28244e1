//! What only this store has, or needs a hand on the connection. All else is tested from
//! outside, by the suite that every store passes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use reprise_domain::command::{Answer, Command, Outcome, Reserve};
use reprise_domain::record::AttemptId;
use reprise_domain::{Policy, RecordName, Request};
use reprise_fingerprint::{Fingerprint, RuleId, Scheme};

use super::hold::Hold;
use super::*;

mod erasure;
mod listing;
mod removing;
mod scene;
mod walking;

/// A Reserve that takes some pages to store.
fn reserve(key: &str) -> Result<Request> {
    let reserve = Reserve {
        attempt_id: AttemptId(rand::random()),
        fingerprints: vec![Fingerprint {
            scheme: Scheme::Raw,
            rule: RuleId::none(),
            digest: [1; 32],
        }],
        lease: None,
        owner: String::new(),
        correlation_id: String::new(),
        instruction: Bytes::from_static(&[b'i'; 16_000]),
        intent_time: None,
    };
    Ok(Request {
        name: RecordName::new("t", "charge", "", key)?,
        policy: Arc::new(Policy::default()),
        command: Command::Reserve(reserve),
    })
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

async fn is_acquired(store: &Embedded, key: &str) -> Result<bool> {
    let delivery = store.execute(reserve(key)?, soon()).await?;
    let answer = delivery.accept()?;
    Ok(matches!(
        answer,
        Answer::Outcome(Outcome::Acquired { again: false }, _)
    ))
}

#[tokio::test]
async fn a_full_disk_is_unavailable_until_space_returns() -> Result<()> {
    let home = tempfile::tempdir()?;
    let store = Embedded::open(&home.path().join("store"), Options::default())?;
    assert!(is_acquired(&store, "before").await?);
    // SQLite answers SQLITE_FULL as it does for a disk without space.
    let limit = |pages: i64| {
        let connection = lock(&store.shared.writer);
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
    };
    let pages: i64 =
        lock(&store.shared.writer).pragma_query_value(None, "page_count", |row| row.get(0))?;
    limit(pages)?;
    // Two in one batch with one that writes nothing.
    let (full, also_full, replay) = tokio::join!(
        store.execute(reserve("full")?, soon()),
        store.execute(reserve("also full")?, soon()),
        store.execute(reserve("before")?, soon())
    );
    assert!(matches!(full, Err(Error::Unavailable(_))));
    assert!(matches!(also_full, Err(Error::Unavailable(_))));
    drop(replay);
    assert!(
        !is_acquired(&store, "before").await?,
        "it is held, as before"
    );
    let missing = Target::Id(RecordName::new("t", "charge", "", "full")?.id());
    assert!(store.find("t", missing, soon()).await?.is_none());

    limit(1_000_000)?;
    assert!(is_acquired(&store, "full").await?);
    let found = store.find("t", missing, soon()).await?;
    found.context("the record is there once space returned")?;
    Ok(())
}

/// Commits something and does not wait for the disk, as the writer does between two batches.
fn commit_ahead(store: &Embedded) -> Result<()> {
    let mut connection = lock(&store.shared.writer);
    let transaction = connection.transaction()?;
    transaction.execute("update meta set clock = clock + 1", [])?;
    store.shared.disk.commit(transaction, Timestamp(1))?;
    Ok(())
}

#[tokio::test]
async fn whatever_is_told_is_on_the_disk() -> Result<()> {
    let home = tempfile::tempdir()?;
    let store = Embedded::open(&home.path().join("store"), Options::default())?;
    let disk = &store.shared.disk;
    let told = async |what: &str| {
        assert_eq!(disk.synced(), disk.newest(), "{what}");
        commit_ahead(&store)?;
        assert!(disk.synced() < disk.newest(), "{what}");
        anyhow::Ok(())
    };
    told("a new store").await?;
    assert!(is_acquired(&store, "k").await?);
    told("a grant").await?;
    assert!(!is_acquired(&store, "k").await?);
    told("an answer that wrote nothing").await?;
    let target = Target::Id(RecordName::new("t", "charge", "", "k")?.id());
    store.find("t", target, soon()).await?.context("found")?;
    told("a record that was looked up").await?;
    store.to_look_at(1).await?;
    told("a change that wrote nothing").await?;
    Ok(())
}

#[tokio::test]
async fn commits_run_no_further_ahead_of_the_disk_than_a_crash_may_tear() -> Result<()> {
    let home = tempfile::tempdir()?;
    let store = Embedded::open(&home.path().join("store"), Options::default())?;
    for number in 1..=5 {
        commit_ahead(&store)?;
        let disk = &store.shared.disk;
        assert_eq!(disk.newest(), number);
        assert!(disk.synced() + disk::UNSYNCED_MAX >= number, "{number}");
    }
    Ok(())
}

#[tokio::test]
async fn somebody_who_looks_in_stops_nobody() -> Result<()> {
    let home = tempfile::tempdir()?;
    let path = home.path().join("store");
    let store = Embedded::open(&path, Options::default())?;
    let visitor = Connection::open(&path)?;
    let transaction = visitor.unchecked_transaction()?;
    let count = || {
        transaction.query_row("select count(*) from records", [], |row| {
            row.get::<_, i64>(0)
        })
    };
    assert_eq!(count()?, 0);
    assert!(is_acquired(&store, "k").await?);
    assert_eq!(count()?, 0, "a visitor's transaction sees one moment");
    drop(transaction);
    let key: String = visitor.query_row("select key from records", [], |row| row.get(0))?;
    assert_eq!(key, "k");
    Ok(())
}

/// Where the process that is to end has its files.
const HOME: &str = "REPRISE_TEST_OF_AN_END";

/// Runs a test of this module again, as the process that is to end.
fn assert_aborts(test: &str) -> Result<()> {
    use std::os::unix::process::ExitStatusExt;

    let home = tempfile::tempdir()?;
    let ended = std::process::Command::new(std::env::current_exe()?)
        .args(["--exact", &format!("store::embedded::tests::{test}")])
        .env(HOME, home.path())
        .output()?;
    let output = String::from_utf8_lossy(&ended.stdout);
    assert!(output.contains("running 1 test"), "{output}");
    let aborted = 6;
    assert_eq!(ended.status.signal(), Some(aborted), "{output}");
    Ok(())
}

#[tokio::test]
async fn a_panic_of_the_writer_ends_the_process() -> Result<()> {
    let Some(home) = std::env::var_os(HOME) else {
        return assert_aborts("a_panic_of_the_writer_ends_the_process");
    };
    let options = Options {
        on_change: Some(Arc::new(|_| panic!("as an observer may"))),
        ..Options::default()
    };
    let store = Embedded::open(&Path::new(&home).join("store"), options)?;
    is_acquired(&store, "k").await?;
    store.close().await?;
    Ok(())
}

#[test]
fn a_log_that_cannot_be_synced_ends_the_process() -> Result<()> {
    let Some(home) = std::env::var_os(HOME) else {
        return assert_aborts("a_log_that_cannot_be_synced_ends_the_process");
    };
    let path = Path::new(&home).join("store");
    // What is written there is taken, and syncing it is refused.
    std::os::unix::fs::symlink("/dev/null", hold::beside(&path, "-wal"))?;
    let disk = Disk::new(&path, Hold::take(&path)?)?;
    let mut connection = Connection::open_in_memory()?;
    disk.commit(connection.transaction()?, Timestamp(1))?;
    disk.sync(disk.newest())?;
    Ok(())
}
