//! The file: who may open it, what is in it, in which state it may be served.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use reprise_domain::Timestamp;
use reprise_domain::token::TokenKey;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, params};

use super::disk::Disk;
use super::hold::{Hold, beside, private};
use super::{fault, wal};

/// Steps of the schema, oldest first. A step that was released is never changed.
pub(super) const MIGRATIONS: [&str; 1] = [include_str!(
    "../../../../migrations/embedded/0001_records.sql"
)];

/// Of the log, before it is taken into the file: pages that are written again and again until
/// then are taken once. 64 MiB.
const LOG_PAGES: i64 = 16_384;
/// Of pages that the writer keeps in memory: each grant changes a page of the index over all
/// ids, anywhere in it.
const CACHE_KIB: i64 = 8 * 1024;

/// "Rprs" in SQLite's header, so that the file is not taken for another program's.
const APPLICATION_ID: i32 = 0x5270_7273;

/// Why a file cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file, its directory or its lock cannot be used.
    #[error("{path}: {cause}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// Another process serves it.
    #[error("{0}: another process has this store open; one file serves one process")]
    InUse(PathBuf),
    /// It has several names, and log and lock stand beside one of them only: two
    /// processes could serve it.
    #[error(
        "{path}: the file has {names} names (hard links), so that it could be served twice; \
         remove the other ones"
    )]
    ManyNames {
        /// One of them.
        path: PathBuf,
        /// How many.
        names: u64,
    },
    /// It is something else.
    #[error("{0}: not a Reprise store, or its first page is damaged")]
    NotReprise(PathBuf),
    /// A newer release wrote it.
    #[error("{path}: schema version {found} is newer than this release's {known}")]
    Newer {
        /// Which.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest one that this release knows.
        known: i64,
    },
    /// It is inconsistent in itself.
    #[error("{path}: the file is damaged and is not served: {finding}")]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What was found first, and what can be done where SQLite cannot tell.
        finding: String,
    },
    /// The file system cannot hold a write-ahead log.
    #[error("{0}: the file system does not support SQLite's write-ahead log")]
    NoWriteAheadLog(PathBuf),
    /// Anything else that SQLite answered.
    #[error("{path}: {cause}")]
    Sqlite {
        /// Which.
        path: PathBuf,
        /// What.
        #[source]
        cause: rusqlite::Error,
    },
}

/// A file that may be served, held against other processes.
pub(super) struct Opened {
    pub(super) writer: Connection,
    pub(super) reader: Connection,
    pub(super) token_key: TokenKey,
    /// The latest moment that was written to it.
    pub(super) seen: Timestamp,
    /// Before it all grants were visited.
    pub(super) walked_to: Timestamp,
    /// With the hold on it: until it is dropped, also by the death of the process.
    pub(super) disk: Disk,
}

/// Opens the store at `path`, which is made when it is not there.
pub(super) fn open(path: &Path) -> Result<Opened, OpenError> {
    let io = |cause| OpenError::Io {
        path: path.to_owned(),
        cause,
    };
    let file = private(path).map_err(io)?;
    let path = path.canonicalize().map_err(io)?;
    let names = file.metadata().map_err(io)?.nlink();
    if names > 1 {
        return Err(OpenError::ManyNames { path, names });
    }
    let hold = Hold::take(&path)?;
    check_log(&path)?;
    serve(&path, hold).map_err(|refusal| match refusal {
        Refusal::Known(error) => error,
        Refusal::Sqlite(cause) if cause.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            OpenError::NotReprise(path)
        }
        Refusal::Sqlite(cause) if fault::is_damage(&cause) => OpenError::Damaged {
            path,
            finding: cause.to_string(),
        },
        Refusal::Sqlite(cause) => OpenError::Sqlite { path, cause },
    })
}

/// SQLite would serve a damaged log as far as it is whole, so it does not get to see it.
fn check_log(path: &Path) -> Result<(), OpenError> {
    let log = beside(path, "-wal");
    match wal::damage(&log) {
        Ok(None) => Ok(()),
        Ok(Some(byte)) => Err(OpenError::Damaged {
            path: path.to_owned(),
            finding: format!(
                "its log {} is damaged at byte {byte}, and acknowledged changes stand behind \
                 that; {}",
                log.display(),
                way_out(path)
            ),
        }),
        Err(cause) => Err(OpenError::Io { path: log, cause }),
    }
}

