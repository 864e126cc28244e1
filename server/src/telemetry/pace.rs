//! Bounds how many lines one place in the code writes a second: a fault that each of a
//! thousand calls meets is told some times and counted.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::{Event, Level, Metadata};
use tracing_subscriber::layer::{Context, Filter};

use super::lines::Lines;

/// Lines of one place in each [`WINDOW`]. Those who ask for `debug` get all of its lines.
const LINES_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(1);

pub(super) struct Pace {
    lines: Lines,
    places: Mutex<HashMap<Identifier, Window>>,
}

struct Window {
    since: Instant,
    lines: u32,
}

impl Pace {
    pub(super) fn new(lines: Lines) -> Self {
        Self {
            lines,
            places: Mutex::default(),
        }
    }

    fn allows(&self, place: Identifier, now: Instant) -> bool {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let window = places.entry(place).or_insert(Window {
            since: now,
            lines: 0,
        });
        if now.saturating_duration_since(window.since) >= WINDOW {
            *window = Window {
                since: now,
                lines: 0,
            };
        }
        window.lines = window.lines.saturating_add(1);
        window.lines <= LINES_MAX
    }
}

impl<S> Filter<S> for Pace {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        let allowed =
            *metadata.level() > Level::INFO || self.allows(metadata.callsite(), Instant::now());
        if !allowed {
            self.lines.leave_out();
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LogFormat;

    #[test]
    fn a_place_is_heard_some_times_a_window_and_others_beside_it() {
        let lines = Lines::start(LogFormat::Human, std::io::sink()).unwrap();
        let pace = Pace::new(lines);
        let (one, other) = (
            tracing::callsite!(name: "one", kind: tracing::metadata::Kind::EVENT, fields: a),
            tracing::callsite!(name: "other", kind: tracing::metadata::Kind::EVENT, fields: a),
        );
        let id = |callsite: &'static dyn tracing::Callsite| callsite.metadata().callsite();
        let now = Instant::now();
        let heard = |place, count: u32, now| {
            (0..count).filter(|_| pace.allows(id(place), now)).count() as u32
        };
        assert_eq!(heard(one, 1000, now), LINES_MAX);
        assert_eq!(heard(other, 1, now), 1);
        assert_eq!(heard(one, 1, now + WINDOW - Duration::from_nanos(1)), 0);
        assert_eq!(heard(one, 1000, now + WINDOW), LINES_MAX);
    }
}
