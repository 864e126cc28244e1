//! The walk over grants: none is passed by, each is visited once.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use reprise::store::{Store, TestClock};
use reprise_domain::Timestamp;
use reprise_tests::bulk::{self, Bulk};
use reprise_tests::postgres::Version;

use super::caller::Caller;
use super::{BEGINNING, VERSIONS, clocked, count, database, session, walk};

const OPEN: &str = "select count(*) from reprise.worklist";
const STEP: Duration = Duration::from_secs(5);

/// An hour from now, so that it is the beginnings of real transactions that hold back.
fn ahead() -> Result<TestClock> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH)? + Duration::from_secs(3600);
    Ok(TestClock::at(Timestamp(i64::try_from(since.as_micros())?)))
}

/// Grants that are running, a millisecond from one to the next.
pub(super) fn running(count: i64) -> Bulk {
    Bulk {
        tenant: "t1",
        prefix: "k",
        count,
        state: 1,
        granted_from: BEGINNING,
        every: Duration::from_millis(1),
        lease: Duration::from_secs(30),
        result_retention: Duration::from_secs(60),
        memory_retention: Duration::from_secs(3600),
        body: b"",
    }
}

#[tokio::test]
async fn a_grant_that_commits_late_is_not_passed_by() -> Result<()> {
    for version in VERSIONS {
        let url = database(version).await?;
        let clock = ahead()?;
        let store = clocked(&url, &clock).await?;
        Caller::new(&store, "k1").acquire().await?;
        let late = session(&url).await?;
        late.batch_execute(
            "begin; create temp table copy as select * from reprise.record;
             delete from reprise.record; insert into reprise.record select * from copy",
        )
        .await?;
        clock.advance(STEP);
        assert_eq!(walk(&store).await?, 0, "{version}");
        assert!(store.overview().await?.walked_to < clock.now());
        late.batch_execute("commit").await?;
        assert_eq!(walk(&store).await?, 1, "{version}");
        let beside = session(&url).await?;
        assert_eq!(count(&beside, OPEN).await?, 1);
    }
    Ok(())
}

#[tokio::test]
async fn what_writes_no_records_holds_nothing_back() -> Result<()> {
    let url = database(Version::V15).await?;
    let clock = ahead()?;
    let store = clocked(&url, &clock).await?;
    Caller::new(&store, "k1").acquire().await?;
    let beside = session(&url).await?;
    beside
        .batch_execute("create table other (n int); begin; insert into other values (1)")
        .await?;
    clock.advance(STEP);
    assert_eq!(walk(&store).await?, 1);
    Ok(())
}