/// Refuses a file that knows less than was acknowledged: its log was removed or cut off,
/// or it is an older copy.
fn check_progress(path: &Path, hold: &Hold, seen: Timestamp) -> Result<(), OpenError> {
    let acknowledged = hold.left_open().map_err(|cause| OpenError::Io {
        path: beside(path, ".lock"),
        cause,
    })?;
    if acknowledged.is_none_or(|acknowledged| acknowledged <= seen) {
        return Ok(());
    }
    Err(OpenError::Damaged {
        path: path.to_owned(),
        finding: format!(
            "it was not closed when it was last served, and acknowledged changes that were \
             made then are missing, as when its log {} was removed or cut off; {}",
            beside(path, "-wal").display(),
            way_out(path)
        ),
    })
}

/// What can be done where changes are lost that only a log had.
fn way_out(path: &Path) -> String {
    format!(
        "restore it from a copy, or accept that those changes are lost, so that keys which \
         were completed may be granted again: in both cases move {} and {} away",
        beside(path, "-wal").display(),
        beside(path, ".lock").display()
    )
}

enum Refusal {
    Known(OpenError),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Refusal {
    fn from(cause: rusqlite::Error) -> Self {
        Self::Sqlite(cause)
    }
}

impl From<OpenError> for Refusal {
    fn from(error: OpenError) -> Self {
        Self::Known(error)
    }
}

fn serve(path: &Path, mut hold: Hold) -> Result<Opened, Refusal> {
    let mut writer = connect(path)?;
    let version = recognise(path, &writer)?;
    let mode = writer
        .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))?;
    if mode != "wal" {
        return Err(OpenError::NoWriteAheadLog(path.to_owned()).into());
    }
    // What is acknowledged is synced by `disk`; SQLite syncs its log before it takes it into
    // the file, and the file before it begins the log anew.
    writer.pragma_update(None, "synchronous", "normal")?;
    writer.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    writer.pragma_update(None, "cache_size", -CACHE_KIB)?;
    // What is erased is overwritten; see `scrub`.
    writer.pragma_update(None, "secure_delete", true)?;
    if version > 0 {
        check(path, &writer)?;
    }
    let seen = match version {
        0 => Timestamp(0),
        _ => writer.query_row("select clock from meta", [], |row| {
            row.get(0).map(Timestamp)
        })?,
    };
    check_progress(path, &hold, seen)?;
    migrate(&mut writer, version)?;
    let (secret, walked_to) =
        writer.query_row("select token_key, walked_at from meta", [], |row| {
            Ok((row.get(0)?, Timestamp(row.get(1)?)))
        })?;
    let reader = connect(path)?;
    reader.pragma_update(None, "query_only", true)?;
    let io = |cause| OpenError::Io {
        path: path.to_owned(),
        cause,
    };
    hold.serve().map_err(io)?;
    let disk = Disk::new(path, hold).map_err(io)?;
    Ok(Opened {
        writer,
        reader,
        token_key: TokenKey::new(secret),
        seen,
        walked_to,
        disk,
    })
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// The schema version of a Reprise store; 0 for an empty file.
fn recognise(path: &Path, connection: &Connection) -> Result<usize, Refusal> {
    let value = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, found) = (value("application_id")?, value("user_version")?);
    let tables: i64 =
        connection.query_row("select count(*) from sqlite_schema", [], |row| row.get(0))?;
    if (application, found, tables) == (0, 0, 0) {
        return Ok(0);
    }
    let version = usize::try_from(found).unwrap_or(0);
    if application != i64::from(APPLICATION_ID) || version == 0 {
        return Err(Refusal::Known(OpenError::NotReprise(path.to_owned())));
    }
    if version > MIGRATIONS.len() {
        return Err(Refusal::Known(OpenError::Newer {
            path: path.to_owned(),
            found,
            known: MIGRATIONS.len() as i64,
        }));
    }
    Ok(version)
}

/// The whole check and not the quick one: only that compares tables with their indexes,
/// and a record that its index lost would be granted a second time.
fn check(path: &Path, connection: &Connection) -> Result<(), Refusal> {
    let finding: String =
        connection.query_row("pragma integrity_check(1)", [], |row| row.get(0))?;
    if finding == "ok" {
        return Ok(());
    }
    Err(Refusal::Known(OpenError::Damaged {
        path: path.to_owned(),
        finding,
    }))
}

/// Brings the schema from `version` to the newest, whole or not at all.
fn migrate(connection: &mut Connection, version: usize) -> rusqlite::Result<()> {
    if version == MIGRATIONS.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for step in &MIGRATIONS[version..] {
        transaction.execute_batch(step)?;
    }
    if version == 0 {
        transaction.execute(
            "insert into meta (one, token_key, clock) values (1, ?, 0)",
            params![rand::random::<[u8; 32]>()],
        )?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
    transaction.commit()
}
