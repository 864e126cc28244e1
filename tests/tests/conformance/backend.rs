//! The stores that the suite runs on, and how one is opened for a case.
//!
//! Each case has a store, a clock and a tenant of its own. A file is made for each case;
//! a Postgres server, its pooler and a database for each backend are shared by all cases
//! of the test program.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use reprise::store::embedded::{self, Embedded};
use reprise::store::postgres::{self, Config, Postgres, migrate};
use reprise::store::{OnChange, TestClock};
use reprise_domain::{RecordId, Timestamp};
use reprise_tests::pgbouncer::PgBouncer;
use reprise_tests::postgres::{PostgresServer, Version};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::case::Case;

/// A moment in 2026, where the clock of each case begins.
const BEGINNING: Timestamp = Timestamp(1_780_000_000_000_000);
/// A case takes milliseconds; one that hangs fails.
const LIMIT: Duration = Duration::from_secs(60);
/// Fewer than the clients that cases are, so that statements of one land on several.
const POOLED_CONNECTIONS: usize = 3;

/// A store under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backend {
    Embedded,
    Postgres15,
    Postgres18,
    /// PostgreSQL 15 behind a pooler in transaction mode.
    PgBouncer,
    /// PostgreSQL 15, where everything is read, decided and written.
    Postgres15SlowPath,
}

impl Backend {
    pub(super) const ALL: [Self; 5] = [
        Self::Embedded,
        Self::Postgres15,
        Self::Postgres18,
        Self::PgBouncer,
        Self::Postgres15SlowPath,
    ];

    /// The module that the suite's macro makes for it.
    pub(super) fn module(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Postgres15 => "postgres_15",
            Self::Postgres18 => "postgres_18",
            Self::PgBouncer => "pgbouncer",
            Self::Postgres15SlowPath => "postgres_15_slow_path",
        }
    }

    /// Runs `case` on a store of its own; `alone` on a database of its own too.
    fn run(self, alone: bool, case: impl AsyncFnOnce(&Case)) -> Result<()> {
        let home = tempfile::tempdir()?;
        let config = match self {
            Self::Embedded => None,
            _ if alone => Some(self.config_of(&self.database()?)),
            _ => Some(self.config()?),
        };
        runtime()?.block_on(async {
            let context = match config {
                None => embedded_case(home.path())?,
                Some(config) => postgres_case(config).await?,
            };
            tokio::time::timeout(LIMIT, case(&context))
                .await
                .context("the case did not end within a minute")
        })
    }

    /// How a case connects to this backend's database.
    fn config(self) -> Result<Config> {
        static URLS: [OnceLock<Result<String, String>>; Backend::ALL.len()] =
            [const { OnceLock::new() }; Backend::ALL.len()];
        let url = URLS[self as usize]
            .get_or_init(|| self.database().map_err(|error| format!("{error:#}")))
            .as_ref()
            .map_err(|error| anyhow!("{error}"))?;
        Ok(self.config_of(url))
    }

    fn config_of(self, url: &str) -> Config {
        Config {
            pool_size: 4,
            writers: 2,
            fast_path: self != Self::Postgres15SlowPath,
            ..Config::new(url)
        }
    }

    /// Makes this backend's database with the newest schema; answers its URL.
    fn database(self) -> Result<String> {
        let version = match self {
            Self::Postgres18 => Version::V18,
            _ => Version::V15,
        };
        let server = PostgresServer::shared(version)?;
        let url = server.fresh_database()?;
        runtime()?.block_on(migrate(&url))?;
        if self != Self::PgBouncer {
            return Ok(url);
        }
        static POOLER: OnceLock<Result<PgBouncer, String>> = OnceLock::new();
        let start = || PgBouncer::start(server, POOLED_CONNECTIONS);
        let pooler = POOLER
            .get_or_init(|| start().map_err(|error| format!("{error:#}")))
            .as_ref()
            .map_err(|error| anyhow!("{error}"))?;
        let (_, name) = url.rsplit_once('/').context("a URL ends with a name")?;
        Ok(pooler.url(name))
    }
}

/// Runs one case; a failure says what was expected and what was answered.
pub(super) fn run(backend: Backend, case: impl AsyncFnOnce(&Case)) {
    if let Err(error) = backend.run(false, case) {
        panic!("{backend:?}: {error:#}");
    }
}

/// Runs one case where no other case has records.
pub(super) fn run_alone(backend: Backend, case: impl AsyncFnOnce(&Case)) {
    if let Err(error) = backend.run(true, case) {
        panic!("{backend:?}: {error:#}");
    }
}

pub(super) fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}

/// A case on a file in `home`.
fn embedded_case(home: &Path) -> Result<Case> {
    let (clock, changes, on_change) = surroundings();
    let options = embedded::Options {
        clock: Some(clock.clone()),
        on_change: Some(on_change),
        ..Default::default()
    };
    let store = Embedded::open(&home.join("store"), options)?;
    Ok(Case::new(Arc::new(store), clock, changes))
}

/// A case on a database that has its schema.
pub(super) async fn postgres_case(config: Config) -> Result<Case> {
    let (clock, changes, on_change) = surroundings();
    let options = postgres::Options {
        clock: Some(clock.clone()),
        on_change: Some(on_change),
        ..Default::default()
    };
    let store = Postgres::connect(config, options).await?;
    Ok(Case::new(Arc::new(store), clock, changes))
}

/// A clock, and where the store says what changed.
fn surroundings() -> (TestClock, UnboundedReceiver<RecordId>, OnChange) {
    let (sender, changes) = unbounded_channel();
    let on_change = move |id: &RecordId| {
        // The case may be over while its last batch is announced.
        let _ = sender.send(*id);
    };
    (TestClock::at(BEGINNING), changes, Arc::new(on_change))
}
