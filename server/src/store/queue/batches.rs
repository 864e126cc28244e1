//! Makes batches up from what was handed in.
//!
//! A batch costs something by itself, however small it is: while one is under way, what comes
//! gathers for the next, and another one is begun beside it once that is large, or has
//! waited for a while. No two of them share a record, so that the commands of a record keep
//! their order and never race in one server.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use reprise_domain::RecordId;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Job, Limits, may_be_dropped};

/// Commands that are worth a batch beside another one.
pub(super) const BESIDE_MIN: usize = 64;
/// So long do fewer wait for the end of the batch that is under way: it may be held up, by a
/// lock or a slow disk.
pub(super) const GATHER_MAX: Duration = Duration::from_millis(2);

/// The commands of one record, in the order handed in.
pub(crate) type Group = (RecordId, Vec<Job>);

/// The other end of an intake.
pub(crate) struct Batches {
    jobs: UnboundedReceiver<Job>,
    set_aside: VecDeque<Job>,
    /// The records of the batches that are under way, each with what came for it meanwhile.
    under_way: HashMap<RecordId, Vec<Job>>,
    gathering_until: Option<Instant>,
    limits: Limits,
    closing: CancellationToken,
}

impl Batches {
    pub(super) fn new(
        jobs: UnboundedReceiver<Job>,
        limits: Limits,
        closing: CancellationToken,
    ) -> Self {
        Self {
            jobs,
            set_aside: VecDeque::new(),
            under_way: HashMap::new(),
            gathering_until: None,
            limits,
            closing,
        }
    }

    /// The next batch, by records in the order in which they first occur; none when the
    /// intake was closed and nothing is left but what waits for the end of a batch. Reserves
    /// whose caller is gone are left out. Nothing is lost when this is dropped before its end.
    ///
    /// Each batch is to be followed by [`Batches::ended`].
    pub(crate) async fn next(&mut self) -> Option<Vec<Group>> {
        loop {
            if self.set_aside.is_empty() {
                let first = tokio::select! {
                    biased;
                    job = self.jobs.recv() => job?,
                    () = self.closing.cancelled() => return None,
                };
                self.set_aside.push_back(first);
            }
            if !self.under_way.is_empty() {
                self.gather().await;
            }
            self.gathering_until = None;
            let batch = self.collect();
            if !batch.is_empty() {
                let records = batch.iter().map(|(id, _)| (*id, Vec::new()));
                self.under_way.extend(records);
                return Some(batch);
            }
        }
    }

    /// A batch of these records has ended; of its commands these wait for the next one.
    pub(crate) fn ended(
        &mut self,
        records: impl IntoIterator<Item = RecordId>,
        postponed: Vec<Job>,
    ) {
        let came = records
            .into_iter()
            .filter_map(|id| self.under_way.remove(&id))
            .flatten()
            .collect::<Vec<Job>>();
        self.put_back(came);
        self.put_back(postponed);
    }

    /// Nothing waits for the next batch.
    pub(crate) fn is_empty(&self) -> bool {
        self.set_aside.is_empty() && self.jobs.is_empty()
    }

    /// Puts jobs back to the front, in order.
    fn put_back(&mut self, jobs: impl IntoIterator<Item = Job, IntoIter: DoubleEndedIterator>) {
        for job in jobs.into_iter().rev() {
            self.set_aside.push_front(job);
        }
    }

    /// Waits until what is there is worth a batch beside another one.
    async fn gather(&mut self) {
        let until = *self
            .gathering_until
            .get_or_insert_with(|| Instant::now() + GATHER_MAX);
        let mut more = Vec::new();
        while self.set_aside.len() < BESIDE_MIN {
            tokio::select! {
                biased;
                came = self.jobs.recv_many(&mut more, BESIDE_MIN) => {
                    if came == 0 {
                        return;
                    }
                    self.set_aside.extend(more.drain(..));
                }
                () = self.closing.cancelled() => return,
                () = tokio::time::sleep_until(until) => return,
            }
        }
    }

    fn collect(&mut self) -> Vec<Group> {
        let mut batch = Batch::default();
        // What is over its tenant's share, and over its record's.
        let (mut over_share, mut later) = (VecDeque::new(), VecDeque::new());
        while batch.has_room(&self.limits)
            && over_share.len() + later.len() < self.limits.queued_max
        {
            let Some(job) = self
                .set_aside
                .pop_front()
                .or_else(|| self.jobs.try_recv().ok())
            else {
                break;
            };
            if job.abandoned() {
                continue;
            }
            if let Some(waiting) = self.under_way.get_mut(&job.id()) {
                waiting.push(job);
            } else if batch.has_share_of_record(&job, &self.limits) {
                later.push_back(job);
            } else if batch.has_share_of_tenant(&job, &self.limits) {
                over_share.push_back(job);
            } else {
                batch.push(job);
            }
        }
        // Nobody else waits: the tenant's share need not be kept.
        while batch.has_room(&self.limits) {
            let Some(job) = over_share.pop_front() else {
                break;
            };
            match batch.has_share_of_record(&job, &self.limits) {
                true => later.push_back(job),
                false => batch.push(job),
            }
        }
        self.put_back(over_share);
        self.put_back(later);
        batch.groups
    }
}

/// A batch that is made up.
#[derive(Default)]
struct Batch {
    groups: Vec<Group>,
    commands: usize,
    bytes: usize,
    of_tenants: HashMap<String, usize>,
    of_records: HashMap<RecordId, OfRecord>,
}

/// What a batch has of a record.
struct OfRecord {
    group: usize,
    begins: usize,
}

impl Batch {
    fn has_room(&self, limits: &Limits) -> bool {
        self.commands < limits.batch_max && self.bytes < limits.batch_bytes_max
    }

    fn has_share_of_tenant(&self, job: &Job, limits: &Limits) -> bool {
        let taken = self.of_tenants.get(job.request.name.tenant());
        taken.is_some_and(|taken| *taken >= limits.tenant_share_max)
    }

    fn has_share_of_record(&self, job: &Job, limits: &Limits) -> bool {
        may_be_dropped(&job.request.command) && {
            let taken = self.of_records.get(&job.id());
            taken.is_some_and(|taken| taken.begins >= limits.record_share_max)
        }
    }

    fn push(&mut self, job: Job) {
        match self.of_tenants.get_mut(job.request.name.tenant()) {
            Some(taken) => *taken += 1,
            None => drop(
                self.of_tenants
                    .insert(job.request.name.tenant().to_owned(), 1),
            ),
        }
        self.commands += 1;
        self.bytes += job.bytes();
        let id = job.id();
        let of_record = self.of_records.entry(id).or_insert_with(|| {
            self.groups.push((id, Vec::with_capacity(1)));
            OfRecord {
                group: self.groups.len() - 1,
                begins: 0,
            }
        });
        of_record.begins += usize::from(may_be_dropped(&job.request.command));
        self.groups[of_record.group].1.push(job);
    }
}
