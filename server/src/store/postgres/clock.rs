//! Does the database's clock go on? Compared with this process's monotonic clock, which
//! no one sets. A database clock that was set back could give a running lease away, so it
//! must not grant until somebody has looked.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reprise_domain::Timestamp;
use reprise_domain::time::micros;

/// A smaller step is within what time synchronisation does.
const STEP_BACK_MAX: Duration = Duration::from_secs(1);

/// What was last seen of the clock.
#[derive(Debug, Default)]
pub(super) struct Clock {
    last: Mutex<Option<(Timestamp, Instant)>>,
    stepped_back: AtomicBool,
}

impl Clock {
    /// The database said `now`, somewhere between `sent` and `received`.
    pub(super) fn observe(&self, now: Timestamp, sent: Instant, received: Instant) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((before, before_received)) = *last {
            // At least this much has passed since it said `before`; less than nothing when
            // this was sent first.
            let passed = micros(sent.saturating_duration_since(before_received))
                - micros(before_received.saturating_duration_since(sent));
            let behind = before.0.saturating_add(passed).saturating_sub(now.0);
            if behind > micros(STEP_BACK_MAX) && !self.stepped_back.swap(true, Ordering::SeqCst) {
                tracing::error!(
                    behind_us = behind,
                    "the database's clock was set back: nothing is granted until an operator \
                     has checked it and restarted this server"
                );
            }
        }
        // Answers may come out of order; the older one knows less.
        if last.is_none_or(|(_, known)| received > known) {
            *last = Some((now, received));
        }
    }

    /// No step back was seen since this process started.
    pub(super) fn is_steady(&self) -> bool {
        !self.stepped_back.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady_after(clock_ms: &[i64], passed_ms: &[u64]) -> bool {
        let (clock, start) = (Clock::default(), Instant::now());
        for (now, passed) in clock_ms.iter().zip(passed_ms) {
            let at = start + Duration::from_millis(*passed);
            clock.observe(Timestamp(now * 1000), at, at + Duration::from_millis(1));
        }
        clock.is_steady()
    }

    #[test]
    fn a_clock_that_goes_on_is_steady() {
        assert!(steady_after(&[0, 5_000, 60_000], &[0, 5_000, 60_000]));
    }

    #[test]
    fn half_a_second_back_is_synchronisation() {
        assert!(steady_after(&[10_000, 9_500], &[0, 0]));
    }

    #[test]
    fn two_seconds_back_stop_grants_for_good() {
        assert!(!steady_after(&[10_000, 8_000, 18_000], &[0, 0, 10_000]));
    }

    #[test]
    fn a_clock_that_stood_still_was_set_back() {
        assert!(!steady_after(&[10_000, 10_100], &[0, 5_000]));
    }

    #[test]
    fn a_slow_answer_is_no_step() {
        let (clock, start) = (Clock::default(), Instant::now());
        let later = start + Duration::from_secs(30);
        clock.observe(Timestamp(0), start, start);
        clock.observe(Timestamp(1), start, later);
        assert!(clock.is_steady());
    }

    #[test]
    fn an_answer_that_overtook_an_older_one_shows_no_step() {
        let (clock, start) = (Clock::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        clock.observe(Timestamp(4_000_000), at(4), at(4));
        clock.observe(Timestamp(0), at(0), at(5));
        assert!(clock.is_steady());
    }

    #[test]
    fn a_jump_ahead_is_left_to_operators() {
        assert!(steady_after(&[0, 3_600_000], &[0, 10]));
    }
}
