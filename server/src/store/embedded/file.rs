//! The file: who may open it, what is in it, in which state it may be served.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use reprise_domain::Timestamp;
use reprise_domain::token::TokenKey;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, params};

use super::fault;

/// Steps of the schema, oldest first. A step that was released is never changed.
pub(super) const MIGRATIONS: [&str; 1] = [include_str!(
    "../../../../migrations/embedded/0001_records.sql"
)];

/// "Rprs" in SQLite's header, so that the file is not taken for another program's.
const APPLICATION_ID: i32 = 0x5270_7273;

/// It holds the secret of all tokens, and results.
const MODE: u32 = 0o600;

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
        /// What SQLite found first.
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
    /// Locked until it is dropped, also by the death of the process.
    pub(super) lock: File,
}

/// Opens the store at `path`, which is made when it is not there.
pub(super) fn open(path: &Path) -> Result<Opened, OpenError> {
    let io = |cause| OpenError::Io {
        path: path.to_owned(),
        cause,
    };
    private(path).map_err(io)?;
    // One file, one lock, by whatever way it is named.
    let path = path.canonicalize().map_err(io)?;
    let lock = lock(&path)?;
    serve(&path, lock).map_err(|refusal| match refusal {
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

/// Opens a file for reading and writing; a new one is closed to others. SQLite gives its
/// log the same permissions.
fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(MODE)
        .open(path)
}

/// A lock file of its own: SQLite's locks come and go with its transactions. It stays
/// when it was let go, since who removes it might remove the next one's.
fn lock(path: &Path) -> Result<File, OpenError> {
    let mut lock_path = path.as_os_str().to_owned();
    lock_path.push(".lock");
    let io = |cause| OpenError::Io {
        path: lock_path.clone().into(),
        cause,
    };
    let lock = private(Path::new(&lock_path)).map_err(io)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(path.to_owned())),
        Err(TryLockError::Error(cause)) => Err(io(cause)),
    }
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

fn serve(path: &Path, lock: File) -> Result<Opened, Refusal> {
    let mut writer = connect(path)?;
    let version = recognise(path, &writer)?;
    let mode = writer
        .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))?;
    if mode != "wal" {
        return Err(Refusal::Known(OpenError::NoWriteAheadLog(path.to_owned())));
    }
    // Each commit is on the disk before it is answered.
    writer.pragma_update(None, "synchronous", "full")?;
    if version > 0 {
        check(path, &writer)?;
    }
    migrate(&mut writer, version)?;
    let (secret, seen) = writer.query_row("select token_key, clock from meta", [], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    let reader = connect(path)?;
    reader.pragma_update(None, "query_only", true)?;
    Ok(Opened {
        writer,
        reader,
        token_key: TokenKey::new(secret),
        seen: Timestamp(seen),
        lock,
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
