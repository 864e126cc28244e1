//! A private PgBouncer in transaction mode before a private PostgreSQL.
//!
//! It runs with its defaults otherwise: Reprise must live with those.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use std::{env, fmt};

use anyhow::{Context, Result, anyhow, bail};
use tempfile::TempDir;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::postgres::{PostgresServer, block_on};
use crate::process::{Process, RunAs, Server};
use crate::{poll, ports};

const RUN_AS: RunAs = RunAs::OrdinaryUser;
const START_LIMIT: Duration = Duration::from_secs(30);
const PORT_TRIES: usize = 5;

/// A private pooler, stopped and removed on drop.
pub struct PgBouncer {
    // Before `home`: the process ends before its directory is removed.
    process: Process,
    _home: TempDir,
    port: u16,
}

impl fmt::Debug for PgBouncer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PgBouncer {} on port {}", self.process.pid(), self.port)
    }
}

impl PgBouncer {
    /// Starts a pooler with `pool_size` server connections for each database of
    /// `server`, and room for 1,000 clients. Returns when it answers.
    ///
    /// # Errors
    /// When PgBouncer is not installed or does not start.
    pub fn start(server: &PostgresServer, pool_size: usize) -> Result<Self> {
        let program = program()?;
        let mut failure = anyhow!("not tried");
        for _ in 0..PORT_TRIES {
            match Self::launch(&program, server, pool_size, ports::free()?) {
                Ok(pooler) => return Ok(pooler),
                Err(error) if format!("{error:#}").contains("Address already in use") => {
                    failure = error;
                }
                Err(error) => return Err(error),
            }
        }
        Err(failure)
    }

    /// The URL of a database, through the pooler.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// The URL of the pooler's own console, for `show pools` and the like; it
    /// understands simple queries only.
    #[must_use]
    pub fn admin_url(&self) -> String {
        self.url("pgbouncer")
    }

    fn launch(program: &str, server: &PostgresServer, pool_size: usize, port: u16) -> Result<Self> {
        let home = tempfile::Builder::new().prefix("pgbouncer-").tempdir()?;
        let config = home.path().join("pgbouncer.ini");
        let users = home.path().join("users.txt");
        let log = home.path().join("log");
        fs::write(&users, "\"postgres\" \"\"\n")?;
        fs::write(
            &config,
            configuration(server.port(), port, pool_size, &users),
        )?;
        for path in [home.path(), &config, &users] {
            RUN_AS.give(path)?;
        }
        let description = Server {
            command: vec![program.into(), config.into()],
            env: &[],
            run_as: RUN_AS,
            end_signal: "TERM",
            directory: Some(home.path()),
        };
        let process = Process::start(&description, Stdio::from(File::create(&log)?))?.process;
        let pooler = Self {
            process,
            _home: home,
            port,
        };
        poll::until("PgBouncer to answer", START_LIMIT, || {
            if !pooler.process.running() {
                bail!("PgBouncer did not start:\n{}", fs::read_to_string(&log)?);
            }
            Ok(pooler.version().ok())
        })?;
        Ok(pooler)
    }

    /// What the console says to `show version`, such as `PgBouncer 1.18.0`.
    ///
    /// # Errors
    /// When the console does not answer.
    pub fn version(&self) -> Result<String> {
        let url = self.admin_url();
        block_on(async move {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
            let driver = tokio::spawn(connection);
            let answer = client.simple_query("show version").await?;
            drop(client);
            driver.await??;
            answer
                .iter()
                .find_map(|message| match message {
                    SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                    _ => None,
                })
                .context("no row")
        })
    }
}

fn configuration(server: u16, port: u16, pool_size: usize, users: &Path) -> String {
    format!(
        "[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
admin_users = postgres
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 1000
",
        users = users.display(),
    )
}

fn program() -> Result<String> {
    if let Ok(program) = env::var("REPRISE_PGBOUNCER") {
        return Ok(program);
    }
    let directories = env::var_os("PATH").unwrap_or_default();
    // An ordinary user's PATH lacks the directory where Debian puts it.
    env::split_paths(&directories)
        .chain(["/usr/sbin".into()])
        .map(|directory| directory.join("pgbouncer"))
        .find(|program| program.exists())
        .map(|program| program.display().to_string())
        .context(
            "PgBouncer not found: run `make test-tools`, or name the program in REPRISE_PGBOUNCER",
        )
}
