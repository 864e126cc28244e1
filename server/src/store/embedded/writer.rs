//! The one writer: takes what has queued up, has it decided record by record, and writes
//! all of it in one transaction. Answers go out once that is on the disk; where more waits,
//! the next batch is made meanwhile.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use reprise_domain::command::{Answer, Refusal};
use reprise_domain::{Record, RecordId, RecordName, Timestamp};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use tokio::runtime::Runtime;

use super::disk::Disk;
use super::{Shared, fault, filing, lock, records, references, removal, traces, worklist};
use crate::store::queue::{self, Batches, Folded, Group, Intake, Job};
use crate::store::{Error, OnChange};

pub(super) struct Writer {
    pub(super) concluder: Concluder,
    pub(super) batches: Batches,
    /// To a concluder in a thread of its own.
    pub(super) done: Sender<Batch>,
    /// To wait for a batch with.
    pub(super) runtime: Runtime,
}

/// Answers batches once they are on the disk.
#[derive(Clone)]
pub(super) struct Concluder {
    pub(super) shared: Arc<Shared>,
    pub(super) intake: Intake,
    pub(super) on_change: Option<OnChange>,
}

type Verdict = Result<Result<Answer, Refusal>, Error>;

/// What became of a batch.
#[derive(Default)]
pub(super) struct Batch {
    verdicts: Vec<(Job, Verdict)>,
    postponed: Vec<Job>,
    changed: Vec<RecordId>,
    wrote: bool,
    erased: bool,
    /// The last commit that its answers rest on.
    commit: u64,
}

/// Without a writer the server would be half dead: it would take calls in and answer none. A
/// new process has one again.
fn or_abort(work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        crate::telemetry::abort("the embedded store's writer panicked");
    }
}

impl Writer {
    /// Goes on until the intake is closed and empty.
    pub(super) fn run_or_abort(self) {
        or_abort(|| self.run());
    }

    fn run(mut self) {
        while let Some(groups) = self.runtime.block_on(self.batches.next()) {
            let records: Vec<RecordId> = groups.iter().map(|(id, _)| *id).collect();
            let shared = &self.concluder.shared;
            // A fault of ours ends its batch, whose callers hear that the outcome is
            // unknown, and not the store.
            let carried_out = catch_unwind(AssertUnwindSafe(|| {
                let mut connection = lock(&shared.writer);
                let now = shared.clock.now();
                let batch = carry_out(&mut connection, &shared.disk, groups, now);
                if batch.erased {
                    shared.scrub_erased(&connection);
                }
                batch
            }));
            let Ok(mut batch) = carried_out else {
                tracing::error!("a batch of the embedded store panicked");
                self.batches.ended(records, Vec::new());
                continue;
            };
            let postponed = std::mem::take(&mut batch.postponed);
            self.batches.ended(records, postponed);
            if self.batches.is_empty() {
                self.concluder.conclude(batch);
            } else {
                // Its receiver ends after this sender, or ended the process.
                let _ = self.done.send(batch);
            }
        }
    }
}

impl Concluder {
    /// Goes on until the writer ends.
    pub(super) fn run_or_abort(self, batches: Receiver<Batch>) {
        or_abort(|| batches.into_iter().for_each(|batch| self.conclude(batch)));
    }

    fn conclude(&self, mut batch: Batch) {
        if let Err(error) = self.shared.disk.sync(batch.commit) {
            batch.fail_all(&error);
        }
        for (job, verdict) in batch.verdicts {
            job.settle(verdict, &self.intake);
        }
        if let Some(on_change) = &self.on_change {
            batch.changed.iter().for_each(|id| on_change(id));
        }
    }
}

fn carry_out(
    connection: &mut Connection,
    disk: &Disk,
    groups: Vec<Group>,
    now: Timestamp,
) -> Batch {
    let mut batch = Batch::default();
    let begun = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let mut transaction = match begun.map_err(fault::general) {
        Ok(transaction) => transaction,
        Err(error) => {
            batch.fail(groups.into_iter().flat_map(|(_, jobs)| jobs), &error);
            return batch;
        }
    };
    // SQLite itself rolls a whole transaction back for some errors, such as a full disk.
    // What came after that must not be written on its own.
    let mut rolled_back = None;
    for (id, jobs) in groups {
        if let Some(error) = &rolled_back {
            batch.fail(jobs, error);
        } else if let Err(error) = batch.record(&mut transaction, id, jobs, now)
            && transaction.is_autocommit()
        {
            rolled_back = Some(error);
        }
    }
    let written = match rolled_back {
        Some(error) => Err(error),
        None if batch.wrote => commit(transaction, disk, now),
        None => disk.check(),
    };
    if let Err(error) = written {
        batch.fail_all(&error);
    }
    batch.commit = disk.newest();
    batch
}

