//! A record as a row of `records`. The only place that knows which column holds what.

use std::sync::LazyLock;

use bytes::Bytes;
use reprise_domain::content::Body;
use reprise_domain::record::{
    Attempt, AttemptId, Claim, ClaimId, Ended, Outcome, Pending, Report, Resolution,
};
use reprise_domain::{Content, Record, RecordName, Timestamp};
use reprise_fingerprint::{Fingerprint, RuleId};
use rusqlite::types::Value;

use super::cells::{Reader, Writer, checksum};
use super::packed::{Packer, Unpacker};

/// In the order in which [`write`] and [`read`] go, the checksum last.
const COLUMNS: &str = "id, tenant, operation, subject, key, revision, created_at, granted_at, \
    state, correlation_id, details, instruction, content_checksum, checksum";
/// What a row is read without where nobody asks for it.
const CONTENT: &str = "outcome_headers, outcome_body";
/// Columns of [`CONTENT`].
const CONTENT_COLUMNS: usize = 2;
/// What stays as it is while the newest grant does. SQLite leaves an index alone only where
/// the statement does not name its columns.
const OF_THE_GRANT: [&str; 7] = [
    "id",
    "tenant",
    "operation",
    "subject",
    "key",
    "created_at",
    "granted_at",
];
/// Bytes that a row grows by between its grant and a usual outcome, with a body of a hundred
/// bytes.
const ROOM: usize = 192;

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
    format!(
        "insert into records ({COLUMNS}, {CONTENT}, room)
         values ({places}, zeroblob({ROOM}))"
    )
});

/// Writes a row in place of the one with its id.
pub(super) static UPDATE: LazyLock<String> =
    LazyLock::new(|| update(columns().skip(1), &format!("zeroblob({ROOM})")));

/// As [`UPDATE`], of a row that was granted at the same moment.
pub(super) static UPDATE_ATTEMPT: LazyLock<String> = LazyLock::new(|| {
    let changing = columns().filter(|(_, column)| !OF_THE_GRANT.contains(column));
    update(changing, "room")
});

/// Of what is written of a record, with their places from 1.
fn columns() -> impl Iterator<Item = (usize, &'static str)> {
    let columns = COLUMNS.split(", ").chain(CONTENT.split(", "));
    columns.enumerate().map(|(at, column)| (at + 1, column))
}

