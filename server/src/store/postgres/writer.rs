//! Carries out batches: first what can be settled in one statement, then, of what is left,
//! a read, the decisions, and a guarded write. What somebody else holds up steps aside, so
//! that its neighbours go on.
//!
//! It decides nothing about records.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::stream::{FuturesUnordered, StreamExt};
use reprise_domain::command::{Answer, Command, Finding, Outcome, Refusal};
use reprise_domain::{Record, RecordId, Timestamp, View, reading};
use tokio_util::task::TaskTracker;

use super::answers::{answer, view, viewed};
use super::aside::Aside;
use super::column::Uuid;
use super::database::{Database, Fault};
use super::fast::{Inserted, fast};
use super::plan::{self, HeldPlan, Plan, shift};
use super::read::read;
use super::row::RecordRow;
use super::write::{Write, Written, write};
use super::{Config, record};
use crate::store::queue::{Batches, Folded, Group, Intake, Job, fold};
use crate::store::{Error, OnChange};

/// Of the first grants of a batch, one in so many has to be of a key that is there already
/// for the next batch to look first: an insert that fails costs several looks.
const LOOK_SHARE: usize = 8;

type Decided = Result<Answer, Refusal>;

/// Carries batches out.
pub(super) struct Writer {
    database: Database,
    intake: Intake,
    fast_path: bool,
    /// Most keys of the last first grants were there already: the next are looked for first.
    look: AtomicBool,
    on_change: Option<OnChange>,
    pub(super) aside: Aside,
    tasks: TaskTracker,
}

/// A command with its plan.
struct Planned<P> {
    job: Job,
    plan: Box<P>,
}

/// A record whose commands are decided but not yet written.
struct Unwritten {
    id: RecordId,
    base: Option<Record>,
    folded: Folded,
}

/// What a pass did not settle.
#[derive(Default)]
pub(super) struct Passed {
    pub(super) missed: Vec<Missed>,
    /// What waits for the next batch.
    pub(super) postponed: Vec<Job>,
}

/// Commands that a pass could not carry out. Nothing of them happened.
pub(super) struct Missed {
    pub(super) group: Group,
    pub(super) why: Why,
}

/// Why nothing happened.
pub(super) enum Why {
    /// Somebody else wrote first, or the time moved on.
    Raced,
    /// Somebody holds the row, or an insert of the same key.
    Locked,
    /// The database refused the statement.
    Refused(Error),
}

impl Writer {
    /// Starts the task that hands batches to others.
    pub(super) fn start(
        database: Database,
        intake: Intake,
        batches: Batches,
        config: &Config,
        on_change: Option<OnChange>,
    ) -> Arc<Self> {
        let writer = Arc::new(Self {
            database,
            intake,
            fast_path: config.fast_path,
            look: AtomicBool::new(false),
            on_change,
            aside: Aside::new(config.pool_size),
            tasks: TaskTracker::new(),
        });
        writer.supervise(serve(Arc::clone(&writer), batches, config.writers));
        writer
    }

    /// Runs a task that commands depend on. Should it panic, those in its hands would never
    /// be answered, nor any that come after them: the process ends instead, to be started
    /// anew. Nothing that was acknowledged is lost by that.
    pub(super) fn supervise(&self, task: impl Future<Output = ()> + Send + 'static) {
        let task = tokio::spawn(task);
        self.tasks.spawn(async move {
            if task.await.is_err_and(|error| error.is_panic()) {
                crate::telemetry::abort("a task that writes has panicked");
            }
        });
    }

    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    pub(super) fn intake(&self) -> &Intake {
        &self.intake
    }

    /// Ends when all that was handed in is carried out.
    pub(super) async fn finish(&self) {
        self.intake.close();
        self.tasks.close();
        self.tasks.wait().await;
        self.database.close();
    }

