//! A database session for what is done beside the measurements.

use anyhow::{Context, Result};
use reprise_tests::bulk::{self, Bulk};
use tokio::runtime::Runtime;
use tokio_postgres::types::FromSql;
use tokio_postgres::{Client, NoTls};

/// A session whose calls block.
pub(crate) struct Session {
    // Before the runtime: it closes the connection.
    client: Client,
    runtime: Runtime,
}

impl Session {
    /// # Errors
    /// When the server refuses.
    pub(crate) fn open(url: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            // Its errors come out at the calls.
            tokio::spawn(connection);
            anyhow::Ok(client)
        })?;
        Ok(Self { client, runtime })
    }

    /// Runs statements, each in a transaction of its own where it is alone in `sql`.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) fn run(&self, sql: &str) -> Result<()> {
        let done = self.runtime.block_on(self.client.batch_execute(sql));
        done.with_context(|| format!("in {sql}"))
    }

    /// The one value that a query answers.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) fn value<T: for<'a> FromSql<'a>>(&self, sql: &str) -> Result<T> {
        let row = self.runtime.block_on(self.client.query_one(sql, &[]));
        let row = row.with_context(|| format!("in {sql}"))?;
        row.try_get(0).with_context(|| format!("in {sql}"))
    }

    /// The rows of a query with one column.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) fn column<T: for<'a> FromSql<'a>>(&self, sql: &str) -> Result<Vec<T>> {
        let rows = self.runtime.block_on(self.client.query(sql, &[]));
        let rows = rows.with_context(|| format!("in {sql}"))?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    /// Inserts records without references.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) fn insert(&self, bulk: &Bulk) -> Result<()> {
        let insert = bulk::insert_unreferenced(&self.client, bulk);
        self.runtime.block_on(insert)
    }
}
