//! How long the holder may rely on being the only one. Counted on this machine's
//! monotonic clock from the moment the request was sent, which is before the server
//! decided: the count is never longer than the server's.

use std::time::Duration;

use tokio::time::Instant;

/// A lease as its holder counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    ends: Instant,
    length: Duration,
}

impl Lease {
    /// `remaining` as answered to a request sent at `sent`; `length` is the whole lease.
    pub(crate) fn counted(sent: Instant, remaining: Duration, length: Duration) -> Lease {
        Lease {
            ends: sent + remaining,
            length: length.max(remaining),
        }
    }

    /// When it ends.
    pub fn ends(&self) -> Instant {
        self.ends
    }

    /// What is left of it; zero when it is over.
    pub fn remaining(&self) -> Duration {
        self.ends.saturating_duration_since(Instant::now())
    }

    /// The whole of it.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// Whether at least a third is left. With less, no effect begins.
    pub fn enough_to_begin(&self) -> bool {
        self.remaining() * 3 >= self.length && !self.remaining().is_zero()
    }
}
