//! Lists for people: the right rows, page by page, and never by reading the whole table.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use reprise::store::postgres::Postgres;
use reprise::store::{
    AuditQuery, Audited, MISMATCHES_MAX, PutPolicy, RecordsPage, RecordsQuery, Store, TestClock,
};
use reprise_domain::decide::{AuditAction, By};
use reprise_domain::policy::Mode;
use reprise_domain::record::State;
use reprise_fingerprint::{Fingerprint, RuleId, Scheme};
use reprise_tests::bulk::{self, Bulk};
use reprise_tests::poll;
use reprise_tests::postgres::Version;
use tokio_postgres::Client;

use super::caller::Caller;
use super::walk::running;
use super::{BEGINNING, VERSIONS, clocked, count, database, session, walk};

fn of(tenant: &str) -> RecordsQuery {
    RecordsQuery {
        tenant: tenant.to_owned(),
        max: 100,
        ..RecordsQuery::default()
    }
}

fn keys(page: &RecordsPage) -> Vec<&str> {
    page.records
        .iter()
        .map(|record| record.name.key())
        .collect()
}

/// 20,000 records of one tenant with references of their own, filed, and a few of another,
/// granted before.
async fn filled(url: &str) -> Result<(Arc<Postgres>, Client)> {
    let beside = session(url).await?;
    let few = Bulk {
        tenant: "t2",
        prefix: "few-",
        granted_from: reprise_domain::Timestamp(BEGINNING.0 - 1_000_000),
        ..running(3)
    };
    bulk::insert(&beside, &few).await?;
    bulk::insert(&beside, &running(20_000)).await?;
    let clock = TestClock::at(BEGINNING.after(Duration::from_secs(60)));
    let store = clocked(url, &clock).await?;
    assert_eq!(walk(&store).await?, 20_003);
    beside.batch_execute("analyze").await?;
    Ok((store, beside))
}

/// Closes the store; its sessions have counted what they read when they are gone.
async fn ended(store: &Postgres, beside: &Client) -> Result<()> {
    store.close().await?;
    let sessions = "select count(*) from pg_stat_activity
        where datname = current_database() and application_name = 'reprise'";
    poll::until_true("sessions to end", Duration::from_secs(30), async || {
        count(beside, sessions).await.is_ok_and(|n| n == 0)
    })
    .await
}

#[tokio::test]
async fn a_reference_is_found_without_reading_the_table() -> Result<()> {
    for version in VERSIONS {
        let url = database(version).await?;
        let (store, beside) = filled(&url).await?;
        ended(&store, &beside).await?;
        beside.batch_execute("select pg_stat_reset()").await?;
        let store = clocked(&url, &TestClock::at(BEGINNING)).await?;
        for (resource_id, provider_reference) in [
            ("order-k777", ""),
            ("", "pr-k777"),
            ("order-k777", "pr-k777"),
        ] {
            let query = RecordsQuery {
                resource_id: resource_id.to_owned(),
                provider_reference: provider_reference.to_owned(),
                ..of("t1")
            };
            let page = store.records(query.clone()).await?;
            assert_eq!(keys(&page), ["k777"], "{version}");
            assert_eq!(page.next, None, "{version}");
            let other = RecordsQuery {
                tenant: "t2".to_owned(),
                ..query
            };
            assert!(store.records(other).await?.records.is_empty(), "{version}");
        }
        let neither = RecordsQuery {
            resource_id: "order-k777".to_owned(),
            provider_reference: "pr-k778".to_owned(),
            ..of("t1")
        };
        assert!(store.records(neither).await?.records.is_empty());
        ended(&store, &beside).await?;
        let rows = "select sum(seq_scan + idx_tup_fetch)::bigint from pg_stat_user_tables
             where relname in ('record', 'reference')";
        let read = count(&beside, rows).await?;
        assert!(
            read < 50,
            "{version}: {read} rows or whole tables were read"
        );
    }
    Ok(())
}

