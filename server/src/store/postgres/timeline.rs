//! Which primary is the newest? Every promotion begins a timeline with a higher number; a
//! former primary that wakes up still writes its own.

use std::sync::atomic::{AtomicU32, Ordering};

/// The highest timeline seen.
#[derive(Debug, Default)]
pub(super) struct Timeline(AtomicU32);

/// What an answer's timeline says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Observed {
    /// The highest one, or the first.
    Known,
    /// A promotion took place.
    Risen,
    /// The answer is from before a promotion, or no timeline at all.
    Left,
}

impl Timeline {
    /// `digits` are the first eight of a WAL file's name.
    pub(super) fn observe(&self, digits: &str) -> Observed {
        let Ok(timeline) = u32::from_str_radix(digits, 16) else {
            return Observed::Left;
        };
        let highest = self.0.fetch_max(timeline, Ordering::SeqCst);
        if timeline < highest {
            Observed::Left
        } else if timeline == highest || highest == 0 {
            Observed::Known
        } else {
            Observed::Risen
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_timeline_is_refused_after_a_promotion() {
        let timeline = Timeline::default();
        assert_eq!(timeline.observe("00000009"), Observed::Known);
        assert_eq!(timeline.observe("00000009"), Observed::Known);
        assert_eq!(timeline.observe("0000000A"), Observed::Risen);
        assert_eq!(timeline.observe("00000009"), Observed::Left);
        assert_eq!(timeline.observe("0000000A"), Observed::Known);
    }

    #[test]
    fn what_is_no_timeline_is_refused() {
        assert_eq!(Timeline::default().observe("pg_wal"), Observed::Left);
    }
}
