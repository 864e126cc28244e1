//! Every setting of `reprise serve`, from flags, the environment and one TOML file,
//! under the same names: flag `--data-dir`, variable `REPRISE_DATA_DIR`, key `data_dir`.
//! A flag beats a variable, a variable beats the file, the file beats the default.
//!
//! It knows what is allowed, not what is done with it. `reprise.example.toml` at the root
//! of the repository is the documentation, and a test compares it with the defaults.

mod settings;
mod time;

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use reprise_domain::Policy;
use reprise_domain::text::FieldError;

pub use settings::{LogFormat, OnLapse, PolicySettings, RuleSettings, Settings};
pub use time::Time;

use crate::grpc::WaitLimits;

/// Arguments of `reprise serve`.
#[derive(Args, Clone, Debug, Default)]
pub struct ServeArgs {
    /// Settings file, TOML; see reprise.example.toml
    #[arg(long, env = "REPRISE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The settings themselves.
    #[command(flatten)]
    pub settings: Settings,
}

impl ServeArgs {
    /// Reads the file, if one is named, and checks all settings together.
    ///
    /// # Errors
    /// When the file cannot be read or has an unknown key (with the place), or a setting
    /// is out of range (with its name and what is allowed).
    pub fn load(self) -> anyhow::Result<Config> {
        let file = match &self.config {
            None => Settings::default(),
            Some(path) => read(path)?,
        };
        Ok(Config::new(self.settings.or(file))?)
    }
}

fn read(path: &Path) -> anyhow::Result<Settings> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("the settings file {} cannot be read", path.display()))?;
    parse(&text).map_err(|wrong| anyhow::anyhow!("the settings file {}: {wrong}", path.display()))
}

/// Reads the file's text, or says where it is wrong. The line itself is not repeated: it
/// may hold a password.
fn parse(text: &str) -> Result<Settings, String> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.unwrap_or_default().matches('\n').count() + 1;
        format!("line {line}: {}", without_value(error.message()))
    })
}

/// Takes out the value that a message of serde's repeats: it may be a password that stands
/// behind the wrong key.
fn without_value(message: &str) -> String {
    const REPEATING: [&str; 4] = [
        "invalid type",
        "invalid value",
        "invalid length",
        "unknown variant",
    ];
    let repeating = REPEATING.iter().find(|kind| message.starts_with(*kind));
    match (repeating, message.rfind(", expected ")) {
        (Some(kind), Some(expected)) => format!("{kind}{}", &message[expected..]),
        (Some(kind), None) => (*kind).to_owned(),
        (None, _) => message.to_owned(),
    }
}

/// All settings of a server, each within its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where to listen. Default 127.0.0.1:7077; port 0 takes any free one. Other than
    /// loopback addresses need [`Config::insecure_listen_any`].
    pub listen: SocketAddr,
    /// Owns up to it: whoever reaches the port may do everything.
    pub insecure_listen_any: bool,
    /// Directory of the embedded store. Default `reprise-data`; made when missing.
    pub data_dir: PathBuf,
    /// A Postgres database in place of the embedded store.
    pub database_url: Option<DatabaseUrl>,
    /// Postgres connections. 2 to 200, default 16.
    pub pool_size: usize,
    /// Postgres batches under way at once. 1 to 64 and fewer than `pool_size`, default 2.
    pub writers: usize,
    /// Migrate the database at the start.
    pub migrate: bool,
    /// Owns up to it: the database may lose what was acknowledged.
    pub allow_unsafe_durability: bool,
    /// Use named prepared statements: no transaction pooler older than PgBouncer 1.21. None,
    /// the default: where no pooler is in between, which is found out.
    pub prepared: Option<bool>,
    /// Do the work behind the calls: file what is open, remove what is old. At least one
    /// server of a database has to. Default true.
    pub upkeep: bool,
    /// Form of the log on standard error.
    pub log_format: LogFormat,
    /// error, warn, info (default), debug, trace, or a list of `target=level`.
    pub log_level: String,
    /// Time for calls under way to finish once the server was told to end. 0 to 5 min,
    /// default 10 s.
    pub drain: Duration,
    /// For calls that bring no deadline. 100 ms to `deadline_max`, default 10 s.
    pub deadline_default: Duration,
    /// Longer deadlines are cut to this. 1 s to 10 min, default 1 min.
    pub deadline_max: Duration,
    /// Connections at once. 1 to 1,000,000, default 10,000; more are closed.
    pub connections_max: usize,
    /// Age after which a connection is told to move on, so that load spreads over
    /// servers. 1 s to 1 d, default 10 min.
    pub connection_age: Duration,
    /// Calls at once on one connection, those that wait included. 1 to 100,000, default
    /// 1,000.
    pub streams_max: u32,
    /// Calls at once over all connections. 1 to 1,000,000, default 20,000; more are
    /// answered OVERLOADED.
    pub calls_max: usize,
    /// Callers that wait. Over these they are answered at once: each 0 to 1,000,000,
    /// default 1,000 for one record and 10,000 for one tenant.
    pub waiters: WaitLimits,
    /// What rules operations without a policy of their own or of their tenant.
    pub policy: Policy,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7077)),
            insecure_listen_any: false,
            data_dir: PathBuf::from("reprise-data"),
            database_url: None,
            pool_size: 16,
            writers: 2,
            migrate: false,
            allow_unsafe_durability: false,
            prepared: None,
            upkeep: true,
            log_format: LogFormat::Human,
            log_level: "info".to_owned(),
            drain: Duration::from_secs(10),
            deadline_default: Duration::from_secs(10),
            deadline_max: Duration::from_mins(1),
            connections_max: 10_000,
            connection_age: Duration::from_mins(10),
            streams_max: 1000,
            calls_max: 20_000,
            waiters: WaitLimits::default(),
            policy: Policy::default(),
        }
    }
}