#[tokio::test]
async fn pages_go_along_the_grants_and_end_early_after_many_in_vain() -> Result<()> {
    let url = database(Version::V15).await?;
    let (store, _beside) = filled(&url).await?;
    let mut query = RecordsQuery { max: 2, ..of("t1") };
    let first = store.records(query.clone()).await?;
    assert_eq!(keys(&first), ["k19999", "k19998"]);
    query.after = first.next;
    let second = store.records(query.clone()).await?;
    assert_eq!(keys(&second), ["k19997", "k19996"]);
    query.after = second.next;
    query.key_prefix = "k1999".to_owned();
    query.max = 100;
    let rest = store.records(query).await?;
    assert_eq!(rest.records.len(), 6, "k19995 to k19990");
    assert!(rest.next.is_some(), "there are older ones");

    let mut few = of("t2");
    let (mut pages, mut found) = (0, Vec::new());
    loop {
        let page = store.records(few.clone()).await?;
        found.extend(keys(&page).into_iter().map(str::to_owned));
        pages += 1;
        few.after = page.next;
        if few.after.is_none() {
            break;
        }
    }
    assert_eq!(found, ["few-2", "few-1", "few-0"]);
    assert_eq!(pages, 5, "5,000 are looked at a call");
    let recent = RecordsQuery {
        created_from: Some(BEGINNING.after(Duration::from_millis(19_990))),
        ..of("t1")
    };
    let recent = store.records(recent).await?;
    assert_eq!((recent.records.len(), recent.next), (10, None));
    Ok(())
}

#[tokio::test]
async fn filters_narrow_and_bytes_stay_behind() -> Result<()> {
    let url = database(Version::V15).await?;
    let clock = TestClock::at(BEGINNING);
    let store = clocked(&url, &clock).await?;
    let caller = Caller::new(&store, "k1");
    caller.lifecycle().await?;
    clock.advance(Duration::from_secs(1));
    Caller::new(&store, "k2").acquire().await?;
    let all = store.records(of("t1")).await?;
    assert_eq!((keys(&all), all.next), (vec!["k2", "k1"], None));
    assert_eq!(all.now, clock.now());
    let with = |change: &dyn Fn(&mut RecordsQuery)| {
        let mut query = of("t1");
        change(&mut query);
        store.records(query)
    };
    let done = with(&|query| query.state = Some(State::Completed)).await?;
    assert_eq!(keys(&done), ["k1"]);
    let content = &done.records[0].outcome.as_ref().context("done")?.content;
    assert_eq!((content.headers.len(), &content.body), (0, &None));
    assert_eq!(content.code, "201");
    assert!(
        with(&|q| "refund".clone_into(&mut q.operation))
            .await?
            .records
            .is_empty()
    );
    assert!(
        with(&|q| q.subject = Some("s".to_owned()))
            .await?
            .records
            .is_empty()
    );
    assert_eq!(
        with(&|q| q.subject = Some(String::new()))
            .await?
            .records
            .len(),
        2
    );
    assert_eq!(
        keys(&with(&|q| q.created_before = Some(clock.now())).await?),
        ["k1"]
    );
    assert_eq!(
        keys(&with(&|q| q.created_from = Some(clock.now())).await?),
        ["k2"]
    );
    assert!(
        with(&|q| "c".clone_into(&mut q.correlation_id))
            .await?
            .records
            .is_empty()
    );
    Ok(())
}

