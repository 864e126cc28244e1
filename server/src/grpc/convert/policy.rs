//! Policies, both ways.

use std::time::Duration;

use prost::Message;
use reprise_domain::policy::{HEADER_NAMES_MAX, Mode, OnLapse, POINTERS_MAX, RULES_MAX};
use reprise_domain::text::FieldError;
use reprise_domain::{Policy, name};
use reprise_fingerprint::{Pointer, Rule};
use reprise_proto::v1 as proto;

use super::answer::on_lapse;
use super::fields::{exact, prose, required_text, span, timestamp};
use super::page::{PAGE_BYTES_MAX, page_size};
use crate::grpc::policies::{Found, Source};
use crate::store::{PutPolicy, StoredPolicy};

const REASON_BYTES_MAX: usize = 1024;
const ETAG_BYTES_MAX: usize = 255;
const POINTER_BYTES_MAX: usize = 1024;

/// PutPolicyRequest. What is unset is as in `built_in`.
pub(crate) fn put_policy(
    message: proto::PutPolicyRequest,
    built_in: &Policy,
) -> Result<PutPolicy, FieldError> {
    let sent = message
        .policy
        .ok_or_else(|| FieldError::new("policy", "required"))?;
    policy_name("policy.", &sent.tenant, &sent.operation)?;
    if sent.tenant.is_empty() && !sent.inherits {
        let allowed = "required; empty with inherits set for all tenants, whose settings are \
                       those of the server's configuration";
        return Err(FieldError::new("policy.tenant", allowed));
    }
    let mode = match proto::Mode::try_from(sent.mode) {
        Ok(proto::Mode::Unspecified | proto::Mode::Enforce) => Mode::Enforce,
        Ok(proto::Mode::Hold) => Mode::Hold,
        Err(_) => return Err(FieldError::new("policy.mode", "ENFORCE or HOLD")),
    };
    if sent.etag.len() > ETAG_BYTES_MAX || sent.etag.chars().any(char::is_control) {
        return Err(FieldError::new("policy.etag", "as answered, or empty"));
    }
    let actor = required_text("actor", message.actor)?;
    let reason = prose("reason", message.reason, REASON_BYTES_MAX)?;
    let policy = match sent.inherits {
        true => None,
        false => {
            let policy = Policy {
                mode,
                ..policy(&sent, built_in)?
            };
            policy.check()?;
            Some(policy)
        }
    };
    Ok(PutPolicy {
        tenant: sent.tenant,
        operation: sent.operation,
        policy,
        mode,
        etag: sent.etag,
        actor,
        reason,
    })
}

/// The name of a policy, whose fields have this prefix: an empty operation is the tenant's
/// default, and without a tenant either it is that of all tenants.
pub(crate) fn policy_name(prefix: &str, tenant: &str, operation: &str) -> Result<(), FieldError> {
    if !tenant.is_empty() {
        name::check_word(&format!("{prefix}tenant"), tenant)?;
    } else if !operation.is_empty() {
        let allowed = "required with an operation; both empty for all tenants";
        return Err(FieldError::new(format!("{prefix}tenant"), allowed));
    }
    if !operation.is_empty() {
        name::check_word(&format!("{prefix}operation"), operation)?;
    }
    Ok(())
}

/// A policy as sent. What is unset is as in `built_in`.
pub(crate) fn policy(sent: &proto::Policy, built_in: &Policy) -> Result<Policy, FieldError> {
    let (on_lapse, repeat_within) = lapse(sent, built_in)?;
    Ok(Policy {
        on_lapse,
        repeat_within,
        lease: setting("lease", sent.lease, built_in.lease)?,
        wait_max: setting("wait_max", sent.wait_max, built_in.wait_max)?,
        result_retention: setting(
            "result_retention",
            sent.result_retention,
            built_in.result_retention,
        )?,
        memory_retention: setting(
            "memory_retention",
            sent.memory_retention,
            built_in.memory_retention,
        )?,
        result_bytes_max: sent.result_bytes_max.unwrap_or(built_in.result_bytes_max),
        headers: match &sent.headers {
            None => built_in.headers.clone(),
            Some(list) => headers(list)?,
        },
        rules: rules(&sent.fingerprint_rules)?,
        settle_after: setting("settle_after", sent.settle_after, built_in.settle_after)?,
        mode: Mode::Enforce,
    })
}

