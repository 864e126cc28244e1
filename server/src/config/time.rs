//! Durations as people write them: a whole number and its unit.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

/// A duration such as `250ms`, `30s`, `15m`, `72h` or `35d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

/// A text is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a whole number and one of ms, s, m, h, d, such as 30s")]
pub struct NotATime;

const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

impl FromStr for Time {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| NotATime)?;
        let (_, millis) = UNITS
            .iter()
            .find(|(name, _)| *name == unit.trim_start())
            .ok_or(NotATime)?;
        let millis = number.checked_mul(*millis).ok_or(NotATime)?;
        Ok(Self(Duration::from_millis(millis)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let whole = |(_, unit): &&(&str, u64)| millis > 0 && millis.is_multiple_of(*unit);
        let (name, unit) = UNITS.iter().rev().find(whole).unwrap_or(&UNITS[1]);
        write!(f, "{}{name}", millis / unit)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written_in_the_largest_unit_that_is_exact() {
        for (text, millis, written) in [
            ("0s", 0, "0s"),
            ("250ms", 250, "250ms"),
            ("1500 ms", 1500, "1500ms"),
            ("90s", 90_000, "90s"),
            ("60m", 3_600_000, "1h"),
            ("35d", 35 * 86_400_000, "35d"),
        ] {
            let time: Time = text.parse().unwrap();
            assert_eq!(time.0, Duration::from_millis(millis), "{text}");
            assert_eq!(time.to_string(), written);
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "s", "30", "-1s", "1.5s", "1w", "99999999999999999999s"] {
            assert_eq!(text.parse::<Time>(), Err(NotATime), "{text:?}");
        }
    }
}
