//! The Postgres store. Any number of servers share one database; nothing that another
//! server could miss is held here. It knows no rule about records: `decide` does, and the
//! statements carry out what it decided.
//!
//! | module | job |
//! | --- | --- |
//! | `dial`, `database`, `given_up` | connections; the one way to run a statement |
//! | `timeline`, `clock` | is this the newest primary, and does its clock go on? |
//! | `safety`, `migrate` | does the database keep its word, and has it our schema? |
//! | `writer`, `aside` | batches; what is stuck runs on by itself |
//! | `plan`, `answers` | what can be settled in one statement, and what is answered then |
//! | `column`, `row`, `usual`, `content`, `trace` | values, records and side rows as columns |
//! | `fast` (of `fresh` and `held`), `read`, `write` | the statements of a batch |
//! | `filing`, `work` | what a write, or the walk, files beside the record |
//! | `walk`, `look`, `removal` | the statements of the service's own work |
//! | `pending`, `records`, `audit`, `mismatches`, `overview` | the statements for people |
//! | `find`, `revisions`, `traces`, `policies`, `token_key` | the other statements |
//!
//! Every statement is one autocommit transaction, sent typed and unnamed, so that a pooler
//! in transaction mode may stand in between.

mod answers;
mod aside;
mod audit;
mod clock;
mod column;
mod content;
mod database;
mod dial;
mod fast;
mod filing;
mod find;
mod fresh;
mod given_up;
mod held;
mod look;
mod migrate;
mod mismatches;
mod overview;
mod pending;
mod plan;
mod policies;
mod read;
mod records;
mod removal;
mod revisions;
mod row;
mod safety;
mod timeline;
mod token_key;
mod trace;
mod traces;
mod usual;
mod walk;
mod work;
mod write;
mod writer;

use std::sync::Arc;
use std::time::{Duration, Instant};

use reprise_domain::record::ClaimId;
use reprise_domain::token::TokenKey;
use reprise_domain::{Record, RecordId, RecordName, Request, Timestamp, Trace};
use reprise_fingerprint::Fingerprint;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use self::column::{Moment, Param, Uuid};
use self::database::{Database, Fault};
use self::row::{RecordRow, Unreadable};
use self::writer::Writer;
use super::queue::Intake;
use super::{
    AuditPage, AuditQuery, Delivery, Error, Later, Limits, OnChange, Overview, PendingCount,
    PendingPage, PendingQuery, PutPolicy, RecordsPage, RecordsQuery, Removed, SeenMismatch, Store,
    StoredPolicy, Target, TestClock, Walked,
};

pub use migrate::{Migrated, migrate};

/// How long an insert waits for another session's open insert of the same key.
const LOCK_TIMEOUT: &str = "200ms";
/// How long reads without a deadline of their own may take.
const READ_TIME: Duration = Duration::from_secs(10);

/// Where the database is and how it is used.
#[derive(Clone)]
pub struct Config {
    /// `postgres://user:password@host1,host2/database`, or `host=... dbname=...`; of
    /// several hosts the one that can be written to is used.
    pub url: String,
    /// Most connections at a time, at least 2; as many again may be kept for statements that
    /// were given up and have not ended yet. Default 16.
    pub pool_size: usize,
    /// Batches under way at a time, at least 1: few, so that each carries many commands. Default
    /// 2.
    pub writers: usize,
    /// Name the statements of the usual commands, so that a connection parses and plans them
    /// once. Not through a pooler that does not follow them (PgBouncer before 1.21 in
    /// transaction mode). Default: where the sessions are found to be ours alone.
    pub prepared: Option<bool>,
    /// Usual commands in one round trip. Off, everything is read, decided and written,
    /// with the same answers. Default on.
    pub fast_path: bool,
    /// Start on a database that loses acknowledged writes when it crashes. Default off.
    pub allow_unsafe_durability: bool,
    /// After this long without an answer a statement is given up and its outcome is unknown. Default 5 s.
    pub statement_time: Duration,
}

impl Config {
    /// The defaults for a database.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            pool_size: 16,
            writers: 2,
            prepared: None,
            fast_path: true,
            allow_unsafe_durability: false,
            statement_time: Duration::from_secs(5),
        }
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("url", &"(redacted)")
            .field("pool_size", &self.pool_size)
            .field("writers", &self.writers)
            .field("prepared", &self.prepared)
            .field("fast_path", &self.fast_path)
            .field("allow_unsafe_durability", &self.allow_unsafe_durability)
            .field("statement_time", &self.statement_time)
            .finish()
    }
}

/// What the store is given by the program around it.
#[derive(Clone, Default)]
pub struct Options {
    /// A clock in place of the database's; for tests.
    pub clock: Option<TestClock>,
    /// Told of each record that changed.
    pub on_change: Option<OnChange>,
    /// Of the queue.
    pub limits: Limits,
}

