//! Answers of the service as trees of fields, with the names and the shape of the
//! protos. Knows messages, not commands.

pub(crate) mod seen;

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reprise_client::proto::{
    Adjustment, Content, EarlierAttempts, FingerprintRule, Header, Mismatch, OnLapse, Pending,
    PendingClaim, Policy, Processing, RecordName, RecordSummary, ReportDisposition, ResultGone,
    StartOver, content::Body,
};
use reprise_client::{
    Acquired, Found, Lease, Marked, Outcome, Reading, Recorded, Renewed, Reported, Reserved,
    Resolved,
};

use super::value::{Fields, Value};
use super::words;

/// The answer to Reserve.
pub(crate) fn reserved(answer: &Reserved) -> Fields {
    let (name, outcome) = match &answer.outcome {
        Outcome::Acquired(it) => ("acquired", acquired(it)),
        Outcome::Completed(it) => ("completed", recorded("result", it)),
        Outcome::Failed(it) => ("failed", recorded("error", it)),
        Outcome::Processing(it) => ("processing", processing(it)),
        Outcome::Pending(it) => ("pending", pending(it)),
        Outcome::Mismatch(it) => ("mismatch", mismatch(it)),
        Outcome::ResultGone(it) => ("result_gone", result_gone(it)),
    };
    let id = Bytes::copy_from_slice(answer.attempt_id.as_bytes());
    Fields::new()
        .with("outcome", name)
        .with("start_over", start_over(answer.start_over))
        .with("attempt_id", Value::Hex(id))
        .with(name, outcome)
        .with("record", record(&answer.record))
}

/// The answer to Lookup.
pub(crate) fn found(answer: &Found) -> Fields {
    let (name, reading) = match &answer.reading {
        Reading::Completed(it) => ("completed", recorded("result", it)),
        Reading::Failed(it) => ("failed", recorded("error", it)),
        Reading::Processing(it) => ("processing", processing(it)),
        Reading::Pending(it) => ("pending", pending(it)),
        Reading::ResultGone(it) => ("result_gone", result_gone(it)),
    };
    Fields::new()
        .with("name", record_name(&answer.name))
        .with("reading", name)
        .with("start_over", start_over(answer.start_over))
        .with(name, reading)
        .with("record", record(&answer.record))
}

/// Who a record is, and what it has been so far, without its outcome.
pub(crate) fn identity(found: &Found) -> Fields {
    let record = &found.record;
    let pending = match &found.reading {
        Reading::Pending(it) => Some(
            Fields::new()
                .with("reason", word(it.reason().as_str_name(), "PENDING_REASON_"))
                .with("detail", &*it.detail)
                .with("since_time", it.since_time)
                .with("next_check_time", it.next_check_time)
                .with("claim", it.claim.as_ref().map(pending_claim)),
        ),
        _ => None,
    };
    Fields::new()
        .with("name", record_name(&found.name))
        .with("record_id", &*record.record_id)
        .with("effect_key", &*record.effect_key)
        .with("state", words::state(record))
        .with("pending", pending)
        .with("create_time", record.create_time)
        .with("update_time", record.update_time)
        .with("revision", record.revision)
        .with("correlation_id", &*record.correlation_id)
        .with("resource_id", &*record.resource_id)
        .with("provider_reference", &*record.provider_reference)
}

/// The answer to Complete, Fail and MarkPending.
pub(crate) fn reported(answer: &Reported) -> Fields {
    Fields::new()
        .with("disposition", disposition(answer.disposition))
        .with("adjusted", adjusted(&answer.adjusted))
        .with("record", record(&answer.record))
}

/// The answer to MarkSending.
pub(crate) fn marked(answer: &Marked) -> Fields {
    Fields::new()
        .with("lease_remaining", left(&answer.lease))
        .with("record", record(&answer.record))
}

/// The answer to Renew.
pub(crate) fn renewed(answer: &Renewed) -> Fields {
    Fields::new()
        .with("closed", answer.closed)
        .with("lease_remaining", left(&answer.lease))
        .with("record", record(&answer.record))
}

