//! What a row leaves out because it is as usual: a column is null where its value follows
//! from the others, so that the usual row is narrow. Here is what is usual, for both ways,
//! and for statements that look at such a column. What it says is part of the schema: it
//! stays as it is, whatever the defaults of policies become.

use std::time::Duration;

use reprise_domain::Timestamp;
use reprise_domain::time::micros;

/// Of the counts of attempts and generations, and of the numbers of words.
pub(super) const FIRST: i32 = 1;
/// As [`FIRST`], of a word.
pub(super) const WORD: i16 = 1;
/// Of a lease, in microseconds.
const LEASE_US: i64 = 30_000_000;
/// Of a result, in hours from when it was recorded.
const RESULT_HOURS: u64 = 72;
/// As [`RESULT_HOURS`], of the memory of the record.
const MEMORY_HOURS: u64 = 840;

/// What a column holds of a value.
pub(super) fn unless<T: PartialEq>(usual: T, value: T) -> Option<T> {
    (value != usual).then_some(value)
}

/// A flag is true or null.
pub(super) fn flag(value: bool) -> Option<bool> {
    unless(false, value)
}

/// Of an attempt's own length of lease.
pub(super) fn lease_us(lease: Duration) -> Option<i64> {
    unless(LEASE_US, micros(lease))
}

/// The length of lease of a column.
pub(super) fn lease(lease_us: Option<i64>) -> Duration {
    Duration::from_micros(lease_us.unwrap_or(LEASE_US).unsigned_abs())
}

/// The usual fence is the clock's at the grant, in microseconds.
pub(super) fn fence(granted_at: Timestamp) -> i64 {
    granted_at.0
}

/// The usual lease was not moved since the grant.
pub(super) fn lease_end(granted_at: Timestamp, lease: Duration) -> Timestamp {
    granted_at.after(lease)
}

/// A record's newest write usually is its outcome's, or else its grant.
pub(super) fn updated_at(granted_at: Timestamp, recorded_at: Option<Timestamp>) -> Timestamp {
    recorded_at.unwrap_or(granted_at)
}

/// Headers and body usually are replayed until then.
pub(super) fn result_until(recorded_at: Timestamp) -> Timestamp {
    recorded_at.after(Duration::from_hours(RESULT_HOURS))
}

/// A record usually is remembered until then.
pub(super) fn memory_until(recorded_at: Timestamp) -> Timestamp {
    recorded_at.after(Duration::from_hours(MEMORY_HOURS))
}

/// SQL of the length of lease of the row `r`.
pub(super) fn lease_of(r: &str) -> String {
    format!("coalesce({r}.lease_us, {LEASE_US}) * interval '1 microsecond'")
}

/// SQL of the end of the lease of the row `r`.
pub(super) fn lease_end_of(r: &str) -> String {
    format!(
        "coalesce({r}.lease_end, {r}.granted_at + {lease})",
        lease = lease_of(r),
    )
}

/// SQL of when the row `r` was first granted.
pub(super) fn created_at_of(r: &str) -> String {
    format!("coalesce({r}.created_at, {r}.granted_at)")
}

/// SQL of until when headers and body of the row `r` are replayed; null without an outcome.
/// In hours: days may have more or fewer than 24 of them where the session's zone has them.
pub(super) fn result_until_of(r: &str) -> String {
    format!("coalesce({r}.result_until, {r}.recorded_at + interval '{RESULT_HOURS} hours')")
}

/// SQL of until when the row `r` is remembered; as above.
pub(super) fn memory_until_of(r: &str) -> String {
    format!("coalesce({r}.memory_until, {r}.recorded_at + interval '{MEMORY_HOURS} hours')")
}