fn lapse(
    sent: &proto::Policy,
    built_in: &Policy,
) -> Result<(OnLapse, Option<Duration>), FieldError> {
    let on_lapse = match proto::OnLapse::try_from(sent.on_lapse) {
        Ok(proto::OnLapse::Unspecified) => built_in.on_lapse,
        Ok(proto::OnLapse::Pending) => OnLapse::Pending,
        Ok(proto::OnLapse::TakeOverUnlessSent) => OnLapse::TakeOverUnlessSent,
        Ok(proto::OnLapse::TakeOver) => OnLapse::TakeOver,
        Err(_) => {
            let allowed = "PENDING, TAKE_OVER_UNLESS_SENT or TAKE_OVER";
            return Err(FieldError::new("policy.on_lapse", allowed));
        }
    };
    let repeat_within = match sent.repeat_within {
        Some(sent) => Some(whole_millis("repeat_within", sent)?),
        None if on_lapse == OnLapse::TakeOver => built_in.repeat_within,
        None => None,
    };
    Ok((on_lapse, repeat_within))
}

fn setting(
    field: &str,
    sent: Option<prost_types::Duration>,
    built_in: Duration,
) -> Result<Duration, FieldError> {
    sent.map_or(Ok(built_in), |sent| whole_millis(field, sent))
}

/// Policies are kept in whole milliseconds; [`Policy::check`] knows the ranges.
fn whole_millis(field: &str, sent: prost_types::Duration) -> Result<Duration, FieldError> {
    match exact(sent) {
        Some(duration) if duration.subsec_nanos().is_multiple_of(1_000_000) => Ok(duration),
        _ => Err(FieldError::new(
            format!("policy.{field}"),
            "0 or longer, in whole milliseconds",
        )),
    }
}

fn headers(list: &proto::HeaderAllowList) -> Result<Vec<String>, FieldError> {
    if list.names.len() > HEADER_NAMES_MAX {
        return Err(FieldError::new("policy.headers", "at most 64 names"));
    }
    let names = list.names.iter();
    Ok(names.map(|name| name.to_ascii_lowercase()).collect())
}

fn rules(sent: &[proto::FingerprintRule]) -> Result<Vec<Rule>, FieldError> {
    if sent.is_empty() {
        return Ok(vec![Rule::default()]);
    }
    if sent.len() > RULES_MAX {
        let allowed = "at most 8 rules";
        return Err(FieldError::new("policy.fingerprint_rules", allowed));
    }
    let rule = |(at, rule): (usize, &proto::FingerprintRule)| {
        let field = format!("policy.fingerprint_rules[{at}]");
        let ignore = pointers(&format!("{field}.ignore"), &rule.ignore)?;
        let unordered = pointers(&format!("{field}.unordered"), &rule.unordered)?;
        Rule::new(ignore, unordered).map_err(|error| FieldError::new(field, error.to_string()))
    };
    sent.iter().enumerate().map(rule).collect()
}

fn pointers(field: &str, sent: &[String]) -> Result<Vec<Pointer>, FieldError> {
    if sent.len() > POINTERS_MAX {
        return Err(FieldError::new(field, "at most 64 pointers"));
    }
    let pointer = |(at, text): (usize, &String)| {
        let field = format!("{field}[{at}]");
        // Pointers go to a text column, which has no U+0000.
        if text.len() > POINTER_BYTES_MAX || text.contains('\0') {
            let allowed = "at most 1,024 bytes without U+0000";
            return Err(FieldError::new(field, allowed));
        }
        text.parse()
            .map_err(|error: reprise_fingerprint::PointerError| {
                FieldError::new(field, error.to_string())
            })
    };
    sent.iter().enumerate().map(pointer).collect()
}