/// The outcome takes the room that was kept for it.
fn update(columns: impl Iterator<Item = (usize, &'static str)>, room: &str) -> String {
    let mut state = 0;
    let mut changes = String::new();
    for (place, column) in columns {
        if column == "state" {
            state = place;
        }
        changes += &format!("{column} = ?{place}, ");
    }
    format!(
        "update records set {changes} room = iif(?{state} = 'processing', {room}, null)
         where id = ?1"
    )
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
    row.time(record.attempt.granted_at);
    row.word(&record.state);
    row.text(&record.correlation_id);
    row.bytes(write_details(record));
    row.bytes(record.instruction.as_ref());
    let content = write_content(record.outcome.as_ref());
    row.maybe(sum_of(&content), Writer::bytes);
    let mut cells = row.summed();
    cells.extend(content);
    cells
}

fn write_details(record: &Record) -> Vec<u8> {
    let mut row = Packer::new();
    row.time(record.updated_at);
    row.text(record.fingerprint.scheme.as_str());
    row.text(record.fingerprint.rule.as_str());
    row.bytes(record.fingerprint.digest);
    row.count(record.generation);
    row.flag(record.key_spent);
    row.flag(record.unaccounted);
    row.flag(record.contradicted);
    write_attempt(&mut row, &record.attempt);
    row.maybe(record.previous.as_ref(), write_previous);
    row.text(&record.provider_reference);
    row.text(&record.resource_id);
    row.maybe(record.pending.as_ref(), write_pending);
    row.maybe(record.outcome.as_ref(), |row, outcome| {
        write_outcome(row, outcome, record);
    });
    row.maybe(record.resolution.as_ref(), write_resolution);
    row.maybe(record.claim.as_ref(), write_claim);
    row.packed()
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
    let (revision, created_at, granted_at) = (row.count()?, row.time()?, row.time()?);
    let (state, correlation_id) = (row.word()?, row.text()?);
    let details = row.bytes()?;
    let mut details = Unpacker(&details);
    let updated_at = details.time()?;
    let fingerprint = Fingerprint {
        scheme: details.str()?.parse().ok()?,
        rule: RuleId::try_from(details.text()?).ok()?,
        digest: details.array()?,
    };
    let (generation, key_spent) = (details.small_count()?, details.flag()?);
    let (unaccounted, contradicted) = (details.flag()?, details.flag()?);
    let attempt = read_attempt(&mut details, granted_at)?;
    let previous = read_previous(&mut details)?;
    let (provider_reference, resource_id) = (details.text()?, details.text()?);
    let pending = read_pending(&mut details)?;
    let outcome = read_outcome(&mut details, &resource_id, &provider_reference)?;
    let record = Record {
        name,
        revision,
        created_at,
        updated_at,
        fingerprint,
        state,
        generation,
        key_spent,
        unaccounted,
        contradicted,
        attempt,
        previous,
        correlation_id,
        provider_reference,
        resource_id,
        pending,
        outcome,
        resolution: read_resolution(&mut details)?,
        claim: read_claim(&mut details)?,
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

fn write_attempt(row: &mut Packer, attempt: &Attempt) {
    row.count(attempt.number);
    row.bytes(attempt.id.0);
    let earlier: Vec<_> = attempt.earlier_ids.iter().map(|id| id.0).collect();
    row.bytes(earlier.concat());
    row.count(attempt.fence);
    row.time(attempt.lease_end);
    row.duration(attempt.lease);
    row.word(&attempt.on_lapse);
    row.maybe(attempt.repeat_until, Packer::time);
    row.word(&attempt.why);
    row.text(&attempt.owner);
    row.flag(attempt.sent);
    row.flag(attempt.used);
    row.maybe(attempt.given_back.as_ref(), Packer::word);
    row.maybe(attempt.report.as_ref(), write_report);
    row.bytes(attempt.pending_digests.concat());
}

/// The moment of the grant stands in a column of its own.
fn read_attempt(row: &mut Unpacker<'_>, granted_at: Timestamp) -> Option<Attempt> {
    Some(Attempt {
        number: row.small_count()?,
        id: AttemptId(row.array()?),
        earlier_ids: split(row.slice()?)?.into_iter().map(AttemptId).collect(),
        fence: row.count()?,
        granted_at,
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
        pending_digests: split(row.slice()?)?,
    })
}

// Of each part that a record may be without, the first cell tells whether it is there: a null
// stands for a part that is absent.

fn write_report(row: &mut Packer, report: &Report) {
    row.word(&report.kind);
    row.bytes(report.digest);
}

fn read_report(row: &mut Unpacker<'_>) -> Option<Option<Report>> {
    let Some(kind) = row.maybe_word()? else {
        return Some(None);
    };
    let digest = row.array()?;
    Some(Some(Report { kind, digest }))
}

fn write_previous(row: &mut Packer, ended: &Ended) {
    row.count(ended.number);
    row.count(ended.fence);
    row.maybe(ended.report.as_ref(), write_report);
    row.bytes(ended.pending_digests.concat());
}

fn read_previous(row: &mut Unpacker<'_>) -> Option<Option<Ended>> {
    let Some(number) = row.maybe_integer()? else {
        return Some(None);
    };
    Some(Some(Ended {
        number: number.try_into().ok()?,
        fence: row.count()?,
        report: read_report(row)?,
        pending_digests: split(row.slice()?)?,
    }))
}

fn write_pending(row: &mut Packer, pending: &Pending) {
    row.word(&pending.reason);
    row.text(&pending.detail);
    row.time(pending.since);
    row.time(pending.next_check);
}

fn read_pending(row: &mut Unpacker<'_>) -> Option<Option<Pending>> {
    let Some(reason) = row.maybe_word()? else {
        return Some(None);
    };
    Some(Some(Pending {
        reason,
        detail: row.text()?,
        since: row.time()?,
        next_check: row.time()?,
    }))
}

/// References that are the record's own are not written twice.
fn write_outcome(row: &mut Packer, outcome: &Outcome, record: &Record) {
    let content = &outcome.content;
    row.text(&content.code);
    match &content.body {
        Some(Body::Omitted { size, sha256 }) => {
            row.count(*size);
            row.bytes(sha256);
        }
        Some(Body::Data(_)) | None => row.null(),
    }
    let other = |text, of_record: &String| (text != of_record).then_some(text);
    let resource_id = other(&content.resource_id, &record.resource_id);
    let provider_reference = other(&content.provider_reference, &record.provider_reference);
    row.maybe(resource_id, |row, text| row.text(text));
    row.maybe(provider_reference, |row, text| row.text(text));
    row.time(outcome.recorded_at);
    row.time(outcome.result_until);
    row.time(outcome.memory_until);
}

fn read_outcome(
    row: &mut Unpacker<'_>,
    resource_id: &str,
    provider_reference: &str,
) -> Option<Option<Outcome>> {
    let Some(code) = row.maybe_str()? else {
        return Some(None);
    };
    let body = match row.maybe_integer()? {
        Some(size) => Some(Body::Omitted {
            size: size.cast_unsigned(),
            sha256: row.array()?,
        }),
        None => None,
    };
    Some(Some(Outcome {
        content: Content {
            code: code.to_owned(),
            headers: Vec::new(),
            body,
            resource_id: row.maybe_str()?.unwrap_or(resource_id).to_owned(),
            provider_reference: row.maybe_str()?.unwrap_or(provider_reference).to_owned(),
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

fn write_resolution(row: &mut Packer, resolution: &Resolution) {
    row.count(resolution.attempt);
    row.bytes(resolution.digest);
    row.maybe(resolution.content, Packer::bytes);
    row.maybe(resolution.core, Packer::bytes);
}

fn read_resolution(row: &mut Unpacker<'_>) -> Option<Option<Resolution>> {
    let Some(attempt) = row.maybe_integer()? else {
        return Some(None);
    };
    Some(Some(Resolution {
        attempt: attempt.try_into().ok()?,
        digest: row.array()?,
        content: row.maybe_sha()?,
        core: row.maybe_sha()?,
    }))
}

fn write_claim(row: &mut Packer, claim: &Claim) {
    row.bytes(claim.id.0);
    row.count(claim.fence);
    row.time(claim.taken_at);
    row.time(claim.lease_end);
    row.duration(claim.lease);
    row.text(&claim.owner);
    row.flag(claim.over);
}

fn read_claim(row: &mut Unpacker<'_>) -> Option<Option<Claim>> {
    let Some(id) = row.maybe_slice()? else {
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
        let written: Vec<_> = columns().map(|(_, column)| column).collect();
        let mut named = statement.column_names().collect::<Vec<_>>();
        named.retain(|column| *column != "room");
        assert_eq!(named, written);
        Ok(())
    }
}
