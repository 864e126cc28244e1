//! Removal: what is over goes, with all that belongs to it; what is not stays.

use std::time::Duration;

use anyhow::{Context, Result};
use reprise::store::{AUDIT_RETENTION, Store, Target, TestClock};
use reprise_domain::command::FailureKind;
use reprise_domain::content::Body;
use reprise_fingerprint::{Fingerprint, RuleId, Scheme};
use reprise_tests::bulk::{self, Bulk};
use reprise_tests::postgres::Version;

use super::caller::Caller;
use super::{BEGINNING, VERSIONS, clocked, count, database, remove, session, soon, walk};

const DAY: Duration = Duration::from_secs(86_400);
const RECORDS: &str = "select count(*) from reprise.record";
const SCHEDULE: &str = "select count(*) from reprise.removal";
/// Ends are looked for up to a 64th of their period later.
const LATE: Duration = Duration::from_secs(86_400);

/// Completed records, a second from one to the next: their bytes end after a day, they
/// themselves after ten.
fn completed(count: i64) -> Bulk {
    Bulk {
        tenant: "t1",
        prefix: "k",
        count,
        state: 3,
        granted_from: BEGINNING,
        every: Duration::from_secs(1),
        lease: Duration::from_secs(30),
        result_retention: DAY,
        memory_retention: 10 * DAY,
        body: b"paid",
    }
}

