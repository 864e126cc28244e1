//! Connections, and the one way to run a statement: bounded in time, retried where nothing
//! can have happened, never cancelled. It does not know what the statements say.

use std::time::{Duration, Instant};

use deadpool_postgres::{
    Hook, Manager, ManagerConfig, Object, Pool, PoolError, QueueMode, RecyclingMethod, Runtime,
};
use reprise_domain::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::types::{ToSql, Type};

use super::clock::Clock;
use super::column::{Moment, Param};
use super::dial::{self, Dial, Session};
use super::given_up::GivenUp;
use super::timeline::{Observed, Timeline};
use super::{Config, OpenError};
use crate::store::{Error, TestClock};

/// Tries of one statement, where the try before had no effect.
const TRIES_MAX: u32 = 8;
/// Uses of a connection after which its named statements are prepared anew: the plan for a
/// table that was small must not outlive that.
const PLAN_USES_MAX: usize = 1024;

/// The time that a batch goes by, and where it was written: the first two columns of every
/// clocked statement.
pub(super) const TIMELINE: &str = "left(pg_walfile_name(pg_current_wal_lsn()), 8)";

/// Connections to one primary: some for the statements of batches and of single records,
/// whose plans are made once where that can be, and the others for all that is rare or asked
/// for in many ways, which is planned each time for what is asked.
pub(super) struct Database {
    usual: Pool,
    rare: Pool,
    given_up: GivenUp,
    session: Session,
    statement_time: Duration,
    allow_unsafe_durability: bool,
    timeline: Timeline,
    clock: Clock,
    test_clock: Option<TestClock>,
}

/// Why a statement gave no answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// Others were in the way for too long. Nothing happened.
    Blocked,
    /// The database refused it. Nothing happened.
    Refused(tokio_postgres::Error),
    /// What it speaks of is not there for this role: an operator is at work on the schema.
    /// Nothing happened.
    Withheld(tokio_postgres::Error),
    /// The database is away, or what happened is unknown.
    Unavailable(Error),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Blocked => Self::unavailable("others held a lock for too long"),
            Fault::Refused(error) => Self::internal(error),
            Fault::Withheld(error) => Self::unavailable(error),
            Fault::Unavailable(error) => error,
        }
    }
}

/// An answer with the time that goes with it.
pub(super) struct Clocked {
    pub(super) now: Timestamp,
    /// At least one; its columns from the third on are null where there is nothing to
    /// answer.
    pub(super) rows: Vec<Row>,
}

/// Why one try gave no answer.
enum Failure {
    /// It was not sent.
    NotSent(Box<dyn std::error::Error + Send + Sync>),
    /// A fresh try may succeed; this one had no effect.
    Again(tokio_postgres::Error),
    Final(Fault),
}

impl Database {
    /// A pool that connects when it is first used.
    pub(super) fn new(config: &Config, test_clock: Option<TestClock>) -> Result<Self, OpenError> {
        let target = dial::target(&config.url)?;
        let session = Session::new(config.prepared);
        // What steps aside has a quarter of the pool (`aside`).
        let usual = (config.writers + config.pool_size / 4).clamp(1, config.pool_size - 1);
        let pool = |size, dial| {
            let manager = ManagerConfig {
                recycling_method: RecyclingMethod::Fast,
            };
            Pool::builder(Manager::from_connect(target.clone(), dial, manager))
                .max_size(size)
                // The one used last knows its statements.
                .queue_mode(QueueMode::Lifo)
                .runtime(Runtime::Tokio1)
                .wait_timeout(Some(config.statement_time))
                .create_timeout(Some(dial::CONNECT_TIMEOUT))
                .pre_recycle(Hook::sync_fn(|client, metrics| {
                    if (metrics.recycle_count + 1) % PLAN_USES_MAX == 0 {
                        client.statement_cache.clear();
                    }
                    Ok(())
                }))
                .build()
                .map_err(|error| OpenError::Setting(error.to_string()))
        };
        Ok(Self {
            usual: pool(usual, Dial::to_plan_once(&session))?,
            rare: pool(config.pool_size - usual, Dial::default())?,
            given_up: GivenUp::new(config.pool_size),
            session,
            statement_time: config.statement_time,
            allow_unsafe_durability: config.allow_unsafe_durability,
            timeline: Timeline::default(),
            clock: Clock::default(),
            test_clock,
        })
    }

