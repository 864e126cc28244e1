//! Removing what is old.

use std::time::Duration;

use super::{Pace, Upkeep, add};

/// Between two rounds that found nothing more to do. What is removed reads as gone
/// already, so nobody waits for it.
const IDLE: Duration = Duration::from_secs(5);

impl Upkeep {
    /// Removes bodies and records past their retention, in small steps.
    pub(super) async fn remove(&self) {
        let step = || async {
            let removed = self.store.remove().await?;
            add(&self.figures.bodies_removed, removed.bodies);
            add(&self.figures.records_removed, removed.records);
            Ok(removed.more)
        };
        self.repeat("removing what is old", IDLE, Pace::AQuarterOfTheTime, step)
            .await;
    }
}
