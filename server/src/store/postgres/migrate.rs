//! Brings a database's schema up to date, and tells whether it is. Each migration is one
//! transaction under one lock, so that any number of starters at once get along, also
//! through a pooler that gives each transaction another session.

use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls, Row, Transaction};

use super::OpenError;
use super::database::Database;
use super::dial::target;
use super::safety::{check_encoding, durable_commit};

/// A released migration. Its text never changes.
struct Migration {
    version: i32,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    name: "0001_records",
    sql: include_str!("../../../../migrations/postgres/0001_records.sql"),
}];

/// Any number will do, as long as all releases use the same.
const LOCK: &str = "select pg_advisory_xact_lock(7306657297369327468)";
const ENCODING: &str = "select current_setting('server_encoding')";
const LEDGER: &str = "create schema if not exists reprise;
    create table if not exists reprise.migration (
        version integer primary key,
        name text not null,
        checksum bytea not null,            -- SHA-256 of the text that was applied
        applied_at timestamptz not null default clock_timestamp()
    )";
const HAS_LEDGER: &str = "select to_regclass('reprise.migration') is not null";
const APPLIED: &str = "select version, name, checksum from reprise.migration order by version";
const RECORD: &str = "insert into reprise.migration (version, name, checksum) values ($1, $2, $3)";

/// What [`migrate`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// Names of the migrations that were applied now, in order; empty when the schema
    /// was up to date.
    pub applied: Vec<&'static str>,
    /// Version of the schema.
    pub version: u32,
}

/// Applies the migrations that `url`'s database lacks. Safe to run at any time, from any
/// number of servers at once.
///
/// # Errors
/// [`OpenError`] when the database cannot be reached, cannot keep every text, was migrated
/// by a newer release, or holds a migration that was edited after it was applied.
pub async fn migrate(url: &str) -> Result<Migrated, OpenError> {
    let (mut client, connection) = target(url)?
        .connect(NoTls)
        .await
        .map_err(OpenError::Connect)?;
    let driver = tokio::spawn(connection);
    let migrated = apply_all(&mut client).await;
    drop(client);
    // The result is known; how the connection closed adds nothing to it.
    let _closed = driver.await;
    migrated
}

async fn apply_all(client: &mut Client) -> Result<Migrated, OpenError> {
    let transaction = locked(client).await?;
    let encoding = transaction.query_typed(ENCODING, &[]).await?;
    let encoding = encoding.first().ok_or(OpenError::NoAnswer)?;
    check_encoding(encoding.try_get(0)?)?;
    transaction.batch_execute(LEDGER).await?;
    transaction.commit().await?;
    let mut applied = Vec::new();
    for migration in MIGRATIONS {
        let transaction = locked(client).await?;
        let known = transaction.query_typed(APPLIED, &[]).await?;
        let done = verify(&known)?;
        if done < migration.version {
            transaction.batch_execute(migration.sql).await?;
            let checksum = migration.checksum();
            let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] = [
                (&migration.version, Type::INT4),
                (&migration.name, Type::TEXT),
                (&checksum, Type::BYTEA),
            ];
            transaction.execute_typed(RECORD, &params).await?;
            applied.push(migration.name);
        }
        transaction.commit().await?;
    }
    Ok(Migrated {
        applied,
        version: newest().unsigned_abs(),
    })
}

/// A transaction that no other starter has at the same time, and whose commit is kept.
async fn locked(client: &mut Client) -> Result<Transaction<'_>, OpenError> {
    let transaction = client.transaction().await?;
    transaction.query_typed(LOCK, &[]).await?;
    let durable = format!("select {}", durable_commit("'on'"));
    transaction.query_typed(&durable, &[]).await?;
    Ok(transaction)
}

/// Does the schema fit this release? For servers, which do not migrate.
pub(super) async fn check(database: &Database) -> Result<(), OpenError> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let rows = database.run(HAS_LEDGER, &[], deadline).await?;
    let has_ledger = rows.first().is_some_and(|row| row.get(0));
    if !has_ledger {
        return Err(OpenError::SchemaMissing);
    }
    let found = verify(&database.run(APPLIED, &[], deadline).await?)?;
    if found < newest() {
        return Err(OpenError::SchemaTooOld {
            found,
            wanted: newest(),
        });
    }
    Ok(())
}

/// The version of a schema whose applied migrations are all known and unchanged.
fn verify(applied: &[Row]) -> Result<i32, OpenError> {
    let mut found = 0;
    for row in applied {
        let version: i32 = row.try_get(0)?;
        let checksum: &[u8] = row.try_get(2)?;
        let migration = MIGRATIONS
            .iter()
            .find(|migration| migration.version == version)
            .ok_or(OpenError::SchemaTooNew {
                found: version,
                wanted: newest(),
            })?;
        if checksum != migration.checksum() {
            return Err(OpenError::MigrationEdited {
                name: migration.name,
            });
        }
        found = version;
    }
    Ok(found)
}

fn newest() -> i32 {
    MIGRATIONS.last().map_or(0, |migration| migration.version)
}

impl Migration {
    fn checksum(&self) -> Vec<u8> {
        Sha256::digest(self.sql).to_vec()
    }
}
