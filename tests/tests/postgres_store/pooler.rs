//! Behind PgBouncer in transaction mode.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use reprise::store::postgres::{Config, migrate};
use reprise_domain::command::FailureKind;
use reprise_tests::pgbouncer::PgBouncer;
use reprise_tests::postgres::PostgresServer;
use tokio_postgres::SimpleQueryMessage;

use super::caller::Caller;
use super::{VERSIONS, count, open, session};

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_share_a_pooler_of_two_connections() -> Result<()> {
    for version in VERSIONS {
        let server = PostgresServer::shared(version)?;
        let direct = server.fresh_database()?;
        let pooler = PgBouncer::start(server, 2)?;
        let url = pooler.url(direct.rsplit('/').next().unwrap_or_default());
        migrate(&url).await?;
        let stores = [
            Arc::new(open(Config::new(url.clone())).await?),
            Arc::new(open(Config::new(url)).await?),
        ];
        let lives = (0..400).map(|n| {
            let caller = Caller::new(&stores[n % 2], &format!("k{n}"));
            tokio::spawn(async move {
                let held = caller.acquire().await?;
                caller.renew(held, None).await??;
                caller.mark_sending(held, "pr_1").await??;
                caller.mark_pending(held).await??;
                match n % 3 {
                    0 => caller.complete(held).await??,
                    1 => caller.fail(held, FailureKind::Final).await??,
                    _ => caller.fail(held, FailureKind::Retryable).await??,
                };
                anyhow::Ok(())
            })
        });
        for life in lives.collect::<Vec<_>>() {
            tokio::time::timeout(Duration::from_secs(60), life).await???;
        }
        let beside = session(&direct).await?;
        assert_eq!(
            count(
                &beside,
                "select count(*) from reprise.record where state > 2"
            )
            .await?,
            400,
            "{version}"
        );
        let open = "select count(*) from pg_stat_activity where state like 'idle in transaction%'";
        assert_eq!(count(&beside, open).await?, 0);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_pooler_no_statement_is_named_not_even_the_first() -> Result<()> {
    for version in VERSIONS {
        let server = PostgresServer::shared(version)?;
        let direct = server.fresh_database()?;
        migrate(&direct).await?;
        // One session of the database serves all, this test's too.
        let pooler = PgBouncer::start(server, 1)?;
        let url = pooler.url(direct.rsplit('/').next().unwrap_or_default());
        let store = Arc::new(open(Config::new(url.clone())).await?);
        Caller::new(&store, "k").lifecycle().await?;
        let named = session(&url)
            .await?
            .simple_query("select count(*) from pg_prepared_statements")
            .await?;
        let counts: Vec<_> = named
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            })
            .collect();
        assert_eq!(counts, ["0"], "{version}");
    }
    Ok(())
}
