//! A store of its own for each test, and the servers on it.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use reprise_client::{Builder, Client};
use reprise_tests::postgres::{PostgresServer, Version};
use reprise_tests::reprise_bin::ServerProcess;
use tempfile::TempDir;
use tokio_postgres::NoTls;

/// Which of the two stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Embedded,
    Postgres,
}

/// A fresh store.
pub(crate) struct Site {
    args: Vec<String>,
    database: Option<String>,
    // Removed when the test ends, after its servers.
    _data: Option<TempDir>,
}

impl Site {
    pub(crate) fn new(backend: Backend) -> Result<Self> {
        match backend {
            Backend::Embedded => {
                let data = tempfile::Builder::new().prefix("reprise-").tempdir()?;
                let path = data.path().to_str().context("a path in UTF-8")?.to_owned();
                Ok(Self {
                    args: vec!["serve".into(), "--data-dir".into(), path],
                    database: None,
                    _data: Some(data),
                })
            }
            Backend::Postgres => {
                let database = PostgresServer::shared(Version::V15)?.fresh_database()?;
                Ok(Self::on(&database))
            }
        }
    }

    /// On a database of the test's own.
    pub(crate) fn on(database: &str) -> Self {
        let args = ["serve", "--migrate", "--database-url", database];
        Self {
            args: args.map(str::to_owned).to_vec(),
            database: Some(database.to_owned()),
            _data: None,
        }
    }

    /// Servers on Postgres have this many connections each, and write on all but one.
    pub(crate) fn pool_size(mut self, connections: usize) -> Self {
        if self.database.is_some() {
            let (pool, writers) = (connections.to_string(), (connections - 1).to_string());
            let sizes = ["--pool-size", &pool, "--writers", &writers];
            self.args.extend(sizes.map(str::to_owned));
        }
        self
    }

    /// Starts a server.
    pub(crate) fn serve(&self) -> Result<ServerProcess> {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        ServerProcess::start(&args, &[])
    }

    /// Starts as many servers as a test of several can have on this store.
    pub(crate) fn serve_all(&self) -> Result<Vec<ServerProcess>> {
        let count = if self.database.is_some() { 2 } else { 1 };
        (0..count).map(|_| self.serve()).collect()
    }

    /// Sets what the database gives to every session that begins from now on.
    pub(crate) async fn alter(&self, setting: &str, value: &str) -> Result<()> {
        let session = self.session().await?;
        let row = session.query_one("select current_database()", &[]).await?;
        let database: String = row.get(0);
        let statement = format!("alter database \"{database}\" set {setting} = '{value}'");
        Ok(session.batch_execute(&statement).await?)
    }

    /// A session on the database, for a look behind the service.
    pub(crate) async fn session(&self) -> Result<tokio_postgres::Client> {
        let url = self.database.as_deref().context("not on Postgres")?;
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }
}

/// The client's settings for a server, or for a proxy before it.
pub(crate) fn builder(addr: SocketAddr) -> Builder {
    Client::builder(format!("http://{addr}"))
}

/// A client with default settings.
pub(crate) fn client(addr: SocketAddr) -> Result<Client> {
    Ok(builder(addr).build()?)
}
