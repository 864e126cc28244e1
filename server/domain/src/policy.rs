//! Settings of an operation.

use std::time::Duration;

use reprise_fingerprint::Rule;

use crate::content::BODY_BYTES_MAX;
use crate::text::FieldError;

/// Shortest and longest lease.
pub const LEASE: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_mins(15);
/// Longest wait.
pub const WAIT_MAX: Duration = Duration::from_secs(30);
/// Shortest and longest retention.
pub const RETENTION: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_hours(24 * 3650);
/// Longest settling time.
pub const SETTLE_MAX: Duration = Duration::from_hours(24 * 7);
/// Accepted fingerprint rules of one policy.
pub const RULES_MAX: usize = 8;
/// Pointers of each kind in one rule.
pub const POINTERS_MAX: usize = 64;
/// Names on a header allow-list.
pub const HEADER_NAMES_MAX: usize = 64;

const HEADERS_DEFAULT: [&str; 8] = [
    "content-type",
    "content-language",
    "content-disposition",
    "etag",
    "last-modified",
    "link",
    "location",
    "retry-after",
];
/// Headers that carry secrets of one caller to the next.
const HEADERS_NEVER: [&str; 2] = ["authorization", "set-cookie"];

/// What a lease that ended without a report means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnLapse {
    /// The record is pending.
    Pending,
    /// The next caller takes over unless MarkSending was accepted.
    TakeOverUnlessSent,
    /// The next caller takes over until `repeat_until`.
    TakeOver,
}

/// Settings of a (tenant, operation). What rules an attempt is copied into the record
/// at its grant; retention is fixed at the outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What a lapse means.
    pub on_lapse: OnLapse,
    /// The provider's memory of keys, less the longest time that a request may be under
    /// way. Present exactly with [`OnLapse::TakeOver`].
    pub repeat_within: Option<Duration>,
    /// How long a holder has.
    pub lease: Duration,
    /// Most that a caller may wait for a holder.
    pub wait_max: Duration,
    /// How long a result's bytes are replayed.
    pub result_retention: Duration,
    /// How long the record is remembered.
    pub memory_retention: Duration,
    /// Largest body that is kept, in bytes.
    pub result_bytes_max: u64,
    /// Headers that are kept, in lower case.
    pub headers: Vec<String>,
    /// Accepted fingerprint rules; the first is for new records. Never empty.
    pub rules: Vec<Rule>,
    /// How long a request may still be under way after a lease ended.
    pub settle_after: Duration,
    /// Whether attempts are granted; judged at the call.
    pub mode: Mode,
}

/// Whether attempts are granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// They are.
    #[default]
    Enforce,
    /// Nobody is granted one; all else goes on.
    Hold,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            on_lapse: OnLapse::Pending,
            repeat_within: None,
            lease: Duration::from_secs(30),
            wait_max: WAIT_MAX,
            result_retention: Duration::from_hours(72),
            memory_retention: Duration::from_hours(24 * 35),
            result_bytes_max: 1024 * 1024,
            headers: HEADERS_DEFAULT.map(str::to_owned).to_vec(),
            rules: vec![Rule::default()],
            settle_after: Duration::from_mins(1),
            mode: Mode::Enforce,
        }
    }
}

impl Policy {
    /// Is every setting in range, and do they fit together?
    ///
    /// # Errors
    /// Names the first field that does not, as `policy.<field>`, and what is allowed.
    pub fn check(&self) -> Result<(), FieldError> {
        let require = |holds: bool, field: &str, allowed: &str| {
            if holds {
                Ok(())
            } else {
                Err(FieldError::new(format!("policy.{field}"), allowed))
            }
        };
        require(LEASE.contains(&self.lease), "lease", "100 ms to 15 min")?;
        require(self.wait_max <= WAIT_MAX, "wait_max", "0 to 30 s")?;
        require(
            RETENTION.contains(&self.memory_retention),
            "memory_retention",
            "1 s to 10 years",
        )?;
        require(
            self.result_retention >= *RETENTION.start()
                && self.result_retention <= self.memory_retention,
            "result_retention",
            "1 s to memory_retention",
        )?;
        require(
            self.result_bytes_max <= BODY_BYTES_MAX,
            "result_bytes_max",
            "0 to 4,128,768 bytes",
        )?;
        require(
            self.settle_after <= SETTLE_MAX,
            "settle_after",
            "0 to 7 days",
        )?;
        self.check_repeat(require)?;
        self.check_headers(require)?;
        require(
            (1..=RULES_MAX).contains(&self.rules.len()),
            "fingerprint_rules",
            "at most 8 rules",
        )?;
        for (at, rule) in self.rules.iter().enumerate() {
            require(
                rule.ignore().len() <= POINTERS_MAX && rule.unordered().len() <= POINTERS_MAX,
                &format!("fingerprint_rules[{at}]"),
                "at most 64 pointers of each kind",
            )?;
        }
        Ok(())
    }

    fn check_repeat(
        &self,
        require: impl Fn(bool, &str, &str) -> Result<(), FieldError>,
    ) -> Result<(), FieldError> {
        match (self.on_lapse, self.repeat_within) {
            (OnLapse::TakeOver, None) => require(
                false,
                "repeat_within",
                "required with TAKE_OVER: the provider's memory of keys less the longest time a request may be under way",
            ),
            (OnLapse::TakeOver, Some(within)) => require(
                !within.is_zero() && within < self.memory_retention,
                "repeat_within",
                "longer than 0 and shorter than memory_retention",
            ),
            (_, within) => require(within.is_none(), "repeat_within", "unset without TAKE_OVER"),
        }
    }

