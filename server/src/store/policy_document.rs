//! Policies as both stores keep them: one JSON document, durations in milliseconds.

use std::time::Duration;

use reprise_domain::Policy;
use reprise_domain::policy::{Mode, OnLapse};
use reprise_fingerprint::{Pointer, Rule};
use serde::{Deserialize, Serialize};

/// Settings are absent where the policy inherits them.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    hold: bool,
    settings: Option<Settings>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    on_lapse: Lapse,
    repeat_within_ms: Option<u64>,
    lease_ms: u64,
    wait_max_ms: u64,
    result_retention_ms: u64,
    memory_retention_ms: u64,
    result_bytes_max: u64,
    headers: Vec<String>,
    fingerprint_rules: Vec<RuleDocument>,
    settle_after_ms: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Lapse {
    Pending,
    TakeOverUnlessSent,
    TakeOver,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleDocument {
    ignore: Vec<String>,
    unordered: Vec<String>,
}

/// A stored policy that cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("a stored policy is not the JSON that was written")]
    Json(#[from] serde_json::Error),
    #[error("a stored policy has an unreadable fingerprint rule")]
    Pointer(#[from] reprise_fingerprint::PointerError),
    #[error("a stored policy has an unreadable fingerprint rule")]
    Rule(#[from] reprise_fingerprint::RuleError),
}

/// Writes a policy.
pub(crate) fn write(policy: Option<&Policy>, mode: Mode) -> String {
    let document = Document {
        hold: mode == Mode::Hold,
        settings: policy.map(settings),
    };
    serde_json::to_string(&document).expect("a document of numbers and strings has a JSON form")
}

fn settings(policy: &Policy) -> Settings {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Settings {
        on_lapse: match policy.on_lapse {
            OnLapse::Pending => Lapse::Pending,
            OnLapse::TakeOverUnlessSent => Lapse::TakeOverUnlessSent,
            OnLapse::TakeOver => Lapse::TakeOver,
        },
        repeat_within_ms: policy.repeat_within.map(millis),
        lease_ms: millis(policy.lease),
        wait_max_ms: millis(policy.wait_max),
        result_retention_ms: millis(policy.result_retention),
        memory_retention_ms: millis(policy.memory_retention),
        result_bytes_max: policy.result_bytes_max,
        headers: policy.headers.clone(),
        fingerprint_rules: policy.rules.iter().map(rule_document).collect(),
        settle_after_ms: millis(policy.settle_after),
    }
}

fn rule_document(rule: &Rule) -> RuleDocument {
    let texts = |pointers: &[Pointer]| pointers.iter().map(ToString::to_string).collect();
    RuleDocument {
        ignore: texts(rule.ignore()),
        unordered: texts(rule.unordered()),
    }
}

/// Reads what [`write`] wrote.
pub(crate) fn read(text: &str) -> Result<(Option<Policy>, Mode), Unreadable> {
    let document: Document = serde_json::from_str(text)?;
    let mode = if document.hold {
        Mode::Hold
    } else {
        Mode::Enforce
    };
    let policy = document.settings.map(|settings| policy(settings, mode));
    Ok((policy.transpose()?, mode))
}

fn policy(document: Settings, mode: Mode) -> Result<Policy, Unreadable> {
    let rules = document
        .fingerprint_rules
        .into_iter()
        .map(|rule| {
            Ok(Rule::new(
                pointers(rule.ignore)?,
                pointers(rule.unordered)?,
            )?)
        })
        .collect::<Result<_, Unreadable>>()?;
    Ok(Policy {
        on_lapse: match document.on_lapse {
            Lapse::Pending => OnLapse::Pending,
            Lapse::TakeOverUnlessSent => OnLapse::TakeOverUnlessSent,
            Lapse::TakeOver => OnLapse::TakeOver,
        },
        repeat_within: document.repeat_within_ms.map(Duration::from_millis),
        lease: Duration::from_millis(document.lease_ms),
        wait_max: Duration::from_millis(document.wait_max_ms),
        result_retention: Duration::from_millis(document.result_retention_ms),
        memory_retention: Duration::from_millis(document.memory_retention_ms),
        result_bytes_max: document.result_bytes_max,
        headers: document.headers,
        rules,
        settle_after: Duration::from_millis(document.settle_after_ms),
        mode,
    })
}

fn pointers(texts: Vec<String>) -> Result<Vec<Pointer>, reprise_fingerprint::PointerError> {
    texts.iter().map(|text| text.parse()).collect()
}
