//! Side rows: evidence, history, replaced values, audit.

use reprise_domain::record::AttemptId;
use reprise_domain::{RecordId, RecordName, Trace};
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use super::cells::{Reader, Writer, cells};
use super::fault;
use crate::store::{EVIDENCE_MAX, Error, REPLACED_MAX};

/// Writes a side row of a record.
pub(super) fn put(connection: &Connection, name: &RecordName, trace: &Trace) -> Result<(), Error> {
    let (statement, row) = statement(name, trace);
    connection
        .prepare_cached(statement)
        .and_then(|mut insert| insert.execute(params_from_iter(row)))
        .map(drop)
        .map_err(fault::of_record(name.id()))
}

fn bound(rows: usize) -> u32 {
    u32::try_from(rows).unwrap_or(u32::MAX)
}

fn statement(name: &RecordName, trace: &Trace) -> (&'static str, Vec<Value>) {
    let mut row = Writer::default();
    row.bytes(name.id().0);
    let statement = match trace {
        Trace::Evidence {
            attempt,
            reported,
            code,
            digest,
            at,
        } => {
            row.count(*attempt);
            row.word(reported);
            row.text(code);
            row.bytes(*digest);
            row.time(*at);
            row.count(bound(EVIDENCE_MAX));
            "insert into evidence (record, attempt, reported, code, digest, at)
             select ?1, ?2, ?3, ?4, ?5, ?6
             where (select count(*) from evidence where record = ?1) < ?7
             on conflict (record, attempt, digest) do nothing"
        }
        Trace::History {
            attempt,
            attempt_id,
            owner,
            granted_at,
            ended_at,
            ending,
            code,
            provider_reference,
        } => {
            row.count(*attempt);
            row.bytes(attempt_id.0);
            row.text(owner);
            row.time(*granted_at);
            row.time(*ended_at);
            row.word(ending);
            row.text(code);
            row.text(provider_reference);
            "insert into history (record, attempt, attempt_id, owner, granted_at, ended_at,
                 ending, code, provider_reference)
             values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        }
        Trace::Replaced {
            attempt,
            provider_reference,
            instruction,
            at,
        } => {
            row.count(*attempt);
            row.text(provider_reference);
            row.bytes(instruction.as_ref());
            row.time(*at);
            row.count(bound(REPLACED_MAX));
            "insert into replaced (record, attempt, provider_reference, instruction, at)
             select ?1, ?2, ?3, ?4, ?5
             where (select count(*) from replaced where record = ?1) < ?6"
        }
        Trace::Audit {
            attempt,
            action,
            by,
            actor,
            evidence,
            at,
        } => {
            row.count(*attempt);
            row.word(action);
            row.word(by);
            row.text(actor);
            row.text(evidence);
            row.time(*at);
            row.text(name.tenant());
            row.text(name.operation());
            "insert into audit (record, attempt, action, authority, actor, evidence, at, tenant,
                 operation)
             values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        }
    };
    (statement, row.plain())
}

/// Erases what the side rows of a record hold of callers' bytes. Why it was erased before
/// stays.
pub(super) fn erase(connection: &Connection, id: RecordId) -> Result<(), Error> {
    let statements = [
        "update audit set evidence = ''
         where record = ?1 and evidence <> '' and action <> 'forgotten'",
        "delete from replaced where record = ?1",
        "update evidence set code = '' where record = ?1 and reported = 'pending'",
    ];
    run(connection, id, &statements)
}

/// Removes the side rows of a record that is forgotten. What people did stays longer.
pub(super) fn remove(connection: &Connection, id: RecordId) -> Result<(), Error> {
    let statements = [
        "delete from evidence where record = ?1",
        "delete from history where record = ?1",
        "delete from replaced where record = ?1",
    ];
    run(connection, id, &statements)
}

fn run(connection: &Connection, id: RecordId, statements: &[&str]) -> Result<(), Error> {
    for statement in statements {
        connection
            .prepare_cached(statement)
            .and_then(|mut statement| statement.execute([id.0]))
            .map_err(fault::of_record(id))?;
    }
    Ok(())
}

/// How the rows of one kind are read.
type Kind = (&'static str, fn(&mut Reader) -> Option<Trace>);

const KINDS: [Kind; 4] = [
    (
        "select attempt, reported, code, digest, at
         from evidence where record = ?1 order by seq",
        evidence,
    ),
    (
        "select attempt, attempt_id, owner, granted_at, ended_at, ending, code, provider_reference
         from history where record = ?1 order by seq",
        history,
    ),
    (
        "select attempt, provider_reference, instruction, at
         from replaced where record = ?1 order by seq",
        replaced,
    ),
    (
        "select attempt, action, authority, actor, evidence, at
         from audit where record = ?1 order by seq",
        audit,
    ),
];

/// All side rows of a record, kind by kind, oldest first.
pub(super) fn of(connection: &Connection, id: RecordId) -> Result<Vec<Trace>, Error> {
    let mut traces = Vec::new();
    for (select, read) in KINDS {
        let mut select = connection
            .prepare_cached(select)
            .map_err(fault::of_record(id))?;
        let rows = select
            .query_map(params![id.0], cells)
            .map_err(fault::of_record(id))?;
        for cells in rows {
            let mut row = Reader::plain(cells.map_err(fault::of_record(id))?);
            traces.push(read(&mut row).ok_or(Error::Damaged(id))?);
        }
    }
    Ok(traces)
}

fn evidence(row: &mut Reader) -> Option<Trace> {
    Some(Trace::Evidence {
        attempt: row.small_count()?,
        reported: row.word()?,
        code: row.text()?,
        digest: row.array()?,
        at: row.time()?,
    })
}

fn history(row: &mut Reader) -> Option<Trace> {
    Some(Trace::History {
        attempt: row.small_count()?,
        attempt_id: AttemptId(row.array()?),
        owner: row.text()?,
        granted_at: row.time()?,
        ended_at: row.time()?,
        ending: row.word()?,
        code: row.text()?,
        provider_reference: row.text()?,
    })
}

fn replaced(row: &mut Reader) -> Option<Trace> {
    Some(Trace::Replaced {
        attempt: row.small_count()?,
        provider_reference: row.text()?,
        instruction: row.bytes()?.into(),
        at: row.time()?,
    })
}

fn audit(row: &mut Reader) -> Option<Trace> {
    Some(Trace::Audit {
        attempt: row.small_count()?,
        action: row.word()?,
        by: row.word()?,
        actor: row.text()?,
        evidence: row.text()?,
        at: row.time()?,
    })
}