    fn check_headers(
        &self,
        require: impl Fn(bool, &str, &str) -> Result<(), FieldError>,
    ) -> Result<(), FieldError> {
        require(
            self.headers.len() <= HEADER_NAMES_MAX,
            "headers",
            "at most 64 names",
        )?;
        for (at, name) in self.headers.iter().enumerate() {
            let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
            require(
                !name.is_empty() && name.len() <= 255 && name.bytes().all(token),
                &format!("headers.names[{at}]"),
                "a header name of 1 to 255 bytes",
            )?;
            require(
                !HEADERS_NEVER.contains(&name.to_ascii_lowercase().as_str()),
                &format!("headers.names[{at}]"),
                "any header but set-cookie and authorization",
            )?;
        }
        Ok(())
    }

    /// Is this header stored and replayed?
    #[must_use]
    pub fn keeps_header(&self, name: &str) -> bool {
        let same = |listed: &str| listed.eq_ignore_ascii_case(name);
        !HEADERS_NEVER.iter().any(|never| same(never))
            && self.headers.iter().any(|listed| same(listed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(policy: Policy) -> Option<String> {
        policy.check().err().map(|error| error.field)
    }

    fn second() -> Duration {
        Duration::from_secs(1)
    }

    #[test]
    fn built_in_policy_is_the_documented_one() {
        let policy = Policy::default();
        assert_eq!(policy.check(), Ok(()));
        assert_eq!(policy.on_lapse, OnLapse::Pending);
        assert_eq!(policy.lease, Duration::from_secs(30));
        assert_eq!(policy.wait_max, Duration::from_secs(30));
        assert_eq!(policy.result_retention, Duration::from_hours(72));
        assert_eq!(policy.memory_retention, Duration::from_hours(35 * 24));
        assert_eq!(policy.result_bytes_max, 1 << 20);
        assert_eq!(policy.settle_after, Duration::from_secs(60));
    }

    #[test]
    fn settings_out_of_range_are_refused_by_name() {
        let default = Policy::default;
        let lease = |lease| Policy { lease, ..default() };
        assert_eq!(refused(lease(*LEASE.start())), None);
        assert_eq!(refused(lease(*LEASE.end())), None);
        for length in [
            *LEASE.start() - Duration::from_nanos(1),
            *LEASE.end() + second(),
        ] {
            assert_eq!(refused(lease(length)).as_deref(), Some("policy.lease"));
        }
        let policies = [
            (
                "wait_max",
                Policy {
                    wait_max: WAIT_MAX + second(),
                    ..default()
                },
            ),
            (
                "memory_retention",
                Policy {
                    memory_retention: Duration::ZERO,
                    ..default()
                },
            ),
            (
                "memory_retention",
                Policy {
                    memory_retention: *RETENTION.end() + second(),
                    ..default()
                },
            ),
            (
                "result_retention",
                Policy {
                    result_retention: Duration::ZERO,
                    ..default()
                },
            ),
            (
                "result_retention",
                Policy {
                    result_retention: default().memory_retention + second(),
                    ..default()
                },
            ),
            (
                "result_bytes_max",
                Policy {
                    result_bytes_max: BODY_BYTES_MAX + 1,
                    ..default()
                },
            ),
            (
                "settle_after",
                Policy {
                    settle_after: SETTLE_MAX + second(),
                    ..default()
                },
            ),
            (
                "headers",
                Policy {
                    headers: vec!["etag".to_owned(); HEADER_NAMES_MAX + 1],
                    ..default()
                },
            ),
            (
                "headers.names[1]",
                Policy {
                    headers: vec!["etag".to_owned(), "a b".to_owned()],
                    ..default()
                },
            ),
            (
                "headers.names[0]",
                Policy {
                    headers: vec!["Set-Cookie".to_owned()],
                    ..default()
                },
            ),
            (
                "headers.names[0]",
                Policy {
                    headers: vec!["AUTHORIZATION".to_owned()],
                    ..default()
                },
            ),
            (
                "fingerprint_rules",
                Policy {
                    rules: vec![],
                    ..default()
                },
            ),
            (
                "fingerprint_rules",
                Policy {
                    rules: vec![Rule::default(); RULES_MAX + 1],
                    ..default()
                },
            ),
        ];
        for (field, policy) in policies {
            assert_eq!(refused(policy), Some(format!("policy.{field}")));
        }
    }

    #[test]
    fn repeat_within_comes_with_take_over_and_is_shorter_than_memory() {
        let with = |on_lapse, repeat_within| Policy {
            on_lapse,
            repeat_within,
            ..Policy::default()
        };
        let memory = Policy::default().memory_retention;
        let field = Some("policy.repeat_within".to_owned());
        assert_eq!(
            refused(with(OnLapse::TakeOver, Some(memory - second()))),
            None
        );
        for within in [None, Some(Duration::ZERO), Some(memory)] {
            assert_eq!(refused(with(OnLapse::TakeOver, within)), field);
        }
        for on_lapse in [OnLapse::Pending, OnLapse::TakeOverUnlessSent] {
            assert_eq!(refused(with(on_lapse, None)), None);
            assert_eq!(refused(with(on_lapse, Some(second()))), field);
        }
    }

    #[test]
    fn listed_headers_are_kept_in_any_case_but_secrets_never() {
        let policy = Policy {
            headers: vec!["ETag".to_owned(), "set-cookie".to_owned()],
            ..Policy::default()
        };
        assert!(policy.keeps_header("etag") && policy.keeps_header("ETAG"));
        assert!(!policy.keeps_header("location") && !policy.keeps_header("Set-Cookie"));
    }
}
