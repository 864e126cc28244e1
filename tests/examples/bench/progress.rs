//! Tells on standard error how far the run is.

use std::time::{Duration, Instant};

/// How long the run has taken, and about how long it will take.
pub(crate) struct Progress {
    begun: Instant,
    /// Expected length of what is left after the part that is under way, in seconds.
    after: f64,
    part: (&'static str, Instant, f64),
}

impl Progress {
    /// Of a run whose parts take about `whole_s` seconds together.
    pub(crate) fn new(whole_s: f64) -> Self {
        Self {
            begun: Instant::now(),
            after: whole_s,
            part: ("setup", Instant::now(), 0.0),
        }
    }

    /// Begins a part that takes about `expected_s` seconds.
    pub(crate) fn part(&mut self, name: &'static str, expected_s: f64) {
        self.after -= expected_s;
        self.part = (name, Instant::now(), expected_s);
        self.say("begins");
    }

    pub(crate) fn say(&self, what: &str) {
        let (name, since, expected) = &self.part;
        let left = (expected - since.elapsed().as_secs_f64()).max(0.0) + self.after.max(0.0);
        let left = if left < 90.0 {
            format!("{left:.0} s")
        } else {
            format!("{:.0} min", left / 60.0)
        };
        eprintln!(
            "[{}, about {left} left] {name}: {what}",
            clock(self.begun.elapsed())
        );
    }
}

fn clock(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    #[test]
    fn a_clock_has_minutes_and_two_digits_of_seconds() {
        assert_eq!(super::clock(Duration::from_secs(9)), "0:09");
        assert_eq!(super::clock(Duration::from_secs(3_671)), "61:11");
    }
}
