//! Durations in flags, with their ranges, and as people read them.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::config::Time;

/// Units from the largest down, in milliseconds, as they are shown.
const UNITS: [(&str, u64); 4] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("min", 60_000),
    ("s", 1_000),
];

/// Reads a duration as settings have it. A bare `0` needs no unit.
///
/// # Errors
/// Says which form is allowed.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let time: Time = text.parse().map_err(|error| format!("{error}"))?;
    Ok(time.0)
}

/// A parser for one flag that accepts `range` only.
pub(crate) fn within(
    range: RangeInclusive<Duration>,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let duration = parse(text)?;
        if range.contains(&duration) {
            return Ok(duration);
        }
        let (least, most) = (Time(*range.start()), Time(*range.end()));
        Err(format!("must be {least} to {most}"))
    }
}

/// As [`within`], and 0.
pub(crate) fn zero_or_within(
    range: RangeInclusive<Duration>,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    let positive = within(range);
    move |text| match parse(text)? {
        Duration::ZERO => Ok(Duration::ZERO),
        _ => positive(text).map_err(|allowed| format!("{allowed}, or 0")),
    }
}

/// Writes a duration for people, in two units at most.
pub(crate) fn show(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if (1..1_000).contains(&millis) {
        return format!("{millis} ms");
    }
    if millis < 60_000 && !millis.is_multiple_of(1_000) {
        return format!("{}.{} s", millis / 1_000, millis % 1_000 / 100);
    }
    let mut parts = Vec::new();
    let mut rest = millis;
    for (unit, scale) in UNITS {
        if rest >= scale && parts.len() < 2 {
            parts.push(format!("{} {unit}", rest / scale));
            rest %= scale;
        }
    }
    if parts.is_empty() {
        return "0 s".to_owned();
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_shown_in_two_units_at_most() {
        for (text, shown) in [
            ("0", "0 s"),
            ("100ms", "100 ms"),
            ("1500ms", "1.5 s"),
            ("30s", "30 s"),
            ("15m", "15 min"),
            ("90s", "1 min 30 s"),
            ("72h", "3 d"),
            ("26h", "1 d 2 h"),
        ] {
            assert_eq!(parse(text).map(show).as_deref(), Ok(shown), "{text}");
        }
    }

    #[test]
    fn a_flags_range_is_named_when_it_is_left() {
        let lease = within(Duration::from_millis(100)..=Duration::from_mins(15));
        assert!(lease("100ms").is_ok() && lease("15m").is_ok());
        assert_eq!(lease("16m"), Err("must be 100ms to 15m".to_owned()));
        let renewal = zero_or_within(Duration::from_millis(100)..=Duration::from_mins(15));
        assert_eq!(renewal("0"), Ok(Duration::ZERO));
        assert_eq!(renewal("1ms"), Err("must be 100ms to 15m, or 0".to_owned()));
    }
}
