//! How a record lies in its row: one place for columns, times and numbers, both ways. It
//! knows no statement and no rule; what it cannot read it reports.

use std::time::Duration;

use bytes::Bytes;
use reprise_domain::content::{Body, Content, Sha};
use reprise_domain::policy::OnLapse;
use reprise_domain::record::{
    Attempt, AttemptId, Claim, ClaimId, Ended, GivenBack, GrantReason, Outcome, Pending,
    PendingReason, Report, ReportKind, Resolution, State,
};
use reprise_domain::{Record, RecordId, RecordName};
use reprise_fingerprint::{Fingerprint, RuleId, Scheme};

use super::column::{Blob, Code, Moment, Uuid, codes, columns};
use super::content::{ContentColumns, is_sound, read_headers};
use super::usual::{self, flag, unless};

columns! {
    /// A record as its row has it; `None` is null. What is usual, [`usual`] says.
    RecordRow, RecordArrays {
        id: Uuid,
        tenant: String,
        operation: String,
        subject: Option<String>,
        key: String,
        revision: i64,
        created_at: Option<Moment>,
        updated_at: Option<Moment>,
        state: i16,
        generation: Option<i32>,
        key_spent: Option<bool>,
        unaccounted: Option<bool>,
        contradicted: Option<bool>,
        fingerprint_scheme: Option<i16>,
        fingerprint_rule: Option<String>,
        fingerprint_digest: Blob,
        attempt: Option<i32>,
        attempt_id: Blob,
        earlier_ids: Option<Blob>,
        fence: Option<i64>,
        granted_at: Moment,
        lease_end: Option<Moment>,
        lease_us: Option<i64>,
        on_lapse: Option<i16>,
        repeat_until: Option<Moment>,
        why: Option<i16>,
        owner: Option<String>,
        sent: Option<bool>,
        used: Option<bool>,
        given_back: Option<i16>,
        report_kind: Option<i16>,
        report_digest: Option<Blob>,
        pending_digests: Option<Blob>,
        previous_attempt: Option<i32>,
        previous_fence: Option<i64>,
        previous_report_kind: Option<i16>,
        previous_report_digest: Option<Blob>,
        previous_pending_digests: Option<Blob>,
        correlation_id: Option<String>,
        provider_reference: Option<String>,
        resource_id: Option<String>,
        instruction: Option<Blob>,
        pending_reason: Option<i16>,
        pending_detail: Option<String>,
        pending_since: Option<Moment>,
        next_check: Option<Moment>,
        recorded_at: Option<Moment>,
        result_until: Option<Moment>,
        memory_until: Option<Moment>,
        code: Option<String>,
        content_reference: Option<String>,
        headers: Option<Blob>,
        body: Option<Blob>,
        body_size: Option<i64>,
        body_sha256: Option<Blob>,
        checksum: Option<Blob>,
        resolution_attempt: Option<i32>,
        resolution_digest: Option<Blob>,
        resolution_content: Option<Blob>,
        resolution_core: Option<Blob>,
        claim_id: Option<Blob>,
        claim_fence: Option<i64>,
        claim_taken_at: Option<Moment>,
        claim_lease_end: Option<Moment>,
        claim_lease_us: Option<i64>,
        claim_owner: Option<String>,
        claim_over: Option<bool>,
    }
}

codes! {
    State { Processing = 1, Pending = 2, Completed = 3, FailedRetryable = 4, FailedFinal = 5 }
    OnLapse { Pending = 1, TakeOverUnlessSent = 2, TakeOver = 3 }
    GrantReason { First = 1, AfterRetryableFailure = 2, AfterLapsedLease = 3, AfterResolution = 4 }
    Scheme { Raw = 1, Json = 2 }
    ReportKind { Completed = 1, FailedRetryable = 2, FailedFinal = 3 }
    GivenBack { Server = 1, Client = 2 }
    PendingReason {
        Reported = 1,
        LeaseExpired = 2,
        LeaseExpiredAfterSending = 3,
        EarlierAttemptUnknown = 4,
        ContradictoryReports = 5,
    }
}

