//! The worklist of a life, kept as a store keeps it: what is uncertain is on it.

use crate::calls::Row;
use crate::decide::{Decision, Work};
use crate::reading::Reading;
use crate::record::{Record, State};

/// The record's entry, and how far the walk over grants is.
#[derive(Default)]
pub(super) struct List {
    entry: Option<Work>,
    walked: Option<u64>,
}

impl List {
    pub(super) fn note(&mut self, decision: &Decision) {
        match decision.work {
            Some(Work::Close) => self.entry = None,
            Some(work) => self.entry = Some(work),
            None => {}
        }
    }

    /// Once the walk has been there, whatever reads as PENDING has its entry.
    pub(super) fn check(&mut self, row: &Row, walks: bool) {
        let Some(record) = &row.record else {
            return;
        };
        if walks {
            self.walk(record, row);
        }
        if self.walked != Some(record.attempt.fence) {
            return;
        }
        match (record.state, row.reads()) {
            (State::Pending, Reading::Pending(uncertain)) => {
                let Some(Work::FindOut {
                    due,
                    since,
                    reason,
                    claim,
                }) = self.entry
                else {
                    panic!("nobody finds out about it: {:?}", self.entry);
                };
                assert_eq!(due, uncertain.next_check.max(record.attempt.lease_end));
                assert_eq!((since, reason), (uncertain.since, uncertain.reason));
                let noted = claim.filter(|(_, until)| row.now < *until);
                let runs = record.running_claim(row.now);
                assert_eq!(noted, runs.map(|claim| (claim.id, claim.lease_end)));
            }
            (_, Reading::Pending(_)) => {
                let comes = matches!(self.entry, Some(Work::Look { at }) if at <= row.now);
                assert!(comes, "nobody looks at it: {:?}", self.entry);
            }
            _ => {
                let open = matches!(self.entry, Some(Work::FindOut { .. }));
                assert!(!open, "nothing is to be found out");
            }
        }
    }

    /// Each grant is visited once; an entry that is there stays.
    fn walk(&mut self, record: &Record, row: &Row) {
        if self.walked.replace(record.attempt.fence) == Some(record.attempt.fence) {
            return;
        }
        let settled = match record.state {
            State::Processing | State::Pending => false,
            State::FailedRetryable => !record.unaccounted && !record.contradicted,
            State::Completed | State::FailedFinal => true,
        };
        let at = match record.state {
            State::Processing => record.attempt.lease_end,
            _ => row.now,
        };
        if !settled {
            self.entry.get_or_insert(Work::Look { at });
        }
    }
}