/// Commits a transaction of the moment `now`. It is not on the disk yet.
pub(super) fn commit(
    transaction: Transaction<'_>,
    disk: &Disk,
    now: Timestamp,
) -> Result<(), Error> {
    saw(&transaction, now)?;
    disk.commit(transaction, now)
}

/// Remembers the moment, for a start with a clock that was set back.
pub(super) fn saw(connection: &Connection, now: Timestamp) -> Result<(), Error> {
    connection
        .prepare_cached("update meta set clock = max(clock, ?)")
        .and_then(|mut update| update.execute(params![now.0]))
        .map(drop)
        .map_err(fault::general)
}

impl Batch {
    /// Decides the commands of one record. An error is theirs alone.
    fn record(
        &mut self,
        transaction: &mut Transaction<'_>,
        id: RecordId,
        jobs: Vec<Job>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let found = match records::find(transaction, id) {
            Ok(found) => found,
            Err(error) => {
                self.fail(jobs, &error);
                return Err(error);
            }
        };
        let Some(name) = jobs.first().map(|job| job.request.name.clone()) else {
            return Ok(());
        };
        let mut folded = queue::fold(found.as_ref(), jobs, now);
        self.postponed.append(&mut folded.postponed);
        if !folded.writes() {
            self.settle(folded.answers);
            return Ok(());
        }
        match write(transaction, &name, found.as_ref(), &folded, now) {
            Ok(()) => {
                self.wrote = true;
                self.erased |= folded.erase;
                self.changed.extend(folded.change.map(|_| id));
                self.settle(folded.answers);
                Ok(())
            }
            Err(error) => {
                let jobs = folded.answers.into_iter().map(|(job, _)| job);
                self.fail(jobs, &error);
                Err(error)
            }
        }
    }

    fn settle(&mut self, answers: Vec<(Job, Result<Answer, Refusal>)>) {
        let verdicts = answers.into_iter().map(|(job, answer)| (job, Ok(answer)));
        self.verdicts.extend(verdicts);
    }

    /// Nothing of it is known to be kept.
    fn fail_all(&mut self, error: &Error) {
        self.erased = false;
        self.changed.clear();
        for (_, verdict) in &mut self.verdicts {
            if verdict.is_ok() {
                *verdict = Err(error.clone());
            }
        }
    }

    fn fail(&mut self, jobs: impl IntoIterator<Item = Job>, error: &Error) {
        let verdicts = jobs.into_iter().map(|job| (job, Err(error.clone())));
        self.verdicts.extend(verdicts);
    }
}

/// Writes a record and all that goes with it, or nothing, whatever becomes of the rest of
/// the batch. Nobody else writes this file, so the row is still the one that was decided on.
fn write(
    transaction: &mut Transaction<'_>,
    name: &RecordName,
    found: Option<&Record>,
    folded: &Folded,
    now: Timestamp,
) -> Result<(), Error> {
    if let Some(record) = record_alone(found, folded, now) {
        // One statement, which is carried out whole or not at all.
        return records::put(transaction, found, record);
    }
    let savepoint = transaction.savepoint().map_err(fault::general)?;
    if let Some(record) = &folded.change {
        records::put(&savepoint, found, record)?;
    }
    if folded.begins_anew(found) {
        removal::forget_side_rows(&savepoint, name.id())?;
    }
    if folded.erase {
        traces::erase(&savepoint, name.id())?;
    }
    for trace in &folded.traces {
        traces::put(&savepoint, name, trace)?;
        references::file_former(&savepoint, name, trace)?;
    }
    if let Some(work) = folded.work {
        worklist::put(&savepoint, name, work)?;
    }
    filing::after_a_write(&savepoint, found, folded, now)?;
    savepoint.commit().map_err(fault::general)
}

/// The record, where nothing else is to be written: so it is with most grants and reports.
fn record_alone<'a>(
    found: Option<&Record>,
    folded: &'a Folded,
    now: Timestamp,
) -> Option<&'a Record> {
    let more = folded.begins_anew(found)
        || folded.erase
        || !folded.traces.is_empty()
        || filing::is_due(found, folded, now);
    folded.change.as_deref().filter(|_| !more)
}
