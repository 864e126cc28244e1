//! Policies as people write them, in flags and in TOML, and as they are compared.
//! Knows no server.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use clap::{Args, ValueEnum};
use reprise_domain::Policy;
use reprise_domain::name::check_word;
use reprise_domain::policy::{Mode, OnLapse};
use reprise_domain::text::FieldError;
use reprise_fingerprint::{Pointer, Rule};
use serde::{Deserialize, Deserializer};

use crate::cli::exit::Error;
use crate::cli::value::Fields;
use crate::cli::{args, duration};
use crate::config::{self, RuleSettings};

/// A policy as it is written: its name, and settings that may be left out.
#[derive(Args, Deserialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Document {
    /// Whose policy
    #[arg(long, env = "REPRISE_TENANT", value_parser = args::word)]
    pub(crate) tenant: String,
    /// Leave out for the tenant's default
    #[arg(long, default_value = "", hide_default_value = true, value_parser = operation)]
    pub(crate) operation: String,
    /// Whether attempts are granted; stays as it is unless given
    #[arg(long, value_enum, help_heading = "Settings")]
    mode: Option<ModeSetting>,
    /// Only the mode is its own; its other settings are those of the wider scope
    #[arg(long, help_heading = "Settings")]
    inherits: bool,
    /// What a lease that ended without a report means; default pending
    #[arg(long, value_enum, help_heading = "Settings")]
    on_lapse: Option<config::OnLapse>,
    /// With take-over only, and required there: the provider's memory of effect keys,
    /// less the longest time that a request may be under way
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = "Settings")]
    #[serde(deserialize_with = "span")]
    repeat_within: Option<Duration>,
    /// How long a holder has: 100ms to 15m; default 30s
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = "Settings")]
    #[serde(deserialize_with = "span")]
    lease: Option<Duration>,
    /// Longest wait of a caller: 0 to 30s; default 30s
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = "Settings")]
    #[serde(deserialize_with = "span")]
    wait_max: Option<Duration>,
    /// How long a result is replayed: 1s to memory_retention; default 72h
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = "Settings")]
    #[serde(deserialize_with = "span")]
    result_retention: Option<Duration>,
    /// How long a record is remembered: 1s to 3650d; default 35d
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = "Settings")]
    #[serde(deserialize_with = "span")]
    memory_retention: Option<Duration>,
    /// Largest body that is kept: 0 to 4128768 bytes; default 1048576
    #[arg(long, value_name = "BYTES", help_heading = "Settings")]
    result_bytes_max: Option<u64>,
    /// A header that is kept; may be repeated, at most 64. Replaces the whole list
    #[arg(long = "header", value_name = "NAME", help_heading = "Settings")]
    headers: Option<Vec<String>>,
    /// Rules for fingerprints, of which the first makes new ones. In files only
    #[arg(skip)]
    fingerprint_rules: Option<Vec<RuleSettings>>,
    /// How long a request may be under way after a lease ended: 0 to 7d; default 60s
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = "Settings")]
    #[serde(deserialize_with = "span")]
    settle_after: Option<Duration>,
}

/// Whether attempts are granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
enum ModeSetting {
    /// They are.
    Enforce,
    /// Nobody is granted one; all else goes on.
    Hold,
}

impl From<ModeSetting> for Mode {
    fn from(set: ModeSetting) -> Mode {
        match set {
            ModeSetting::Enforce => Mode::Enforce,
            ModeSetting::Hold => Mode::Hold,
        }
    }
}

fn operation(text: &str) -> Result<String, String> {
    match text {
        "" => Ok(String::new()),
        text => args::word(text),
    }
}

fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    duration::parse(&text)
        .map(Some)
        .map_err(serde::de::Error::custom)
}

/// A policy that cannot be as it is written.
#[derive(Debug, thiserror::Error)]
#[error("{setting}: {allowed}")]
pub(crate) struct Unfit {
    setting: String,
    allowed: String,
}

impl Unfit {
    /// As an error about the flag.
    pub(crate) fn for_flags(&self) -> Error {
        let flag = match self.setting.split(['.', '[']).next() {
            Some("headers") => "header".to_owned(),
            _ => self.setting.replace('_', "-"),
        };
        Error::Usage(format!("--{flag}: {}", self.allowed))
    }
}

impl From<FieldError> for Unfit {
    fn from(error: FieldError) -> Unfit {
        let setting = error.field.strip_prefix("policy.");
        Unfit {
            setting: setting.unwrap_or(&error.field).to_owned(),
            allowed: error.allowed,
        }
    }
}

