//! The side that is measured: a `reprise serve` process, on a database or on a file.

use anyhow::{Result, ensure};
use reprise_tests::postgres::PostgresServer;
use reprise_tests::reprise_bin::ServerProcess;
use tempfile::TempDir;

use crate::generator::{Generated, Load};
use crate::process_info;
use crate::sql::Session;

/// Where a server keeps its records. It is started for each measurement and ended after it,
/// so that nothing of it runs while the other side is measured.
pub(crate) struct Service {
    store: Store,
    args: Vec<String>,
}

enum Store {
    Postgres { url: String },
    Embedded { directory: TempDir },
}

/// One measurement of it.
pub(crate) struct Measured {
    pub(crate) generated: Generated,
    /// CPU of the server, in microseconds for each operation.
    pub(crate) server_cpu_us: f64,
    /// CPU of PostgreSQL, all its processes, likewise.
    pub(crate) postgres_cpu_us: f64,
}

impl Service {
    /// On an empty database of its own.
    ///
    /// # Errors
    /// When the database cannot be made.
    pub(crate) fn on_postgres(postgres: &PostgresServer, args: &[String]) -> Result<Self> {
        let url = postgres.fresh_database()?;
        let service = Self {
            store: Store::Postgres { url },
            args: args.to_vec(),
        };
        // Makes the schema.
        service.start()?.stop()?;
        Ok(service)
    }

    /// On an empty directory of its own.
    ///
    /// # Errors
    /// When there can be none.
    pub(crate) fn embedded(args: &[String]) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        Ok(Self {
            store: Store::Embedded { directory },
            args: args.to_vec(),
        })
    }

    /// A session beside it. Only on Postgres.
    ///
    /// # Errors
    /// When the database refuses.
    pub(crate) fn session(&self) -> Result<Session> {
        match &self.store {
            Store::Postgres { url } => Session::open(url),
            Store::Embedded { .. } => anyhow::bail!("the embedded store has no sessions"),
        }
    }

    /// # Errors
    /// When it does not start.
    pub(crate) fn start(&self) -> Result<Server> {
        let mut args = vec!["serve".to_owned()];
        match &self.store {
            Store::Postgres { url } => {
                args.extend([
                    "--database-url".to_owned(),
                    url.clone(),
                    "--migrate".to_owned(),
                ]);
            }
            Store::Embedded { directory } => {
                let path = directory.path().join("data").display().to_string();
                args.extend(["--data-dir".to_owned(), path]);
            }
        }
        args.extend(self.args.iter().cloned());
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        Ok(Server(ServerProcess::start(&args, &[])?))
    }

    /// Measures it under one load, from a checkpoint on.
    ///
    /// # Errors
    /// When the server or the load fails.
    pub(crate) fn measure(&self, postgres: &PostgresServer, load: &Load) -> Result<Measured> {
        checkpoint(postgres)?;
        self.measure_on(postgres, load)
    }

    /// The same without a checkpoint before it.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn measure_on(&self, postgres: &PostgresServer, load: &Load) -> Result<Measured> {
        let server = self.start()?;
        let (pid, database) = (server.pid(), postgres.pid()?);
        let cpu = || {
            anyhow::Ok((
                process_info::cpu_s(pid)?,
                process_info::family_cpu_s(database)?,
            ))
        };
        let before = cpu()?;
        let generated = load.run(&server.url())?;
        let after = cpu()?;
        server.stop()?;
        let operations = generated.number("/operations_all")?;
        Ok(Measured {
            server_cpu_us: (after.0 - before.0) * 1e6 / operations,
            postgres_cpu_us: (after.1 - before.1) * 1e6 / operations,
            generated,
        })
    }
}

/// Writes all to disk what has changed so far, so that no measurement pays for another one.
///
/// # Errors
/// When the server does not answer.
pub(crate) fn checkpoint(postgres: &PostgresServer) -> Result<()> {
    Session::open(&postgres.url())?.run("checkpoint")
}

/// A server that runs; killed on drop.
pub(crate) struct Server(ServerProcess);

impl Server {
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.0.addr())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Ends it in good order.
    ///
    /// # Errors
    /// When it crashed before, or does not end well.
    pub(crate) fn stop(mut self) -> Result<()> {
        ensure!(self.0.running(), "the server crashed:\n{}", self.0.stderr());
        let code = self.0.terminate()?;
        ensure!(
            code == 0,
            "the server ended with {code}:\n{}",
            self.0.stderr()
        );
        Ok(())
    }
}
