//! What happened, counted: latencies, errors, wrong answers. One thread writes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::plan::Mix;
use super::schedule::Window;
use super::wire::Failure;

/// Latencies are kept to three digits, in nanoseconds, to an hour.
const SHORTEST_NS: u64 = 1_000;
const LONGEST_NS: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rpc {
    Reserve,
    Complete,
    Lookup,
}

impl Rpc {
    pub(super) const ALL: [Rpc; 3] = [Rpc::Reserve, Rpc::Complete, Rpc::Lookup];

    /// As reports have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Rpc::Reserve => "reserve",
            Rpc::Complete => "complete",
            Rpc::Lookup => "lookup",
        }
    }

    /// As it is called.
    pub(super) fn path(self) -> &'static str {
        match self {
            Rpc::Reserve => "/reprise.v1.RepriseService/Reserve",
            Rpc::Complete => "/reprise.v1.RepriseService/Complete",
            Rpc::Lookup => "/reprise.v1.RepriseService/Lookup",
        }
    }
}

/// Why an operation is not one that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A call has no answer, or one that says nothing about a promise.
    Failed(Failure),
    /// An answer that breaks a promise: says which.
    Wrong(&'static str),
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Fault {
        Fault::Failed(failure)
    }
}

/// How long things of one kind took.
#[derive(Clone, Debug)]
pub(super) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(super) fn new() -> Latencies {
        let histogram = Histogram::new_with_bounds(SHORTEST_NS, LONGEST_NS, DIGITS);
        Latencies(histogram.expect("bounds in order and three digits are allowed"))
    }

    fn add(&mut self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(LONGEST_NS);
        self.0.saturating_record(nanos);
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    /// In milliseconds; 0 of nothing.
    pub(super) fn mean_ms(&self) -> f64 {
        self.0.mean() / 1e6
    }

    /// What `percent` of 100 took at most, in milliseconds; 0 of nothing.
    pub(super) fn percentile_ms(&self, percent: f64) -> f64 {
        self.0.value_at_percentile(percent) as f64 / 1e6
    }

    /// The longest, in milliseconds; 0 of nothing.
    pub(super) fn max_ms(&self) -> f64 {
        self.0.max() as f64 / 1e6
    }
}

/// The operations of one kind.
#[derive(Clone, Debug)]
pub(super) struct Operations {
    /// Carried out in the measured time.
    pub(super) count: u64,
    pub(super) latencies: Latencies,
}

/// Everything that happened.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    window: Window,
    /// By [`Mix`]; none where there were none.
    operations: [Option<Operations>; Mix::ALL.len()],
    /// By [`Rpc`]; none where there were none.
    calls: [Option<Latencies>; Rpc::ALL.len()],
    /// By code and reason, from the warm-up on.
    pub(super) errors: BTreeMap<String, u64>,
    /// By the promise that was broken, from the warm-up on.
    pub(super) wrong: BTreeMap<&'static str, u64>,
    /// Carried out, with those that are not of the measured time.
    pub(super) all: u64,
    /// When the last operation of the measured time ended.
    pub(super) last: Instant,
}

impl Tally {
    pub(super) fn new(window: Window) -> Tally {
        Tally {
            window,
            operations: Default::default(),
            calls: Default::default(),
            errors: BTreeMap::new(),
            wrong: BTreeMap::new(),
            all: 0,
            last: window.begin,
        }
    }

    /// Adds an answered call of an operation that was due at `due`.
    pub(super) fn call(&mut self, rpc: Rpc, due: Instant, sent: Instant, answered: Instant) {
        if self.window.share(due, answered).timed {
            let calls = self.calls[rpc as usize].get_or_insert_with(Latencies::new);
            calls.add(answered - sent);
        }
    }

    /// Adds an operation.
    pub(super) fn operation(
        &mut self,
        mix: Mix,
        due: Instant,
        finished: Instant,
        end: Result<(), Fault>,
    ) {
        let share = self.window.share(due, finished);
        if share.counts {
            self.last = self.last.max(finished);
        }
        match end {
            Err(Fault::Failed(Failure(told))) => *self.errors.entry(told).or_default() += 1,
            Err(Fault::Wrong(what)) => *self.wrong.entry(what).or_default() += 1,
            Ok(()) => {
                self.all += 1;
                let operations = self.operations[mix as usize].get_or_insert_with(|| Operations {
                    count: 0,
                    latencies: Latencies::new(),
                });
                operations.count += u64::from(share.counts);
                if share.timed {
                    operations.latencies.add(finished - due);
                }
            }
        }
    }

    /// What was done of one kind.
    pub(super) fn of(&self, mix: Mix) -> Option<&Operations> {
        self.operations[mix as usize].as_ref()
    }

    /// The calls of one rpc.
    pub(super) fn calls(&self, rpc: Rpc) -> Option<&Latencies> {
        self.calls[rpc as usize].as_ref()
    }

    /// Carried out in the measured time.
    pub(super) fn count(&self) -> u64 {
        self.operations.iter().flatten().map(|it| it.count).sum()
    }

    /// What went wrong so far, for people who watch.
    pub(super) fn faults(&self) -> u64 {
        self.errors.values().chain(self.wrong.values()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn tally(open: bool) -> (Tally, Instant) {
        let begin = Instant::now();
        let end = Some(begin + SECOND * 10);
        (Tally::new(Window { begin, end, open }), begin)
    }

    #[test]
    fn a_stall_counts_for_every_operation_that_was_due() {
        let (mut tally, begin) = tally(true);
        // One is due each second, and the server answers nothing before the ninth.
        let answered = begin + SECOND * 9;
        for number in 0..9 {
            let due = begin + SECOND * number;
            tally.call(Rpc::Reserve, due, due, answered);
            tally.operation(Mix::Reserve, due, answered, Ok(()));
        }
        let operations = tally.of(Mix::Reserve).expect("some");
        assert_eq!((operations.count, operations.latencies.count()), (9, 9));
        let near = |ms: f64, expected: f64| assert!((ms / expected - 1.0).abs() < 0.01, "{ms}");
        near(operations.latencies.percentile_ms(50.0), 5_000.0);
        near(operations.latencies.max_ms(), 9_000.0);
        near(tally.calls(Rpc::Reserve).expect("some").mean_ms(), 5_000.0);
    }

    #[test]
    fn what_is_of_the_warm_up_is_not_timed_but_its_faults_are_told() {
        let (mut tally, begin) = tally(false);
        let (due, finished) = (begin - SECOND * 2, begin - SECOND);
        tally.operation(Mix::Busy, due, finished, Ok(()));
        let failed = Failure("UNAVAILABLE STORE_UNAVAILABLE".to_owned());
        tally.operation(Mix::Busy, due, finished, Err(failed.into()));
        tally.operation(Mix::Busy, due, finished, Err(Fault::Wrong("a lie")));
        assert_eq!((tally.all, tally.count(), tally.faults()), (1, 0, 2));
        assert_eq!(tally.errors["UNAVAILABLE STORE_UNAVAILABLE"], 1);
        assert_eq!(tally.wrong["a lie"], 1);
        assert_eq!(tally.of(Mix::Busy).expect("one").latencies.count(), 0);
    }
}
