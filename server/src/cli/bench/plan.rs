//! What is asked for, checked as a whole.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::BenchFlags;
use crate::cli::exit::Error;

/// Lease of the attempts that hold the keys of [`Mix::Busy`]: the longest there is.
pub(super) const BUSY_LEASE: Duration = Duration::from_mins(15);
/// How long a run with [`Mix::Busy`] may take, since its keys must be held until the end.
const BUSY_RUN_MAX: Duration = Duration::from_mins(14);
/// How long hot-key waits where nothing is said.
const HOT_WAIT: Duration = Duration::from_secs(5);
/// How long the winner of a hot key holds it where nothing is said.
const HOT_HOLD: Duration = Duration::from_millis(2);
/// Largest weight.
const WEIGHT_MAX: u32 = 1_000;
/// Largest rate, in operations a second.
const RATE_MAX: f64 = 1_000_000.0;

/// One kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mix {
    /// Reserve of a fresh key, and Complete.
    Lifecycle,
    /// Reserve of a fresh key.
    Reserve,
    /// Reserve of a completed key.
    Replay,
    /// Reserve of a key that another attempt holds.
    Busy,
    /// Reserve of a completed key with another payload.
    Mismatch,
    /// Lookup of a completed key, with its result.
    Lookup,
    /// All callers reserve one key: one wins and completes it, the others get its result.
    HotKey,
}

impl Mix {
    pub(super) const ALL: [Mix; 7] = [
        Mix::Lifecycle,
        Mix::Reserve,
        Mix::Replay,
        Mix::Busy,
        Mix::Mismatch,
        Mix::Lookup,
        Mix::HotKey,
    ];

    /// As flags and reports have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Mix::Lifecycle => "lifecycle",
            Mix::Reserve => "reserve",
            Mix::Replay => "replay",
            Mix::Busy => "busy",
            Mix::Mismatch => "mismatch",
            Mix::Lookup => "lookup",
            Mix::HotKey => "hot-key",
        }
    }

    /// Asks for keys that were completed before.
    fn needs_completed(self) -> bool {
        matches!(self, Mix::Replay | Mix::Mismatch | Mix::Lookup)
    }
}

/// Kinds of operations with their weights, at least one, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mixes(Vec<(Mix, u32)>);

impl Mixes {
    pub(super) fn iter(&self) -> impl Iterator<Item = (Mix, u32)> {
        self.0.iter().copied()
    }

    fn contains(&self, mix: Mix) -> bool {
        self.iter().any(|(known, _)| known == mix)
    }

    /// The kind of one operation, drawn by weight.
    pub(super) fn draw(&self) -> Mix {
        match *self.0 {
            [(only, _)] => only,
            _ => self.at(rand::random_range(0..self.weight())),
        }
    }

    fn weight(&self) -> u32 {
        self.iter().map(|(_, weight)| weight).sum()
    }

    /// The kind that the `place`th of all weights belongs to.
    fn at(&self, mut place: u32) -> Mix {
        for (mix, weight) in self.iter() {
            match place.checked_sub(weight) {
                Some(rest) => place = rest,
                None => return mix,
            }
        }
        self.0[0].0
    }
}

impl FromStr for Mixes {
    type Err = String;

    fn from_str(text: &str) -> Result<Mixes, String> {
        let mut mixes: Vec<(Mix, u32)> = Vec::new();
        for part in text.split(',') {
            let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
            let mix = Mix::ALL.into_iter().find(|mix| mix.name() == name.trim());
            let mix = mix.ok_or_else(|| {
                let names = Mix::ALL.map(Mix::name).join(", ");
                format!("there is no {name:?}; must be of {names}")
            })?;
            let weight = weight.trim().parse().ok();
            let weight = weight.filter(|weight| (1..=WEIGHT_MAX).contains(weight));
            let weight =
                weight.ok_or_else(|| format!("the weight of {name} must be 1 to {WEIGHT_MAX}"))?;
            if mixes.iter().any(|(known, _)| *known == mix) {
                return Err(format!("{name} is there twice"));
            }
            mixes.push((mix, weight));
        }
        Ok(Mixes(mixes))
    }
}

impl fmt::Display for Mixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(only, _)] = *self.0 {
            return f.write_str(only.name());
        }
        for (n, (mix, weight)) in self.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            write!(f, "{comma}{}={weight}", mix.name())?;
        }
        Ok(())
    }
}

/// Reads operations a second.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok();
    let rate = rate.filter(|rate| *rate > 0.0 && *rate <= RATE_MAX);
    rate.ok_or_else(|| {
        format!("must be over 0 and at most {RATE_MAX}; leave it out for a closed loop")
    })
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// After this time was measured.
    Time(Duration),
    /// After so many operations were measured.
    Count(u64),
}