    /// Carries a batch out, and returns what waits for the next one.
    async fn batch(self: &Arc<Self>, groups: Vec<Group>) -> Vec<Job> {
        let (mut fresh, mut held, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for (id, jobs) in groups {
            let jobs = self.admitted(jobs);
            if self.aside.holds(&id) {
                self.step_aside((id, jobs));
                continue;
            }
            // Only a command that is alone with its record has a plan.
            match <[Job; 1]>::try_from(jobs) {
                Ok([job]) => match self.plan(&job) {
                    Some(Plan::Fresh(plan)) => fresh.push(Planned { job, plan }),
                    Some(Plan::Held(plan)) => held.push(Planned { job, plan }),
                    None => rest.push((id, vec![job])),
                },
                Err(jobs) => rest.push((id, jobs)),
            }
        }
        let mut passed = Passed::default();
        if self.look.load(Ordering::Relaxed) && !fresh.is_empty() {
            fresh = self.look(fresh, &mut passed).await;
        }
        rest.extend(self.fast(fresh, held, &mut passed).await);
        self.pass(rest, &mut passed).await;
        for missed in passed.missed {
            self.step_aside(missed.group);
        }
        passed.postponed
    }

    fn plan(&self, job: &Job) -> Option<Plan> {
        self.fast_path.then(|| plan::of(&job.request)).flatten()
    }

    /// Leaves out what may begin an attempt while the clock cannot be trusted.
    fn admitted(&self, jobs: Vec<Job>) -> Vec<Job> {
        if self.database.clock_is_steady() {
            return jobs;
        }
        let (refused, admitted) = jobs.into_iter().partition(|job: &Job| begins(job));
        self.refuse(refused, &clock_was_set_back());
        admitted
    }

    /// Looks for the records of first grants: those that are there take the long way from
    /// here, the others are returned.
    async fn look(&self, fresh: Vec<Planned<Record>>, passed: &mut Passed) -> Vec<Planned<Record>> {
        let names = fresh.iter().map(|planned| &planned.job.request.name);
        let (now, rows) = match read(&self.database, names).await {
            Ok(read) => read,
            Err(fault) => {
                let groups = fresh.into_iter().map(Planned::group);
                self.lost(groups.collect(), fault, passed);
                return Vec::new();
            }
        };
        self.note_there(rows.len(), fresh.len());
        let (there, fresh): (Vec<_>, Vec<_>) = fresh
            .into_iter()
            .partition(|planned| rows.contains_key(&Uuid::of(&planned.job.id())));
        let there = there.into_iter().map(Planned::group).collect();
        self.judge(there, rows, now, passed).await;
        fresh
    }

    /// Of so many first grants, so many were of keys that are there already.
    fn note_there(&self, there: usize, of: usize) {
        self.look.store(there * LOOK_SHARE >= of, Ordering::Relaxed);
    }

    /// Carries plans out in one statement, and returns what found another row than the
    /// assumed one.
    async fn fast(
        &self,
        mut fresh: Vec<Planned<Record>>,
        mut held: Vec<Planned<HeldPlan>>,
        passed: &mut Passed,
    ) -> Vec<Group> {
        if fresh.is_empty() && held.is_empty() {
            return Vec::new();
        }
        // Everybody goes through the rows in one order, so that nobody waits in a circle.
        fresh.sort_unstable_by_key(|planned| planned.job.id());
        held.sort_unstable_by_key(|planned| planned.job.id());
        let records = fresh.iter().map(|planned| &*planned.plan);
        let plans = held.iter().map(|planned| &*planned.plan);
        let settled = match fast(&self.database, records, plans).await {
            Ok(settled) => settled,
            Err(fault) => {
                let fresh = fresh.into_iter().map(Planned::group);
                let held = held.into_iter().map(Planned::group);
                self.lost(fresh.chain(held).collect(), fault, passed);
                return Vec::new();
            }
        };
        let (inserted, of) = (settled.inserted.len(), fresh.len());
        if !self.look.load(Ordering::Relaxed) && of > 0 {
            self.note_there(of - inserted, of);
        }
        let inserted = by_id(settled.inserted, |row| row.id);
        let changed = by_id(settled.changed, |row| row.id);
        let mut rest = self.inserted(fresh, inserted);
        rest.extend(self.updated(held, changed, settled.now));
        rest
    }

    fn inserted(
        &self,
        plans: Vec<Planned<Record>>,
        mut inserted: HashMap<Uuid, Inserted>,
    ) -> Vec<Group> {
        let mut taken = Vec::new();
        for planned in plans {
            let id = planned.job.id();
            let Some(row) = inserted.remove(&Uuid::of(&id)) else {
                taken.push(planned.group());
                continue;
            };
            self.changed(&id);
            let mut record = planned.plan;
            shift(&mut record, row.granted_at);
            if row.now >= record.attempt.lease_end {
                // It waited for so long that the lease is over: as if asked again.
                taken.push((id, vec![planned.job]));
                continue;
            }
            let view = View::of(record, &planned.job.request.policy, row.now);
            let outcome = Outcome::Acquired { again: false };
            self.settle(planned.job, Ok(Ok(Answer::Outcome(outcome, view))));
        }
        taken
    }

    fn updated(
        &self,
        plans: Vec<Planned<HeldPlan>>,
        mut changed: HashMap<Uuid, RecordRow>,
        now: Timestamp,
    ) -> Vec<Group> {
        let mut other = Vec::new();
        for planned in plans {
            let id = planned.job.id();
            let Some(row) = changed.remove(&Uuid::of(&id)) else {
                other.push(planned.group());
                continue;
            };
            self.changed(&id);
            let policy = Arc::clone(&planned.job.request.policy);
            let answer = answer(*planned.plan, row, &policy, now);
            self.settle(planned.job, answer.map(Ok));
        }
        other
    }

    /// One read, the decisions, and one write if anything changes.
    pub(super) async fn pass(&self, groups: Vec<Group>, passed: &mut Passed) {
        if groups.is_empty() {
            return;
        }
        let names = groups.iter().map(|(_, jobs)| &jobs[0].request.name);
        match read(&self.database, names).await {
            Ok((now, rows)) => self.judge(groups, rows, now, passed).await,
            Err(fault) => self.lost(groups, fault, passed),
        }
    }

    /// The decisions, and one write if anything changes.
    async fn judge(
        &self,
        groups: Vec<Group>,
        rows: HashMap<Uuid, RecordRow>,
        now: Timestamp,
        passed: &mut Passed,
    ) {
        let writes = self.decide(groups, rows, now, passed);
        if !writes.is_empty() {
            self.write(writes, now, passed).await;
        }
    }

    /// Decides on each group; answers at once where nothing is to be written.
    fn decide(
        &self,
        groups: Vec<Group>,
        mut rows: HashMap<Uuid, RecordRow>,
        now: Timestamp,
        passed: &mut Passed,
    ) -> Vec<Unwritten> {
        let mut writes = Vec::new();
        for (id, jobs) in groups {
            let base = match rows.remove(&Uuid::of(&id)).map(record).transpose() {
                Ok(base) => base,
                Err(error) => {
                    self.refuse(jobs, &error);
                    continue;
                }
            };
            let is_another = |found: &Record| found.name != jobs[0].request.name;
            if base.as_ref().is_some_and(is_another) {
                let error = Error::internal("two names have one record id");
                self.refuse(jobs, &error);
                continue;
            }
            let folded = fold(base.as_ref(), jobs, now);
            if folded.writes() {
                writes.push(Unwritten { id, base, folded });
                continue;
            }
            passed.postponed.extend(folded.postponed);
            for (job, answer) in folded.answers {
                self.settle(job, Ok(answer));
            }
        }
        writes
    }

    async fn write(&self, decided: Vec<Unwritten>, now: Timestamp, passed: &mut Passed) {
        let writes: Vec<Write<'_>> = decided.iter().map(|one| one.write(now)).collect();
        let (now, mut written) = match write(&self.database, &writes).await {
            Ok(written) => written,
            Err(fault) => {
                let groups = decided.into_iter().map(Unwritten::group).collect();
                self.lost(groups, fault, passed);
                return;
            }
        };
        for one in decided {
            let why = match written.remove(&Uuid::of(&one.id)) {
                Some(Written::Done) => {
                    self.done(one, now, passed);
                    continue;
                }
                Some(Written::Locked) => Why::Locked,
                Some(Written::Changed) | None => Why::Raced,
            };
            let group = one.group();
            passed.missed.push(Missed { group, why });
        }
    }

    fn done(&self, one: Unwritten, now: Timestamp, passed: &mut Passed) {
        if one.folded.change.is_some() {
            self.changed(&one.id);
        }
        passed.postponed.extend(one.folded.postponed);
        for (job, answer) in one.folded.answers {
            let policy = Arc::clone(&job.request.policy);
            let answer =
                answer.map(|answer| viewed(answer, |record| View::of(record, &policy, now)));
            self.settle(job, Ok(answer));
        }
    }

    /// A statement of a batch failed: what may have happened is unknown, what did not
    /// happen runs on by itself, so that one bad member does not stop the others.
    fn lost(&self, groups: Vec<Group>, fault: Fault, passed: &mut Passed) {
        let refused = match fault {
            Fault::Refused(error) => Some(Error::internal(error)),
            Fault::Blocked => None,
            Fault::Unavailable(_) | Fault::Withheld(_) => {
                let error = Error::from(fault);
                for (_, jobs) in groups {
                    self.refuse(jobs, &error);
                }
                return;
            }
        };
        for group in groups {
            let why = refused.clone().map_or(Why::Locked, Why::Refused);
            passed.missed.push(Missed { group, why });
        }
    }

    fn changed(&self, id: &RecordId) {
        if let Some(on_change) = &self.on_change {
            on_change(id);
        }
    }

    pub(super) fn refuse(&self, jobs: Vec<Job>, error: &Error) {
        for job in jobs {
            job.settle(Err(error.clone()), &self.intake);
        }
    }

    fn settle(&self, job: Job, answer: Result<Decided, Error>) {
        // The very batch that shows that the clock was set back must not grant either.
        let grants = matches!(
            &answer,
            Ok(Ok(Answer::Outcome(Outcome::Acquired { .. }, _)))
        );
        if grants && !self.database.clock_is_steady() {
            job.settle(Err(clock_was_set_back()), &self.intake);
        } else {
            job.settle(answer, &self.intake);
        }
    }
}

/// Carries batches out until the intake is closed and empty: `at_once` of them at a time.
async fn serve(writer: Arc<Writer>, mut batches: Batches, at_once: usize) {
    let mut under_way = FuturesUnordered::new();
    // Nothing more comes but what a batch leaves for the next one.
    let mut closed = false;
    while !(closed && under_way.is_empty()) {
        tokio::select! {
            biased;
            Some(ended) = under_way.next() => {
                let (records, postponed): (Vec<RecordId>, Vec<Job>) = ended;
                closed = false;
                let many = records.len() > 1;
                batches.ended(records, postponed);
                // Callers that were just answered may hand in their next command before the
                // next batch is made up; else it would leave with the first few of them.
                if many {
                    tokio::task::yield_now().await;
                }
            }
            batch = batches.next(), if !closed && under_way.len() < at_once => {
                match batch {
                    Some(groups) => under_way.push(carry_out(&writer, groups)),
                    None => closed = true,
                }
            }
        }
    }
}

async fn carry_out(writer: &Arc<Writer>, groups: Vec<Group>) -> (Vec<RecordId>, Vec<Job>) {
    let records = groups.iter().map(|(id, _)| *id).collect();
    (records, writer.batch(groups).await)
}

impl<P> Planned<P> {
    fn group(self) -> Group {
        (self.job.id(), vec![self.job])
    }
}

impl Unwritten {
    /// The commands again, in their order.
    fn group(self) -> Group {
        let answered = self.folded.answers.into_iter().map(|(job, _)| job);
        (self.id, answered.chain(self.folded.postponed).collect())
    }

