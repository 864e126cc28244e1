//! Erased bytes leave the files. SQLite overwrites what is deleted (`secure_delete`), but
//! first in its log, so that the former pages stand in the file and older ones in the log
//! until the whole log was taken into the file and cut off.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::Connection;

use super::{Shared, lock};

/// How long to wait for somebody who looks into the file with another program. All writes
/// wait meanwhile.
const PATIENCE: Duration = Duration::from_millis(20);
/// As rusqlite sets it for a new connection.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

impl Shared {
    /// Takes the log into the file, since something was erased.
    pub(super) fn scrub_erased(&self, writer: &Connection) {
        self.unscrubbed.store(true, Ordering::Relaxed);
        self.scrub(writer);
    }

    /// Does so where it is still to be done: somebody looked into the file meanwhile.
    pub(super) fn scrub(&self, writer: &Connection) {
        if !self.unscrubbed.load(Ordering::Relaxed) {
            return;
        }
        // Our own reads would hold the log as well.
        let _reader = lock(&self.reader);
        match truncate(writer) {
            Ok(true) => self.unscrubbed.store(false, Ordering::Relaxed),
            Ok(false) => {}
            Err(error) => tracing::warn!(
                %error,
                "erased bytes may still stand in the store's log; the next walk tries again"
            ),
        }
    }
}

/// Answers whether the log is empty now.
fn truncate(writer: &Connection) -> rusqlite::Result<bool> {
    writer.busy_timeout(PATIENCE)?;
    let busy = writer.query_row("pragma wal_checkpoint(truncate)", [], |row| {
        row.get::<_, bool>(0)
    });
    writer.busy_timeout(BUSY_TIMEOUT)?;
    Ok(!busy?)
}
