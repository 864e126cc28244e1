//! Repeats with another payload: counted in memory while calls are answered, written down
//! in the background. What a server that is killed has not written is lost; it rules
//! nothing.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::RngExt;
use reprise_domain::command::Command;
use reprise_domain::{RecordId, Request};
use reprise_fingerprint::Fingerprint;
use tokio_util::sync::CancellationToken;

use crate::grpc::Causes;
use crate::store::Store;

/// Pairs of record and fingerprint that are counted at once; further ones are not.
const PAIRS_MAX: usize = 4096;
/// Between two writings.
const PAUSE: Duration = Duration::from_secs(1);
/// For one writing. It holds no drain up for longer.
const WRITE_TIME: Duration = Duration::from_secs(1);

type Counts = HashMap<(RecordId, Fingerprint), u64>;

/// What was counted and not written down yet.
#[derive(Debug, Default)]
pub(crate) struct Mismatches(Mutex<Counts>);

impl Mismatches {
    /// Counts a Reserve that was answered that its payload is another one.
    pub(crate) fn note(&self, request: &Request) {
        let Command::Reserve(reserve) = &request.command else {
            return;
        };
        if let Some(fingerprint) = reserve.fingerprints.first() {
            self.add(request.name.id(), fingerprint.clone(), 1);
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, id: RecordId, fingerprint: Fingerprint, count: u64) {
        let mut counts = self.counts();
        let full = counts.len() >= PAIRS_MAX;
        match counts.entry((id, fingerprint)) {
            Entry::Occupied(mut counted) => *counted.get_mut() += count,
            Entry::Vacant(new) if !full => {
                new.insert(count);
            }
            Entry::Vacant(_) => {}
        }
    }

    /// Writes down again and again, until `closing`.
    pub(crate) async fn keep_written(
        self: Arc<Self>,
        store: Arc<dyn Store>,
        closing: CancellationToken,
    ) {
        let mut well = true;
        loop {
            let pause = PAUSE.mul_f64(rand::rng().random_range(0.75..=1.0));
            tokio::select! {
                () = closing.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            well = self.write(store.as_ref(), well).await;
        }
    }

    /// Writes down what was counted, and says whether it could: in the log only if it was
    /// `well` before. What could not be written is counted on.
    pub(crate) async fn write(&self, store: &dyn Store, well: bool) -> bool {
        let counted = std::mem::take(&mut *self.counts());
        if counted.is_empty() {
            return well;
        }
        let entries = counted.iter();
        let seen = entries.map(|((id, fingerprint), count)| (*id, fingerprint.clone(), *count));
        let writing = store.note_mismatches(seen.collect());
        match tokio::time::timeout(WRITE_TIME, writing).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                if well {
                    tracing::warn!(causes = %Causes(&error), "repeats with other payloads were not written down; it is tried again");
                }
                for ((id, fingerprint), count) in counted {
                    self.add(id, fingerprint, count);
                }
                false
            }
            // Whether it was written is not known: counting it twice would be wrong.
            Err(_) => {
                if well {
                    tracing::warn!("repeats with other payloads may not have been written down");
                }
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reprise_fingerprint::{RuleId, Scheme};

    fn fingerprint(digest: [u8; 32]) -> Fingerprint {
        Fingerprint {
            scheme: Scheme::Raw,
            rule: RuleId::none(),
            digest,
        }
    }

    #[test]
    fn pairs_are_bounded_and_those_that_are_counted_go_on() {
        let mismatches = Mismatches::default();
        for at in 0..100_000_u32 {
            let mut digest = [0; 32];
            digest[..4].copy_from_slice(&at.to_be_bytes());
            mismatches.add(RecordId([7; 32]), fingerprint(digest), 1);
        }
        assert_eq!(mismatches.counts().len(), PAIRS_MAX);
        mismatches.add(RecordId([7; 32]), fingerprint([0; 32]), 2);
        let pair = (RecordId([7; 32]), fingerprint([0; 32]));
        assert_eq!(mismatches.counts().get(&pair), Some(&3));
    }
}
