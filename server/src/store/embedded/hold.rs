//! The hold on a store's files: one process at a time, the files that were opened and no
//! others, and how far they had come, told by something else than themselves.
//!
//! It knows nothing of what is in them.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use reprise_domain::Timestamp;

use super::file::OpenError;
use crate::store::Error;

/// The file holds the secret of all tokens, and results.
const MODE: u32 = 0o600;

/// Bytes of what a lock file says: always as many, so that it is written in place.
const WORD: usize = 32;

/// A lock file of its own: SQLite's locks come and go with its transactions. It stays
/// when it was let go, since who removes it might remove the next one's.
///
/// It says `closed`, or `open` and the moment of the latest acknowledged change, which the
/// file must know when it is opened again. Only the first one is synced: a crash of the
/// machine may leave an earlier one, which is true as well.
pub(super) struct Hold {
    path: PathBuf,
    lock: File,
    /// The files that are being served; empty until they are.
    files: Vec<(PathBuf, Identity)>,
    /// The lock file on the disk says `open`.
    noted: AtomicBool,
    /// It was told that files are lost.
    told: AtomicBool,
}

/// Device and inode.
type Identity = (u64, u64);

impl Hold {
    /// Takes hold of the store at `path`, which is canonical: one file, one lock, by
    /// whatever way it is named.
    pub(super) fn take(path: &Path) -> Result<Self, OpenError> {
        let lock_path = beside(path, ".lock");
        let io = |cause| OpenError::Io {
            path: lock_path.clone(),
            cause,
        };
        let lock = private(&lock_path).map_err(io)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::InUse(path.to_owned())),
            Err(TryLockError::Error(cause)) => return Err(io(cause)),
        }
        Ok(Self {
            path: path.to_owned(),
            lock,
            files: Vec::new(),
            noted: AtomicBool::new(false),
            told: AtomicBool::new(false),
        })
    }

    /// The latest acknowledged change of a store that was not closed. An empty lock file
    /// tells of none.
    ///
    /// # Errors
    /// When it cannot be read, or says something else.
    pub(super) fn left_open(&self) -> io::Result<Option<Timestamp>> {
        let mut word = [0; WORD];
        let len = self.lock.read_at(&mut word, 0)?;
        let word = String::from_utf8_lossy(&word[..len]);
        let word = word.trim_matches(['\0', ' ', '\n']);
        if word.is_empty() || word == "closed" {
            return Ok(None);
        }
        let moment = word
            .strip_prefix("open ")
            .map(|moment| moment.trim().parse());
        match moment {
            Some(Ok(moment)) => Ok(Some(Timestamp(moment))),
            _ => Err(io::Error::other("it says neither `open` nor `closed`")),
        }
    }

    /// From now on the files are to stay the ones that they are.
    pub(super) fn serve(&mut self) -> io::Result<()> {
        let files = ["", "-wal", ".lock"].map(|suffix| beside(&self.path, suffix));
        for file in files {
            let identity = identity(&fs::metadata(&file)?);
            self.files.push((file, identity));
        }
        Ok(())
    }

    /// Looks whether the files still stand where they were opened. What is written to
    /// removed ones is gone with the process.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when one was removed or replaced; told to the log once.
    pub(super) fn check(&self) -> Result<(), Error> {
        let lost = self.files.iter().find(|(file, opened)| {
            fs::metadata(file).map_or(true, |found| identity(&found) != *opened)
        });
        let Some((file, _)) = lost else {
            self.told.store(false, Ordering::Relaxed);
            return Ok(());
        };
        if !self.told.swap(true, Ordering::Relaxed) {
            tracing::error!(
                file = %file.display(),
                "the file was removed or replaced under the running server: nothing is \
                 served until it is back; restart the server to serve another one"
            );
        }
        Err(Error::unavailable(format!(
            "{} was removed or replaced",
            file.display()
        )))
    }

    /// Notes that all changes up to `now` are about to be acknowledged.
    pub(super) fn note(&self, now: Timestamp) -> io::Result<()> {
        self.say(&format!("open {}", now.0))?;
        if !self.noted.load(Ordering::Relaxed) {
            self.lock.sync_all()?;
            if let Some(directory) = self.path.parent() {
                File::open(directory)?.sync_all()?;
            }
            self.noted.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn say(&self, word: &str) -> io::Result<()> {
        let line = format!("{word:<width$}\n", width = WORD - 1);
        self.lock.write_all_at(line.as_bytes(), 0)
    }

    /// Whether SQLite took the whole log into the file that was served.
    fn is_closed(&self) -> bool {
        let Some((file, opened)) = self.files.first() else {
            return false;
        };
        let same = fs::metadata(file).is_ok_and(|found| identity(&found) == *opened);
        let log = fs::metadata(beside(&self.path, "-wal"));
        same && log.map_or_else(
            |error| error.kind() == io::ErrorKind::NotFound,
            |log| log.len() == 0,
        )
    }
}

impl Drop for Hold {
    /// To be dropped after the connections. `open` is never wrong, so it stays where there
    /// is doubt.
    fn drop(&mut self) {
        if !self.is_closed() {
            return;
        }
        if let Err(error) = self.say("closed").and_then(|()| self.lock.sync_all()) {
            tracing::warn!(%error, "the store's lock file could not be written");
        }
    }
}

/// Opens a file for reading and writing; a new one is closed to others. SQLite gives its
/// log the same permissions.
pub(super) fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(MODE)
        .open(path)
}

/// The file that has `path` and `suffix` as its name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}
