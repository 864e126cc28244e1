//! A record as a row of `records`. The only place that knows which column holds what.

use std::sync::LazyLock;

use bytes::Bytes;
use reprise_domain::content::{Body, Sha};
use reprise_domain::record::{
    Attempt, AttemptId, Claim, ClaimId, Ended, Outcome, Pending, Report, Resolution,
};
use reprise_domain::{Content, Record, RecordName};
use reprise_fingerprint::{Fingerprint, RuleId};
use rusqlite::types::Value;

use super::cells::{Reader, Writer, checksum};

/// In the order in which [`write`] and [`read`] go, the checksum last.
const COLUMNS: &str = "id, tenant, operation, subject, key, revision, created_at, updated_at, \
    fingerprint_scheme, fingerprint_rule, fingerprint_digest, \
    state, generation, key_spent, unaccounted, contradicted, \
    attempt, attempt_id, earlier_attempt_ids, fence, granted_at, lease_end, lease_us, \
    on_lapse, repeat_until, granted, owner, sent, used, given_back, \
    reported, report_digest, pending_digests, \
    previous_attempt, previous_fence, previous_reported, previous_report_digest, \
    previous_pending_digests, \
    correlation_id, provider_reference, resource_id, \
    pending_reason, pending_detail, pending_since, pending_next_check, \
    outcome_code, omitted_body_size, omitted_body_sha256, \
    outcome_resource_id, outcome_provider_reference, outcome_recorded_at, \
    result_until, memory_until, \
    resolution_attempt, resolution_digest, resolution_content, resolution_core, \
    claim_id, claim_fence, claim_taken_at, claim_lease_end, claim_lease_us, claim_owner, \
    claim_over, instruction, content_checksum, checksum";
/// What a row is read without where nobody asks for it.
const CONTENT: &str = "outcome_headers, outcome_body";
/// Columns of [`CONTENT`].
const CONTENT_COLUMNS: usize = 2;
// Of each part that a record may be without; its first one tells whether it is there.
const PREVIOUS_COLUMNS: usize = 5;
const PENDING_COLUMNS: usize = 4;
const OUTCOME_COLUMNS: usize = 8;
const RESOLUTION_COLUMNS: usize = 4;
const CLAIM_COLUMNS: usize = 7;

/// For the select list of a statement on `records`: what [`read_lean`] takes.
pub(super) static LEAN: LazyLock<String> = LazyLock::new(|| {
    // SQLite tells a length without reading the bytes.
    format!(
        "iif(content_checksum is null and (instruction = x'' or state = 'failed_retryable'), null, \
             ifnull(length(outcome_body), 0) + ifnull(length(outcome_headers), 0) + \
             length(instruction)), {COLUMNS}"
    )
});

/// Reads the row of an id.
pub(super) static SELECT: LazyLock<String> =
    LazyLock::new(|| format!("select {COLUMNS}, {CONTENT} from records where id = ?1"));

/// Writes a new row.
pub(super) static INSERT: LazyLock<String> = LazyLock::new(|| {
    let places = vec!["?"; columns().count()].join(", ");
    format!("insert into records ({COLUMNS}, {CONTENT}) values ({places})")
});

/// Writes a row in place of the one with its id.
pub(super) static UPDATE: LazyLock<String> = LazyLock::new(|| update(columns()));

/// As [`UPDATE`], of a row that was granted at the same moment: SQLite leaves the index
/// alone only where the statement does not name its columns.
pub(super) static UPDATE_ATTEMPT: LazyLock<String> =
    LazyLock::new(|| update(columns().filter(|(_, column)| *column != "granted_at")));

/// Of the whole row, with their places from 1.
fn columns() -> impl Iterator<Item = (usize, &'static str)> {
    let columns = COLUMNS.split(", ").chain(CONTENT.split(", "));
    columns.enumerate().map(|(at, column)| (at + 1, column))
}