/// Why a database cannot be used, and the way out.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL cannot be read.
    #[error("the database URL cannot be read; it looks like postgres://user@host:5432/name")]
    Url(#[source] tokio_postgres::Error),
    /// The URL demands TLS.
    #[error(
        "the database URL says sslmode=require, but TLS to the database is not supported; use \
         sslmode=prefer or sslmode=disable over a network that you trust"
    )]
    Tls,
    /// A setting is out of range.
    #[error("{0}")]
    Setting(String),
    /// There is no connection.
    #[error("the database cannot be reached; check that it runs, and host, port, user and name")]
    Connect(#[source] tokio_postgres::Error),
    /// There is no connection, or no answer.
    #[error("the database cannot be reached; check that it runs, and host, port, user and name")]
    Unreachable(#[source] Error),
    /// A statement failed.
    #[error("the database refused a statement; does the user own the schema \"reprise\"?")]
    Query(#[from] tokio_postgres::Error),
    /// It answered nothing.
    #[error("the database answered nothing about its settings")]
    NoAnswer,
    /// The server is too old.
    #[error("PostgreSQL {found} is too old; 15 to 18 are supported")]
    VersionTooOld {
        /// Its version.
        found: String,
    },
    /// Not every text can be kept.
    #[error(
        "the database's encoding is {found}; make one with `create database ... encoding 'UTF8'`"
    )]
    Encoding {
        /// Its encoding.
        found: String,
    },
    /// A crash would lose acknowledged writes.
    #[error(
        "{setting} is off, so a crash of the database would lose writes that were acknowledged; \
         turn it on for this server, database and role, or own up to it with \
         allow_unsafe_durability"
    )]
    Unsafe {
        /// The setting.
        setting: &'static str,
    },
    /// The schema is not there.
    #[error("the database has no schema yet; run `reprise migrate`")]
    SchemaMissing,
    /// The schema is of an earlier release.
    #[error("the schema has version {found}, this release needs {wanted}; run `reprise migrate`")]
    SchemaTooOld {
        /// Its version.
        found: i32,
        /// This release's.
        wanted: i32,
    },
    /// The schema is of a later release.
    #[error(
        "the schema has version {found}, this release knows {wanted}; run a newer release of reprise"
    )]
    SchemaTooNew {
        /// Its version.
        found: i32,
        /// This release's.
        wanted: i32,
    },
    /// What was applied is not what this release holds.
    #[error(
        "migration {name} was applied with another text; restore the released text, or the \
         database from before"
    )]
    MigrationEdited {
        /// Which one.
        name: &'static str,
    },
}

impl From<Fault> for OpenError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Refused(error) | Fault::Withheld(error) => Self::Query(error),
            other => Self::Unreachable(other.into()),
        }
    }
}

/// Records in a Postgres database.
pub struct Postgres {
    writer: Arc<Writer>,
    token_key: TokenKey,
}

impl Postgres {
    /// Checks the database and starts the writers. Does not migrate.
    ///
    /// # Errors
    /// [`OpenError`] when the database cannot be reached, has not this release's schema,
    /// or would lose acknowledged writes.
    pub async fn connect(config: Config, options: Options) -> Result<Self, OpenError> {
        for (name, value, least) in [
            ("pool_size", config.pool_size, 2),
            ("writers", config.writers, 1),
        ] {
            if value < least {
                let allowed = format!("{name}: at least {least}, not {value}");
                return Err(OpenError::Setting(allowed));
            }
        }
        let database = Database::new(&config, options.clock)?;
        safety::check(&database, config.allow_unsafe_durability).await?;
        migrate::check(&database).await?;
        let token_key = token_key::token_key(&database, read_deadline()).await?;
        let (intake, batches) = Intake::new(options.limits);
        let writer = Writer::start(database, intake, batches, &config, options.on_change);
        Ok(Self { writer, token_key })
    }

    fn database(&self) -> &Database {
        self.writer.database()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.writer.intake().close();
    }
}

