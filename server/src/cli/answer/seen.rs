//! Answers of the services that let people see and find out, as trees of fields.

use bytes::Bytes;
use reprise_client::proto::{
    AuditEntry, ClaimedRecord, EndedAttempt, ForgetRecordResponse, GetHistoryResponse,
    GetStatusResponse, Hold, NewestAttempt, PendingCount, PendingRecord, RecordEntry,
    RefusedReport, ReplacedValues, SeenMismatch,
};

use super::{bytes, disposition, on_lapse, pending, record, record_name, word};
use crate::cli::value::{Fields, Value};

/// An entry of ListPending.
pub(crate) fn pending_record(it: &PendingRecord) -> Fields {
    Fields::new()
        .with("name", it.name.as_ref().map(record_name))
        .with("pending", it.pending.as_ref().map(pending))
        .with("record", it.record.as_ref().map(record))
}

/// A count of CountPending.
pub(crate) fn pending_count(it: &PendingCount) -> Fields {
    Fields::new()
        .with("operation", &*it.operation)
        .with("reason", word(it.reason().as_str_name(), "PENDING_REASON_"))
        .with("total", it.total)
        .with("due", it.due)
        .with("claimed", it.claimed)
        .with("oldest_since_time", it.oldest_since_time)
}

/// A claim. `claim_id` repeats the call that made it.
pub(crate) fn claimed(it: &ClaimedRecord, claim_id: &[u8; 16]) -> Fields {
    Fields::new()
        .with("name", it.name.as_ref().map(record_name))
        .with("claim", Value::Opaque(it.claim.clone()))
        .with("claim_id", Value::Hex(Bytes::copy_from_slice(claim_id)))
        .with("fence", &*it.fence)
        .with("lease_remaining", it.lease_remaining)
        .with("lease_expire_time", it.lease_expire_time)
        .with("may_deny", it.may_deny)
        .with("unaccounted", it.unaccounted)
        .with("instruction", bytes(&it.instruction))
        .with("pending", it.pending.as_ref().map(pending))
        .with("record", it.record.as_ref().map(record))
}

/// An entry of ListRecords.
pub(crate) fn record_entry(it: &RecordEntry) -> Fields {
    Fields::new()
        .with("name", it.name.as_ref().map(record_name))
        .with("record", it.record.as_ref().map(record))
}

/// The answer to ForgetRecord.
pub(crate) fn forgotten(it: &ForgetRecordResponse) -> Fields {
    Fields::new()
        .with("disposition", disposition(it.disposition()))
        .with("record", it.record.as_ref().map(record))
}

/// An entry of ListAudit.
pub(crate) fn audit_entry(it: &AuditEntry) -> Fields {
    let attempt = (it.attempt > 0).then_some(it.attempt);
    Fields::new()
        .with("time", it.time)
        .with("actor", &*it.actor)
        .with("action", word(it.action().as_str_name(), "AUDIT_ACTION_"))
        .with(
            "authority",
            word(it.authority().as_str_name(), "AUDIT_AUTHORITY_"),
        )
        .with("tenant", &*it.tenant)
        .with("operation", &*it.operation)
        .with("record_id", &*it.record_id)
        .with("attempt", attempt)
        .with("reason", &*it.reason)
}

/// The answer to GetHistory, but for the record itself.
pub(crate) fn history(it: &GetHistoryResponse) -> Fields {
    let list = |fields: Vec<Fields>| Value::from(fields);
    Fields::new()
        .with("newest", it.newest.as_ref().map(newest))
        .with("attempts", list(it.attempts.iter().map(ended).collect()))
        .with("replaced", list(it.replaced.iter().map(replaced).collect()))
        .with("refused", list(it.refused.iter().map(refused).collect()))
        .with(
            "mismatches",
            list(it.mismatches.iter().map(mismatch).collect()),
        )
}

fn newest(it: &NewestAttempt) -> Fields {
    Fields::new()
        .with("number", it.number)
        .with("attempt_id", Value::Hex(it.attempt_id.clone()))
        .with("owner", &*it.owner)
        .with("grant_time", it.grant_time)
        .with("lease_expire_time", it.lease_expire_time)
        .with("reason", word(it.reason().as_str_name(), "GRANT_REASON_"))
        .with("sent", it.sent)
        .with("fence", &*it.fence)
        .with("repeat_until_time", it.repeat_until_time)
        .with("unaccounted", it.unaccounted)
        .with("contradicted", it.contradicted)
        .with("on_lapse", on_lapse(it.on_lapse()))
}

fn ended(it: &EndedAttempt) -> Fields {
    Fields::new()
        .with("number", it.number)
        .with("attempt_id", Value::Hex(it.attempt_id.clone()))
        .with("owner", &*it.owner)
        .with("grant_time", it.grant_time)
        .with("end_time", it.end_time)
        .with("ending", word(it.ending().as_str_name(), "ATTEMPT_ENDING_"))
        .with("code", &*it.code)
        .with("provider_reference", &*it.provider_reference)
}

fn replaced(it: &ReplacedValues) -> Fields {
    Fields::new()
        .with("attempt", it.attempt)
        .with("provider_reference", &*it.provider_reference)
        .with("instruction", bytes(&it.instruction))
        .with("time", it.time)
}

fn refused(it: &RefusedReport) -> Fields {
    Fields::new()
        .with("attempt", it.attempt)
        .with("kind", word(it.kind().as_str_name(), "REPORT_KIND_"))
        .with("code", &*it.code)
        .with("digest", Value::Hex(it.digest.clone()))
        .with("time", it.time)
}

fn mismatch(it: &SeenMismatch) -> Fields {
    Fields::new()
        .with(
            "scheme",
            word(it.scheme().as_str_name(), "FINGERPRINT_SCHEME_"),
        )
        .with("rule_id", &*it.rule_id)
        .with("sha256", Value::Hex(it.sha256.clone()))
        .with("count", it.count)
        .with("first_time", it.first_time)
        .with("last_time", it.last_time)
}

/// The answer to GetStatus.
pub(crate) fn status(it: &GetStatusResponse) -> Fields {
    let hold = |it: &Hold| {
        Fields::new()
            .with("tenant", &*it.tenant)
            .with("operation", &*it.operation)
            .with("since_time", it.since_time)
    };
    let upkeep = it.upkeep.as_ref().map(|it| {
        Fields::new()
            .with("sweep_lag", it.sweep_lag)
            .with("open_records", it.open_records)
            .with("removal_lag", it.removal_lag)
            .with("bodies_removed", it.bodies_removed)
            .with("records_removed", it.records_removed)
    });
    Fields::new()
        .with("holds", it.holds.iter().map(hold).collect::<Vec<_>>())
        .with("version", &*it.version)
        .with("store", &*it.store)
        .with("store_time", it.store_time)
        .with("uptime", it.uptime)
        .with("upkeep", upkeep)
}
