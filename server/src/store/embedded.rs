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
//! | `disk` | what is synced, behind the writer |
//! | `hold` | one process, the same files, how far they came |
//! | `wal` | damage of SQLite's log |
//! | `writer` | group commit |
//! | `records`, `traces`, `policies`, `mismatches` | statements |
//! | `worklist` | what somebody has to look at |
//! | `walk`, `filing` | each grant visited once, and what is filed then |
//! | `references`, `lists`, `audit` | what people look for |
//! | `removal` | the ends of retention |
//! | `scrub` | erased bytes leave the files |
//! | `row`, `packed`, `cells`, `words` | how values stand in columns |
//! | `clock` | a clock that never goes back |
//! | `fault` | what SQLite's errors mean |

mod audit;
mod cells;
mod clock;
mod disk;
mod fault;
mod file;
mod filing;
mod hold;
mod lists;
mod mismatches;
mod packed;
mod policies;
mod records;
mod references;
mod removal;
mod row;
mod scrub;
#[cfg(test)]
mod tests;
mod traces;
mod wal;
mod walk;
mod words;
mod worklist;
mod writer;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

use reprise_domain::record::ClaimId;
use reprise_domain::token::TokenKey;
use reprise_domain::{Record, RecordId, RecordName, Request, Timestamp, Trace};
use reprise_fingerprint::Fingerprint;
use rusqlite::{Connection, TransactionBehavior};

use super::queue::{Delivery, Intake, Limits};
use super::{
    AuditPage, AuditQuery, Error, Later, OPEN_COUNT_MAX, OnChange, Overview, PendingCount,
    PendingPage, PendingQuery, PutPolicy, RecordsPage, RecordsQuery, Removed, SeenMismatch, Store,
    StoredPolicy, Target, TestClock, Walked,
};
use clock::Clock;
use disk::Disk;
use writer::{Batch, Concluder, Writer};

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
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

/// What the writer and the readers share.
struct Shared {
    writer: Mutex<Connection>,
    /// Sees all that was committed, and waits for no writer.
    reader: Mutex<Connection>,
    clock: Clock,
    closed: AtomicBool,
    /// Before it all grants were visited, in microseconds; at least what the file knows.
    walked_to: AtomicI64,
    /// One step of the walk at a time.
    walking: Mutex<()>,
    /// Erased bytes may still be in the files.
    unscrubbed: AtomicBool,
    /// After the connections: the file is let go when they are closed.
    disk: Disk,
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
        let (intake, batches) = Intake::new(options.limits);
        let shared = Arc::new(Shared {
            writer: Mutex::new(opened.writer),
            reader: Mutex::new(opened.reader),
            clock: Clock::new(opened.seen, options.clock),
            closed: AtomicBool::new(false),
            walked_to: AtomicI64::new(opened.walked_to.0),
            walking: Mutex::new(()),
            // Whoever served the file before may not have come to it.
            unscrubbed: AtomicBool::new(true),
            disk: opened.disk,
        });
        shared.scrub(&lock(&shared.writer));
        let concluder = Concluder {
            shared: Arc::clone(&shared),
            intake: intake.clone(),
            on_change: options.on_change,
        };
        let mut threads = Vec::new();
        let mut start = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.to_owned());
            thread.spawn(work).map(|thread| threads.push(thread))
        };
        let (done, carried_out) = mpsc::channel::<Batch>();
        let behind = concluder.clone();
        start(
            "embedded-sync",
            Box::new(|| behind.run_or_abort(carried_out)),
        )
        .map_err(io)?;
        let writer = Writer {
            concluder,
            batches,
            done,
            runtime: tokio::runtime::Builder::new_current_thread()
                .build()
                .map_err(io)?,
        };
        start("embedded-writer", Box::new(|| writer.run_or_abort())).map_err(io)?;
        Ok(Self {
            intake,
            shared,
            token_key: opened.token_key,
            threads: Arc::new(Mutex::new(threads)),
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
            let read = read(&lock(&shared.reader), &shared.clock)?;
            // What was seen may not be on the disk yet.
            shared.disk.sync(shared.disk.newest())?;
            Ok(read)
        }))
    }

    /// Changes the file beside the writer's batches, in one transaction, on a thread that
    /// may block. Where nothing was changed, nothing is written.
    fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection, Timestamp, &Shared) -> Result<T, Error> + Send + 'static,
    ) -> Later<'_, T> {
        let shared = Arc::clone(&self.shared);
        Box::pin(blocking(move || shared.change(change)))
    }
}