/// A row that cannot be read as a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    /// The stored content does not match its checksum.
    #[error("the content does not match its checksum")]
    Damaged(RecordId),
    /// A column holds what was never written.
    #[error("column {0} holds what was never written there")]
    Column(&'static str),
}

impl From<&Record> for RecordRow {
    fn from(record: &Record) -> Self {
        let attempt = &record.attempt;
        let previous = record.previous.as_ref();
        let previous_report = previous.and_then(|ended| ended.report);
        let pending = record.pending.as_ref();
        let outcome = record.outcome.as_ref();
        // A content is read back with the record's resource id.
        let content = outcome.map(|Outcome { content, .. }| {
            let report = attempt
                .report
                .filter(|_| content.resource_id == record.resource_id);
            ContentColumns::of(content, report.map(|report| report.digest))
        });
        let content = content.as_ref();
        let resolution = record.resolution.as_ref();
        let claim = record.claim.as_ref();
        let recorded_at = outcome.map(|outcome| outcome.recorded_at);
        let updated_at = usual::updated_at(attempt.granted_at, recorded_at);
        let lease_end = usual::lease_end(attempt.granted_at, attempt.lease);
        Self {
            id: Uuid::of(&record.name.id()),
            tenant: record.name.tenant().to_owned(),
            operation: record.name.operation().to_owned(),
            subject: text(record.name.subject()),
            key: record.name.key().to_owned(),
            revision: record.revision.cast_signed(),
            created_at: unless(attempt.granted_at, record.created_at).map(Moment),
            updated_at: unless(updated_at, record.updated_at).map(Moment),
            state: record.state.code(),
            generation: unless(usual::FIRST, record.generation.cast_signed()),
            key_spent: flag(record.key_spent),
            unaccounted: flag(record.unaccounted),
            contradicted: flag(record.contradicted),
            fingerprint_scheme: unless(usual::WORD, record.fingerprint.scheme.code()),
            fingerprint_rule: text(record.fingerprint.rule.as_str()),
            fingerprint_digest: Blob::copy(&record.fingerprint.digest),
            attempt: unless(usual::FIRST, attempt.number.cast_signed()),
            attempt_id: Blob::copy(&attempt.id.0),
            earlier_ids: joined(attempt.earlier_ids.iter().map(|id| id.0.as_slice())),
            fence: unless(
                usual::fence(attempt.granted_at),
                attempt.fence.cast_signed(),
            ),
            granted_at: Moment(attempt.granted_at),
            lease_end: unless(lease_end, attempt.lease_end).map(Moment),
            lease_us: usual::lease_us(attempt.lease),
            on_lapse: unless(usual::WORD, attempt.on_lapse.code()),
            repeat_until: attempt.repeat_until.map(Moment),
            why: unless(usual::WORD, attempt.why.code()),
            owner: text(&attempt.owner),
            sent: flag(attempt.sent),
            used: flag(attempt.used),
            given_back: attempt.given_back.map(Code::code),
            report_kind: attempt.report.map(|report| report.kind.code()),
            report_digest: attempt.report.map(|report| Blob::copy(&report.digest)),
            pending_digests: joined(attempt.pending_digests.iter().map(Sha::as_slice)),
            previous_attempt: previous.map(|ended| ended.number.cast_signed()),
            previous_fence: previous.map(|ended| ended.fence.cast_signed()),
            previous_report_kind: previous_report.map(|report| report.kind.code()),
            previous_report_digest: previous_report.map(|report| Blob::copy(&report.digest)),
            previous_pending_digests: previous
                .and_then(|ended| joined(ended.pending_digests.iter().map(Sha::as_slice))),
            correlation_id: text(&record.correlation_id),
            provider_reference: text(&record.provider_reference),
            resource_id: text(&record.resource_id),
            instruction: blob(&record.instruction),
            pending_reason: pending.map(|pending| pending.reason.code()),
            pending_detail: pending.and_then(|pending| text(&pending.detail)),
            pending_since: pending.map(|pending| Moment(pending.since)),
            next_check: pending.map(|pending| Moment(pending.next_check)),
            recorded_at: recorded_at.map(Moment),
            result_until: outcome.and_then(|outcome| {
                unless(
                    usual::result_until(outcome.recorded_at),
                    outcome.result_until,
                )
                .map(Moment)
            }),
            memory_until: outcome.and_then(|outcome| {
                unless(
                    usual::memory_until(outcome.recorded_at),
                    outcome.memory_until,
                )
                .map(Moment)
            }),
            code: content.and_then(|content| content.code.clone()),
            content_reference: content.and_then(|content| content.reference.clone()),
            headers: content.and_then(|content| content.headers.clone()),
            body: content.and_then(|content| content.body.clone()),
            body_size: content.and_then(|content| content.body_size),
            body_sha256: content.and_then(|content| content.body_sha256.clone()),
            checksum: content.and_then(|content| content.checksum.clone()),
            resolution_attempt: resolution.map(|found| found.attempt.cast_signed()),
            resolution_digest: resolution.map(|found| Blob::copy(&found.digest)),
            resolution_content: resolution
                .and_then(|found| found.content.as_ref().map(|sha| Blob::copy(sha))),
            resolution_core: resolution
                .and_then(|found| found.core.as_ref().map(|sha| Blob::copy(sha))),
            claim_id: claim.map(|claim| Blob::copy(&claim.id.0)),
            claim_fence: claim.map(|claim| claim.fence.cast_signed()),
            claim_taken_at: claim.map(|claim| Moment(claim.taken_at)),
            claim_lease_end: claim.map(|claim| Moment(claim.lease_end)),
            claim_lease_us: claim.map(|claim| reprise_domain::time::micros(claim.lease)),
            claim_owner: claim.and_then(|claim| text(&claim.owner)),
            claim_over: claim.map(|claim| claim.over),
        }
    }
}