#[tokio::test]
async fn audit_rows_are_listed_newest_first_and_page_by_page() -> Result<()> {
    let url = database(Version::V15).await?;
    let clock = TestClock::at(BEGINNING);
    let store = clocked(&url, &clock).await?;
    let put = |etag: String| PutPolicy {
        tenant: "t1".to_owned(),
        operation: "charge".to_owned(),
        policy: None,
        mode: Mode::Hold,
        etag,
        actor: "ops".to_owned(),
        reason: "stop".to_owned(),
    };
    let first = store.put_policy(put(String::new())).await?;
    let second = store.put_policy(put(first.etag)).await?;
    store.put_policy(put(second.etag)).await?;
    clock.advance(Duration::from_secs(1));
    let caller = Caller::new(&store, "k1");
    caller.lifecycle().await?;
    caller.forget(2).await?.context("forgotten")?;
    let query = AuditQuery {
        tenant: "t1".to_owned(),
        max: 3,
        ..AuditQuery::default()
    };
    let page = store.audit(query.clone()).await?;
    let (row, id) = (&page.rows[0], caller.name.id());
    assert_eq!(row.action, Audited::Record(AuditAction::Forgotten));
    assert_eq!((row.by, row.record), (By::Operator, Some((id, 1))));
    assert_eq!(
        (row.actor.as_str(), row.evidence.as_str()),
        ("officer", "they asked")
    );
    assert_eq!(page.rows[1].action, Audited::PolicyWritten);
    assert_eq!((page.rows[1].by, page.rows[1].record), (By::Operator, None));
    let next = store
        .audit(AuditQuery {
            after: page.next,
            ..query.clone()
        })
        .await?;
    assert_eq!((next.rows.len(), next.next), (1, None), "of one moment too");
    let of_record = AuditQuery {
        record: Some(id),
        ..query.clone()
    };
    assert_eq!(store.audit(of_record).await?.rows.len(), 1);
    let early = AuditQuery {
        before: Some(clock.now()),
        ..query.clone()
    };
    assert_eq!(store.audit(early).await?.rows.len(), 3);
    let elsewhere = AuditQuery {
        operation: "refund".to_owned(),
        ..query
    };
    assert!(store.audit(elsewhere).await?.rows.is_empty());
    Ok(())
}

fn seen(digest: u8) -> Fingerprint {
    Fingerprint {
        scheme: Scheme::Raw,
        rule: RuleId::none(),
        digest: [digest; 32],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mismatches_are_counted_for_the_first_few_fingerprints() -> Result<()> {
    for version in VERSIONS {
        let url = database(version).await?;
        let clock = TestClock::at(BEGINNING);
        let stores = [clocked(&url, &clock).await?, clocked(&url, &clock).await?];
        let caller = Caller::new(&stores[0], "k1");
        caller.acquire().await?;
        let id = caller.name.id();
        let counting: Vec<_> = stores
            .iter()
            .map(|store| {
                let store = Arc::clone(store);
                tokio::spawn(async move {
                    for digest in 0..20 {
                        let twice = vec![(id, seen(digest), 2), (id, seen(digest), 1)];
                        store.note_mismatches(twice).await?;
                    }
                    store.note_mismatches(vec![(id, seen(0), 4)]).await
                })
            })
            .collect();
        for counting in counting {
            counting.await??;
        }
        let kept = stores[0].mismatches(id).await?;
        assert_eq!(kept.len(), MISMATCHES_MAX, "{version}");
        assert_eq!(kept[0].fingerprint, seen(0));
        assert_eq!((kept[0].count, kept[0].first_at), (14, BEGINNING));
        let unknown = Caller::new(&stores[0], "nobody's").name.id();
        stores[0]
            .note_mismatches(vec![(unknown, seen(1), 1)])
            .await?;
        assert!(stores[0].mismatches(unknown).await?.is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn the_overview_tells_what_is_left_to_do() -> Result<()> {
    let url = database(Version::V15).await?;
    let clock = TestClock::at(BEGINNING);
    let store = clocked(&url, &clock).await?;
    Caller::new(&store, "open").acquire().await?;
    Caller::new(&store, "done").lifecycle().await?;
    let before = store.overview().await?;
    assert_eq!(
        (before.kind, before.now, before.open),
        ("postgres", BEGINNING, 0)
    );
    assert_eq!(before.removal_due, None);
    clock.advance(Duration::from_secs(5));
    walk(&store).await?;
    let after = store.overview().await?;
    assert_eq!(after.open, 1);
    assert_eq!(after.walked_to, BEGINNING.after(Duration::from_secs(3)));
    let due = after.removal_due.context("something is to be removed")?;
    let bytes_end = BEGINNING.after(Duration::from_hours(72));
    assert!(due >= bytes_end && due < bytes_end.after(Duration::from_hours(2)));
    Ok(())
}
