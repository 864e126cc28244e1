//! What flags, variables and the file may say; one type for all three, so that their
//! names cannot differ. Ranges are not judged here.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use reprise_domain::Policy;
use reprise_domain::policy;
use reprise_domain::text::FieldError;
use reprise_fingerprint::{Pointer, Rule};
use serde::{Deserialize, Deserializer};

use super::{DatabaseUrl, Time};

/// Settings as given; unset ones are `None`.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where to listen
    #[arg(long, env = "REPRISE_LISTEN", value_name = "ADDR:PORT")]
    pub listen: Option<SocketAddr>,
    /// Allow other than loopback addresses. There is no authentication yet: whoever
    /// reaches the port may read and change every record
    #[arg(long, env = "REPRISE_INSECURE_LISTEN_ANY", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub insecure_listen_any: Option<bool>,
    /// Directory of the embedded store
    #[arg(long, env = "REPRISE_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Keep records in this Postgres database instead of the embedded store
    #[arg(
        long,
        env = "REPRISE_DATABASE_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    #[serde(deserialize_with = "database_url")]
    pub database_url: Option<DatabaseUrl>,
    /// Postgres connections
    #[arg(long, env = "REPRISE_POOL_SIZE", value_name = "N")]
    pub pool_size: Option<usize>,
    /// Postgres batches under way at once
    #[arg(long, env = "REPRISE_WRITERS", value_name = "N")]
    pub writers: Option<usize>,
    /// Migrate the database first
    #[arg(long, env = "REPRISE_MIGRATE", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub migrate: Option<bool>,
    /// Start even if the database is set to lose acknowledged writes in a crash
    #[arg(long, env = "REPRISE_ALLOW_UNSAFE_DURABILITY", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub allow_unsafe_durability: Option<bool>,
    /// Use named prepared statements; by default where no pooler is found in between
    #[arg(long, env = "REPRISE_PREPARED", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub prepared: Option<bool>,
    /// Do the work behind the calls: file what is open, remove what is old
    #[arg(long, env = "REPRISE_UPKEEP", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub upkeep: Option<bool>,
    /// Form of the log on standard error
    #[arg(long, env = "REPRISE_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// error, warn, info, debug, trace, or a list of target=level
    #[arg(long, env = "REPRISE_LOG_LEVEL", value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// Time for calls under way to finish at the end
    #[arg(long, env = "REPRISE_DRAIN", value_name = "TIME")]
    pub drain: Option<Time>,
    /// Deadline of calls that bring none
    #[arg(long, env = "REPRISE_DEADLINE_DEFAULT", value_name = "TIME")]
    pub deadline_default: Option<Time>,
    /// Longer deadlines are cut to this
    #[arg(long, env = "REPRISE_DEADLINE_MAX", value_name = "TIME")]
    pub deadline_max: Option<Time>,
    /// Connections at once
    #[arg(long, env = "REPRISE_CONNECTIONS_MAX", value_name = "N")]
    pub connections_max: Option<usize>,
    /// Age after which a connection is told to move on
    #[arg(long, env = "REPRISE_CONNECTION_AGE", value_name = "TIME")]
    pub connection_age: Option<Time>,
    /// Calls at once on one connection
    #[arg(long, env = "REPRISE_STREAMS_MAX", value_name = "N")]
    pub streams_max: Option<u32>,
    /// Calls at once over all connections
    #[arg(long, env = "REPRISE_CALLS_MAX", value_name = "N")]
    pub calls_max: Option<usize>,
    /// Callers that wait for one record
    #[arg(long, env = "REPRISE_WAITERS_PER_RECORD_MAX", value_name = "N")]
    pub waiters_per_record_max: Option<usize>,
    /// Callers of one tenant that wait
    #[arg(long, env = "REPRISE_WAITERS_PER_TENANT_MAX", value_name = "N")]
    pub waiters_per_tenant_max: Option<usize>,
    /// The built-in policy.
    #[command(flatten)]
    pub policy: PolicySettings,
}

impl Settings {
    /// These, and `other` where these say nothing. An empty database says nothing.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let given = |url: Option<DatabaseUrl>| url.filter(|url| !url.is_unset());
        Self {
            listen: self.listen.or(other.listen),
            insecure_listen_any: self.insecure_listen_any.or(other.insecure_listen_any),
            data_dir: self.data_dir.or(other.data_dir),
            database_url: given(self.database_url).or(given(other.database_url)),
            pool_size: self.pool_size.or(other.pool_size),
            writers: self.writers.or(other.writers),
            migrate: self.migrate.or(other.migrate),
            allow_unsafe_durability: self
                .allow_unsafe_durability
                .or(other.allow_unsafe_durability),
            prepared: self.prepared.or(other.prepared),
            upkeep: self.upkeep.or(other.upkeep),
            log_format: self.log_format.or(other.log_format),
            log_level: self.log_level.or(other.log_level),
            drain: self.drain.or(other.drain),
            deadline_default: self.deadline_default.or(other.deadline_default),
            deadline_max: self.deadline_max.or(other.deadline_max),
            connections_max: self.connections_max.or(other.connections_max),
            connection_age: self.connection_age.or(other.connection_age),
            streams_max: self.streams_max.or(other.streams_max),
            calls_max: self.calls_max.or(other.calls_max),
            waiters_per_record_max: self.waiters_per_record_max.or(other.waiters_per_record_max),
            waiters_per_tenant_max: self.waiters_per_tenant_max.or(other.waiters_per_tenant_max),
            policy: self.policy.or(other.policy),
        }
    }
}

