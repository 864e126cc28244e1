//! Private PostgreSQL servers: start, stop, kill, freeze, fresh databases.
//!
//! A server keeps PostgreSQL's own defaults, fsync included, so that what it
//! acknowledged can be demanded back after a kill. It listens on 127.0.0.1 and on
//! a socket in its directory, and trusts everyone. All calls block; inside async
//! tests that is harmless as long as nothing else shares their thread.

use std::ffi::OsString;
use std::fs::{self, File};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{env, fmt, thread};

use anyhow::{Context, Result, anyhow, bail};
use tempfile::TempDir;
use tokio_postgres::NoTls;

use crate::process::{Process, RunAs, Server};
use crate::{poll, ports};

const RUN_AS: RunAs = RunAs::OrdinaryUser;
const START_LIMIT: Duration = Duration::from_secs(60);
/// How often a start is tried again because somebody took the port.
const PORT_TRIES: usize = 5;

/// The oldest and the newest PostgreSQL that Reprise supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// PostgreSQL 15, from the distribution.
    V15,
    /// PostgreSQL 18, from `.cache/postgres-18` in this repository.
    V18,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgreSQL {}", self.number())
    }
}

impl Version {
    fn number(self) -> u32 {
        match self {
            Self::V15 => 15,
            Self::V18 => 18,
        }
    }

    /// The directory of `initdb`, `postgres` and `pgbench`: the one that
    /// `REPRISE_PG15_BIN` or `REPRISE_PG18_BIN` names, else where
    /// `make test-tools` installs it, else, for 15, one of PATH.
    ///
    /// # Errors
    /// When there is none of this version.
    pub fn binaries(self) -> Result<PathBuf> {
        let variable = format!("REPRISE_PG{}_BIN", self.number());
        if let Some(bin) = env::var_os(&variable).map(PathBuf::from) {
            if !self.is_in(&bin) {
                bail!("{variable}: there is no {self} server in {}", bin.display());
            }
            return Ok(bin);
        }
        let mut candidates = match self {
            Self::V15 => vec![PathBuf::from("/usr/lib/postgresql/15/bin")],
            Self::V18 => {
                vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/postgres-18/bin")]
            }
        };
        candidates.extend(env::var_os("PATH").iter().flat_map(env::split_paths));
        candidates.into_iter().find(|bin| self.is_in(bin)).with_context(|| {
            format!("{self} not found: run `make test-tools`, or name its bin directory in {variable}")
        })
    }

    fn is_in(self, bin: &Path) -> bool {
        let version = format!("(PostgreSQL) {}.", self.number());
        std::process::Command::new(bin.join("postgres"))
            .arg("--version")
            .output()
            .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(&version))
            && bin.join("initdb").exists()
    }
}

/// A private server, stopped and removed on drop.
#[derive(Debug)]
pub struct PostgresServer {
    // Before `home`: the process ends before its directory is removed.
    process: Option<Process>,
    home: TempDir,
    binaries: PathBuf,
    options: Vec<(String, String)>,
    port: u16,
}

impl PostgresServer {
    /// Makes a database cluster and starts a server on it; returns when it
    /// answers queries. `options` are settings as in `postgresql.conf`.
    ///
    /// # Errors
    /// When this version is not installed, or does not start within a minute.
    pub fn start(version: Version, options: &[(&str, &str)]) -> Result<Self> {
        let home = tempfile::Builder::new().prefix("postgres-").tempdir()?;
        RUN_AS.give(home.path())?;
        let binaries = version.binaries()?;
        check_reachable(&binaries)?;
        init(&binaries, home.path()).with_context(|| format!("initdb of {version}"))?;
        let options = options
            .iter()
            .map(|&(name, value)| (name.into(), value.into()))
            .collect();
        let mut server = Self {
            process: None,
            home,
            binaries,
            options,
            port: 0,
        };
        let mut failure = anyhow!("not tried");
        for _ in 0..PORT_TRIES {
            server.port = ports::free()?;
            match server.launch() {
                Ok(()) => return Ok(server),
                Err(error) if server.port_was_taken() => failure = error,
                Err(error) => return Err(error),
            }
        }
        Err(failure)
    }

