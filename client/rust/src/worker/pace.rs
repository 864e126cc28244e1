//! When to look again: at a record that stays unknown, and for records when none is due.

use std::time::Duration;

use rand::RngExt;

/// Pauses between the looks at one record: as long as it has been pending so far, which
/// doubles from look to look without anything to remember.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackOff {
    pub(super) first: Duration,
    pub(super) max: Duration,
}

impl BackOff {
    /// Until the next look at a record that has been pending for `age`; shortened at random
    /// by up to a fifth, so that an outage's records do not all come due at once.
    pub(super) fn after(&self, age: Duration) -> Duration {
        shortened(age.max(self.first).min(self.max))
    }
}

/// Pauses between two claims: they double while nothing is due, or nobody answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Polls {
    first: Duration,
    max: Duration,
    next: Duration,
}

impl Polls {
    pub(super) fn new(first: Duration, max: Duration) -> Polls {
        Polls {
            first,
            max: max.max(first),
            next: first,
        }
    }

    pub(super) fn reset(&mut self) {
        self.next = self.first;
    }

    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.max);
        shortened(pause)
    }
}

fn shortened(pause: Duration) -> Duration {
    pause.mul_f64(rand::rng().random_range(0.8..=1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn about(pause: Duration, full: Duration) -> bool {
        (full.mul_f64(0.799)..=full).contains(&pause)
    }

    #[test]
    fn a_record_is_looked_at_again_after_as_long_as_it_has_been_pending_within_bounds() {
        let back_off = BackOff {
            first: SECOND * 60,
            max: SECOND * 3600,
        };
        for (age, full) in [
            (0, 60),
            (59, 60),
            (60, 60),
            (120, 120),
            (3600, 3600),
            (99_999, 3600),
        ] {
            let pause = back_off.after(SECOND * age);
            assert!(about(pause, SECOND * full), "{age} s: {pause:?}");
        }
    }

    #[test]
    fn claims_are_asked_for_ever_less_often_until_one_comes() {
        let mut polls = Polls::new(SECOND, SECOND * 5);
        for full in [1, 2, 4, 5, 5] {
            let pause = polls.pause();
            assert!(about(pause, SECOND * full), "{full}: {pause:?}");
        }
        polls.reset();
        assert!(about(polls.pause(), SECOND));
    }
}