impl RecordRow {
    /// A row that was read as [`narrow`], as one that never had what was left out.
    fn without_bytes(mut self) -> Self {
        (self.headers, self.body) = (None, None);
        let sha256 = self
            .body_sha256
            .as_ref()
            .map(|sha| fixed("body_sha256", sha));
        let body = self.body_size.zip(sha256.and_then(Result::ok));
        let content = Content {
            code: self.code.clone().unwrap_or_default(),
            body: body.map(|(size, sha256)| Body::Omitted {
                size: size.cast_unsigned(),
                sha256,
            }),
            ..Content::default()
        };
        self.checksum = self.recorded_at.map(|_| Blob::copy(&content.checksum()));
        self
    }
}

/// The columns of [`RecordArrays`] under an alias, without those of headers and body: lists
/// must not fetch megabytes.
pub(super) fn narrow(alias: &str) -> String {
    let names: Vec<String> = RecordArrays::NAMES
        .iter()
        .map(|name| match *name {
            "headers" | "body" => format!("null::bytea as {name}"),
            _ => format!("{alias}.{name}"),
        })
        .collect();
    names.join(", ")
}

/// The record of a row that was read as [`narrow`].
pub(super) fn listed(row: RecordRow) -> Result<Record, Unreadable> {
    row.without_bytes().try_into()
}

impl TryFrom<RecordRow> for Record {
    type Error = Unreadable;

    fn try_from(row: RecordRow) -> Result<Self, Unreadable> {
        let subject = row.subject.clone().unwrap_or_default();
        let (tenant, operation) = (row.tenant.clone(), row.operation.clone());
        let name = RecordName::new(tenant, operation, subject, row.key.clone())
            .map_err(|_| Unreadable::Column("key"))?;
        if Uuid::of(&name.id()) != row.id {
            return Err(Unreadable::Column("id"));
        }
        let outcome = outcome(&row, name.id())?;
        let attempt = attempt(&row)?;
        let recorded_at = outcome.as_ref().map(|outcome| outcome.recorded_at);
        let updated_at = usual::updated_at(attempt.granted_at, recorded_at);
        Ok(Self {
            name,
            revision: row.revision.cast_unsigned(),
            created_at: row.created_at.map_or(attempt.granted_at, |at| at.0),
            updated_at: row.updated_at.map_or(updated_at, |at| at.0),
            fingerprint: Fingerprint {
                scheme: word("fingerprint_scheme", row.fingerprint_scheme)?,
                rule: RuleId::try_from(row.fingerprint_rule.clone().unwrap_or_default())
                    .map_err(|_| Unreadable::Column("fingerprint_rule"))?,
                digest: fixed("fingerprint_digest", &row.fingerprint_digest)?,
            },
            state: coded("state", row.state)?,
            generation: number(row.generation),
            key_spent: row.key_spent.unwrap_or(false),
            unaccounted: row.unaccounted.unwrap_or(false),
            contradicted: row.contradicted.unwrap_or(false),
            attempt,
            previous: previous(&row)?,
            pending: pending(&row)?,
            outcome,
            resolution: resolution(&row)?,
            claim: claim(&row)?,
            correlation_id: row.correlation_id.unwrap_or_default(),
            provider_reference: row.provider_reference.unwrap_or_default(),
            resource_id: row.resource_id.unwrap_or_default(),
            instruction: row.instruction.unwrap_or_default().0,
        })
    }
}