/// A policy as it is in force for `tenant` and `operation`, with mode and etag of the one
/// that is stored under this very name, for editing.
pub(crate) fn policy_in_force(tenant: &str, operation: &str, found: &Found<'_>) -> proto::Policy {
    let named = found.of_name;
    proto::Policy {
        tenant: tenant.to_owned(),
        operation: operation.to_owned(),
        etag: named.map(|row| row.etag.clone()).unwrap_or_default(),
        update_time: named
            .or(found.settings_of)
            .map(|row| timestamp(row.updated_at)),
        mode: mode(named.map_or(Mode::Enforce, |row| row.mode)).into(),
        inherits: named.is_some_and(|row| row.policy.is_none()),
        ..settings(&found.policy)
    }
}

/// A policy as it is stored.
pub(crate) fn policy_as_stored(stored: &StoredPolicy) -> proto::Policy {
    proto::Policy {
        tenant: stored.tenant.clone(),
        operation: stored.operation.clone(),
        etag: stored.etag.clone(),
        update_time: Some(timestamp(stored.updated_at)),
        mode: mode(stored.mode).into(),
        inherits: stored.policy.is_none(),
        ..stored.policy.as_ref().map(settings).unwrap_or_default()
    }
}

fn mode(mode: Mode) -> proto::Mode {
    match mode {
        Mode::Enforce => proto::Mode::Enforce,
        Mode::Hold => proto::Mode::Hold,
    }
}

fn settings(policy: &Policy) -> proto::Policy {
    proto::Policy {
        on_lapse: on_lapse(policy.on_lapse).into(),
        repeat_within: policy.repeat_within.map(span),
        lease: Some(span(policy.lease)),
        wait_max: Some(span(policy.wait_max)),
        result_retention: Some(span(policy.result_retention)),
        memory_retention: Some(span(policy.memory_retention)),
        result_bytes_max: Some(policy.result_bytes_max),
        headers: Some(proto::HeaderAllowList {
            names: policy.headers.clone(),
        }),
        fingerprint_rules: policy.rules.iter().map(rule_message).collect(),
        settle_after: Some(span(policy.settle_after)),
        ..proto::Policy::default()
    }
}

fn rule_message(rule: &Rule) -> proto::FingerprintRule {
    let texts = |pointers: &[Pointer]| pointers.iter().map(ToString::to_string).collect();
    proto::FingerprintRule {
        id: rule.id().as_str().to_owned(),
        ignore: texts(rule.ignore()),
        unordered: texts(rule.unordered()),
    }
}

/// Where a policy comes from.
pub(crate) fn source(source: Source) -> proto::PolicySource {
    match source {
        Source::Operation => proto::PolicySource::Operation,
        Source::Tenant => proto::PolicySource::Tenant,
        Source::BuiltIn => proto::PolicySource::BuiltIn,
    }
}

/// Where a page begins (the name after which it does; none for the first page) and how
/// long it is at most.
pub(crate) fn list_start(
    message: &proto::ListPoliciesRequest,
) -> Result<ListStart<'_>, FieldError> {
    if !message.tenant.is_empty() {
        name::check_word("tenant", &message.tenant)?;
    }
    let size = page_size(message.page_size)?;
    if message.page_token.is_empty() {
        return Ok((None, size));
    }
    let is_name = |text: &str| text.is_empty() || name::check_word("", text).is_ok();
    let after = message.page_token.split_once(PAGE_TOKEN);
    let after = after.filter(|(tenant, operation)| is_name(tenant) && is_name(operation));
    match after {
        Some(after) => Ok((Some(after), size)),
        None => Err(FieldError::new("page_token", "as answered, or empty")),
    }
}

type ListStart<'a> = (Option<(&'a str, &'a str)>, usize);

/// Stands between tenant and operation in a page token, and in neither of them.
const PAGE_TOKEN: char = ' ';

/// A page of what remains of the policies, in order of tenant and operation.
pub(crate) fn page<'a>(
    rest: impl Iterator<Item = &'a StoredPolicy>,
    size: usize,
) -> proto::ListPoliciesResponse {
    let mut page = proto::ListPoliciesResponse::default();
    let mut bytes = 0;
    for stored in rest {
        let message = policy_as_stored(stored);
        bytes += message.encoded_len();
        let full = page.policies.len() == size || bytes > PAGE_BYTES_MAX;
        if let (true, Some(last)) = (full, page.policies.last()) {
            page.next_page_token = format!("{}{PAGE_TOKEN}{}", last.tenant, last.operation);
            break;
        }
        page.policies.push(message);
    }
    page
}
