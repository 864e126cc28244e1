//! One stuck row, and its neighbours.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use reprise::store::postgres::{Config, Postgres};
use reprise::store::{Error, Store, Target};
use reprise_domain::command::{Answer, Disposition, Outcome};
use reprise_tests::postgres::Version;
use tokio_postgres::Client;

use super::caller::Caller;
use super::{count, database, open, session};

/// How long 1,000 keys may take beside a stuck one: a fraction of what they would wait
/// for it, a multiple of what they need.
const NEIGHBOURS_TIME: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(2);

async fn neighbours(store: &Arc<Postgres>, prefix: &str) -> Result<Duration> {
    let start = Instant::now();
    let lives = (0..1000).map(|n| {
        let caller = Caller::new(store, &format!("{prefix}{n}"));
        tokio::spawn(async move { caller.lifecycle().await })
    });
    for life in lives.collect::<Vec<_>>() {
        life.await??;
    }
    Ok(start.elapsed())
}

/// Begins an insert of the record of `key` by copying another one, and leaves it open.
async fn open_insert(client: &Client, caller: &Caller) -> Result<()> {
    let id = caller.name.id().0.to_vec();
    let key = caller.name.key().to_owned();
    client.batch_execute("begin").await?;
    client
        .execute(
            "insert into reprise.record (id, tenant, operation, key, revision, fence, lease_us,
                granted_at, state, attempt_id, fingerprint_digest)
             values (encode(substr($1::bytea, 1, 16), 'hex')::uuid, 't1', 'charge', $2, 1, 1, 1000,
                now(), 1, $1, $1)",
            &[&id, &key],
        )
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_insert_of_one_key_stops_no_other() -> Result<()> {
    let url = database(Version::V15).await?;
    let store = Arc::new(open(Config::new(url.clone())).await?);
    let stuck = Caller::new(&store, "stuck");
    let beside = session(&url).await?;
    open_insert(&beside, &stuck).await?;
    let callers: Vec<_> = (0..50)
        .map(|_| {
            let caller = Caller::new(&store, "stuck").with_patience(PATIENCE);
            tokio::spawn(async move { caller.reserve().await })
        })
        .collect();
    let took = neighbours(&store, "k").await?;
    assert!(took < NEIGHBOURS_TIME, "the neighbours took {took:?}");
    for caller in callers {
        let answer = caller.await?;
        assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    }
    // The key is free for the next one, at the latest when a grant that came too late for
    // its caller has been given back.
    beside.batch_execute("rollback").await?;
    let next = Caller::new(&store, "stuck");
    reprise_tests::poll::until_true("the key to be free", PATIENCE, async || {
        next.lifecycle().await.is_ok()
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loser_of_an_open_insert_sees_the_row_that_won() -> Result<()> {
    let url = database(Version::V15).await?;
    let store = Arc::new(open(Config::new(url.clone())).await?);
    let winner = Caller::new(&store, "k1");
    winner.acquire().await?;
    let loser = Caller::new(&store, "k1");
    let beside = session(&url).await?;
    // The same row, inserted by somebody who takes time to commit.
    beside
        .batch_execute(
            "create table copy as select * from reprise.record;
             delete from reprise.record; begin;
             insert into reprise.record select * from copy",
        )
        .await?;
    let asking = tokio::spawn(async move { loser.reserve().await });
    let waiting = "select count(*) from pg_locks where not granted";
    reprise_tests::poll::until_true("the insert to wait", PATIENCE, async || {
        count(&beside, waiting).await.is_ok_and(|n| n > 0)
    })
    .await?;
    beside.batch_execute("commit").await?;
    let answer = asking.await??;
    assert!(
        matches!(answer, Ok(Answer::Outcome(Outcome::Processing, _))),
        "{answer:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_row_stops_no_other_and_is_written_when_it_is_free() -> Result<()> {
    for fast_path in [true, false] {
        let url = database(Version::V15).await?;
        let mut config = Config::new(url.clone());
        config.fast_path = fast_path;
        let store = Arc::new(open(config).await?);
        let caller = Caller::new(&store, "stuck");
        let held = caller.acquire().await?;
        let beside = session(&url).await?;
        beside
            .batch_execute("begin; select 1 from reprise.record for update")
            .await?;
        let impatient = caller.clone().with_patience(Duration::from_millis(500));
        let unknown = tokio::spawn(async move { impatient.complete(held).await });
        let took = neighbours(&store, "k").await?;
        assert!(took < NEIGHBOURS_TIME, "the neighbours took {took:?}");
        let answer = unknown.await?;
        assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");

        let patient = tokio::spawn(async move { caller.complete(held).await });
        beside.batch_execute("rollback").await?;
        let answer = patient.await??;
        // Or the first one was written after all, once the row was free.
        let recorded = matches!(
            answer,
            Ok(Answer::Reported(
                Disposition::Recorded | Disposition::Repeated,
                _
            ))
        );
        assert!(recorded, "{answer:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_the_database_refuses_fails_alone() -> Result<()> {
    let url = database(Version::V15).await?;
    let store = Arc::new(open(Config::new(url.clone())).await?);
    session(&url)
        .await?
        .batch_execute(
            "create function refuse() returns trigger language plpgsql as
                $$ begin raise exception 'no'; end $$;
             create trigger refuse before insert on reprise.record for each row
                when (new.key = 'refused') execute function refuse()",
        )
        .await?;
    let refused = Caller::new(&store, "refused");
    let refused = tokio::spawn(async move { refused.reserve().await });
    neighbours(&store, "k").await?;
    let answer = refused.await?;
    assert!(matches!(answer, Err(Error::Internal(_))), "{answer:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_table_takes_up_no_more_than_two_pools() -> Result<()> {
    const POOL_SIZE: usize = 3;
    let most = i64::try_from(2 * POOL_SIZE)?;
    let url = database(Version::V15).await?;
    let mut config = Config::new(url.clone());
    config.pool_size = POOL_SIZE;
    config.statement_time = Duration::from_millis(300);
    let store = Arc::new(open(config).await?);
    let (beside, watcher) = (session(&url).await?, session(&url).await?);
    beside
        .batch_execute("begin; lock table reprise.record in access exclusive mode")
        .await?;
    let ours = "select count(*) from pg_stat_activity
        where datname = current_database() and application_name = 'reprise'";
    for round in 0..5 {
        let calls = (0..4 * POOL_SIZE).map(|n| {
            let caller = Caller::new(&store, &format!("k{round}-{n}"));
            let find = store.clone();
            tokio::spawn(async move {
                let target = Target::Id(caller.name.id());
                let found = find.find("t1", target, Instant::now() + PATIENCE).await;
                let reserved = caller.with_patience(PATIENCE).reserve().await;
                (found.err(), reserved.err())
            })
        });
        for call in calls.collect::<Vec<_>>() {
            let errors = call.await?;
            let unknown = matches!(
                errors,
                (Some(Error::Unavailable(_)), Some(Error::Unavailable(_)))
            );
            assert!(unknown, "{errors:?}");
        }
        let found = count(&watcher, ours).await?;
        assert!(found <= most, "{found} connections in round {round}");
    }
    // All there may be: the bound is what held them back.
    assert_eq!(count(&watcher, ours).await?, most);
    beside.batch_execute("rollback").await?;
    Caller::new(&store, "after")
        .lifecycle_through_faults(super::soon())
        .await?;
    reprise_tests::poll::until_true("the rest to close", PATIENCE, async || {
        let found = count(&watcher, ours).await;
        found.is_ok_and(|found| found * 2 <= most)
    })
    .await
}
