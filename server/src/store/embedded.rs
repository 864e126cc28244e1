//! The embedded store: one local SQLite file, served by one process. Every acknowledged
//! change was synced to the disk before its answer; commands that queue up meanwhile share
//! the next sync.
//!
//! It knows no rule about records: the writer has them decided, exactly as every other
//! store does.
//!
//! | module | job |
//! | --- | --- |
//! | `file` | opening: checks, schema |
//! | `hold` | one process, the same files, how far they came |
//! | `wal` | damage of SQLite's log |
//! | `writer` | group commit |
//! | `records`, `traces`, `policies` | statements |
//! | `row`, `cells`, `words` | how values stand in columns |
//! | `clock` | a clock that never goes back |
//! | `fault` | what SQLite's errors mean |

mod cells;
mod clock;
mod fault;
mod file;
mod hold;
mod policies;
mod records;
mod row;
#[cfg(test)]
mod tests;
mod traces;
mod wal;
mod words;
mod writer;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use reprise_domain::token::TokenKey;
use reprise_domain::{Record, RecordId, Request, Timestamp, Trace};
use rusqlite::{Connection, TransactionBehavior};

use super::queue::{Delivery, Intake, Limits};
use super::{Error, Later, OnChange, PutPolicy, Store, StoredPolicy, Target, TestClock};
use clock::Clock;
use hold::Hold;
use writer::Writer;

pub use file::OpenError;

/// Settings of an embedded store.
#[derive(Clone, Default)]
pub struct Options {
    /// Decides instead of the system's clock. It too never goes back within the life of
    /// a file.
    pub clock: Option<TestClock>,
    /// Called by the writer with each record that a batch changed.
    pub on_change: Option<OnChange>,
    /// Bounds of queue and batches.
    pub limits: Limits,
}

/// A store in one file. The file is free for another process when the store was dropped.
pub struct Embedded {
    intake: Intake,
    shared: Arc<Shared>,
    token_key: TokenKey,
    writer: Arc<Mutex<Option<JoinHandle<()>>>>,
}

/// What the writer and the readers share.
struct Shared {
    writer: Mutex<Connection>,
    /// Sees all that was committed, and waits for no writer.
    reader: Mutex<Connection>,
    clock: Clock,
    closed: AtomicBool,
    /// After the connections: the file is let go when they are closed.
    hold: Hold,
}

impl Embedded {
    /// Opens the store at `path`. A file that is not there is made, readable by its owner
    /// alone; its directory is not. Beside it stand SQLite's log (`-wal`, `-shm`) and a
    /// lock (`.lock`). Checking a large file takes a while.
    ///
    /// # Errors
    /// When the file cannot be used, is served by another process, is damaged, was
    /// written by a newer release, or is something else.
    pub fn open(path: &Path, options: Options) -> Result<Self, OpenError> {
        let io = |cause| OpenError::Io {
            path: path.to_owned(),
            cause,
        };
        let opened = file::open(path)?;
        let (intake, lanes) = Intake::new(1, options.limits);
        let shared = Arc::new(Shared {
            writer: Mutex::new(opened.writer),
            reader: Mutex::new(opened.reader),
            clock: Clock::new(opened.seen, options.clock),
            closed: AtomicBool::new(false),
            hold: opened.hold,
        });
        let mut threads = Vec::new();
        for lane in lanes {
            let writer = Writer {
                shared: Arc::clone(&shared),
                intake: intake.clone(),
                lane,
                on_change: options.on_change.clone(),
                runtime: tokio::runtime::Builder::new_current_thread()
                    .build()
                    .map_err(io)?,
            };
            let thread = std::thread::Builder::new().name("embedded-writer".to_owned());
            threads.push(thread.spawn(|| writer.run_or_abort()).map_err(io)?);
        }
        Ok(Self {
            intake,
            shared,
            token_key: opened.token_key,
            writer: Arc::new(Mutex::new(threads.pop())),
        })
    }

    /// Reads on a thread that may block.
    fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection, &Clock) -> Result<T, Error> + Send + 'static,
    ) -> Later<'_, T> {
        let shared = Arc::clone(&self.shared);
        Box::pin(blocking(move || {
            shared.check_open()?;
            let connection = lock(&shared.reader);
            read(&connection, &shared.clock)
        }))
    }
}

impl Shared {
    fn check_open(&self) -> Result<(), Error> {
        match self.closed.load(Ordering::Acquire) {
            true => Err(Error::Closed),
            false => self.hold.check(),
        }
    }
}

impl Store for Embedded {
    fn execute(&self, request: Request, deadline: Instant) -> Later<'_, Delivery> {
        Box::pin(self.intake.execute(request, deadline))
    }

    fn find<'a>(
        &'a self,
        tenant: &'a str,
        target: Target,
        deadline: Instant,
    ) -> Later<'a, Option<(Record, Timestamp)>> {
        let tenant = tenant.to_owned();
        let found = self.read(move |connection, clock| {
            let record = match target {
                Target::Id(id) => records::find(connection, id)?,
                Target::EffectKey(key) => records::find_by_effect_key(connection, key)?,
            };
            Ok(record
                .filter(|record| record.name.tenant() == tenant)
                .map(|record| (record, clock.now())))
        });
        Box::pin(async move {
            tokio::time::timeout_at(deadline.into(), found)
                .await
                .map_err(|_| Error::unavailable("the deadline passed before the record was read"))?
        })
    }

    fn revisions(&self, ids: Vec<RecordId>) -> Later<'_, Vec<(RecordId, u64)>> {
        self.read(move |connection, _| records::revisions(connection, &ids))
    }

    fn traces(&self, id: RecordId) -> Later<'_, Vec<Trace>> {
        self.read(move |connection, _| traces::of(connection, id))
    }

    fn policies(&self) -> Later<'_, Vec<StoredPolicy>> {
        self.read(|connection, _| policies::all(connection))
    }

    fn put_policy(&self, put: PutPolicy) -> Later<'_, StoredPolicy> {
        let shared = Arc::clone(&self.shared);
        Box::pin(blocking(move || {
            shared.check_open()?;
            let mut connection = lock(&shared.writer);
            let now = shared.clock.now();
            let transaction = connection
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(fault::general)?;
            let stored = policies::put(&transaction, put, now)?;
            writer::commit(transaction, &shared.hold, now)?;
            Ok(stored)
        }))
    }

    fn token_key(&self) -> &TokenKey {
        &self.token_key
    }

    fn ping(&self) -> Later<'_, ()> {
        self.read(|connection, _| {
            connection
                .query_row("select count(*) from meta", [], |_| Ok(()))
                .map_err(fault::general)
        })
    }

    fn close(&self) -> Later<'_, ()> {
        Box::pin(async {
            self.intake.close();
            let (shared, writer) = (Arc::clone(&self.shared), Arc::clone(&self.writer));
            blocking(move || {
                join(&writer);
                shared.closed.store(true, Ordering::Release);
                let connection = lock(&shared.writer);
                writer::saw(&connection, shared.clock.now())
            })
            .await
        })
    }
}

impl Drop for Embedded {
    /// What was handed in is finished, so that the file is free afterwards.
    fn drop(&mut self) {
        self.intake.close();
        join(&self.writer);
    }
}

/// Waits for the writer to end, whoever else does so too.
fn join(writer: &Mutex<Option<JoinHandle<()>>>) {
    if let Some(thread) = lock(writer).take() {
        // A panic of it ended the process.
        let _ = thread.join();
    }
}

/// A panic leaves no half-done change behind: its transaction was rolled back.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(panicked) => Err(Error::internal(panicked)),
    }
}