/// The answer to Resolve.
pub(crate) fn resolved(answer: &Resolved) -> Fields {
    Fields::new()
        .with("disposition", disposition(answer.disposition))
        .with("adjusted", adjusted(&answer.adjusted))
        .with("acquired", answer.acquired.as_ref().map(acquired))
        .with("record", record(&answer.record))
}

pub(crate) fn record_name(name: &RecordName) -> Fields {
    Fields::new()
        .with("tenant", &*name.tenant)
        .with("operation", &*name.operation)
        .with("subject", &*name.subject)
        .with("key", &*name.key)
}

fn record(record: &RecordSummary) -> Fields {
    // All three count from 1; a mismatch does not show them.
    let count = |count: u64| (count > 0).then_some(count);
    let failure_kind = record.failure_kind().as_str_name();
    let failure_kind = Some(word(failure_kind, "FAILURE_KIND_")).filter(|kind| *kind != UNSET);
    Fields::new()
        .with("record_id", &*record.record_id)
        .with("state", word(record.state().as_str_name(), "STATE_"))
        .with("failure_kind", failure_kind)
        .with("attempt", count(record.attempt.into()))
        .with("revision", count(record.revision))
        .with("create_time", record.create_time)
        .with("update_time", record.update_time)
        .with("result_expire_time", record.result_expire_time)
        .with("memory_expire_time", record.memory_expire_time)
        .with("correlation_id", &*record.correlation_id)
        .with("resource_id", &*record.resource_id)
        .with("provider_reference", &*record.provider_reference)
        .with("effect_key", &*record.effect_key)
        .with("generation", count(record.generation.into()))
}

fn acquired(grant: &Acquired) -> Fields {
    let lease_end = grant.lease_expire_time.map(prost_types::Timestamp::from);
    Fields::new()
        .with("token", Value::Opaque(grant.token.clone()))
        .with("fence", grant.fence.to_string())
        .with("effect_key", &*grant.effect_key)
        .with("lease_remaining", left(&grant.lease))
        .with("lease_expire_time", lease_end)
        .with("result_bytes_max", grant.result_bytes_max)
        .with("on_lapse", on_lapse(grant.on_lapse))
        .with("reason", word(grant.reason.as_str_name(), "GRANT_REASON_"))
        .with("earlier", earlier(&grant.earlier))
}

fn earlier(earlier: &EarlierAttempts) -> Fields {
    Fields::new()
        .with("provider_reference", &*earlier.provider_reference)
        .with("instruction", bytes(&earlier.instruction))
        .with("unaccounted", earlier.unaccounted)
        .with("error", earlier.error.as_ref().map(content))
}

fn recorded(name: &'static str, recorded: &Recorded) -> Fields {
    Fields::new()
        .with(name, content(&recorded.content))
        .with("record_time", time(recorded.time))
}

fn content(content: &Content) -> Fields {
    let (data, omitted) = match &content.body {
        None => (Value::None, Value::None),
        Some(Body::Data(data)) => (Value::Bytes(data.clone()), Value::None),
        Some(Body::Omitted(body)) => {
            let omitted = Fields::new()
                .with("size", body.size)
                .with("sha256", Value::Hex(body.sha256.clone()));
            (Value::None, omitted.into())
        }
    };
    let headers: Vec<Fields> = content.headers.iter().map(header).collect();
    Fields::new()
        .with("code", &*content.code)
        .with("headers", headers)
        .with("data", data)
        .with("omitted", omitted)
        .with("resource_id", &*content.resource_id)
        .with("provider_reference", &*content.provider_reference)
}

fn header(header: &Header) -> Fields {
    Fields::new()
        .with("name", &*header.name)
        .with("value", Value::Bytes(header.value.clone()))
}

fn processing(processing: &Processing) -> Fields {
    let reason = word(processing.reason().as_str_name(), "PROCESSING_REASON_");
    Fields::new()
        .with("owner", &*processing.owner)
        .with("lease_remaining", processing.lease_remaining)
        .with("lease_expire_time", processing.lease_expire_time)
        .with("retry_after", processing.retry_after)
        .with("reason", reason)
}