/// One run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) mixes: Mixes,
    pub(super) tenant: String,
    pub(super) operation: String,
    pub(super) connections: usize,
    pub(super) concurrency: usize,
    pub(super) until: Until,
    pub(super) warm_up: Duration,
    /// Operations a second in an open loop; none in a closed one.
    pub(super) rate: Option<f64>,
    /// Records of each kind that is made before.
    pub(super) keys: usize,
    pub(super) payload_bytes: usize,
    pub(super) result_bytes: usize,
    wait: Option<Duration>,
    hold: Option<Duration>,
}

impl Plan {
    /// What the flags say.
    ///
    /// # Errors
    /// Says which flags do not go together.
    pub(super) fn new(flags: &BenchFlags) -> Result<Plan, Error> {
        let until = match (flags.count, flags.duration) {
            (Some(count), _) => Until::Count(count),
            (None, duration) => Until::Time(duration.unwrap_or(Duration::from_secs(10))),
        };
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let connections = flags.connections.min(flags.concurrency);
        let plan = Plan {
            mixes: flags.mix.clone(),
            tenant: flags.tenant.clone(),
            operation: flags.operation.clone(),
            connections: size(connections.into()),
            concurrency: size(flags.concurrency.into()),
            until,
            warm_up: flags.warm_up,
            rate: flags.rate,
            keys: size(flags.keys.into()),
            payload_bytes: size(flags.payload_bytes),
            result_bytes: size(flags.result_bytes),
            wait: flags.wait,
            hold: flags.hold,
        };
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), Error> {
        if self.wait.is_some() && !self.needs_held() && !self.mixes.contains(Mix::HotKey) {
            let told = "--wait: only hot-key and busy wait; name one in --mix";
            return Err(Error::Usage(told.to_owned()));
        }
        if self.hold.is_some() && !self.mixes.contains(Mix::HotKey) {
            let told = "--hold: only hot-key holds; name it in --mix";
            return Err(Error::Usage(told.to_owned()));
        }
        if let Until::Time(time) = self.until
            && self.needs_held()
            && time + self.warm_up > BUSY_RUN_MAX
        {
            let told = "--duration: a run with busy may take 14m with its warm-up, \
                        since no lease is longer than 15m";
            return Err(Error::Usage(told.to_owned()));
        }
        Ok(())
    }

    /// How long `mix` lets the server hold its answer.
    pub(super) fn wait(&self, mix: Mix) -> Duration {
        match mix {
            Mix::HotKey => self.wait.unwrap_or(HOT_WAIT),
            Mix::Busy => self.wait.unwrap_or_default(),
            _ => Duration::ZERO,
        }
    }

    /// How long the winner of a hot key holds it before it completes it.
    pub(super) fn hold(&self) -> Duration {
        self.hold.unwrap_or(HOT_HOLD)
    }

    /// The longest of all waits.
    pub(super) fn wait_max(&self) -> Duration {
        let waits = self.mixes.iter().map(|(mix, _)| self.wait(mix));
        waits.max().unwrap_or_default()
    }

    /// Whether completed records are to be there before.
    pub(super) fn needs_completed(&self) -> bool {
        self.mixes.iter().any(|(mix, _)| mix.needs_completed())
    }

    /// Whether records that somebody holds are to be there before.
    pub(super) fn needs_held(&self) -> bool {
        self.mixes.contains(Mix::Busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_read_with_and_without_weights() {
        let mixes: Mixes = "lifecycle=3,replay".parse().expect("mixes");
        assert_eq!(mixes, Mixes(vec![(Mix::Lifecycle, 3), (Mix::Replay, 1)]));
        assert_eq!(mixes.to_string(), "lifecycle=3,replay=1");
        let one: Mixes = "hot-key".parse().expect("one");
        assert_eq!(one.to_string(), "hot-key");
        for (bad, told) in [
            ("", "must be of lifecycle, reserve,"),
            ("lifecycle,", "there is no \"\""),
            ("everything", "there is no \"everything\""),
            ("busy=0", "the weight of busy must be 1 to 1000"),
            ("busy=x", "the weight of busy must be 1 to 1000"),
            ("busy,busy=2", "busy is there twice"),
        ] {
            let error = bad.parse::<Mixes>().expect_err(bad);
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn each_mix_has_as_many_places_as_its_weight() {
        let mixes: Mixes = "lifecycle=2,busy=1,lookup=3".parse().expect("mixes");
        let drawn: Vec<_> = (0..mixes.weight()).map(|it| mixes.at(it)).collect();
        assert_eq!(
            drawn,
            [
                Mix::Lifecycle,
                Mix::Lifecycle,
                Mix::Busy,
                Mix::Lookup,
                Mix::Lookup,
                Mix::Lookup
            ]
        );
    }

    #[test]
    fn a_rate_is_a_number_over_0() {
        assert_eq!(rate("0.5"), Ok(0.5));
        for bad in ["0", "-1", "NaN", "inf", "fast", "1000001"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }
}