/// Settings of the built-in policy, which rules operations that have no stored one.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySettings {
    /// Built-in policy: what a lease that ended without a report means
    #[arg(
        long = "policy-on-lapse",
        env = "REPRISE_POLICY_ON_LAPSE",
        value_name = "WHAT"
    )]
    pub on_lapse: Option<OnLapse>,
    /// Built-in policy: the provider's memory of effect keys, with take_over
    #[arg(
        long = "policy-repeat-within",
        env = "REPRISE_POLICY_REPEAT_WITHIN",
        value_name = "TIME"
    )]
    pub repeat_within: Option<Time>,
    /// Built-in policy: length of a lease
    #[arg(
        long = "policy-lease",
        env = "REPRISE_POLICY_LEASE",
        value_name = "TIME"
    )]
    pub lease: Option<Time>,
    /// Built-in policy: longest wait for a holder
    #[arg(
        long = "policy-wait-max",
        env = "REPRISE_POLICY_WAIT_MAX",
        value_name = "TIME"
    )]
    pub wait_max: Option<Time>,
    /// Built-in policy: how long results are replayed
    #[arg(
        long = "policy-result-retention",
        env = "REPRISE_POLICY_RESULT_RETENTION",
        value_name = "TIME"
    )]
    pub result_retention: Option<Time>,
    /// Built-in policy: how long records are remembered
    #[arg(
        long = "policy-memory-retention",
        env = "REPRISE_POLICY_MEMORY_RETENTION",
        value_name = "TIME"
    )]
    pub memory_retention: Option<Time>,
    /// Built-in policy: largest body that is kept
    #[arg(
        long = "policy-result-bytes-max",
        env = "REPRISE_POLICY_RESULT_BYTES_MAX",
        value_name = "BYTES"
    )]
    pub result_bytes_max: Option<u64>,
    /// Built-in policy: headers that are kept, separated by commas
    #[arg(
        long = "policy-headers",
        env = "REPRISE_POLICY_HEADERS",
        value_delimiter = ',',
        value_name = "NAMES"
    )]
    pub headers: Option<Vec<String>>,
    /// Built-in policy: how long a request may still be under way after a lease ended
    #[arg(
        long = "policy-settle-after",
        env = "REPRISE_POLICY_SETTLE_AFTER",
        value_name = "TIME"
    )]
    pub settle_after: Option<Time>,
    /// Accepted fingerprint rules; in the file only.
    #[arg(skip)]
    pub fingerprint_rules: Option<Vec<RuleSettings>>,
}

impl PolicySettings {
    fn or(self, other: Self) -> Self {
        Self {
            on_lapse: self.on_lapse.or(other.on_lapse),
            repeat_within: self.repeat_within.or(other.repeat_within),
            lease: self.lease.or(other.lease),
            wait_max: self.wait_max.or(other.wait_max),
            result_retention: self.result_retention.or(other.result_retention),
            memory_retention: self.memory_retention.or(other.memory_retention),
            result_bytes_max: self.result_bytes_max.or(other.result_bytes_max),
            headers: self.headers.or(other.headers),
            settle_after: self.settle_after.or(other.settle_after),
            fingerprint_rules: self.fingerprint_rules.or(other.fingerprint_rules),
        }
    }

    /// A policy as set here, and as `own` where nothing is set.
    pub(super) fn over(self, own: Policy) -> Result<Policy, FieldError> {
        let time = |set: Option<Time>, own| set.map_or(own, |time| time.0);
        let lower =
            |names: Vec<String>| names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Ok(Policy {
            mode: own.mode,
            on_lapse: self.on_lapse.map_or(own.on_lapse, Into::into),
            repeat_within: self.repeat_within.map(|time| time.0),
            lease: time(self.lease, own.lease),
            wait_max: time(self.wait_max, own.wait_max),
            result_retention: time(self.result_retention, own.result_retention),
            memory_retention: time(self.memory_retention, own.memory_retention),
            result_bytes_max: self.result_bytes_max.unwrap_or(own.result_bytes_max),
            headers: self.headers.map_or(own.headers, lower),
            rules: match self.fingerprint_rules {
                None => own.rules,
                Some(rules) => rules
                    .into_iter()
                    .enumerate()
                    .map(|(at, rule)| rule.read(at))
                    .collect::<Result<_, _>>()?,
            },
            settle_after: time(self.settle_after, own.settle_after),
        })
    }
}

/// What of a JSON payload does not count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RuleSettings {
    /// JSON pointers to what is left out.
    pub ignore: Vec<String>,
    /// JSON pointers to arrays whose order has no meaning.
    pub unordered: Vec<String>,
}

impl RuleSettings {
    pub(crate) fn read(self, at: usize) -> Result<Rule, FieldError> {
        let field = format!("policy.fingerprint_rules[{at}]");
        let pointers = |texts: Vec<String>| -> Result<Vec<Pointer>, _> {
            texts.iter().map(|text| text.parse()).collect()
        };
        let wrong = |error: reprise_fingerprint::PointerError| {
            FieldError::new(field.clone(), error.to_string())
        };
        let ignore = pointers(self.ignore).map_err(wrong)?;
        let unordered = pointers(self.unordered).map_err(wrong)?;
        Rule::new(ignore, unordered).map_err(|error| FieldError::new(field, error.to_string()))
    }
}

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Human,
    /// One object a line.
    Json,
}

/// What a lease that ended without a report means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum OnLapse {
    /// The record is pending.
    Pending,
    /// The next caller takes over unless MarkSending was accepted.
    TakeOverUnlessSent,
    /// The next caller takes over within repeat_within.
    TakeOver,
}

impl From<OnLapse> for policy::OnLapse {
    fn from(set: OnLapse) -> Self {
        match set {
            OnLapse::Pending => Self::Pending,
            OnLapse::TakeOverUnlessSent => Self::TakeOverUnlessSent,
            OnLapse::TakeOver => Self::TakeOver,
        }
    }
}

fn database_url<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<DatabaseUrl>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}
