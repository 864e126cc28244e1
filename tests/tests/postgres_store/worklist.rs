//! The worklist in writes: it changes with its record, and only with the record that was
//! decided on; the record's own row stays on its page.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use reprise::store::postgres::Postgres;
use reprise::store::{Error, PendingQuery, RecordsQuery, Store, TestClock};
use reprise_domain::Trace;
use reprise_domain::command::{Authority, FailureKind, Finding};
use reprise_domain::decide::{AuditAction, By};
use reprise_domain::record::PendingReason;
use reprise_tests::poll;
use reprise_tests::postgres::Version;

use super::caller::Caller;
use super::{BEGINNING, VERSIONS, clocked, count, database, session};

const SETTLED: Duration = Duration::from_secs(61);
const LAPSED: Duration = Duration::from_secs(31);

fn still_unknown() -> Finding {
    Finding::StillUnknown {
        check_after: None,
        provider_reference: String::new(),
    }
}

fn due(tenant: &str) -> PendingQuery {
    PendingQuery {
        tenant: tenant.to_owned(),
        operation: String::new(),
        only_due: true,
        after: None,
        max: 100,
    }
}

/// From a lapse that the service writes down to a resolution by claim: six updates.
async fn found_out(caller: &Caller, clock: &TestClock) -> Result<()> {
    let held = caller.acquire().await?;
    clock.advance(LAPSED);
    caller.sweep().await?.context("sweeping")?;
    caller.mark_pending(held).await?.context("adding")?;
    clock.advance(SETTLED);
    let claim = caller.claim().await?.context("it is due")?;
    caller.renew_claim(claim).await?.context("it runs")?;
    let unknown = caller.resolve(Authority::Claim(claim), still_unknown());
    unknown.await?.context("not known yet")?;
    clock.advance(SETTLED);
    let claim = caller.claim().await?.context("it is due again")?;
    let not_applied = caller.resolve(Authority::Claim(claim), Finding::NotApplied);
    not_applied.await?.context("found out")?;
    Ok(())
}

#[tokio::test]
async fn finding_out_updates_the_row_on_its_page() -> Result<()> {
    for version in VERSIONS {
        let url = database(version).await?;
        let clock = TestClock::at(BEGINNING);
        let store = clocked(&url, &clock).await?;
        for n in 0..20 {
            found_out(&Caller::new(&store, &format!("k{n}")), &clock).await?;
        }
        store.close().await?;
        let beside = session(&url).await?;
        let updates = "select n_tup_upd from pg_stat_user_tables where relname = 'record'";
        poll::until_true(
            "all updates to be counted",
            Duration::from_secs(30),
            async || count(&beside, updates).await.is_ok_and(|n| n == 20 * 7),
        )
        .await?;
        let hot = "select n_tup_hot_upd from pg_stat_user_tables where relname = 'record'";
        assert_eq!(count(&beside, hot).await?, 20 * 7, "{version}");
        let open = "select count(*) from reprise.worklist";
        assert_eq!(count(&beside, open).await?, 0, "{version}");
    }
    Ok(())
}

#[tokio::test]
async fn an_ordinary_life_leaves_the_worklist_alone() -> Result<()> {
    let url = database(Version::V15).await?;
    let store = clocked(&url, &TestClock::at(BEGINNING)).await?;
    for n in 0..10 {
        let caller = Caller::new(&store, &format!("k{n}"));
        let held = caller.acquire().await?;
        caller
            .mark_sending(held, "pr_7")
            .await?
            .context("it runs")?;
        caller.renew(held, None).await?.context("it runs")?;
        caller.complete(held).await?.context("recorded")?;
    }
    store.close().await?;
    let beside = session(&url).await?;
    let tables = "('worklist', 'removal', 'reference', 'walk')";
    let writes = format!(
        "select sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint from pg_stat_user_tables
         where schemaname = 'reprise' and relname in {tables}"
    );
    let updates = "select n_tup_upd from pg_stat_user_tables where relname = 'record'";
    poll::until_true(
        "all updates to be counted",
        Duration::from_secs(30),
        async || count(&beside, updates).await.is_ok_and(|n| n == 30),
    )
    .await?;
    // The migration put the walk's place there.
    assert_eq!(count(&beside, &writes).await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_look_drops_no_entry_that_somebody_has_just_made() -> Result<()> {
    let url = database(Version::V15).await?;
    let clock = TestClock::at(BEGINNING);
    let store = clocked(&url, &clock).await?;
    let caller = Caller::new(&store, "k1");
    let held = caller.acquire().await?;
    caller
        .fail(held, FailureKind::Retryable)
        .await?
        .context("recorded")?;
    // A contradicting report of another server, not yet committed.
    let other = session(&url).await?;
    other
        .batch_execute(
            "begin;
             update reprise.record set state = 2, contradicted = true, pending_reason = 5,
                pending_since = recorded_at, next_check = recorded_at, revision = revision + 1;
             insert into reprise.worklist (id, tenant, operation, kind, due, since, reason)
                select id, tenant, operation, 2, recorded_at, recorded_at, 5 from reprise.record",
        )
        .await?;
    let looking = caller.clone().with_patience(Duration::from_millis(500));
    let looked = looking.sweep().await;
    assert!(matches!(looked, Err(Error::Unavailable(_))), "{looked:?}");
    other.batch_execute("commit").await?;
    caller.sweep().await?.context("a look is not refused")?;
    let entries = store.pending(due("t1")).await?.entries;
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].1.name, caller.name);
    Ok(())
}

