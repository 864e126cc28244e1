//! Moments of the store's clock, in microseconds.

use std::time::Duration;

/// Microseconds since the Unix epoch, by the clock of the store. Moments are only ever
/// compared with moments of the same store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Later than every moment that a store can meet (year 5138), and far enough from
    /// the end of `i64` that adding any retention cannot overflow.
    pub const FAR: Self = Self(100_000_000_000_000_000);

    /// The moment `later` from now; saturates.
    #[must_use]
    pub fn after(self, later: Duration) -> Self {
        Self(self.0.saturating_add(micros(later)))
    }

    /// How long after `earlier` this is; zero when it is not later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let micros = self.0.saturating_sub(earlier.0).max(0);
        Duration::from_micros(micros.unsigned_abs())
    }
}

/// A duration in whole microseconds; saturates.
#[must_use]
pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