impl Document {
    /// `policy` with these settings in place of its own.
    ///
    /// # Errors
    /// Names the setting that is out of range, or does not fit to the others.
    pub(crate) fn applied_to(&self, mut policy: Policy) -> Result<Policy, Unfit> {
        fn set<T: Clone>(place: &mut T, value: &Option<T>) {
            if let Some(value) = value {
                place.clone_from(value);
            }
        }
        if let Some(lapse) = self.on_lapse {
            policy.on_lapse = lapse.into();
            if policy.on_lapse != OnLapse::TakeOver {
                policy.repeat_within = None;
            }
        }
        if self.repeat_within.is_some() {
            policy.repeat_within = self.repeat_within;
        }
        set(&mut policy.lease, &self.lease);
        set(&mut policy.wait_max, &self.wait_max);
        set(&mut policy.result_retention, &self.result_retention);
        set(&mut policy.memory_retention, &self.memory_retention);
        set(&mut policy.result_bytes_max, &self.result_bytes_max);
        set(&mut policy.settle_after, &self.settle_after);
        set(&mut policy.mode, &self.mode.map(Mode::from));
        if let Some(headers) = &self.headers {
            policy.headers = headers
                .iter()
                .map(|name| name.to_ascii_lowercase())
                .collect();
        }
        if let Some(rules) = &self.fingerprint_rules {
            policy.rules = read_rules(rules)?;
        }
        policy.check()?;
        Ok(policy)
    }
}

impl Document {
    /// Whether it says anything beside the mode.
    pub(crate) fn has_settings(&self) -> bool {
        self.on_lapse.is_some()
            || self.repeat_within.is_some()
            || self.lease.is_some()
            || self.wait_max.is_some()
            || self.result_retention.is_some()
            || self.memory_retention.is_some()
            || self.result_bytes_max.is_some()
            || self.headers.is_some()
            || self.fingerprint_rules.is_some()
            || self.settle_after.is_some()
    }

    /// A policy under this document's name. One that inherits must say nothing but its mode.
    ///
    /// # Errors
    /// Names `inherits`.
    pub(crate) fn with(&self, policy: Policy, inherits: bool) -> Result<Named, Unfit> {
        if self.inherits && self.has_settings() {
            return Err(Unfit {
                setting: "inherits".to_owned(),
                allowed: "only beside mode: other settings would not count".to_owned(),
            });
        }
        Ok(Named {
            tenant: self.tenant.clone(),
            operation: self.operation.clone(),
            inherits,
            has_mode: self.mode.is_some(),
            policy,
        })
    }

    /// Whether it asks to inherit.
    pub(crate) fn inherits(&self) -> bool {
        self.inherits
    }

    fn named(self) -> Result<Named, Unfit> {
        check_word("tenant", &self.tenant)?;
        if !self.operation.is_empty() {
            check_word("operation", &self.operation)?;
        }
        let policy = self.applied_to(Policy::default())?;
        self.with(policy, self.inherits)
    }
}

/// As in a message: no rules are the rule that changes nothing.
fn read_rules(rules: &[RuleSettings]) -> Result<Vec<Rule>, FieldError> {
    if rules.is_empty() {
        return Ok(vec![Rule::default()]);
    }
    let read = rules.iter().cloned().enumerate();
    read.map(|(at, rule)| rule.read(at)).collect()
}

/// A policy with its name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named {
    pub(crate) tenant: String,
    /// Empty: the tenant's default.
    pub(crate) operation: String,
    /// Of the policy only the mode counts.
    pub(crate) inherits: bool,
    /// The mode was said; else it is to stay as it is.
    pub(crate) has_mode: bool,
    pub(crate) policy: Policy,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.operation {
            "" => write!(f, "{} (default)", self.tenant),
            operation => write!(f, "{} {operation}", self.tenant),
        }
    }
}

/// Reads the policies of a TOML file, each whole: what is left out takes the default.
///
/// # Errors
/// Says where the file is wrong, and what is allowed there.
pub(crate) fn read(text: &str) -> Result<Vec<Named>, String> {
    let table: toml::Table = toml::from_str(text).map_err(|error| error.to_string())?;
    let documents = if table.contains_key("policy") {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        file.policy
    } else {
        vec![toml::from_str(text).map_err(|error| error.to_string())?]
    };
    let mut names = HashSet::new();
    let mut policies = Vec::new();
    for (at, document) in documents.into_iter().enumerate() {
        let place = |why: Unfit| format!("policy {}: {why}", at + 1);
        let named = document.named().map_err(place)?;
        if !names.insert((named.tenant.clone(), named.operation.clone())) {
            return Err(format!("policy {}: {named} is there twice", at + 1));
        }
        policies.push(named);
    }
    Ok(policies)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    policy: Vec<Document>,
}

/// What a mode is called.
pub(crate) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "ENFORCE",
        Mode::Hold => "HOLD",
    }
}