fn pending(pending: &Pending) -> Fields {
    let token = Some(pending.token.clone()).filter(|token| !token.is_empty());
    Fields::new()
        .with(
            "reason",
            word(pending.reason().as_str_name(), "PENDING_REASON_"),
        )
        .with("detail", &*pending.detail)
        .with("since_time", pending.since_time)
        .with("provider_reference", &*pending.provider_reference)
        .with("next_check_time", pending.next_check_time)
        .with("retry_after", pending.retry_after)
        .with("yours", pending.yours)
        .with("token", token.map_or(Value::None, Value::Opaque))
        .with("claim", pending.claim.as_ref().map(pending_claim))
}

fn pending_claim(claim: &PendingClaim) -> Fields {
    Fields::new()
        .with("owner", &*claim.owner)
        .with("take_time", claim.take_time)
        .with("lease_expire_time", claim.lease_expire_time)
}

fn mismatch(mismatch: &Mismatch) -> Fields {
    let reason = word(mismatch.reason().as_str_name(), "MISMATCH_REASON_");
    Fields::new().with("reason", reason)
}

fn result_gone(gone: &ResultGone) -> Fields {
    Fields::new()
        .with("state", word(gone.state().as_str_name(), "STATE_"))
        .with("code", &*gone.code)
        .with("resource_id", &*gone.resource_id)
        .with("provider_reference", &*gone.provider_reference)
        .with("record_time", gone.record_time)
}

fn adjusted(adjusted: &[Adjustment]) -> Vec<Fields> {
    let one = |it: &Adjustment| {
        Fields::new()
            .with("field", &*it.field)
            .with("kind", word(it.kind().as_str_name(), "ADJUSTMENT_KIND_"))
            .with("description", &*it.description)
    };
    adjusted.iter().map(one).collect()
}

/// A policy.
pub(crate) fn policy(policy: &Policy) -> Fields {
    let rule = |rule: &FingerprintRule| {
        Fields::new()
            .with("id", &*rule.id)
            .with("ignore", rule.ignore.clone())
            .with("unordered", rule.unordered.clone())
    };
    let rules: Vec<_> = policy.fingerprint_rules.iter().map(rule).collect();
    let headers = policy.headers.as_ref().map(|list| list.names.clone());
    Fields::new()
        .with("tenant", &*policy.tenant)
        .with("operation", &*policy.operation)
        .with("mode", word(policy.mode().as_str_name(), "MODE_"))
        .with("inherits", policy.inherits)
        .with("on_lapse", on_lapse(policy.on_lapse()))
        .with("repeat_within", policy.repeat_within)
        .with("lease", policy.lease)
        .with("wait_max", policy.wait_max)
        .with("result_retention", policy.result_retention)
        .with("memory_retention", policy.memory_retention)
        .with("result_bytes_max", policy.result_bytes_max)
        .with("headers", headers)
        .with("fingerprint_rules", rules)
        .with("settle_after", policy.settle_after)
        .with("etag", &*policy.etag)
        .with("update_time", policy.update_time)
}

/// Unset where a policy that inherits says nothing.
fn on_lapse(on_lapse: OnLapse) -> Option<&'static str> {
    let word = word(on_lapse.as_str_name(), "ON_LAPSE_");
    Some(word).filter(|word| *word != UNSET)
}

fn disposition(disposition: ReportDisposition) -> &'static str {
    word(disposition.as_str_name(), "REPORT_DISPOSITION_")
}

fn start_over(answer: StartOver) -> &'static str {
    word(answer.as_str_name(), "START_OVER_")
}

/// What is left of a lease, counted from when it was asked for: never too long.
fn left(lease: &Lease) -> Duration {
    let left = lease.remaining();
    Duration::from_millis(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
}

fn bytes(bytes: &Bytes) -> Value {
    if bytes.is_empty() {
        Value::None
    } else {
        Value::Bytes(bytes.clone())
    }
}

fn time(time: SystemTime) -> prost_types::Timestamp {
    time.into()
}

const UNSET: &str = "UNSPECIFIED";

/// A value of an enum without the prefix that the proto gives it.
pub(crate) fn word(name: &'static str, prefix: &str) -> &'static str {
    name.strip_prefix(prefix).unwrap_or(name)
}
