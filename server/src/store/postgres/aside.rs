//! What somebody else holds up runs by itself, each record in a task of its own and under
//! its commands' own deadlines. How many of them ask the database at a time is bounded.

use std::collections::HashMap;
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use reprise_domain::RecordId;
use tokio::sync::Semaphore;

use super::database::pause;
use super::writer::{Missed, Passed, Why, Writer};
use crate::store::Error;
use crate::store::queue::{Group, Job};

/// Races that the commands of one record may lose.
const RACES_MAX: u32 = 16;

/// Records that run by themselves.
pub(super) struct Aside {
    /// Commands that came for them meanwhile.
    records: Mutex<HashMap<RecordId, Vec<Job>>>,
    permits: Semaphore,
}

impl Aside {
    /// Leaves most of a pool to the batches.
    pub(super) fn new(pool_size: usize) -> Self {
        Self {
            records: Mutex::default(),
            permits: Semaphore::new((pool_size / 4).max(1)),
        }
    }

    /// Does this record run by itself?
    pub(super) fn holds(&self, id: &RecordId) -> bool {
        self.records().contains_key(id)
    }

    fn records(&self) -> MutexGuard<'_, HashMap<RecordId, Vec<Job>>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands commands to the record's task; gives them back when there is none yet.
    fn enter(&self, (id, jobs): Group) -> Option<Group> {
        let mut records = self.records();
        if let Some(waiting) = records.get_mut(&id) {
            waiting.extend(jobs);
            return None;
        }
        records.insert(id, Vec::new());
        Some((id, jobs))
    }

    /// What came for the record; with nothing left to do and nothing there, it leaves.
    fn more(&self, id: &RecordId, may_leave: bool) -> Vec<Job> {
        let mut records = self.records();
        let more = records.get_mut(id).map(take).unwrap_or_default();
        if may_leave && more.is_empty() {
            records.remove(id);
        }
        more
    }
}

impl Writer {
    /// Has the commands of a record run by themselves.
    pub(super) fn step_aside(self: &Arc<Self>, group: Group) {
        if let Some((id, jobs)) = self.aside.enter(group) {
            self.supervise(Arc::clone(self).alone(id, jobs));
        }
    }

    async fn alone(self: Arc<Self>, id: RecordId, mut jobs: Vec<Job>) {
        let (mut races, mut passes) = (0, 0);
        loop {
            jobs.extend(self.aside.more(&id, jobs.is_empty()));
            jobs = self.in_time(jobs);
            if jobs.is_empty() {
                if !self.aside.holds(&id) {
                    return;
                }
                continue;
            }
            let passed = {
                let permit = self.aside.permits.acquire().await;
                let mut passed = Passed::default();
                self.pass(vec![(id, take(&mut jobs))], &mut passed).await;
                drop(permit);
                passed
            };
            jobs = passed.postponed;
            passes += 1;
            for Missed { group, why } in passed.missed {
                match why {
                    Why::Refused(error) => self.refuse(group.1, &error),
                    Why::Raced if races == RACES_MAX => self.refuse(group.1, &Error::Contention),
                    Why::Raced => {
                        races += 1;
                        jobs.extend(group.1);
                    }
                    Why::Locked => jobs.extend(group.1),
                }
            }
            if !jobs.is_empty() {
                tokio::time::sleep(pause(passes)).await;
            }
        }
    }

    /// Gives up what is past its deadline: nothing of it has happened here, but its caller
    /// has been told that nobody knows.
    fn in_time(&self, jobs: Vec<Job>) -> Vec<Job> {
        let now = Instant::now();
        let (late, in_time): (Vec<_>, Vec<_>) =
            jobs.into_iter().partition(|job| job.deadline <= now);
        self.refuse(
            late,
            &Error::unavailable("others held the record until the deadline"),
        );
        in_time
    }
}