    /// The first parameter of statements that take the time from tests.
    pub(super) fn test_now(&self) -> Option<Moment> {
        self.test_clock.as_ref().map(|clock| Moment(clock.now()))
    }

    /// What `synchronous_commit` is to be for a statement that writes where it is off.
    pub(super) fn if_commit_is_off(&self) -> &'static str {
        if self.allow_unsafe_durability {
            "off"
        } else {
            "on"
        }
    }

    /// May leases be given out by this database's clock?
    pub(super) fn clock_is_steady(&self) -> bool {
        self.clock.is_steady()
    }

    /// Closes idle connections; those in use close when they come back.
    pub(super) fn close(&self) {
        self.usual.close();
        self.rare.close();
    }

    /// As [`Database::run_usual`], for statements that answer the time and the timeline first.
    pub(super) async fn run_clocked(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Clocked, Fault> {
        let sent = Instant::now();
        let rows = self
            .run_usual(sql, params, sent + self.statement_time)
            .await?;
        let received = Instant::now();
        let unusable = |what: &str| Fault::Unavailable(Error::unavailable(what.to_owned()));
        let first = rows
            .first()
            .ok_or_else(|| unusable("a clocked statement answered no row"))?;
        let now: Moment = first.try_get(0).map_err(Fault::Refused)?;
        let timeline: &str = first.try_get(1).map_err(Fault::Refused)?;
        match self.timeline.observe(timeline) {
            Observed::Known => {}
            Observed::Risen => {
                tracing::info!(timeline, "the database was promoted; connecting anew");
                self.drop_idle();
            }
            Observed::Left => {
                tracing::warn!(
                    timeline,
                    "a former primary answered; its answer is not taken"
                );
                self.drop_idle();
                return Err(unusable("a former primary answered"));
            }
        }
        if self.test_clock.is_none() {
            self.clock.observe(now.0, sent, received);
        }
        Ok(Clocked { now: now.0, rows })
    }

    /// Runs one autocommit statement that is rare, or asked for in many ways: it is planned
    /// for what is asked.
    pub(super) async fn run(
        &self,
        sql: &str,
        params: &[Param<'_>],
        until: Instant,
    ) -> Result<Vec<Row>, Fault> {
        self.run_on(&self.rare, false, sql, params, until).await
    }

    /// Runs one autocommit statement that is run all the time, and has one good plan.
    pub(super) async fn run_usual(
        &self,
        sql: &str,
        params: &[Param<'_>],
        until: Instant,
    ) -> Result<Vec<Row>, Fault> {
        self.run_on(&self.usual, true, sql, params, until).await
    }

    /// Here, and only here, are statements retried.
    async fn run_on(
        &self,
        pool: &Pool,
        usual: bool,
        sql: &str,
        params: &[Param<'_>],
        until: Instant,
    ) -> Result<Vec<Row>, Fault> {
        let until = until.min(Instant::now() + self.statement_time);
        let mut tries = 0;
        loop {
            let failure = match self.once(pool, usual, sql, params, until).await {
                Ok(rows) => return Ok(rows),
                Err(failure) => failure,
            };
            tries += 1;
            let last = tries == TRIES_MAX || Instant::now() >= until;
            match failure {
                Failure::Final(fault) => return Err(fault),
                Failure::NotSent(cause) if last => {
                    return Err(Fault::Unavailable(Error::unavailable(cause)));
                }
                Failure::Again(error) if last => {
                    tracing::warn!(%error, tries, "a statement lost every race");
                    return Err(Fault::Blocked);
                }
                Failure::NotSent(cause) => {
                    tracing::debug!(cause, tries, "a statement was not sent; trying again");
                }
                Failure::Again(error) => {
                    tracing::debug!(%error, tries, "a statement had no effect; trying again");
                }
            }
            tokio::time::sleep(pause(tries)).await;
        }
    }

    async fn once(
        &self,
        pool: &Pool,
        usual: bool,
        sql: &str,
        params: &[Param<'_>],
        until: Instant,
    ) -> Result<Vec<Row>, Failure> {
        let until = tokio::time::Instant::from_std(until);
        let client = tokio::time::timeout_at(until, pool.get())
            .await
            .map_err(|_| Failure::NotSent("no connection in time".into()))?
            .map_err(|error| match error {
                PoolError::Closed => Failure::Final(Fault::Unavailable(Error::Closed)),
                error => Failure::NotSent(error.into()),
            })?;
        // The connection that is in hand has been found out about.
        let named = usual && self.session.is_ours();
        match tokio::time::timeout_at(until, send(&client, named, sql, params)).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => {
                let failure = classify(error);
                match &failure {
                    // What is prepared there may be out of date.
                    Failure::Again(_) => client.statement_cache.clear(),
                    Failure::Final(Fault::Unavailable(_)) => drop(Object::take(client)),
                    Failure::Final(_) | Failure::NotSent(_) => {}
                }
                Err(failure)
            }
            Err(_) => {
                self.given_up.keep(client);
                let fault = Error::unavailable("the database did not answer in time");
                Err(Failure::Final(Fault::Unavailable(fault)))
            }
        }
    }

    /// Connections in use are judged by their own next answer.
    fn drop_idle(&self) {
        self.usual.retain(|_, _| false);
        self.rare.retain(|_, _| false);
    }
}

async fn send(
    client: &Object,
    named: bool,
    sql: &str,
    params: &[Param<'_>],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    if !named {
        // Parse, bind and execute in one flight, and nothing left in the session.
        return client.query_typed(sql, params).await;
    }
    let types: Vec<Type> = params.iter().map(|(_, kind)| kind.clone()).collect();
    let values: Vec<&(dyn ToSql + Sync)> = params.iter().map(|(value, _)| *value).collect();
    let statement = client.prepare_typed_cached(sql, &types).await?;
    client.query(&statement, &values).await
}

/// What an error says about its statement. Every error that the server sends for an
/// autocommit statement means that it was rolled back, unless the session ended with it.
fn classify(error: tokio_postgres::Error) -> Failure {
    let Some(reason) = error.as_db_error() else {
        return Failure::Final(Fault::Unavailable(Error::unavailable(error)));
    };
    let code = reason.code();
    if *code == SqlState::LOCK_NOT_AVAILABLE {
        Failure::Final(Fault::Blocked)
    } else if is_transient(code) || plan_is_outdated(reason) {
        Failure::Again(error)
    } else if speaks_of_the_server(code) {
        Failure::Final(Fault::Unavailable(Error::unavailable(error)))
    } else if speaks_of_the_schema(code) {
        Failure::Final(Fault::Withheld(error))
    } else {
        Failure::Final(Fault::Refused(error))
    }
}

fn is_transient(code: &SqlState) -> bool {
    [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        // A pooler that does not follow named statements.
        SqlState::INVALID_SQL_STATEMENT_NAME,
        SqlState::DUPLICATE_PSTATEMENT,
    ]
    .contains(code)
}

/// "cached plan must not change result type": the schema changed. The code alone says only
/// that something is not supported, and the text is translated; the routine is neither.
fn plan_is_outdated(reason: &DbError) -> bool {
    *reason.code() == SqlState::FEATURE_NOT_SUPPORTED
        && reason.routine() == Some("RevalidateCachedQuery")
}

/// Connection, resources, operator intervention, system, a standby, a shutdown.
fn speaks_of_the_server(code: &SqlState) -> bool {
    ["08", "53", "57", "58", "XX"]
        .iter()
        .any(|class| code.code().starts_with(class))
        || *code == SqlState::READ_ONLY_SQL_TRANSACTION
        || *code == SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE
}

/// A table or schema that is away, or that this role may not use.
fn speaks_of_the_schema(code: &SqlState) -> bool {
    [
        SqlState::UNDEFINED_TABLE,
        SqlState::INVALID_SCHEMA_NAME,
        SqlState::INSUFFICIENT_PRIVILEGE,
    ]
    .contains(code)
}

/// Grows with the tries, and differs between those who try at the same time.
pub(super) fn pause(tries: u32) -> Duration {
    let most = 1_u64 << tries.min(7);
    Duration::from_micros(rand::random_range(500..=most * 1000))
}