impl Config {
    /// Checks `settings`; what they leave out takes its default.
    ///
    /// # Errors
    /// Names the first setting that is out of range, and what is allowed.
    pub fn new(settings: Settings) -> Result<Self, FieldError> {
        let own = Self::default();
        let time = |set: Option<Time>, own: Duration| set.map_or(own, |time| time.0);
        let pool_size = settings.pool_size.unwrap_or(own.pool_size);
        let config = Self {
            listen: settings.listen.unwrap_or(own.listen),
            insecure_listen_any: settings.insecure_listen_any.unwrap_or(false),
            data_dir: settings.data_dir.unwrap_or(own.data_dir),
            database_url: settings.database_url,
            pool_size,
            writers: settings
                .writers
                .unwrap_or(own.writers.min(pool_size / 2).max(1)),
            migrate: settings.migrate.unwrap_or(false),
            allow_unsafe_durability: settings.allow_unsafe_durability.unwrap_or(false),
            prepared: settings.prepared,
            upkeep: settings.upkeep.unwrap_or(own.upkeep),
            log_format: settings.log_format.unwrap_or(own.log_format),
            log_level: settings.log_level.unwrap_or(own.log_level),
            drain: time(settings.drain, own.drain),
            deadline_default: time(settings.deadline_default, own.deadline_default),
            deadline_max: time(settings.deadline_max, own.deadline_max),
            connections_max: settings.connections_max.unwrap_or(own.connections_max),
            connection_age: time(settings.connection_age, own.connection_age),
            streams_max: settings.streams_max.unwrap_or(own.streams_max),
            calls_max: settings.calls_max.unwrap_or(own.calls_max),
            waiters: WaitLimits {
                per_record_max: settings
                    .waiters_per_record_max
                    .unwrap_or(own.waiters.per_record_max),
                per_tenant_max: settings
                    .waiters_per_tenant_max
                    .unwrap_or(own.waiters.per_tenant_max),
            },
            policy: settings.policy.over(own.policy)?,
        };
        config.check()?;
        Ok(config)
    }