    fn write(&self, now: Timestamp) -> Write<'_> {
        let folded = &self.folded;
        let name = &folded.answers[0].0.request.name;
        let answered = folded
            .answers
            .iter()
            .filter_map(|(_, answer)| match answer {
                Ok(answer) => view(answer).map(|view| &*view.record),
                Err(_) => None,
            });
        let seen = self.base.iter().chain(answered);
        let valid_until = seen
            .chain(folded.change.as_deref())
            .map(|record| reading::holds_until(record, now))
            .min();
        Write {
            name,
            change: folded.change.as_deref(),
            base: self.base.as_ref(),
            valid_until: valid_until.unwrap_or(Timestamp::FAR),
            traces: &folded.traces,
            work: folded.work.as_ref(),
            erase: folded.erase,
            anew: folded.begins_anew(self.base.as_ref()),
        }
    }
}

fn by_id<T>(items: Vec<T>, id: impl Fn(&T) -> Uuid) -> HashMap<Uuid, T> {
    items.into_iter().map(|item| (id(&item), item)).collect()
}

fn begins(job: &Job) -> bool {
    match &job.request.command {
        Command::Reserve(_) => true,
        Command::Resolve(resolve) => matches!(resolve.finding, Finding::TakeOver { .. }),
        _ => false,
    }
}

fn clock_was_set_back() -> Error {
    Error::unavailable("the database's clock was set back; an operator must look")
}