fn update(columns: impl Iterator<Item = (usize, &'static str)>) -> String {
    let changes: Vec<_> = columns
        .skip(1)
        .map(|(place, column)| format!("{column} = ?{place}"))
        .collect();
    format!("update records set {} where id = ?1", changes.join(", "))
}

/// A record without headers and body.
pub(super) struct Lean {
    pub(super) record: Record,
    /// How many bytes may go with the result ([`Record::loses_bytes`]); none when there are
    /// none to go.
    pub(super) bytes: Option<u64>,
}

/// The row of a record.
pub(super) fn write(record: &Record) -> Vec<Value> {
    let mut row = Writer::default();
    row.bytes(record.name.id().0);
    row.text(record.name.tenant());
    row.text(record.name.operation());
    row.text(record.name.subject());
    row.text(record.name.key());
    row.count(record.revision);
    row.time(record.created_at);
    row.time(record.updated_at);
    row.text(record.fingerprint.scheme.as_str());
    row.text(record.fingerprint.rule.as_str());
    row.bytes(record.fingerprint.digest);
    row.word(&record.state);
    row.count(record.generation);
    row.flag(record.key_spent);
    row.flag(record.unaccounted);
    row.flag(record.contradicted);
    write_attempt(&mut row, &record.attempt);
    write_previous(&mut row, record.previous.as_ref());
    row.text(&record.correlation_id);
    row.text(&record.provider_reference);
    row.text(&record.resource_id);
    write_pending(&mut row, record.pending.as_ref());
    write_outcome(&mut row, record.outcome.as_ref());
    write_resolution(&mut row, record.resolution.as_ref());
    write_claim(&mut row, record.claim.as_ref());
    row.bytes(record.instruction.as_ref());
    let content = write_content(record.outcome.as_ref());
    row.maybe(sum_of(&content), Writer::bytes);
    let mut cells = row.summed();
    cells.extend(content);
    cells
}

/// The record of a row; none when the row is not one that [`write`] wrote.
pub(super) fn read(mut cells: Vec<Value>) -> Option<Record> {
    let at = cells.len().checked_sub(CONTENT_COLUMNS)?;
    let content = cells.split_off(at);
    let (mut record, sum) = read_columns(cells)?;
    if sum != sum_of(&content) {
        return None;
    }
    if let Some(outcome) = &mut record.outcome {
        read_content(&mut outcome.content, content)?;
    }
    Some(record)
}

/// The record of a row that was read without headers and body; none when it is not one
/// that [`write`] wrote.
pub(super) fn read_lean(mut cells: Vec<Value>) -> Option<Lean> {
    let columns = cells.split_off(1);
    let bytes = Reader::plain(cells).maybe_integer()?;
    let (record, _) = read_columns(columns)?;
    Some(Lean {
        record,
        bytes: bytes.map(i64::cast_unsigned),
    })
}

/// With the checksum of headers and body.
fn read_columns(cells: Vec<Value>) -> Option<(Record, Option<[u8; 16]>)> {
    let mut row = Reader::checked(cells)?;
    let id = row.array()?;
    let name = RecordName::new(row.text()?, row.text()?, row.text()?, row.text()?).ok()?;
    if name.id().0 != id {
        return None;
    }
    let record = Record {
        name,
        revision: row.count()?,
        created_at: row.time()?,
        updated_at: row.time()?,
        fingerprint: Fingerprint {
            scheme: row.text()?.parse().ok()?,
            rule: RuleId::try_from(row.text()?).ok()?,
            digest: row.array()?,
        },
        state: row.word()?,
        generation: row.small_count()?,
        key_spent: row.flag()?,
        unaccounted: row.flag()?,
        contradicted: row.flag()?,
        attempt: read_attempt(&mut row)?,
        previous: read_previous(&mut row)?,
        correlation_id: row.text()?,
        provider_reference: row.text()?,
        resource_id: row.text()?,
        pending: read_pending(&mut row)?,
        outcome: read_outcome(&mut row)?,
        resolution: read_resolution(&mut row)?,
        claim: read_claim(&mut row)?,
        instruction: row.bytes()?.into(),
    };
    let sum = match row.maybe_bytes()? {
        Some(sum) => Some(sum.try_into().ok()?),
        None => None,
    };
    Some((record, sum))
}

/// None when there is neither a header nor a body.
fn sum_of(content: &[Value]) -> Option<[u8; 16]> {
    let kept = content.iter().any(|cell| *cell != Value::Null);
    kept.then(|| checksum(content))
}

fn write_attempt(row: &mut Writer, attempt: &Attempt) {
    row.count(attempt.number);
    row.bytes(attempt.id.0);
    let earlier: Vec<_> = attempt.earlier_ids.iter().map(|id| id.0).collect();
    row.bytes(earlier.concat());
    row.count(attempt.fence);
    row.time(attempt.granted_at);
    row.time(attempt.lease_end);
    row.duration(attempt.lease);
    row.word(&attempt.on_lapse);
    row.maybe(attempt.repeat_until, Writer::time);
    row.word(&attempt.why);
    row.text(&attempt.owner);
    row.flag(attempt.sent);
    row.flag(attempt.used);
    row.maybe(attempt.given_back.as_ref(), Writer::word);
    write_report(row, attempt.report.as_ref());
    row.bytes(attempt.pending_digests.concat());
}

fn read_attempt(row: &mut Reader) -> Option<Attempt> {
    Some(Attempt {
        number: row.small_count()?,
        id: AttemptId(row.array()?),
        earlier_ids: split(&row.bytes()?)?.into_iter().map(AttemptId).collect(),
        fence: row.count()?,
        granted_at: row.time()?,
        lease_end: row.time()?,
        lease: row.duration()?,
        on_lapse: row.word()?,
        repeat_until: row.maybe_time()?,
        why: row.word()?,
        owner: row.text()?,
        sent: row.flag()?,
        used: row.flag()?,
        given_back: row.maybe_word()?,
        report: read_report(row)?,
        pending_digests: split(&row.bytes()?)?,
    })
}

fn write_report(row: &mut Writer, report: Option<&Report>) {
    row.maybe(report.map(|report| &report.kind), Writer::word);
    row.maybe(report.map(|report| report.digest), Writer::bytes);
}

fn read_report(row: &mut Reader) -> Option<Option<Report>> {
    match (row.maybe_word()?, row.maybe_sha()?) {
        (Some(kind), Some(digest)) => Some(Some(Report { kind, digest })),
        (None, None) => Some(None),
        _ => None,
    }
}

fn write_previous(row: &mut Writer, previous: Option<&Ended>) {
    let Some(ended) = previous else {
        return row.nulls(PREVIOUS_COLUMNS);
    };
    row.count(ended.number);
    row.count(ended.fence);
    write_report(row, ended.report.as_ref());
    row.bytes(ended.pending_digests.concat());
}

fn read_previous(row: &mut Reader) -> Option<Option<Ended>> {
    let Some(number) = row.maybe_integer()? else {
        row.skip(PREVIOUS_COLUMNS - 1)?;
        return Some(None);
    };
    Some(Some(Ended {
        number: number.try_into().ok()?,
        fence: row.count()?,
        report: read_report(row)?,
        pending_digests: split(&row.bytes()?)?,
    }))
}

fn write_pending(row: &mut Writer, pending: Option<&Pending>) {
    let Some(pending) = pending else {
        return row.nulls(PENDING_COLUMNS);
    };
    row.word(&pending.reason);
    row.text(&pending.detail);
    row.time(pending.since);
    row.time(pending.next_check);
}

fn read_pending(row: &mut Reader) -> Option<Option<Pending>> {
    let Some(reason) = row.maybe_word()? else {
        row.skip(PENDING_COLUMNS - 1)?;
        return Some(None);
    };
    Some(Some(Pending {
        reason,
        detail: row.text()?,
        since: row.time()?,
        next_check: row.time()?,
    }))
}

fn write_outcome(row: &mut Writer, outcome: Option<&Outcome>) {
    let Some(outcome) = outcome else {
        return row.nulls(OUTCOME_COLUMNS);
    };
    let content = &outcome.content;
    row.text(&content.code);
    let omitted = match &content.body {
        Some(Body::Omitted { size, sha256 }) => Some((*size, *sha256)),
        Some(Body::Data(_)) | None => None,
    };
    row.maybe(omitted.map(|(size, _)| size), Writer::count);
    row.maybe(omitted.map(|(_, sha256)| sha256), Writer::bytes);
    row.text(&content.resource_id);
    row.text(&content.provider_reference);
    row.time(outcome.recorded_at);
    row.time(outcome.result_until);
    row.time(outcome.memory_until);
}

fn read_outcome(row: &mut Reader) -> Option<Option<Outcome>> {
    let Some(code) = row.maybe_text()? else {
        row.skip(OUTCOME_COLUMNS - 1)?;
        return Some(None);
    };
    let body = match (row.maybe_integer()?, row.maybe_sha()?) {
        (Some(size), Some(sha256)) => Some(Body::Omitted {
            size: size.cast_unsigned(),
            sha256,
        }),
        (None, None) => None,
        _ => return None,
    };
    Some(Some(Outcome {
        content: Content {
            code,
            headers: Vec::new(),
            body,
            resource_id: row.text()?,
            provider_reference: row.text()?,
        },
        recorded_at: row.time()?,
        result_until: row.time()?,
        memory_until: row.time()?,
    }))
}

fn write_content(outcome: Option<&Outcome>) -> Vec<Value> {
    let mut row = Writer::default();
    let Some(Outcome { content, .. }) = outcome else {
        row.nulls(CONTENT_COLUMNS);
        return row.plain();
    };
    let headers = (!content.headers.is_empty()).then(|| join_headers(&content.headers));
    row.maybe(headers, Writer::bytes);
    let data = match &content.body {
        Some(Body::Data(data)) => Some(data.as_ref()),
        Some(Body::Omitted { .. }) | None => None,
    };
    row.maybe(data, Writer::bytes);
    row.plain()
}

fn read_content(content: &mut Content, cells: Vec<Value>) -> Option<()> {
    let mut row = Reader::plain(cells);
    if let Some(headers) = row.maybe_bytes()? {
        content.headers = split_headers(headers)?;
    }
    if let Some(data) = row.maybe_bytes()? {
        content.body = Some(Body::Data(data.into()));
    }
    Some(())
}

fn write_resolution(row: &mut Writer, resolution: Option<&Resolution>) {
    let Some(resolution) = resolution else {
        return row.nulls(RESOLUTION_COLUMNS);
    };
    row.count(resolution.attempt);
    row.bytes(resolution.digest);
    row.maybe(resolution.content, Writer::bytes);
    row.maybe(resolution.core, Writer::bytes);
}

fn read_resolution(row: &mut Reader) -> Option<Option<Resolution>> {
    let Some(attempt) = row.maybe_integer()? else {
        row.skip(RESOLUTION_COLUMNS - 1)?;
        return Some(None);
    };
    Some(Some(Resolution {
        attempt: attempt.try_into().ok()?,
        digest: row.array::<{ size_of::<Sha>() }>()?,
        content: row.maybe_sha()?,
        core: row.maybe_sha()?,
    }))
}

fn write_claim(row: &mut Writer, claim: Option<&Claim>) {
    let Some(claim) = claim else {
        return row.nulls(CLAIM_COLUMNS);
    };
    row.bytes(claim.id.0);
    row.count(claim.fence);
    row.time(claim.taken_at);
    row.time(claim.lease_end);
    row.duration(claim.lease);
    row.text(&claim.owner);
    row.flag(claim.over);
}

fn read_claim(row: &mut Reader) -> Option<Option<Claim>> {
    let Some(id) = row.maybe_bytes()? else {
        row.skip(CLAIM_COLUMNS - 1)?;
        return Some(None);
    };
    Some(Some(Claim {
        id: ClaimId(id.try_into().ok()?),
        fence: row.count()?,
        taken_at: row.time()?,
        lease_end: row.time()?,
        lease: row.duration()?,
        owner: row.text()?,
        over: row.flag()?,
    }))
}

/// Values of one length, one after the other.
fn split<const N: usize>(bytes: &[u8]) -> Option<Vec<[u8; N]>> {
    let (whole, rest) = bytes.as_chunks();
    rest.is_empty().then(|| whole.to_vec())
}

fn join_headers(headers: &[(String, Bytes)]) -> Vec<u8> {
    let mut joined = Vec::new();
    for (name, value) in headers {
        for part in [name.as_bytes(), value] {
            let length = u32::try_from(part.len())
                .expect("headers were cut to 16 KiB before they were kept");
            joined.extend(length.to_be_bytes());
            joined.extend(part);
        }
    }
    joined
}

fn split_headers(joined: Vec<u8>) -> Option<Vec<(String, Bytes)>> {
    let mut rest = Bytes::from(joined);
    let mut headers = Vec::new();
    while !rest.is_empty() {
        let name = split_part(&mut rest)?;
        let value = split_part(&mut rest)?;
        headers.push((String::from_utf8(name.into()).ok()?, value));
    }
    Some(headers)
}

fn split_part(rest: &mut Bytes) -> Option<Bytes> {
    let length = u32::from_be_bytes(*rest.first_chunk()?);
    let end = usize::try_from(length).ok()?.checked_add(4)?;
    (end <= rest.len()).then(|| rest.split_to(end).slice(4..))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    /// A column that the statements leave out would be lost silently.
    #[test]
    fn the_columns_are_those_of_the_table() -> rusqlite::Result<()> {
        let connection = Connection::open_in_memory()?;
        connection.execute_batch(super::super::file::MIGRATIONS[0])?;
        let statement = connection.prepare("select * from records")?;
        let named: Vec<_> = columns().map(|(_, column)| column).collect();
        assert_eq!(statement.column_names().collect::<Vec<_>>(), named);
        Ok(())
    }
}