fn attempt(row: &RecordRow) -> Result<Attempt, Unreadable> {
    let ids = split("earlier_ids", row.earlier_ids.as_ref())?;
    let (granted_at, lease) = (row.granted_at.0, usual::lease(row.lease_us));
    let fence = row.fence.unwrap_or_else(|| usual::fence(granted_at));
    let lease_end = row.lease_end.map(|end| end.0);
    Ok(Attempt {
        number: number(row.attempt),
        id: AttemptId(fixed("attempt_id", &row.attempt_id)?),
        earlier_ids: ids.into_iter().map(AttemptId).collect(),
        fence: fence.cast_unsigned(),
        granted_at,
        lease_end: lease_end.unwrap_or_else(|| usual::lease_end(granted_at, lease)),
        lease,
        on_lapse: word("on_lapse", row.on_lapse)?,
        repeat_until: row.repeat_until.map(|until| until.0),
        why: word("why", row.why)?,
        owner: row.owner.clone().unwrap_or_default(),
        sent: row.sent.unwrap_or(false),
        used: row.used.unwrap_or(false),
        given_back: row
            .given_back
            .map(|code| coded("given_back", code))
            .transpose()?,
        report: report(row.report_kind, row.report_digest.as_ref())?,
        pending_digests: split("pending_digests", row.pending_digests.as_ref())?,
    })
}

fn previous(row: &RecordRow) -> Result<Option<Ended>, Unreadable> {
    let (Some(number), Some(fence)) = (row.previous_attempt, row.previous_fence) else {
        return Ok(None);
    };
    let digests = row.previous_pending_digests.as_ref();
    Ok(Some(Ended {
        number: number.cast_unsigned(),
        fence: fence.cast_unsigned(),
        report: report(
            row.previous_report_kind,
            row.previous_report_digest.as_ref(),
        )?,
        pending_digests: split("previous_pending_digests", digests)?,
    }))
}

fn report(kind: Option<i16>, digest: Option<&Blob>) -> Result<Option<Report>, Unreadable> {
    let (Some(kind), Some(digest)) = (kind, digest) else {
        return Ok(None);
    };
    Ok(Some(Report {
        kind: coded("report_kind", kind)?,
        digest: fixed("report_digest", digest)?,
    }))
}

fn pending(row: &RecordRow) -> Result<Option<Pending>, Unreadable> {
    let (Some(reason), Some(since), Some(next_check)) =
        (row.pending_reason, row.pending_since, row.next_check)
    else {
        return Ok(None);
    };
    Ok(Some(Pending {
        reason: coded("pending_reason", reason)?,
        detail: row.pending_detail.clone().unwrap_or_default(),
        since: since.0,
        next_check: next_check.0,
    }))
}

