//! Single fields: names, texts, durations, moments, ids.

use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::Bytes;
use reprise_domain::record::AttemptId;
use reprise_domain::text::{FieldError, INSTRUCTION_BYTES_MAX, TEXT_BYTES_MAX};
use reprise_domain::{RecordName, Timestamp, name, policy};
use reprise_proto::v1 as proto;

/// Longest time until a next check that is kept.
pub(super) const CHECK_AFTER_MAX: Duration = Duration::from_hours(24 * 30);

/// The name of a record.
pub(crate) fn record_name(message: Option<proto::RecordName>) -> Result<RecordName, FieldError> {
    let name = message.ok_or_else(|| FieldError::new("record", "required"))?;
    RecordName::new(name.tenant, name.operation, name.subject, name.key)
}

/// A record's name on the wire.
pub(super) fn record_name_message(name: &RecordName) -> proto::RecordName {
    proto::RecordName {
        tenant: name.tenant().to_owned(),
        operation: name.operation().to_owned(),
        subject: name.subject().to_owned(),
        key: name.key().to_owned(),
    }
}

/// A tenant and one of its operations; an empty one stands for all of them.
pub(crate) fn tenant_and_operation(tenant: &str, operation: &str) -> Result<(), FieldError> {
    name::check_word("tenant", tenant)?;
    if operation.is_empty() {
        return Ok(());
    }
    name::check_word("operation", operation)
}

pub(super) fn attempt_id(field: &str, bytes: &[u8]) -> Result<AttemptId, FieldError> {
    let id = bytes.try_into();
    id.map(AttemptId)
        .map_err(|_| FieldError::new(field, "exactly 16 bytes"))
}

pub(super) fn instruction(bytes: Bytes) -> Result<Bytes, FieldError> {
    if bytes.len() > INSTRUCTION_BYTES_MAX {
        return Err(FieldError::new("instruction", "at most 16 KiB"));
    }
    Ok(bytes)
}

/// A text that must be there, of one line.
pub(super) fn required_text(field: &str, text: String) -> Result<String, FieldError> {
    let allowed = "1 to 255 bytes of UTF-8 without control characters";
    if text.is_empty() || text.len() > TEXT_BYTES_MAX || text.chars().any(char::is_control) {
        return Err(FieldError::new(field, allowed));
    }
    Ok(text)
}

/// A text that must be there, of as many lines as it takes.
pub(super) fn prose(field: &str, text: String, bytes_max: usize) -> Result<String, FieldError> {
    if text.is_empty() || text.len() > bytes_max || text.contains('\0') {
        let allowed = format!("1 to {bytes_max} bytes of UTF-8 without U+0000");
        return Err(FieldError::new(field, allowed));
    }
    Ok(text)
}

/// A duration that may be left out, within `range`.
pub(super) fn duration(
    field: &str,
    message: Option<prost_types::Duration>,
    range: &RangeInclusive<Duration>,
    allowed: &str,
) -> Result<Option<Duration>, FieldError> {
    let Some(message) = message else {
        return Ok(None);
    };
    match exact(message) {
        Some(duration) if range.contains(&duration) => Ok(Some(duration)),
        _ => Err(FieldError::new(field, allowed)),
    }
}

/// A duration of 0 or longer. As the message's definition has it, nanoseconds are those
/// of less than a second: what needs carrying over is none.
pub(super) fn exact(message: prost_types::Duration) -> Option<Duration> {
    let seconds = u64::try_from(message.seconds).ok()?;
    let nanos = u32::try_from(message.nanos).ok()?;
    (nanos < NANOS_PER_SECOND).then(|| Duration::new(seconds, nanos))
}

/// The nearest duration that is [`exact`], for what is adjusted and not refused.
pub(super) fn nearest(message: prost_types::Duration) -> Duration {
    let Ok(seconds) = u64::try_from(message.seconds) else {
        return Duration::ZERO;
    };
    let nanos = u32::try_from(message.nanos).unwrap_or(0);
    Duration::new(seconds, nanos.min(NANOS_PER_SECOND - 1))
}

const NANOS_PER_SECOND: u32 = 1_000_000_000;

/// A length of lease that may be left out.
pub(super) fn lease(
    field: &str,
    message: Option<prost_types::Duration>,
) -> Result<Option<Duration>, FieldError> {
    duration(field, message, &policy::LEASE, "100 ms to 15 min")
}

/// A moment, as RFC 3339 can write it: years 1 to 9999.
pub(super) fn moment(
    field: &str,
    message: prost_types::Timestamp,
) -> Result<Timestamp, FieldError> {
    const SECONDS: RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
    if !SECONDS.contains(&message.seconds) || !(0..1_000_000_000).contains(&message.nanos) {
        return Err(FieldError::new(field, "a moment of the years 1 to 9999"));
    }
    Ok(Timestamp(
        message.seconds * 1_000_000 + i64::from(message.nanos) / 1000,
    ))
}

/// A moment on the wire.
pub(super) fn timestamp(moment: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: moment.0.div_euclid(1_000_000),
        // Less than a second in nanoseconds fits.
        nanos: i32::try_from(moment.0.rem_euclid(1_000_000) * 1000).unwrap_or(0),
    }
}

/// A duration on the wire.
pub(super) fn span(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        // Less than a second in nanoseconds fits.
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_before_and_after_the_epoch_come_back() {
        for micros in [-1, 0, 1, 1_700_000_000_123_456, -62_135_596_800_000_000] {
            let there = timestamp(Timestamp(micros));
            assert_eq!(moment("at", there), Ok(Timestamp(micros)));
        }
    }

    #[test]
    fn moments_that_no_calendar_has_are_refused() {
        for (seconds, nanos) in [
            (253_402_300_800, 0),
            (-62_135_596_801, 0),
            (0, -1),
            (0, 1_000_000_000),
        ] {
            assert!(moment("at", prost_types::Timestamp { seconds, nanos }).is_err());
        }
    }

    #[test]
    fn negative_and_endless_durations_are_refused() {
        for (seconds, nanos) in [(-1, 0), (0, -1), (i64::MAX, 0), (0, 1), (901, 0)] {
            let sent = Some(prost_types::Duration { seconds, nanos });
            assert!(lease("lease", sent).is_err(), "{seconds} {nanos}");
        }
        assert_eq!(lease("lease", None), Ok(None));
    }

    #[test]
    fn nanoseconds_of_a_second_or_more_are_none() {
        for (seconds, nanos, near) in [
            (1, -1, Duration::from_secs(1)),
            (1, 1_000_000_000, Duration::new(1, 999_999_999)),
            (-1, 1_500_000_000, Duration::ZERO),
            (-1, i32::MAX, Duration::ZERO),
        ] {
            let sent = prost_types::Duration { seconds, nanos };
            assert!(lease("lease", Some(sent)).is_err(), "{seconds} {nanos}");
            assert_eq!(exact(sent), None, "{seconds} {nanos}");
            assert_eq!(nearest(sent), near, "{seconds} {nanos}");
        }
        let most = prost_types::Duration {
            seconds: 1,
            nanos: 999_999_999,
        };
        assert_eq!(exact(most), Some(nearest(most)));
    }
}
