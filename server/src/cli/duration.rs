//! Durations as people write and read them: `30s`, `500ms`, `1h30m`, `35d`.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Units from the largest down, in milliseconds.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

const FORM: &str = "a duration such as 500ms, 30s, 1h30m or 35d";

/// Reads a duration: whole numbers, each with a unit, largest unit first or not. A bare
/// `0` needs none.
///
/// # Errors
/// Says which form is allowed.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("must be {FORM}");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut millis: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        let letters = after.len()
            - after
                .trim_start_matches(|c: char| c.is_ascii_alphabetic())
                .len();
        let (unit, after) = after.split_at(letters);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let (_, scale) = UNITS
            .into_iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(wrong)?;
        millis = number
            .checked_mul(scale)
            .and_then(|part| millis.checked_add(part))
            .ok_or_else(wrong)?;
        rest = after;
    }
    if text.is_empty() {
        return Err(wrong());
    }
    Ok(Duration::from_millis(millis))
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
        let (least, most) = (show(*range.start()), show(*range.end()));
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

/// Writes a duration for people, to the millisecond and in two units at most.
pub(crate) fn show(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis < 1_000 {
        return if millis == 0 {
            "0 s".into()
        } else {
            format!("{millis} ms")
        };
    }
    if millis < 60_000 && !millis.is_multiple_of(1_000) {
        return format!("{} s", (millis / 100) as f64 / 10.0);
    }
    let mut parts = Vec::new();
    let mut rest = millis;
    for (unit, scale) in UNITS {
        if rest >= scale && parts.len() < 2 && unit != "ms" {
            let unit = if unit == "m" { "min" } else { unit };
            parts.push(format!("{} {unit}", rest / scale));
            rest %= scale;
        }
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_units() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("500ms", 500),
            ("30s", 30_000),
            ("1h30m", 5_400_000),
            ("35d", 3_024_000_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "30",
            "s",
            "-1s",
            "1.5s",
            "1 s",
            "1w",
            "99999999999999999d",
            "1s2",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

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
        assert_eq!(lease("16m"), Err("must be 100 ms to 15 min".to_owned()));
        let renewal = zero_or_within(Duration::from_millis(100)..=Duration::from_mins(15));
        assert_eq!(renewal("0"), Ok(Duration::ZERO));
        assert_eq!(
            renewal("1ms"),
            Err("must be 100 ms to 15 min, or 0".to_owned())
        );
    }
}