    /// Is every setting in range, and do they fit together?
    ///
    /// # Errors
    /// Names the first one that does not, and what is allowed.
    pub fn check(&self) -> Result<(), FieldError> {
        if !self.listen.ip().is_loopback() && !self.insecure_listen_any {
            let risk = "a loopback address such as 127.0.0.1:7077; on any other, whoever reaches \
                        the port may read and change every record, which --insecure-listen-any \
                        owns up to";
            return Err(FieldError::new("listen", risk));
        }
        let secs = Duration::from_secs;
        within("pool_size", self.pool_size, 2..=200)?;
        within("writers", self.writers, 1..=64)?;
        if self.database_url.is_some() && self.writers >= self.pool_size {
            return Err(FieldError::new("writers", "fewer than pool_size"));
        }
        times("drain", self.drain, secs(0)..=secs(300), "0s to 5m")?;
        times(
            "deadline_max",
            self.deadline_max,
            secs(1)..=secs(600),
            "1s to 10m",
        )?;
        times(
            "deadline_default",
            self.deadline_default,
            Duration::from_millis(100)..=self.deadline_max,
            "100ms to deadline_max",
        )?;
        times(
            "connection_age",
            self.connection_age,
            secs(1)..=secs(86_400),
            "1s to 1d",
        )?;
        within("connections_max", self.connections_max, 1..=1_000_000)?;
        within("streams_max", self.streams_max, 1..=100_000)?;
        within("calls_max", self.calls_max, 1..=1_000_000)?;
        within(
            "waiters_per_record_max",
            self.waiters.per_record_max,
            0..=1_000_000,
        )?;
        within(
            "waiters_per_tenant_max",
            self.waiters.per_tenant_max,
            0..=1_000_000,
        )?;
        if crate::telemetry::filter(&self.log_level).is_err() {
            let allowed = "error, warn, info, debug, trace, or a list of target=level";
            return Err(FieldError::new("log_level", allowed));
        }
        self.policy.check()
    }
}

fn within<T>(field: &str, value: T, range: RangeInclusive<T>) -> Result<(), FieldError>
where
    T: PartialOrd + std::fmt::Display,
{
    if range.contains(&value) {
        return Ok(());
    }
    let allowed = format!("{} to {}", range.start(), range.end());
    Err(FieldError::new(field, allowed))
}

fn times(
    field: &str,
    value: Duration,
    range: RangeInclusive<Duration>,
    allowed: &str,
) -> Result<(), FieldError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(FieldError::new(field, allowed))
}

/// Where a Postgres database is. It holds a password, so it is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    /// The text, with the password in it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// An empty text stands for no database at all.
    pub(crate) fn is_unset(&self) -> bool {
        self.0.is_empty()
    }

    /// Host and database, for people.
    #[must_use]
    pub fn place(&self) -> String {
        let Ok(config) = self.0.parse::<tokio_postgres::Config>() else {
            return "a database".to_owned();
        };
        let host = match config.get_hosts().first() {
            Some(tokio_postgres::config::Host::Tcp(host)) => host.clone(),
            Some(tokio_postgres::config::Host::Unix(path)) => path.display().to_string(),
            None => "localhost".to_owned(),
        };
        let name = config.get_dbname().or_else(|| config.get_user());
        let name = name.unwrap_or("postgres");
        // What stands before an @ that was not escaped is the rest of a password.
        let shown = |text: &str| text.rsplit('@').next().unwrap_or_default().to_owned();
        format!("database {} on {}", shown(name), shown(&host))
    }
}

impl std::str::FromStr for DatabaseUrl {
    type Err = NotADatabaseUrl;

    fn from_str(text: &str) -> Result<Self, NotADatabaseUrl> {
        match text.parse::<tokio_postgres::Config>() {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(_) => Err(NotADatabaseUrl),
        }
    }
}

/// Reads the flag and the variable. Unlike clap's own reader it never repeats the text,
/// which holds a password.
impl clap::builder::ValueParserFactory for DatabaseUrl {
    type Parser = DatabaseUrlParser;

    fn value_parser() -> DatabaseUrlParser {
        DatabaseUrlParser
    }
}

/// See [`DatabaseUrl`].
#[derive(Clone, Debug)]
pub struct DatabaseUrlParser;

impl clap::builder::TypedValueParser for DatabaseUrlParser {
    type Value = DatabaseUrl;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<DatabaseUrl, clap::Error> {
        let url = value.to_str().ok_or(NotADatabaseUrl).and_then(str::parse);
        url.map_err(|error| {
            let text = format!("--database-url or REPRISE_DATABASE_URL: {error}\n");
            clap::Error::raw(clap::error::ErrorKind::ValueValidation, text).with_cmd(command)
        })
    }
}

impl std::fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DatabaseUrl({})", self.place())
    }
}

/// The text says nowhere where a database is. It may hold a password and is not repeated.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("expected postgres://USER:PASSWORD@HOST:PORT/DATABASE")]
pub struct NotADatabaseUrl;

#[cfg(test)]
mod tests;
