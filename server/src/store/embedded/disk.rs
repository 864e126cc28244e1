//! How far commits have come to the disk. A commit writes SQLite's log and does not sync it;
//! whoever answers for it has it synced here, so that the next batch is made meanwhile, and
//! one sync serves all that was committed before it.
//!
//! It knows nothing of what is committed.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use reprise_domain::Timestamp;
use rusqlite::Transaction;

use super::hold::{Hold, beside};
use super::{fault, lock};
use crate::store::Error;

/// Commits that may be in the log and not on the disk. A crash of the machine can tear so
/// many of the last ones, none of which was acknowledged.
pub(super) const UNSYNCED_MAX: u64 = 2;

pub(super) struct Disk {
    hold: Hold,
    log: File,
    /// The number of the last commit that was begun. What is read is of none later.
    begun: AtomicU64,
    /// That of the last one that ended, and the moment of the last that succeeded.
    ended: Mutex<(u64, Timestamp)>,
    /// That of the last one that is on the disk. Locked while the log is synced.
    synced: Mutex<u64>,
}

impl Disk {
    /// Of the store at `path`, whose log is there.
    pub(super) fn new(path: &Path, hold: Hold) -> io::Result<Self> {
        Ok(Self {
            hold,
            log: File::open(beside(path, "-wal"))?,
            begun: AtomicU64::new(0),
            ended: Mutex::new((0, Timestamp(0))),
            synced: Mutex::new(0),
        })
    }

    /// Do the files still stand where they were opened?
    ///
    /// # Errors
    /// As [`Hold::check`].
    pub(super) fn check(&self) -> Result<(), Error> {
        self.hold.check()
    }

    /// The last commit that what was read or decided until now may rest on.
    pub(super) fn newest(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// Commits a transaction of the moment `now`: it is the newest then, and may be acknowledged
    /// once that is synced. There is one writer, who commits one after another.
    pub(super) fn commit(&self, transaction: Transaction<'_>, now: Timestamp) -> Result<(), Error> {
        self.hold.check()?;
        let number = self.newest() + 1;
        self.sync(number.saturating_sub(UNSYNCED_MAX))?;
        self.begun.store(number, Ordering::Release);
        let committed = transaction.commit();
        let mut ended = lock(&self.ended);
        ended.0 = number;
        committed.map_err(fault::general)?;
        ended.1 = now;
        Ok(())
    }

    /// Returns when the commits up to `number` are on the disk, and it is noted that they are
    /// about to be acknowledged. What was committed and cannot be synced is not known to be
    /// kept, and the next decisions would rest on it: then the process ends. The next one
    /// begins with what it finds, and takes it from the log into the file.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when that cannot be noted.
    pub(super) fn sync(&self, number: u64) -> Result<(), Error> {
        let mut synced = lock(&self.synced);
        if *synced >= number {
            return Ok(());
        }
        // One that is read already but has not ended is in the log all the same.
        let (ended, moment) = *lock(&self.ended);
        if let Err(error) = self.log.sync_data() {
            crate::telemetry::abort(&format!("the store's log cannot be synced: {error}"));
        }
        self.hold.note(moment).map_err(Error::unavailable)?;
        *synced = ended;
        Ok(())
    }

    /// The last commit that is on the disk.
    #[cfg(test)]
    pub(super) fn synced(&self) -> u64 {
        *lock(&self.synced)
    }
}
