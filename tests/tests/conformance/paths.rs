//! Postgres settles the usual commands in one round trip, and reads, decides and writes
//! for all others. Both must leave the same rows, column by column.

use anyhow::Result;
use reprise::store::postgres::{Config, migrate};
use reprise_domain::command::{FailureKind, Finding};
use reprise_domain::record::AttemptId;
use reprise_tests::postgres::{PostgresServer, Version};
use tokio_postgres::NoTls;

use super::backend::{postgres_case, runtime};
use super::case::{Case, error, other_error, other_result, result, secs, take_over, unless_sent};
use super::told::Grant;

/// Rows of one tenant, without what tells the two tenants apart and with columns by name.
/// `written_at` is the database's own clock.
const TABLES: [(&str, &str); 4] = [
    (
        "record",
        "select to_jsonb(r) - 'id' - 'tenant' from reprise.record r
         where tenant = $1 order by key",
    ),
    (
        "evidence",
        "select to_jsonb(e) - 'id' - 'written_at' || jsonb_build_object('key', r.key)
         from reprise.evidence e join reprise.record r using (id)
         where r.tenant = $1 order by r.key, e.written_at, e.digest",
    ),
    (
        "history",
        "select to_jsonb(h) - 'id' - 'written_at' || jsonb_build_object('key', r.key)
         from reprise.history h join reprise.record r using (id)
         where r.tenant = $1 order by r.key, h.attempt",
    ),
    (
        "replaced",
        "select to_jsonb(p) - 'id' - 'written_at' || jsonb_build_object('key', r.key)
         from reprise.replaced p join reprise.record r using (id)
         where r.tenant = $1 order by r.key, p.written_at",
    ),
];

#[test]
fn both_paths_leave_the_same_columns_on_postgres_15() -> Result<()> {
    both_paths_leave_the_same_columns(Version::V15)
}

#[test]
fn both_paths_leave_the_same_columns_on_postgres_18() -> Result<()> {
    both_paths_leave_the_same_columns(Version::V18)
}

fn both_paths_leave_the_same_columns(version: Version) -> Result<()> {
    let url = PostgresServer::shared(version)?.fresh_database()?;
    runtime()?.block_on(async {
        migrate(&url).await?;
        let fast = lives(&url, true).await?;
        let slow = lives(&url, false).await?;
        for (table, select) in TABLES {
            let (fast, slow) = (
                rows(&url, select, &fast).await?,
                rows(&url, select, &slow).await?,
            );
            assert!(!fast.is_empty(), "no row in {table}");
            assert_eq!(fast, slow, "{table}");
        }
        Ok(())
    })
}

async fn rows(url: &str, select: &str, tenant: &str) -> Result<Vec<String>> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    let rows = client
        .query(
            &format!("select row::text from ({select}) as rows (row)"),
            &[&tenant],
        )
        .await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Leads one record through each life that a path may settle, under a tenant of its own,
/// which is answered.
async fn lives(url: &str, fast_path: bool) -> Result<String> {
    let config = Config {
        fast_path,
        ..Config::new(url)
    };
    let case = postgres_case(config).await?;
    open_lives(&case).await;
    reported_lives(&case).await;
    later_lives(&case).await;
    Ok(case.tenant)
}

/// A grant with all that a caller can give. Attempt ids are the same for both paths.
async fn granted(case: &Case, key: &str, attempt: u8) -> Grant {
    let call = case
        .reserve(key)
        .by(AttemptId([attempt; 16]))
        .owner("worker");
    let call = call.correlation_id("order/9").instruction(b"pay\x00");
    call.await.granted()
}

async fn open_lives(case: &Case) {
    case.reserve("bare").by(AttemptId([9; 16])).await.granted();
    let again = granted(case, "again", 1).await;
    case.reserve("again").by(again.id).await.again();
    for (key, policy) in [("unless sent", unless_sent()), ("take over", take_over())] {
        let case = case.under(policy);
        granted(&case, key, 1).await;
    }
    let renewed = granted(case, "renewed", 1).await;
    case.advance(secs(3));
    case.renew(&renewed, Some(secs(7))).await.leased();
    let sent = granted(case, "sent", 1).await;
    case.advance(secs(3));
    case.mark_sending(&sent).await.leased();
    let sent = granted(case, "sent with a reference", 1).await;
    let told = case.mark_sending_with(&sent, "ch_1", "pay 1", Some(secs(60)));
    told.await.leased();
    let told = case.mark_sending_with(&sent, "ch_2", "pay 2", None).await;
    told.leased();
    let pending = granted(case, "pending", 1).await;
    let told = case.mark_pending_with(&pending, "timed out", "ch_1", "", Some(secs(9)));
    told.await.recorded();
}

async fn reported_lives(case: &Case) {
    let completed = granted(case, "completed", 1).await;
    case.advance(secs(1));
    case.complete(&completed, result()).await.recorded();
    case.complete(&completed, result()).await.repeated();
    let contrary = case.complete(&completed, other_result()).await;
    assert!(contrary.answer.is_err());
    let sent = granted(case, "sent and completed", 1).await;
    case.mark_sending_with(&sent, "ch_1", "", None)
        .await
        .leased();
    case.complete(&sent, result()).await.recorded();
    let pending = granted(case, "pending and completed", 1).await;
    case.mark_pending(&pending, "timed out").await.recorded();
    case.complete(&pending, result()).await.recorded();
    for (key, kind) in [
        ("final", FailureKind::Final),
        ("retry", FailureKind::Retryable),
    ] {
        let failed = granted(case, key, 1).await;
        case.advance(secs(1));
        case.fail(&failed, kind, error()).await.recorded();
        let spent = granted(case, &format!("{key}, key spent"), 1).await;
        case.fail_spent(&spent, kind, error()).await.recorded();
    }
    let back = granted(case, "given back", 1).await;
    let told = case.fail_by_attempt_id("given back", back.id).await;
    told.recorded();
}

async fn later_lives(case: &Case) {
    let first = granted(case, "second attempt", 1).await;
    let told = case.fail(&first, FailureKind::Retryable, error()).await;
    told.recorded();
    let second = granted(case, "second attempt", 2).await;
    case.mark_sending(&second).await.leased();
    let told = case.fail(&second, FailureKind::Final, other_error()).await;
    told.recorded();
    let lapsed = granted(case, "lapsed and completed", 1).await;
    case.advance(secs(100));
    case.complete(&lapsed, result()).await.recorded();
    let late = granted(case, "lapsed and sending", 1).await;
    case.advance(secs(100));
    assert!(case.mark_sending(&late).await.answer.is_err());
    granted(case, "resolved", 1).await;
    case.advance(secs(100));
    case.resolve("resolved", Finding::NotApplied)
        .await
        .recorded();
    let taken = case.under(unless_sent());
    let first = granted(&taken, "taken over", 1).await;
    case.advance(secs(100));
    let second = granted(&taken, "taken over", 2).await;
    assert!(case.complete(&first, result()).await.answer.is_err());
    case.complete(&second, result()).await.recorded();
    let old = granted(case, "forgotten", 1).await;
    case.complete(&old, result()).await.recorded();
    case.advance(case.policy.memory_retention);
    granted(case, "forgotten", 3).await;
}
