//! Ordinary lives of records, on every supported server and in every mode.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use reprise::store::postgres::{Config, Options, Postgres};
use reprise::store::{Store, Target, TestClock};
use reprise_domain::command::{Answer, FailureKind};
use reprise_domain::content::Body;
use reprise_domain::record::{AttemptId, State};
use reprise_domain::{Content, Record, Timestamp, Trace};
use reprise_tests::poll;
use reprise_tests::postgres::Version;

use super::caller::{Answered, Caller, result};
use super::{VERSIONS, count, database, open, session, soon};

fn modes(url: &str) -> [Config; 3] {
    let usual = Config::new(url);
    let mut slow = usual.clone();
    slow.fast_path = false;
    let mut unnamed = usual.clone();
    unnamed.prepared = Some(false);
    [usual, slow, unnamed]
}

#[tokio::test]
async fn a_completed_record_is_replayed_byte_for_byte() -> Result<()> {
    for version in VERSIONS {
        let url = database(version).await?;
        for (number, mode) in modes(&url).into_iter().enumerate() {
            let store = Arc::new(open(mode).await?);
            let caller = Caller::new(&store, &format!("k{number}"));
            caller.lifecycle().await?;
            let (record, _) = store
                .find("t1", Target::Id(caller.name.id()), soon())
                .await?
                .context("the record is there")?;
            assert_eq!(record.state, State::Completed);
            let outcome = record.outcome.as_ref().context("with its outcome")?;
            assert_eq!(outcome.content, result());
            let again = Caller::new(&store, &format!("k{number}")).reserve().await?;
            let Ok(Answer::Outcome(_, view)) = again else {
                panic!("{version}: {again:?}");
            };
            assert_eq!(*view.record, record, "{version}");
            store.close().await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_record_is_found_by_its_effect_key_and_by_its_own_tenant_only() -> Result<()> {
    let url = database(Version::V15).await?;
    let store = Arc::new(open(Config::new(url)).await?);
    let caller = Caller::new(&store, "k1");
    caller.acquire().await?;
    let key = caller.name.effect_key(1);
    for target in [Target::Id(caller.name.id()), Target::EffectKey(key)] {
        assert!(store.find("t1", target, soon()).await?.is_some());
        assert!(store.find("t2", target, soon()).await?.is_none());
    }
    let later = Target::EffectKey(caller.name.effect_key(2));
    assert!(store.find("t1", later, soon()).await?.is_none());
    assert_eq!(
        store.revisions(vec![caller.name.id()]).await?,
        vec![(caller.name.id(), 1)]
    );
    Ok(())
}

/// Everything that callers are told in a life that meets most rows of the contract.
async fn life(store: &Arc<Postgres>, clock: &TestClock) -> Result<(Vec<String>, Record)> {
    let mut told = Vec::new();
    let mut tell = |answer: Answered| -> Result<()> {
        told.push(format!("{:?}", answer?));
        clock.advance(Duration::from_millis(7));
        Ok(())
    };
    let mut caller = Caller::new(store, "k1");
    caller.attempt_id = AttemptId([1; 16]);
    let first = caller.acquire().await?;
    tell(caller.reserve().await)?;
    tell(caller.renew(first, Some(Duration::from_secs(9))).await)?;
    tell(caller.mark_sending(first, "pr_1").await)?;
    tell(caller.mark_sending(first, "pr_2").await)?;
    tell(caller.mark_sending(first, "").await)?;
    tell(caller.fail(first, FailureKind::Retryable).await)?;
    tell(caller.fail(first, FailureKind::Retryable).await)?;
    caller.attempt_id = AttemptId([2; 16]);
    let second = caller.acquire().await?;
    tell(caller.complete(first).await)?;
    tell(caller.renew(second, None).await)?;
    tell(caller.mark_pending(second).await)?;
    tell(caller.fail(second, FailureKind::Final).await)?;
    tell(caller.complete(second).await)?;
    let other = caller.clone().with_payload(2);
    tell(other.reserve().await)?;
    let mut lapsed = Caller::new(store, "k2");
    lapsed.attempt_id = AttemptId([3; 16]);
    let held = lapsed.acquire().await?;
    clock.advance(Duration::from_secs(31));
    tell(lapsed.reserve().await)?;
    tell(lapsed.renew(held, None).await)?;
    tell(lapsed.complete(held).await)?;
    tell(lapsed.complete(held).await)?;
    let found = store
        .find("t1", Target::Id(caller.name.id()), soon())
        .await?;
    let (record, _) = found.context("the record is there")?;
    let traces: Vec<Trace> = store.traces(caller.name.id()).await?;
    told.extend(traces.iter().map(|trace| format!("{trace:?}")));
    Ok((told, record))
}

#[tokio::test]
async fn one_round_trip_and_three_give_the_same_answers() -> Result<()> {
    for version in VERSIONS {
        let mut lives = Vec::new();
        for fast_path in [true, false] {
            let mut config = Config::new(database(version).await?);
            config.fast_path = fast_path;
            let clock = TestClock::at(Timestamp(1_780_000_000_000_000));
            let options = Options {
                clock: Some(clock.clone()),
                ..Options::default()
            };
            let store = Arc::new(Postgres::connect(config, options).await?);
            lives.push(life(&store, &clock).await?);
        }
        assert_eq!(lives[0], lives[1], "{version}");
        assert!(lives[0].0.len() > 20, "the life left traces");
    }
    Ok(())
}

#[tokio::test]
async fn usual_reports_update_the_row_on_its_page_and_leave_nothing_open() -> Result<()> {
    let url = database(Version::V15).await?;
    let store = Arc::new(open(Config::new(url.clone())).await?);
    let lives = (0..500).map(|n| {
        let caller = Caller::new(&store, &format!("k{n}"));
        let result = Content {
            body: Some(Body::Data(Bytes::from_static(&[b'x'; 70]))),
            ..Content::of_code("201")
        };
        tokio::spawn(async move {
            let held = caller.acquire().await?;
            caller
                .complete_with(held, result)
                .await?
                .context("recorded")
        })
    });
    for life in lives.collect::<Vec<_>>() {
        life.await??;
    }
    store.close().await?;
    let beside = session(&url).await?;
    // Sessions report what they counted when they end, at the latest.
    let updates = "select n_tup_upd from pg_stat_user_tables where relname = 'record'";
    poll::until_true(
        "all updates to be counted",
        Duration::from_secs(30),
        async || count(&beside, updates).await.is_ok_and(|n| n == 500),
    )
    .await?;
    let hot = "select n_tup_hot_upd from pg_stat_user_tables where relname = 'record'";
    assert_eq!(count(&beside, hot).await?, 500);
    let narrow = "select count(*) from reprise.record
        where recorded_at is not null and (result_until, memory_until) is null";
    assert_eq!(count(&beside, narrow).await?, 500);
    let open = "select count(*) from pg_stat_activity where state like 'idle in transaction%'";
    assert_eq!(count(&beside, open).await?, 0);
    Ok(())
}

#[tokio::test]
async fn policies_are_put_with_their_etag_and_audited() -> Result<()> {
    let url = database(Version::V15).await?;
    let store = open(Config::new(url.clone())).await?;
    let put = |etag: &str| reprise::store::PutPolicy {
        tenant: "t1".to_owned(),
        operation: "charge".to_owned(),
        policy: Some(reprise_domain::Policy::default()),
        mode: reprise_domain::policy::Mode::Enforce,
        etag: etag.to_owned(),
        actor: "ops".to_owned(),
        reason: "why".to_owned(),
    };
    let first = store.put_policy(put("")).await?;
    let changed = |result| matches!(result, Err(reprise::store::Error::EtagChanged));
    assert!(changed(store.put_policy(put("")).await));
    assert!(changed(store.put_policy(put("other")).await));
    let second = store.put_policy(put(&first.etag)).await?;
    assert_ne!(first.etag, second.etag);
    assert_eq!(store.policies().await?, vec![second]);
    let audited = "select count(*) from reprise.audit where action = 64 and actor = 'ops'";
    assert_eq!(count(&session(&url).await?, audited).await?, 2);
    Ok(())
}

#[tokio::test]
async fn bytes_that_were_changed_in_the_table_are_reported_not_served() -> Result<()> {
    let url = database(Version::V15).await?;
    let store = Arc::new(open(Config::new(url.clone())).await?);
    let caller = Caller::new(&store, "k1");
    caller.lifecycle().await?;
    session(&url)
        .await?
        .batch_execute("update reprise.record set body = '\\x00'")
        .await?;
    let damaged =
        |error| matches!(error, reprise::store::Error::Damaged(id) if id == caller.name.id());
    let found = store.find("t1", Target::Id(caller.name.id()), soon()).await;
    assert!(found.is_err_and(damaged));
    assert!(caller.reserve().await.is_err_and(damaged));
    Ok(())
}