impl Shared {
    fn check_open(&self) -> Result<(), Error> {
        match self.closed.load(Ordering::Acquire) {
            true => Err(Error::Closed),
            false => self.disk.check(),
        }
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&Connection, Timestamp, &Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.check_open()?;
        let mut connection = lock(&self.writer);
        let now = self.clock.now();
        let before = connection.total_changes();
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(fault::general)?;
        let changed = change(&transaction, now, self)?;
        if transaction.total_changes() > before {
            writer::commit(transaction, &self.disk, now)?;
        } else {
            transaction.rollback().map_err(fault::general)?;
        }
        self.scrub(&connection);
        drop(connection);
        self.disk.sync(self.disk.newest())?;
        Ok(changed)
    }

    /// One step of the walk. Batches wait for what it writes only, not for what it reads.
    fn walk(&self) -> Result<Walked, Error> {
        let _alone = lock(&self.walking);
        self.check_open()?;
        let committed = {
            // A batch has it while it is carried out, from before it looks at the clock.
            let _no_batch = lock(&self.writer);
            self.clock.now()
        };
        let seen = walk::look(&lock(&self.reader), committed)?;
        self.change(|connection, now, shared| {
            let (walked, reached) = walk::file(connection, seen, now)?;
            shared.walked_to.store(reached.0, Ordering::Release);
            Ok(walked)
        })
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
        self.change(move |connection, now, _| policies::put(connection, put, now))
    }

    fn walk(&self) -> Later<'_, Walked> {
        let shared = Arc::clone(&self.shared);
        Box::pin(blocking(move || shared.walk()))
    }

    fn to_look_at(&self, max: usize) -> Later<'_, Vec<RecordName>> {
        self.change(move |connection, now, _| worklist::to_look_at(connection, max, now))
    }

    fn remove(&self) -> Later<'_, Removed> {
        self.change(|connection, now, _| removal::step(connection, now))
    }

    fn pending(&self, query: PendingQuery) -> Later<'_, PendingPage> {
        self.read(move |connection, clock| worklist::pending(connection, &query, clock.now()))
    }

    fn claimed<'a>(&'a self, tenant: &'a str, claim: ClaimId) -> Later<'a, Vec<RecordName>> {
        let tenant = tenant.to_owned();
        self.read(move |connection, _| worklist::claimed(connection, &tenant, claim))
    }

    fn count_pending<'a>(
        &'a self,
        tenant: &'a str,
        operation: &'a str,
    ) -> Later<'a, Vec<PendingCount>> {
        let (tenant, operation) = (tenant.to_owned(), operation.to_owned());
        self.read(move |connection, clock| {
            worklist::count(connection, &tenant, &operation, clock.now())
        })
    }

    fn records(&self, query: RecordsQuery) -> Later<'_, RecordsPage> {
        self.read(move |connection, clock| lists::records(connection, &query, clock.now()))
    }

    fn audit(&self, query: AuditQuery) -> Later<'_, AuditPage> {
        self.read(move |connection, _| audit::page(connection, &query))
    }

    fn note_mismatches(&self, seen: Vec<(RecordId, Fingerprint, u64)>) -> Later<'_, ()> {
        self.change(move |connection, now, _| mismatches::note(connection, &seen, now))
    }

    fn mismatches(&self, id: RecordId) -> Later<'_, Vec<SeenMismatch>> {
        self.read(move |connection, _| mismatches::of(connection, id))
    }

    fn overview(&self) -> Later<'_, Overview> {
        let shared = Arc::clone(&self.shared);
        self.read(move |connection, clock| {
            Ok(Overview {
                kind: "embedded",
                now: clock.now(),
                walked_to: Timestamp(shared.walked_to.load(Ordering::Acquire)),
                open: worklist::open(connection, OPEN_COUNT_MAX)?,
                removal_due: removal::oldest(connection)?,
            })
        })
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
            let (shared, threads) = (Arc::clone(&self.shared), Arc::clone(&self.threads));
            blocking(move || {
                join(&threads);
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
        join(&self.threads);
    }
}

/// Waits for the writer to end, whoever else does so too.
fn join(threads: &Mutex<Vec<JoinHandle<()>>>) {
    for thread in lock(threads).drain(..) {
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
