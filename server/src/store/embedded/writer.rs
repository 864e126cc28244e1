//! The one writer: takes what has queued up, has it decided record by record, and makes
//! all of it durable in one transaction.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use reprise_domain::command::{Answer, Refusal};
use reprise_domain::{Record, RecordId, RecordName, Timestamp};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use tokio::runtime::Runtime;

use super::hold::Hold;
use super::{Shared, fault, filing, lock, records, references, removal, traces, worklist};
use crate::store::queue::{self, Folded, Intake, Job, Lane};
use crate::store::{Error, OnChange};

pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) intake: Intake,
    pub(super) lane: Lane,
    pub(super) on_change: Option<OnChange>,
    /// To wait for the lane with.
    pub(super) runtime: Runtime,
}

type Verdict = Result<Result<Answer, Refusal>, Error>;

/// What became of a batch.
#[derive(Default)]
struct Batch {
    verdicts: Vec<(Job, Verdict)>,
    postponed: Vec<Job>,
    changed: Vec<RecordId>,
    wrote: bool,
    erased: bool,
}

impl Writer {
    /// Goes on until the intake is closed and empty. Without a writer the server would be
    /// half dead: it would take calls in and answer none. A new process has one again.
    pub(super) fn run_or_abort(self) {
        if catch_unwind(AssertUnwindSafe(|| self.run())).is_err() {
            crate::telemetry::abort("the embedded store's writer panicked");
        }
    }

    fn run(mut self) {
        while let Some(jobs) = self.runtime.block_on(self.lane.next()) {
            // A fault of ours ends its batch, whose callers hear that the outcome is
            // unknown, and not the store.
            let carried_out = catch_unwind(AssertUnwindSafe(|| {
                let mut connection = lock(&self.shared.writer);
                let now = self.shared.clock.now();
                let batch = carry_out(&mut connection, &self.shared.hold, jobs, now);
                if batch.erased {
                    self.shared.scrub_erased(&connection);
                }
                batch
            }));
            match carried_out {
                Ok(batch) => self.conclude(batch),
                Err(_) => tracing::error!("a batch of the embedded store panicked"),
            }
        }
    }

    fn conclude(&mut self, batch: Batch) {
        self.lane.postpone(batch.postponed);
        for (job, verdict) in batch.verdicts {
            job.settle(verdict, &self.intake);
        }
        if let Some(on_change) = &self.on_change {
            batch.changed.iter().for_each(|id| on_change(id));
        }
    }
}

fn carry_out(connection: &mut Connection, hold: &Hold, jobs: Vec<Job>, now: Timestamp) -> Batch {
    let mut batch = Batch::default();
    let begun = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let mut transaction = match begun.map_err(fault::general) {
        Ok(transaction) => transaction,
        Err(error) => {
            batch.fail(jobs, &error);
            return batch;
        }
    };
    // SQLite itself rolls a whole transaction back for some errors, such as a full disk.
    // What came after that must not be written on its own.
    let mut rolled_back = None;
    for (id, jobs) in queue::by_record(jobs) {
        if let Some(error) = &rolled_back {
            batch.fail(jobs, error);
        } else if let Err(error) = batch.record(&mut transaction, id, jobs, now)
            && transaction.is_autocommit()
        {
            rolled_back = Some(error);
        }
    }
    let durable = match rolled_back {
        Some(error) => Err(error),
        None if batch.wrote => commit(transaction, hold, now),
        None => hold.check(),
    };
    if let Err(error) = durable {
        batch.erased = false;
        batch.changed.clear();
        for (_, verdict) in &mut batch.verdicts {
            if verdict.is_ok() {
                *verdict = Err(error.clone());
            }
        }
    }
    batch
}

/// Makes a transaction of the moment `now` durable, so that it may be acknowledged.
pub(super) fn commit(
    transaction: Transaction<'_>,
    hold: &Hold,
    now: Timestamp,
) -> Result<(), Error> {
    saw(&transaction, now)?;
    hold.check()?;
    transaction.commit().map_err(fault::general)?;
    hold.note(now).map_err(Error::unavailable)
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