#[tokio::test]
async fn the_newest_grants_are_left_to_the_next_walk() -> Result<()> {
    let url = database(Version::V15).await?;
    let clock = TestClock::at(BEGINNING);
    let store = clocked(&url, &clock).await?;
    Caller::new(&store, "k1").acquire().await?;
    assert_eq!(walk(&store).await?, 0);
    clock.advance(Duration::from_secs(2));
    assert_eq!(walk(&store).await?, 0);
    clock.advance(Duration::from_micros(1));
    assert_eq!(walk(&store).await?, 1);
    assert_eq!(walk(&store).await?, 0, "once");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_walk_at_once_visit_each_grant_once() -> Result<()> {
    for version in VERSIONS {
        let url = database(version).await?;
        let beside = session(&url).await?;
        bulk::insert(&beside, &running(20_000)).await?;
        let clock = TestClock::at(BEGINNING.after(Duration::from_secs(3600)));
        let mut servers = Vec::new();
        for _ in 0..3 {
            let store = clocked(&url, &clock).await?;
            servers.push(tokio::spawn(async move {
                let mut visited = 0;
                // Another server may be at it: that is no end.
                while store.overview().await?.walked_to < BEGINNING.after(STEP * 100) {
                    visited += store.walk().await?.visited;
                }
                anyhow::Ok(visited)
            }));
        }
        let mut visited = 0;
        for server in servers {
            visited += server.await??;
        }
        assert_eq!(visited, 20_000, "{version}");
        assert_eq!(count(&beside, OPEN).await?, 20_000, "{version}");
    }
    Ok(())
}

#[tokio::test]
async fn grants_of_one_moment_are_visited_over_several_steps() -> Result<()> {
    let url = database(Version::V15).await?;
    let beside = session(&url).await?;
    let at_once = Bulk {
        every: Duration::ZERO,
        ..running(2_500)
    };
    bulk::insert(&beside, &at_once).await?;
    let store = clocked(&url, &TestClock::at(BEGINNING.after(STEP))).await?;
    assert_eq!(walk(&store).await?, 2_500);
    assert_eq!(count(&beside, OPEN).await?, 2_500);
    Ok(())
}

#[tokio::test]
async fn after_the_clock_was_set_back_grants_are_visited_again() -> Result<()> {
    let url = database(Version::V15).await?;
    let ahead = TestClock::at(BEGINNING.after(Duration::from_secs(86_400)));
    let store = clocked(&url, &ahead).await?;
    assert_eq!(walk(&store).await?, 0);
    let back = TestClock::at(BEGINNING);
    let store = clocked(&url, &back).await?;
    Caller::new(&store, "k1").acquire().await?;
    back.advance(STEP);
    assert_eq!(walk(&store).await?, 1);
    assert_eq!(walk(&store).await?, 0, "once");
    Ok(())
}

#[tokio::test]
async fn an_entry_that_is_there_stays() -> Result<()> {
    let url = database(Version::V15).await?;
    let clock = TestClock::at(BEGINNING);
    let store = clocked(&url, &clock).await?;
    let caller = Caller::new(&store, "k1");
    let held = caller.acquire().await?;
    caller.mark_pending(held).await?.expect("it is recorded");
    clock.advance(STEP);
    assert_eq!(walk(&store).await?, 1);
    let beside = session(&url).await?;
    let find_out = "select count(*) from reprise.worklist where kind = 2";
    assert_eq!(count(&beside, find_out).await?, 1);
    Ok(())
}

#[tokio::test]
async fn what_is_to_be_looked_at_is_handed_out_once() -> Result<()> {
    let url = database(Version::V15).await?;
    let beside = session(&url).await?;
    bulk::insert(&beside, &running(20)).await?;
    let clock = TestClock::at(BEGINNING.after(STEP));
    let stores = [clocked(&url, &clock).await?, clocked(&url, &clock).await?];
    walk(&stores[0]).await?;
    assert!(stores[0].to_look_at(100).await?.is_empty(), "leases run");
    clock.advance(Duration::from_secs(30));
    let first = stores[0].to_look_at(5).await?;
    let keys: Vec<_> = first.iter().map(|name| name.key().to_owned()).collect();
    assert_eq!(
        keys,
        ["k0", "k1", "k2", "k3", "k4"],
        "the longest due first"
    );
    assert_eq!(stores[1].to_look_at(100).await?.len(), 15);
    assert!(stores[0].to_look_at(100).await?.is_empty());
    // The server that had them died.
    clock.advance(Duration::from_secs(30));
    assert_eq!(stores[1].to_look_at(100).await?.len(), 20);
    let swept = Caller::new(&stores[1], "k0");
    swept.sweep().await?.expect("a look is not refused");
    let record = stores[1].find("t1", target(&swept), super::soon()).await?;
    let state = record.map(|(record, _)| record.state);
    assert_eq!(state, Some(reprise_domain::record::State::Pending));
    Ok(())
}

fn target(caller: &Caller) -> reprise::store::Target {
    reprise::store::Target::Id(caller.name.id())
}

#[tokio::test]
async fn entries_without_a_record_go() -> Result<()> {
    let url = database(Version::V15).await?;
    let beside = session(&url).await?;
    bulk::insert(&beside, &running(3)).await?;
    let clock = TestClock::at(BEGINNING.after(STEP));
    let store = clocked(&url, &clock).await?;
    walk(&Arc::clone(&store)).await?;
    beside.batch_execute("delete from reprise.record").await?;
    clock.advance(Duration::from_secs(60));
    assert!(store.to_look_at(10).await?.is_empty());
    assert_eq!(count(&beside, OPEN).await?, 0);
    Ok(())
}
