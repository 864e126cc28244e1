//! When operations are due, and which of them belong to the measured time. Pure.

use std::time::{Duration, Instant};

/// When the operations of an open loop are due: evenly, from `begin` on, whatever became of
/// those before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    begin: Instant,
    /// Seconds from one to the next.
    every: f64,
}

impl Schedule {
    /// `rate` operations a second, over 0.
    pub(super) fn new(begin: Instant, rate: f64) -> Schedule {
        let every = 1.0 / rate;
        Schedule { begin, every }
    }

    /// When the operation of this number is due, from 0.
    pub(super) fn due(&self, number: u64) -> Instant {
        self.begin + Duration::from_secs_f64(number as f64 * self.every)
    }

    /// How many are due before `moment`.
    pub(super) fn due_before(&self, moment: Instant) -> u64 {
        let since = moment.saturating_duration_since(self.begin).as_secs_f64();
        let mut count = (since / self.every) as u64;
        // What is computed in fractions may be off by one.
        while count > 0 && self.due(count - 1) >= moment {
            count -= 1;
        }
        while self.due(count) < moment {
            count += 1;
        }
        count
    }
}

/// How an operation belongs to the measured time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// It counts as one that was carried out.
    pub(super) counts: bool,
    /// Its latency, and that of its calls, counts.
    pub(super) timed: bool,
}

/// The measured time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) begin: Instant,
    /// None: it ends with the last operation.
    pub(super) end: Option<Instant>,
    /// Operations are due at times of their own.
    pub(super) open: bool,
}

impl Window {
    /// What an operation that was due, in a closed loop begun, at `due` and ended at
    /// `finished` is to the measured time.
    ///
    /// A count is of operations that begin after the warm-up. With an end, what finished
    /// before it counts. The latencies of an open loop are those of operations that were
    /// due before it, also where they finish later: else a server that stalls at the end
    /// would look as if nothing had been asked of it.
    pub(super) fn share(&self, due: Instant, finished: Instant) -> Share {
        let Some(end) = self.end else {
            let counts = due >= self.begin;
            return Share {
                counts,
                timed: counts,
            };
        };
        let within = |moment| (self.begin..end).contains(&moment);
        let counts = within(finished);
        let timed = within(if self.open { due } else { finished });
        Share { counts, timed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn operations_are_due_evenly_whatever_happens() {
        let begin = Instant::now();
        let schedule = Schedule::new(begin, 4.0);
        assert_eq!(schedule.due(0), begin);
        assert_eq!(schedule.due(6), begin + SECOND * 3 / 2);
        assert_eq!(schedule.due_before(begin), 0);
        assert_eq!(schedule.due_before(begin + Duration::from_nanos(1)), 1);
        assert_eq!(schedule.due_before(begin + SECOND), 4);
        for rate in [0.3, 7.0, 3_333.0, 999_983.0] {
            let schedule = Schedule::new(begin, rate);
            for number in [1, 10, 12_345, 7_654_321] {
                assert_eq!(schedule.due_before(schedule.due(number)), number, "{rate}");
            }
        }
    }

    #[test]
    fn a_closed_loop_measures_what_finishes_in_time() {
        let begin = Instant::now();
        let window = Window {
            begin,
            end: Some(begin + SECOND),
            open: false,
        };
        let share = |due: Instant, finished: Instant| {
            let Share { counts, timed } = window.share(due, finished);
            assert_eq!(counts, timed);
            counts
        };
        assert!(share(begin - SECOND, begin));
        assert!(!share(begin - SECOND, begin - SECOND / 2));
        assert!(!share(begin, begin + SECOND));
    }

    #[test]
    fn an_open_loop_times_what_was_due_although_it_finished_late() {
        let begin = Instant::now();
        let window = Window {
            begin,
            end: Some(begin + SECOND),
            open: true,
        };
        let late = window.share(begin + SECOND / 2, begin + SECOND * 9);
        assert_eq!((late.counts, late.timed), (false, true));
        let of_the_warm_up = window.share(begin - SECOND, begin);
        assert_eq!((of_the_warm_up.counts, of_the_warm_up.timed), (true, false));
    }

    #[test]
    fn a_count_measures_what_begins_after_the_warm_up() {
        let begin = Instant::now();
        let window = Window {
            begin,
            end: None,
            open: false,
        };
        assert!(window.share(begin, begin + SECOND * 99).counts);
        assert!(!window.share(begin - SECOND, begin + SECOND).counts);
    }
}