    /// The server of this version that all tests of one test program share, with
    /// default options but 300 connections. It is started by the first call.
    ///
    /// # Errors
    /// As for [`PostgresServer::start`], to every caller.
    pub fn shared(version: Version) -> Result<&'static Self> {
        static V15: OnceLock<Result<PostgresServer, String>> = OnceLock::new();
        static V18: OnceLock<Result<PostgresServer, String>> = OnceLock::new();
        let slot = match version {
            Version::V15 => &V15,
            Version::V18 => &V18,
        };
        slot.get_or_init(|| {
            Self::start(version, &[("max_connections", "300")])
                .map_err(|error| format!("{error:#}"))
        })
        .as_ref()
        .map_err(|error| anyhow!("{error}"))
    }

    /// Makes an empty database of a name not used before, and returns its URL.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn fresh_database(&self) -> Result<String> {
        static COUNTER: AtomicU32 = AtomicU32::new(1);
        let name = format!("fresh_{}", COUNTER.fetch_add(1, Ordering::Relaxed));
        self.create_database(&name)?;
        Ok(self.database_url(&name))
    }

    /// Makes an empty database.
    ///
    /// # Errors
    /// When it is there already, or the server does not answer.
    pub fn create_database(&self, name: &str) -> Result<()> {
        let name = name.replace('"', "\"\"");
        execute(&self.url(), &format!("create database \"{name}\""))
    }

    /// The URL of the superuser's own database, `postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        self.database_url("postgres")
    }

    /// The URL of a database on this server.
    #[must_use]
    pub fn database_url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// The TCP port on 127.0.0.1; the same after a restart.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory of the database cluster.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// The directory of `psql` and `pgbench` of this version.
    #[must_use]
    pub fn binaries(&self) -> &Path {
        &self.binaries
    }

    /// What the server has logged so far, over all its restarts.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn log(&self) -> Result<String> {
        let bytes = fs::read(self.home.path().join("log"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The postmaster's process id.
    ///
    /// # Errors
    /// When the server was killed and not restarted.
    pub fn pid(&self) -> Result<u32> {
        Ok(self.live()?.pid())
    }

    /// Kills postmaster and children as a crash would; [`PostgresServer::restart`]
    /// brings them back.
    ///
    /// # Errors
    /// When it is dead already.
    pub fn kill_9(&mut self) -> Result<()> {
        self.process
            .take()
            .context("PostgreSQL was killed already")?
            .kill_9()
    }

    /// Stops all its processes where they are, connections open, until
    /// [`PostgresServer::thaw`]. New connections meanwhile wait.
    ///
    /// # Errors
    /// When the server was killed.
    pub fn freeze(&self) -> Result<()> {
        self.live()?.freeze()
    }

    /// Lets a frozen server go on.
    ///
    /// # Errors
    /// When the server was killed.
    pub fn thaw(&self) -> Result<()> {
        self.live()?.thaw()
    }

    /// Starts it again on the same port and data; a running one is shut down
    /// first, closing all connections. Returns when it answers queries.
    ///
    /// # Errors
    /// When it does not stop or start.
    pub fn restart(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            // "Fast" shutdown: sessions are ended, the data is checkpointed.
            process.end("INT")?;
        }
        self.launch()
    }

    fn live(&self) -> Result<&Process> {
        self.process
            .as_ref()
            .context("PostgreSQL was killed and not restarted")
    }

    fn launch(&mut self) -> Result<()> {
        let home = self.home.path();
        let mut command: Vec<OsString> = vec![self.binaries.join("postgres").into()];
        command.extend(["-D".into(), home.join("data").into()]);
        command.extend(["-k".into(), home.into()]);
        command.extend(["-p".into(), self.port.to_string().into()]);
        command.extend(["-c".into(), "listen_addresses=127.0.0.1".into()]);
        for (name, value) in &self.options {
            command.extend(["-c".into(), format!("{name}={value}").into()]);
        }
        let log = File::options()
            .create(true)
            .append(true)
            .open(home.join("log"))?;
        let server = Server {
            command,
            env: &[],
            run_as: RUN_AS,
            // "Immediate" shutdown: at once, but without leaving shared memory.
            end_signal: "QUIT",
            directory: Some(home),
        };
        let process = Process::start(&server, Stdio::from(log))?.process;
        poll::until("PostgreSQL to answer", START_LIMIT, || {
            if !process.running() {
                bail!("PostgreSQL did not start:\n{}", self.log()?);
            }
            Ok(execute(&self.url(), "select 1").ok())
        })?;
        self.process = Some(process);
        Ok(())
    }

    fn port_was_taken(&self) -> bool {
        self.log()
            .is_ok_and(|log| log.contains("Address already in use"))
    }
}

fn init(binaries: &Path, home: &Path) -> Result<()> {
    let output = RUN_AS
        .command(binaries.join("initdb").as_os_str())
        .arg("-D")
        .arg(home.join("data"))
        // Without syncing: a crash of the machine ends the tests anyway.
        .args([
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ])
        .current_dir(home)
        .output()
        .context("starting setpriv")?;
    if !output.status.success() {
        bail!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

/// Fails where the server's user, who is not root, cannot reach its programs.
fn check_reachable(bin: &Path) -> Result<()> {
    // `test` looks as that user; setpriv itself still finds programs as root does.
    let looked = RUN_AS
        .command("test".as_ref())
        .arg("-x")
        .arg(bin.join("initdb"))
        .status()
        .context("starting setpriv")?;
    if !looked.success() {
        bail!(
            "{} is closed to the ordinary user that PostgreSQL runs as: use `make test`, \
             which copies it, or open the directories above it",
            bin.display()
        );
    }
    Ok(())
}

fn execute(url: &str, sql: &str) -> Result<()> {
    block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        let driver = tokio::spawn(connection);
        client.batch_execute(sql).await?;
        drop(client);
        driver.await??;
        Ok(())
    })
}

/// Runs a future to its end, also where a runtime has the calling thread.
pub(crate) fn block_on<T: Send>(future: impl Future<Output = Result<T>> + Send) -> Result<T> {
    let run = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(future)
    };
    thread::scope(|scope| scope.spawn(run).join())
        .map_err(|_| anyhow!("a query to a test server panicked"))?
}
