use std::collections::HashSet;

use anyhow::Result;
use reprise_tests::pgbouncer::PgBouncer;
use reprise_tests::postgres::{PostgresServer, Version};

use super::connect;

#[tokio::test]
async fn it_pools_by_transaction_before_both_versions() -> Result<()> {
    for version in [Version::V15, Version::V18] {
        let server = PostgresServer::shared(version)?;
        server.create_database("pooled")?;
        let pooler = PgBouncer::start(server, 1)?;
        assert!(
            pooler.version()?.starts_with("PgBouncer "),
            "{}",
            pooler.version()?
        );

        // Two sessions, one connection to the server: they take turns.
        let mut backends = HashSet::new();
        for client in [
            connect(&pooler.url("pooled")).await?,
            connect(&pooler.url("pooled")).await?,
        ] {
            let rows = client.simple_query("select 1, pg_backend_pid()").await?;
            backends.extend(rows.iter().filter_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => row.get(1).map(str::to_owned),
                _ => None,
            }));
        }
        assert_eq!(backends.len(), 1, "{version}: {backends:?}");
    }
    Ok(())
}
