//! The store's clock: the system's, but never going back within the file's life.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use reprise_domain::Timestamp;
use reprise_domain::time::micros;

use crate::store::TestClock;

/// What a system clock may be behind the file without a word.
const TOLERATED: Duration = Duration::from_mins(1);

pub(super) struct Clock {
    test: Option<TestClock>,
    /// The latest moment that was read, and when that was by a clock that nobody sets.
    last: Mutex<(Timestamp, Instant)>,
}

impl Clock {
    /// A clock that starts no earlier than `seen`.
    pub(super) fn new(seen: Timestamp, test: Option<TestClock>) -> Self {
        if test.is_none()
            && let Some(ahead) = far_ahead(seen, system())
        {
            tracing::warn!(
                ahead_seconds = ahead.as_secs(),
                "the store has seen a later moment than the system clock shows: its time goes \
                 on from there, and leases and retention end by it, until the system clock \
                 has caught up; if that is right now, it was wrong when the store was last \
                 served"
            );
        }
        Self {
            test,
            last: Mutex::new((seen, Instant::now())),
        }
    }

    /// Follows the system's clock. While that one is behind, time goes on from the last
    /// moment: one that stood still would let no lease end.
    pub(super) fn now(&self) -> Timestamp {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let at = Instant::now();
        let now = match &self.test {
            Some(test) => last.0.max(test.now()),
            None => last.0.after(at - last.1).max(system()),
        };
        *last = (now, at);
        now
    }
}

/// By how much the file is ahead of the system's clock, when that is more than chance.
fn far_ahead(seen: Timestamp, system: Timestamp) -> Option<Duration> {
    let ahead = u64::try_from(seen.0.saturating_sub(system.0)).unwrap_or(0);
    let ahead = Duration::from_micros(ahead);
    (ahead > TOLERATED).then_some(ahead)
}

fn system() -> Timestamp {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(Timestamp(0), |since| Timestamp(micros(since)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_clock_that_is_behind_neither_turns_time_back_nor_stops_it() {
        let seen = system().after(Duration::from_hours(1));
        let clock = Clock::new(seen, None);
        let first = clock.now();
        assert!(first >= seen);
        while clock.now() == first {
            std::hint::spin_loop();
        }
        assert!(clock.now() < seen.after(Duration::from_mins(30)));
    }

    #[test]
    fn a_test_clock_that_is_behind_stands_at_what_was_seen() {
        let clock = Clock::new(Timestamp(5), Some(TestClock::at(Timestamp(3))));
        assert_eq!(clock.now(), Timestamp(5));
    }

    #[test]
    fn a_file_far_ahead_of_the_system_clock_is_told() {
        let system = Timestamp(1_780_000_000_000_000);
        let ahead = |by| far_ahead(system.after(by), system);
        assert_eq!(ahead(Duration::from_mins(1)), None);
        assert_eq!(ahead(Duration::from_mins(2)), Some(Duration::from_mins(2)));
        assert_eq!(far_ahead(Timestamp(0), system), None);
    }
}