/// Leaves k1, k2 and k3 pending, a second apart.
async fn leave_three_pending(store: &Arc<Postgres>, clock: &TestClock) -> Result<()> {
    for key in ["k1", "k2", "k3"] {
        let caller = Caller::new(store, key);
        let held = caller.acquire().await?;
        caller.mark_pending(held).await?.context("recorded")?;
        clock.advance(Duration::from_secs(1));
    }
    Ok(())
}

#[tokio::test]
async fn a_row_that_cannot_be_read_hides_no_other_from_the_lists() -> Result<()> {
    let url = database(Version::V15).await?;
    let clock = TestClock::at(BEGINNING);
    let store = clocked(&url, &clock).await?;
    leave_three_pending(&store, &clock).await?;
    let beside = session(&url).await?;
    beside
        .batch_execute("update reprise.record set attempt_id = '' where key = 'k2'")
        .await?;
    clock.advance(SETTLED);
    // Pages that hold less than was asked for are not the last ones.
    let mut query = PendingQuery {
        max: 1,
        ..due("t1")
    };
    let mut seen = Vec::new();
    loop {
        let page = store.pending(query.clone()).await?;
        let keys = page.entries.iter().map(|(_, record)| record.name.key());
        seen.extend(keys.map(str::to_owned));
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["k1", "k3"]);
    let listed = RecordsQuery {
        tenant: "t1".to_owned(),
        max: 10,
        ..RecordsQuery::default()
    };
    assert_eq!(store.records(listed).await?.records.len(), 2);
    Ok(())
}

#[tokio::test]
async fn lists_and_counts_show_what_is_due_and_who_is_at_it() -> Result<()> {
    let url = database(Version::V15).await?;
    let clock = TestClock::at(BEGINNING);
    let store = clocked(&url, &clock).await?;
    leave_three_pending(&store, &clock).await?;
    assert!(store.pending(due("t1")).await?.entries.is_empty());
    let all = PendingQuery {
        only_due: false,
        max: 2,
        ..due("t1")
    };
    let first = store.pending(all.clone()).await?.entries;
    let keys = |entries: &[(_, reprise_domain::Record)]| -> Vec<String> {
        let keys = entries.iter().map(|(_, record)| record.name.key());
        keys.map(str::to_owned).collect()
    };
    assert_eq!(keys(&first), ["k1", "k2"]);
    let after = first.last().map(|(due, record)| (*due, record.name.id()));
    let second = store.pending(PendingQuery { after, ..all }).await?.entries;
    assert_eq!(keys(&second), ["k3"]);
    clock.advance(SETTLED);
    let claimed = Caller::new(&store, "k2");
    claimed.claim().await?.context("it is due")?;
    assert_eq!(keys(&store.pending(due("t1")).await?.entries), ["k1", "k3"]);
    assert!(store.pending(due("t2")).await?.entries.is_empty());
    let counts = store.count_pending("t1", "").await?;
    assert_eq!(counts.len(), 1);
    assert_eq!(counts[0].reason, PendingReason::Reported);
    assert_eq!(
        (counts[0].total, counts[0].due, counts[0].claimed),
        (3, 2, 1)
    );
    assert_eq!(counts[0].oldest, BEGINNING);
    assert!(store.count_pending("t1", "refund").await?.is_empty());
    let record = store
        .find(
            "t1",
            reprise::store::Target::Id(claimed.name.id()),
            super::soon(),
        )
        .await?
        .context("it is there")?
        .0;
    let claim = record.claim.context("with its claim")?;
    assert_eq!(
        store.claimed("t1", claim.id).await?,
        std::slice::from_ref(&claimed.name)
    );
    assert!(store.claimed("t2", claim.id).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn forgetting_takes_the_bytes_of_side_rows_and_keeps_its_own_reason() -> Result<()> {
    let url = database(Version::V15).await?;
    let clock = TestClock::at(BEGINNING);
    let store = clocked(&url, &clock).await?;
    let caller = Caller::new(&store, "k1");
    let held = caller.acquire().await?;
    for reference in ["pr_1", "pr_2"] {
        let marked = caller.mark_sending(held, reference).await?;
        marked.context("it runs")?;
    }
    clock.advance(LAPSED + SETTLED);
    let claim = caller.claim().await?.context("it is due")?;
    let unknown = caller.resolve(Authority::Claim(claim), still_unknown());
    unknown.await?.context("not known yet")?;
    let completed = caller.complete(held).await?.context("a late report")?;
    let reprise_domain::Answer::Reported(_, view) = completed else {
        panic!("{completed:?}");
    };
    caller
        .forget(view.record.revision)
        .await?
        .context("forgotten")?;
    let traces = store.traces(caller.name.id()).await?;
    let replaced = |trace: &&Trace| matches!(trace, Trace::Replaced { .. });
    assert_eq!(traces.iter().find(replaced), None, "{traces:?}");
    let audited: Vec<_> = traces
        .iter()
        .filter_map(|trace| match trace {
            Trace::Audit {
                action,
                by,
                evidence,
                ..
            } => Some((*action, *by, evidence.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(
        audited,
        [
            (AuditAction::ResolvedStillUnknown, By::Claim, ""),
            (AuditAction::Forgotten, By::Operator, "they asked"),
        ]
    );
    let beside = session(&url).await?;
    let first = "select count(*) from reprise.reference where reference = 'pr_1'";
    assert_eq!(count(&beside, first).await?, 0, "a replaced reference");
    let newest = "select count(*) from reprise.reference where reference = 'pr_7'";
    assert_eq!(count(&beside, newest).await?, 1, "the tombstone's");
    Ok(())
}