#[tokio::test]
async fn bytes_go_first_and_the_record_later() -> Result<()> {
    for version in VERSIONS {
        let url = database(version).await?;
        let beside = session(&url).await?;
        bulk::insert(&beside, &completed(5_000)).await?;
        let clock = TestClock::at(BEGINNING.after(Duration::from_secs(7_200)));
        let store = clocked(&url, &clock).await?;
        assert_eq!(walk(&store).await?, 5_000);
        let entries = count(&beside, SCHEDULE).await?;
        assert!((2..50).contains(&entries), "{entries} entries");
        assert_eq!(remove(&store).await?, (0, 0));
        clock.advance(2 * DAY);
        assert_eq!(remove(&store).await?, (5_000, 0), "{version}");
        let caller = Caller::new(&store, "k7");
        let found = store.find("t1", Target::Id(caller.name.id()), soon());
        let (record, _) = found.await?.context("a tombstone")?;
        let content = record.outcome.context("with its outcome")?.content;
        let body = content.body.context("a body that is not kept")?;
        assert!(matches!(body, Body::Omitted { size: 4, .. }), "{body:?}");
        assert_eq!(record.revision, 2, "as it was");
        clock.advance(9 * DAY);
        assert_eq!(remove(&store).await?, (0, 5_000), "{version}");
        for left in [RECORDS, SCHEDULE, "select count(*) from reprise.reference"] {
            assert_eq!(count(&beside, left).await?, 0, "{version}: {left}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_record_goes_with_all_its_side_rows() -> Result<()> {
    let url = database(Version::V15).await?;
    let clock = TestClock::at(BEGINNING);
    let store = clocked(&url, &clock).await?;
    let caller = Caller::new(&store, "k1");
    let first = caller.acquire().await?;
    for reference in ["pr_1", "pr_2"] {
        let marked = caller.mark_sending(first, reference).await?;
        marked.context("it runs")?;
    }
    caller
        .fail(first, FailureKind::Retryable)
        .await?
        .context("recorded")?;
    let second = Caller::new(&store, "k1").acquire().await?;
    caller.complete(second).await?.context("recorded")?;
    caller
        .fail(second, FailureKind::Final)
        .await?
        .expect_err("it contradicts");
    let seen = Fingerprint {
        scheme: Scheme::Raw,
        rule: RuleId::none(),
        digest: [9; 32],
    };
    store
        .note_mismatches(vec![(caller.name.id(), seen, 3)])
        .await?;
    clock.advance(Duration::from_secs(60));
    walk(&store).await?;
    let beside = session(&url).await?;
    let side_tables = ["history", "replaced", "evidence", "mismatch", "reference"];
    for table in side_tables {
        let rows = format!("select count(*) from reprise.{table}");
        assert!(count(&beside, &rows).await? > 0, "{table}");
    }
    clock.advance(35 * DAY + LATE);
    assert_eq!(remove(&store).await?, (0, 1));
    for table in side_tables {
        let rows = format!("select count(*) from reprise.{table}");
        assert_eq!(count(&beside, &rows).await?, 0, "{table}");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_open_and_what_was_revived_stays() -> Result<()> {
    let url = database(Version::V15).await?;
    let clock = TestClock::at(BEGINNING);
    let store = clocked(&url, &clock).await?;
    for key in ["failed", "revived", "pending"] {
        let caller = Caller::new(&store, key);
        let held = caller.acquire().await?;
        if key == "pending" {
            caller.mark_pending(held).await?.context("recorded")?;
        } else {
            let failed = caller.fail(held, FailureKind::Retryable).await?;
            failed.context("recorded")?;
        }
    }
    Caller::new(&store, "running").acquire().await?;
    clock.advance(Duration::from_secs(60));
    walk(&store).await?;
    clock.advance(35 * DAY + LATE);
    Caller::new(&store, "revived").acquire().await?;
    assert_eq!(remove(&store).await?, (0, 1));
    let beside = session(&url).await?;
    let keys = "select count(*) from reprise.record where key <> 'failed'";
    assert_eq!(count(&beside, keys).await?, 3);
    assert_eq!(count(&beside, RECORDS).await?, 3);
    Ok(())
}

#[tokio::test]
async fn a_locked_row_is_come_back_to() -> Result<()> {
    for version in VERSIONS {
        let url = database(version).await?;
        let beside = session(&url).await?;
        bulk::insert(&beside, &completed(1_000)).await?;
        let clock = TestClock::at(BEGINNING.after(Duration::from_secs(7_200)));
        let store = clocked(&url, &clock).await?;
        walk(&store).await?;
        let lock = "begin; select 1 from reprise.record where key in ('k3', 'k700') for update";
        clock.advance(2 * DAY);
        beside.batch_execute(lock).await?;
        assert_eq!(remove(&store).await?, (998, 0), "{version}");
        beside.batch_execute("rollback").await?;
        assert_eq!(remove(&store).await?, (0, 0), "not at once");
        clock.advance(Duration::from_secs(30));
        assert_eq!(remove(&store).await?, (2, 0), "{version}");
        clock.advance(9 * DAY);
        beside.batch_execute(lock).await?;
        assert_eq!(remove(&store).await?, (0, 998), "{version}");
        beside.batch_execute("rollback").await?;
        clock.advance(Duration::from_secs(30));
        assert_eq!(remove(&store).await?, (0, 2), "{version}");
        assert_eq!(count(&beside, SCHEDULE).await?, 0, "{version}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_remove_at_once_remove_each_record_once() -> Result<()> {
    let url = database(Version::V15).await?;
    let beside = session(&url).await?;
    bulk::insert(&beside, &completed(20_000)).await?;
    let clock = TestClock::at(BEGINNING.after(12 * DAY));
    walk(&*clocked(&url, &clock).await?).await?;
    let mut servers = Vec::new();
    for _ in 0..3 {
        let (store, url) = (clocked(&url, &clock).await?, url.clone());
        servers.push(tokio::spawn(async move {
            let beside = session(&url).await?;
            let mut removed = 0;
            while count(&beside, SCHEDULE).await? > 0 {
                removed += store.remove().await?.records;
            }
            anyhow::Ok(removed)
        }));
    }
    let mut removed = 0;
    for server in servers {
        removed += server.await??;
    }
    assert_eq!(removed, 20_000);
    assert_eq!(count(&beside, RECORDS).await?, 0);
    Ok(())
}

#[tokio::test]
async fn an_entry_whose_server_died_is_free_again_after_a_while() -> Result<()> {
    let url = database(Version::V15).await?;
    let beside = session(&url).await?;
    bulk::insert(&beside, &completed(10)).await?;
    let clock = TestClock::at(BEGINNING.after(12 * DAY));
    let store = clocked(&url, &clock).await?;
    walk(&store).await?;
    let micros = clock.now().0;
    beside
        .batch_execute(&format!(
            "update reprise.removal set taken_until =
                to_timestamp({micros} / 1000000.0) + interval '30 seconds'"
        ))
        .await?;
    assert_eq!(remove(&store).await?, (0, 0));
    clock.advance(Duration::from_secs(30));
    assert_eq!(remove(&store).await?.1, 10);
    Ok(())
}

#[tokio::test]
async fn what_was_closed_long_after_its_grant_is_found_by_itself() -> Result<()> {
    let url = database(Version::V15).await?;
    let clock = TestClock::at(BEGINNING);
    let store = clocked(&url, &clock).await?;
    let caller = Caller::new(&store, "k1");
    let held = caller.acquire().await?;
    caller.mark_pending(held).await?.context("recorded")?;
    clock.advance(3 * DAY);
    walk(&store).await?;
    caller.complete(held).await?.context("a late report")?;
    let beside = session(&url).await?;
    let narrow = "select count(*) from reprise.removal
        where granted_to - granted_from = interval '1 microsecond'";
    assert_eq!(
        count(&beside, narrow).await?,
        2,
        "of its bytes and of itself"
    );
    clock.advance(4 * DAY);
    assert_eq!(remove(&store).await?, (1, 0));
    clock.advance(33 * DAY);
    assert_eq!(remove(&store).await?, (0, 1));
    Ok(())
}

#[tokio::test]
async fn damaged_bytes_are_not_written_down_as_sound() -> Result<()> {
    let url = database(Version::V15).await?;
    let beside = session(&url).await?;
    bulk::insert(&beside, &completed(2)).await?;
    beside
        .batch_execute("update reprise.record set body = 'paix' where key = 'k1'")
        .await?;
    let clock = TestClock::at(BEGINNING.after(2 * DAY));
    let store = clocked(&url, &clock).await?;
    walk(&store).await?;
    assert_eq!(remove(&store).await?, (1, 0));
    let caller = Caller::new(&store, "k1");
    let found = store.find("t1", Target::Id(caller.name.id()), soon()).await;
    assert!(matches!(found, Err(reprise::store::Error::Damaged(_))));
    clock.advance(10 * DAY);
    assert_eq!(remove(&store).await?, (0, 2));
    Ok(())
}

#[tokio::test]
async fn large_bodies_are_fetched_a_few_at_a_time() -> Result<()> {
    static LARGE: [u8; 1024 * 1024] = [b'x'; 1024 * 1024];
    let url = database(Version::V15).await?;
    let beside = session(&url).await?;
    let large = Bulk {
        body: &LARGE,
        ..completed(12)
    };
    bulk::insert(&beside, &large).await?;
    let clock = TestClock::at(BEGINNING.after(2 * DAY));
    let store = clocked(&url, &clock).await?;
    walk(&store).await?;
    let first = store.remove().await?;
    assert!((1..12).contains(&first.bodies), "{first:?}");
    assert_eq!(remove(&store).await?.0, 12 - first.bodies);
    Ok(())
}

#[tokio::test]
async fn audit_rows_go_when_they_are_old() -> Result<()> {
    let url = database(Version::V15).await?;
    let clock = TestClock::at(BEGINNING);
    let store = clocked(&url, &clock).await?;
    let caller = Caller::new(&store, "k1");
    let held = caller.acquire().await?;
    caller.complete(held).await?.context("recorded")?;
    caller.forget(2).await?.context("forgotten")?;
    let beside = session(&url).await?;
    let rows = "select count(*) from reprise.audit";
    clock.advance(AUDIT_RETENTION);
    remove(&store).await?;
    assert_eq!(count(&beside, rows).await?, 1, "to its last tick");
    clock.advance(Duration::from_micros(1));
    remove(&store).await?;
    assert_eq!(count(&beside, rows).await?, 0);
    Ok(())
}