fn outcome(row: &RecordRow, id: RecordId) -> Result<Option<Outcome>, Unreadable> {
    let Some(Moment(recorded_at)) = row.recorded_at else {
        return Ok(None);
    };
    let until = |column: Option<Moment>, usual| column.map_or(usual, |until| until.0);
    let body = match (&row.body, row.body_size, &row.body_sha256) {
        (Some(data), _, _) => Some(Body::Data(data.0.clone())),
        (None, Some(size), Some(sha256)) => Some(Body::Omitted {
            size: size.cast_unsigned(),
            sha256: fixed("body_sha256", sha256)?,
        }),
        _ => None,
    };
    let content = Content {
        code: row.code.clone().unwrap_or_default(),
        headers: read_headers(row.headers.as_ref()).ok_or(Unreadable::Damaged(id))?,
        body,
        resource_id: row.resource_id.clone().unwrap_or_default(),
        provider_reference: row.content_reference.clone().unwrap_or_default(),
    };
    if !is_sound(&content, row.checksum.as_ref(), row.report_digest.as_ref()) {
        return Err(Unreadable::Damaged(id));
    }
    Ok(Some(Outcome {
        content,
        recorded_at,
        result_until: until(row.result_until, usual::result_until(recorded_at)),
        memory_until: until(row.memory_until, usual::memory_until(recorded_at)),
    }))
}

fn resolution(row: &RecordRow) -> Result<Option<Resolution>, Unreadable> {
    let (Some(attempt), Some(digest)) = (row.resolution_attempt, &row.resolution_digest) else {
        return Ok(None);
    };
    let sha = |column, blob: &Option<Blob>| blob.as_ref().map(|sha| fixed(column, sha)).transpose();
    Ok(Some(Resolution {
        attempt: attempt.cast_unsigned(),
        digest: fixed("resolution_digest", digest)?,
        content: sha("resolution_content", &row.resolution_content)?,
        core: sha("resolution_core", &row.resolution_core)?,
    }))
}

fn claim(row: &RecordRow) -> Result<Option<Claim>, Unreadable> {
    let Some(id) = &row.claim_id else {
        return Ok(None);
    };
    let lacks = |column| move || Unreadable::Column(column);
    let moment = |column, moment: Option<Moment>| moment.ok_or_else(lacks(column));
    Ok(Some(Claim {
        id: ClaimId(fixed("claim_id", id)?),
        fence: row
            .claim_fence
            .ok_or_else(lacks("claim_fence"))?
            .cast_unsigned(),
        taken_at: moment("claim_taken_at", row.claim_taken_at)?.0,
        lease_end: moment("claim_lease_end", row.claim_lease_end)?.0,
        lease: Duration::from_micros(row.claim_lease_us.unwrap_or(0).unsigned_abs()),
        owner: row.claim_owner.clone().unwrap_or_default(),
        over: row.claim_over.ok_or_else(lacks("claim_over"))?,
    }))
}

/// Reads a number that stands for a word.
pub(super) fn coded<T: Code>(column: &'static str, code: i16) -> Result<T, Unreadable> {
    T::of(code).ok_or(Unreadable::Column(column))
}

/// As [`coded`], of a word that is null when it is the usual one.
fn word<T: Code>(column: &'static str, code: Option<i16>) -> Result<T, Unreadable> {
    coded(column, code.unwrap_or(usual::WORD))
}

/// Reads a count that is null when it is the first.
fn number(count: Option<i32>) -> u32 {
    count.unwrap_or(usual::FIRST).cast_unsigned()
}

/// Reads bytes of a fixed length.
pub(super) fn fixed<const N: usize>(
    column: &'static str,
    blob: &Blob,
) -> Result<[u8; N], Unreadable> {
    <[u8; N]>::try_from(&blob.0[..]).map_err(|_| Unreadable::Column(column))
}

/// A text as a column has it: null when empty. Postgres cannot keep U+0000, and no state
/// change may fail for the sake of a comment.
pub(super) fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.replace('\0', "\u{FFFD}"))
}

/// Bytes as a column has them: null when empty.
pub(super) fn blob(bytes: &Bytes) -> Option<Blob> {
    (!bytes.is_empty()).then(|| Blob(bytes.clone()))
}

fn joined<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Option<Blob> {
    let parts: Vec<&[u8]> = parts.collect();
    (!parts.is_empty()).then(|| Blob(Bytes::from(parts.concat())))
}

fn split<const N: usize>(
    column: &'static str,
    blob: Option<&Blob>,
) -> Result<Vec<[u8; N]>, Unreadable> {
    let Some(blob) = blob else {
        return Ok(Vec::new());
    };
    blob.0
        .chunks(N)
        .map(|part| <[u8; N]>::try_from(part).map_err(|_| Unreadable::Column(column)))
        .collect()
}