/// The settings in the order in which they are shown, to compare two policies.
pub(crate) fn settings(policy: &Policy) -> Fields {
    let lapse = match policy.on_lapse {
        OnLapse::Pending => "PENDING",
        OnLapse::TakeOverUnlessSent => "TAKE_OVER_UNLESS_SENT",
        OnLapse::TakeOver => "TAKE_OVER",
    };
    let rules: Vec<Fields> = policy.rules.iter().map(rule_fields).collect();
    Fields::new()
        .with("on_lapse", lapse)
        .with("repeat_within", policy.repeat_within)
        .with("lease", policy.lease)
        .with("wait_max", policy.wait_max)
        .with("result_retention", policy.result_retention)
        .with("memory_retention", policy.memory_retention)
        .with("result_bytes_max", policy.result_bytes_max)
        .with("headers", policy.headers.clone())
        .with("fingerprint_rules", rules)
        .with("settle_after", policy.settle_after)
}

fn rule_fields(rule: &Rule) -> Fields {
    let texts = |pointers: &[Pointer]| -> Vec<String> {
        pointers.iter().map(ToString::to_string).collect()
    };
    Fields::new()
        .with("id", rule.id().as_str())
        .with("ignore", texts(rule.ignore()))
        .with("unordered", texts(rule.unordered()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_one_policy_or_many() {
        let one = read("tenant = \"shop\"\nlease = \"10s\"\n").unwrap();
        assert_eq!(one[0].to_string(), "shop (default)");
        assert_eq!(one[0].policy.lease, Duration::from_secs(10));
        let many = r#"
            [[policy]]
            tenant = "shop"
            operation = "charge"
            on_lapse = "take_over"
            repeat_within = "23h"
            headers = ["Content-Type"]
            [[policy.fingerprint_rules]]
            ignore = ["/sent_at"]

            [[policy]]
            tenant = "shop"
        "#;
        let many = read(many).unwrap();
        assert_eq!(many[0].policy.on_lapse, OnLapse::TakeOver);
        assert_eq!(many[0].policy.headers, ["content-type"]);
        assert_eq!(many[0].policy.rules[0].ignore().len(), 1);
        assert_eq!(many[1].policy, Policy::default());
        assert!(!many[1].has_mode && !many[1].inherits);
        let hold = read("tenant = \"t\"\nmode = \"hold\"\ninherits = true").unwrap();
        assert_eq!(hold[0].policy.mode, Mode::Hold);
        assert!(hold[0].has_mode && hold[0].inherits);
    }

    #[test]
    fn what_is_wrong_in_a_file_is_named_with_its_place() {
        for (text, told) in [
            ("tenant = ", "line 1, column 10"),
            ("tenant = \"t\"\nlaese = \"1s\"", "line 2, column 1"),
            ("tenant = \"t\"\nlaese = \"1s\"", "unknown field `laese`"),
            ("tenant = \"t\"\nlease = 30", "line 2, column 9"),
            (
                "tenant = \"t\"\nlease = \"30\"",
                "expected a whole number and one of ms, s, m, h, d",
            ),
            (
                "tenant = \"t\"\nlease = \"1h\"",
                "policy 1: lease: 100 ms to 15 min",
            ),
            ("lease = \"1s\"", "policy 1: tenant: 1 to 128 bytes"),
            (
                "tenant = \"t\"\non_lapse = \"take_over\"",
                "repeat_within: required",
            ),
            (
                "tenant = \"t\"\nheaders = [\"set-cookie\"]",
                "headers.names[0]: any header but",
            ),
            (
                "tenant = \"t\"\ninherits = true\nlease = \"1s\"",
                "policy 1: inherits: only beside mode",
            ),
            ("tenant = \"t\"\nmode = \"stop\"", "line 2, column 8"),
            (
                "[[policy]]\ntenant = \"t\"\n[[policy]]\ntenant = \"t\"",
                "policy 2: t (default) is there twice",
            ),
            (
                "lease = \"1s\"\n[[policy]]\ntenant = \"t\"",
                "unknown field `lease`",
            ),
            (
                "tenant = \"t\"\n[[fingerprint_rules]]\nignore = [\"sent_at\"]",
                "fingerprint_rules[0]: ",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn flags_change_what_they_name_and_nothing_else() {
        let take_over = Policy {
            on_lapse: OnLapse::TakeOver,
            repeat_within: Some(Duration::from_hours(1)),
            ..Policy::default()
        };
        let flags = Document {
            lease: Some(Duration::from_secs(1)),
            ..Document::default()
        };
        let changed = flags.applied_to(take_over.clone()).unwrap();
        assert_eq!(
            changed,
            Policy {
                lease: Duration::from_secs(1),
                ..take_over.clone()
            }
        );
        let pending = Document {
            on_lapse: Some(config::OnLapse::Pending),
            ..Document::default()
        };
        assert_eq!(pending.applied_to(take_over).unwrap(), Policy::default());
    }
}