impl Store for Postgres {
    fn execute(&self, request: Request, deadline: Instant) -> Later<'_, Delivery> {
        Box::pin(self.writer.intake().execute(request, deadline))
    }

    fn find<'a>(
        &'a self,
        tenant: &'a str,
        target: Target,
        deadline: Instant,
    ) -> Later<'a, Option<(Record, Timestamp)>> {
        Box::pin(find::find(self.database(), tenant, target, deadline))
    }

    fn revisions(&self, ids: Vec<RecordId>) -> Later<'_, Vec<(RecordId, u64)>> {
        Box::pin(async move { revisions::revisions(self.database(), &ids, read_deadline()).await })
    }

    fn traces(&self, id: RecordId) -> Later<'_, Vec<Trace>> {
        Box::pin(async move { traces::traces(self.database(), &id, read_deadline()).await })
    }

    fn policies(&self) -> Later<'_, Vec<StoredPolicy>> {
        Box::pin(policies::policies(self.database(), read_deadline()))
    }

    fn put_policy(&self, put: PutPolicy) -> Later<'_, StoredPolicy> {
        Box::pin(policies::put(self.database(), put, read_deadline()))
    }

    fn walk(&self) -> Later<'_, Walked> {
        Box::pin(walk::walk(self.database(), read_deadline()))
    }

    fn to_look_at(&self, max: usize) -> Later<'_, Vec<RecordName>> {
        Box::pin(look::to_look_at(self.database(), max, read_deadline()))
    }

    fn remove(&self) -> Later<'_, Removed> {
        Box::pin(removal::remove(self.database(), read_deadline()))
    }

    fn pending(&self, query: PendingQuery) -> Later<'_, PendingPage> {
        Box::pin(pending::pending(self.database(), query, read_deadline()))
    }

    fn claimed<'a>(&'a self, tenant: &'a str, claim: ClaimId) -> Later<'a, Vec<RecordName>> {
        Box::pin(look::claimed(
            self.database(),
            tenant,
            claim,
            read_deadline(),
        ))
    }

    fn count_pending<'a>(
        &'a self,
        tenant: &'a str,
        operation: &'a str,
    ) -> Later<'a, Vec<PendingCount>> {
        Box::pin(pending::count_pending(
            self.database(),
            tenant,
            operation,
            read_deadline(),
        ))
    }

    fn records(&self, query: RecordsQuery) -> Later<'_, RecordsPage> {
        Box::pin(records::records(self.database(), query, read_deadline()))
    }

    fn audit(&self, query: AuditQuery) -> Later<'_, AuditPage> {
        Box::pin(audit::audit(self.database(), query, read_deadline()))
    }

    fn note_mismatches(&self, seen: Vec<(RecordId, Fingerprint, u64)>) -> Later<'_, ()> {
        Box::pin(mismatches::note(self.database(), seen, read_deadline()))
    }

    fn mismatches(&self, id: RecordId) -> Later<'_, Vec<SeenMismatch>> {
        Box::pin(async move { mismatches::mismatches(self.database(), &id, read_deadline()).await })
    }

    fn overview(&self) -> Later<'_, Overview> {
        Box::pin(overview::overview(self.database(), read_deadline()))
    }

    fn token_key(&self) -> &TokenKey {
        &self.token_key
    }

    fn ping(&self) -> Later<'_, ()> {
        Box::pin(async move {
            let answer = self.database().run("select 1", &[], read_deadline());
            answer.await.map(drop).map_err(Error::from)
        })
    }

    fn close(&self) -> Later<'_, ()> {
        Box::pin(async move {
            self.writer.finish().await;
            Ok(())
        })
    }
}

fn read_deadline() -> Instant {
    Instant::now() + READ_TIME
}

/// The first parameter of every statement that takes the time from tests.
fn prologue(now: &Option<Moment>) -> Vec<Param<'_>> {
    vec![(now, Type::TIMESTAMPTZ)]
}

/// Rows of a clocked statement that answer something.
fn present(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter()
        .filter(|row| matches!(row.try_get::<_, Option<Uuid>>(2), Ok(Some(_))))
}

/// The four columns that begin at `first`: tenant, operation, subject, key.
fn name(row: &Row, first: usize) -> Result<RecordName, Error> {
    let mut parts = [const { String::new() }; 4];
    for (at, part) in (first..).zip(&mut parts) {
        let text: Option<String> = row.try_get(at).map_err(Error::internal)?;
        *part = text.unwrap_or_default();
    }
    let [tenant, operation, subject, key] = parts;
    RecordName::new(tenant, operation, subject, key)
        .map_err(|_| Error::internal(Unreadable::Column("key")))
}

fn record(row: RecordRow) -> Result<Record, Error> {
    Record::try_from(row).map_err(unreadable)
}

/// As [`record`], of a row that was read without headers and body. None for one that cannot
/// be read: it must not keep people from all others.
fn listed(row: RecordRow) -> Result<Option<Record>, Error> {
    let place = row.id.place();
    match row::listed(row) {
        Ok(record) => Ok(Some(record)),
        Err(unreadable) => {
            tracing::error!(record_begins = %place, error = %unreadable, "a stored record cannot be read; it is not listed");
            Ok(None)
        }
    }
}

fn unreadable(why: Unreadable) -> Error {
    match why {
        Unreadable::Damaged(id) => Error::Damaged(id),
        Unreadable::Column(_) => Error::internal(why),
    }
}

/// The first row of a statement that always answers one.
fn first(rows: &[Row]) -> Result<&Row, Error> {
    rows.first()
        .ok_or_else(|| Error::unavailable("a statement that always answers a row answered none"))
}
