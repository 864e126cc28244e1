//! The stores that the suite runs on, and how one is opened for a case.

use std::sync::Arc;
use std::time::Duration;

use reprise::store::embedded::{self, Embedded};
use reprise::store::{OnChange, Store, TestClock};
use reprise_domain::RecordId;
use reprise_domain::Timestamp;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::case::Case;

/// A moment in 2026, where the clock of each case begins.
const BEGINNING: Timestamp = Timestamp(1_780_000_000_000_000);
/// A case takes milliseconds; one that hangs fails.
const LIMIT: Duration = Duration::from_secs(60);

/// A store under test.
#[derive(Clone, Copy, Debug)]
pub(super) enum Backend {
    Embedded,
}

/// A store for one case, with what it needs to live.
pub(super) struct Opened {
    pub(super) store: Arc<dyn Store>,
    /// Kept until the case is over.
    _home: tempfile::TempDir,
}

impl Backend {
    pub(super) const ALL: [Self; 1] = [Self::Embedded];

    /// The module that the suite's macro makes for it.
    pub(super) fn module(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
        }
    }

    fn open(self, clock: &TestClock, on_change: OnChange) -> Opened {
        match self {
            Self::Embedded => open_embedded(clock, on_change),
        }
    }
}

fn open_embedded(clock: &TestClock, on_change: OnChange) -> Opened {
    let home = tempfile::tempdir().expect("a directory for the store");
    let options = embedded::Options {
        clock: Some(clock.clone()),
        on_change: Some(on_change),
        ..Default::default()
    };
    let store = Embedded::open(&home.path().join("store"), options).expect("the store opens");
    Opened {
        store: Arc::new(store),
        _home: home,
    }
}

/// Runs one case on a store of its own tenant and clock.
pub(super) fn run(backend: Backend, case: impl AsyncFnOnce(&Case)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let clock = TestClock::at(BEGINNING);
        let (changes, on_change) = changes();
        let opened = backend.open(&clock, on_change);
        let context = Case::new(opened.store.clone(), clock, changes);
        tokio::time::timeout(LIMIT, case(&context))
            .await
            .expect("the case ends within a minute");
    });
}

fn changes() -> (UnboundedReceiver<RecordId>, OnChange) {
    let (sender, changes) = unbounded_channel();
    let on_change = move |id: &RecordId| {
        // The case may be over while its last batch is announced.
        let _ = sender.send(*id);
    };
    (changes, Arc::new(on_change))
}
