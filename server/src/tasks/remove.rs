//! Removing what is old.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Pace, Upkeep, add};
use crate::store::Removed;

/// Between two rounds that found nothing more to do. What is removed reads as gone
/// already, so nobody waits for it.
const IDLE: Duration = Duration::from_secs(5);
/// So many are removed one step after the other, at most, before there is a pause.
const OWED_MAX: u64 = 100_000;

impl Upkeep {
    /// Removes bodies and records past their retention, in small steps.
    pub(super) async fn remove(&self) {
        let mut owed = Owed::default();
        let then = |removed: Removed| {
            add(&self.figures.bodies_removed, removed.bodies);
            add(&self.figures.records_removed, removed.records);
            owed.after(self.figures.visited.load(Ordering::Relaxed), removed)
        };
        self.repeat("removing what is old", IDLE, || self.store.remove(), then)
            .await;
    }
}

/// What is to be removed without a pause, so that no more comes than goes: for each grant
/// that this server's walk visited, one body and one record. Of all servers together that
/// is as many as were granted.
#[derive(Default)]
struct Owed {
    visited: u64,
    bodies: u64,
    records: u64,
}

impl Owed {
    /// When to go on after a step, with all that the walk has visited until then.
    fn after(&mut self, visited: u64, removed: Removed) -> Option<Pace> {
        let came = visited - self.visited;
        self.visited = visited;
        let mut at_once = false;
        for (owed, went) in [
            (&mut self.bodies, removed.bodies),
            (&mut self.records, removed.records),
        ] {
            *owed = (*owed + came).min(OWED_MAX).saturating_sub(went);
            at_once |= went > 0 && *owed > 0;
        }
        if !removed.more {
            // Nobody owes what is not due.
            (self.bodies, self.records) = (0, 0);
            return None;
        }
        Some(if at_once {
            Pace::AtOnce
        } else {
            Pace::AQuarterOfTheTime
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removed(bodies: u64, records: u64) -> Removed {
        Removed {
            bodies,
            records,
            more: true,
        }
    }

    #[test]
    fn as_many_go_without_a_pause_as_came() {
        let mut owed = Owed::default();
        assert_eq!(owed.after(1_200, removed(0, 500)), Some(Pace::AtOnce));
        assert_eq!(owed.after(1_200, removed(0, 500)), Some(Pace::AtOnce));
        let rest = owed.after(1_200, removed(0, 500));
        assert_eq!(rest, Some(Pace::AQuarterOfTheTime), "300 more than came");
        assert_eq!(owed.after(1_800, removed(0, 500)), Some(Pace::AtOnce));
    }

    #[test]
    fn bodies_and_records_are_counted_apart() {
        let mut owed = Owed::default();
        owed.after(400, removed(500, 0));
        let bodies = owed.after(400, removed(500, 0));
        assert_eq!(bodies, Some(Pace::AQuarterOfTheTime));
        assert_eq!(owed.after(400, removed(0, 300)), Some(Pace::AtOnce));
    }

    #[test]
    fn a_step_that_found_nothing_to_remove_does_not_hurry_the_next() {
        let mut owed = Owed::default();
        let pace = owed.after(5_000, removed(0, 0));
        assert_eq!(pace, Some(Pace::AQuarterOfTheTime));
    }

    #[test]
    fn what_came_while_nothing_was_due_is_not_owed() {
        let mut owed = Owed::default();
        let none = Removed {
            more: false,
            ..removed(0, 0)
        };
        assert_eq!(owed.after(1_000_000, none), None);
        let pace = owed.after(1_000_000, removed(500, 500));
        assert_eq!(pace, Some(Pace::AQuarterOfTheTime));
    }

    #[test]
    fn what_is_owed_has_an_end() {
        let mut owed = Owed::default();
        let pace = owed.after(10 * OWED_MAX, removed(0, OWED_MAX));
        assert_eq!(pace, Some(Pace::AQuarterOfTheTime));
    }
}
