//! What is filed about records after the fact: references for search, and when to look for
//! what has come to its end. Parts of statements, over any rows that have the columns.
//!
//! An entry of the removal schedule stands for all records granted in a stretch of time
//! that end in the same stretch of time, so that the schedule stays small beside the
//! records. Both stretches grow with the period that is kept: a 64th of it, a second at
//! least. A record is looked for after its end, never before it.

use reprise_domain::{Record, Trace};

use super::column::{Moment, Uuid, columns};
use super::row::text;

columns! {
    /// What is filed of one record; null where there is nothing.
    FiledRow, FiledArrays {
        id: Uuid,
        tenant: String,
        granted_at: Moment,
        recorded_at: Option<Moment>,
        result_until: Option<Moment>,
        memory_until: Option<Moment>,
        has_bytes: bool,
        resource_id: Option<String>,
        provider_reference: Option<String>,
        content_reference: Option<String>,
    }
}

/// Is the row `r` one that nothing but a new grant or a person opens again? So that its
/// retention counts.
pub(super) fn closed(r: &str) -> String {
    format!(
        "({r}.state in (3, 5)
            or {r}.state = 4 and ({r}.unaccounted or {r}.contradicted) is not true)"
    )
}

/// Has the closed row `r` bytes that go when its result does? The instruction of what failed
/// retryable is for the next attempt.
pub(super) fn has_bytes(r: &str) -> String {
    format!(
        "({r}.body is not null or {r}.headers is not null
            or {r}.state in (3, 5) and {r}.instruction is not null)"
    )
}

/// Files the retention of those rows of `source` that have an outcome: when it ends, and
/// when its headers and body do.
pub(super) fn removals(source: &str) -> String {
    format!(
        // Whoever was closed long after its grant would have a whole stretch looked through
        // for itself alone: it is filed under its own moment.
        "insert into reprise.removal (due, granted_from, granted_to)
        select distinct
            to_timestamp(ceil(date_part('epoch', e.over_at) / g.grain) * g.grain),
            s.from_at, s.from_at + s.width
        from {source} f
        cross join lateral (values
            (f.memory_until, true), (f.result_until, f.has_bytes)) e(over_at, kept)
        cross join lateral (select greatest(1,
            floor(date_part('epoch', e.over_at - f.recorded_at) / 64)) as grain) g
        cross join lateral (select
            case when late then f.granted_at else to_timestamp(
                floor(date_part('epoch', f.granted_at) / least(g.grain, 3600))
                    * least(g.grain, 3600)) end as from_at,
            case when late then interval '1 microsecond'
                else least(g.grain, 3600) * interval '1 second' end as width
            from (select f.recorded_at - f.granted_at > interval '1 hour' as late) l) s
        where f.recorded_at is not null and e.kept
        order by 1, 2, 3
        on conflict do nothing"
    )
}

/// Files the references of the rows of `source`.
pub(super) fn references(source: &str) -> String {
    format!(
        "insert into reprise.reference (id, tenant, kind, reference)
        {rows}
        order by 1, 3, 4
        on conflict do nothing",
        rows = reference_rows(source),
    )
}

/// The references of the rows of `source`: id, tenant, kind, reference.
pub(super) fn reference_rows(source: &str) -> String {
    format!(
        "select distinct f.id, f.tenant, x.kind, x.reference
        from {source} f cross join lateral (values
            (1::smallint, f.resource_id),
            (2::smallint, f.provider_reference),
            (2::smallint, f.content_reference)) x(kind, reference)
        where x.reference is not null"
    )
}

impl FiledRow {
    /// What is filed of `record`: its references, and its retention if that counts.
    pub(super) fn of(record: &Record) -> Self {
        let outcome = record.outcome.as_ref();
        let ending = outcome.filter(|_| record.is_closed());
        Self {
            id: Uuid::of(&record.name.id()),
            tenant: record.name.tenant().to_owned(),
            granted_at: Moment(record.attempt.granted_at),
            recorded_at: ending.map(|outcome| Moment(outcome.recorded_at)),
            result_until: ending.map(|outcome| Moment(outcome.result_until)),
            memory_until: ending.map(|outcome| Moment(outcome.memory_until)),
            has_bytes: ending.is_some() && record.loses_bytes(),
            resource_id: text(&record.resource_id),
            provider_reference: text(&record.provider_reference),
            content_reference: outcome.and_then(|it| text(&it.content.provider_reference)),
        }
    }

    /// What is filed of a side row of `record`: the reference that it took along.
    pub(super) fn of_trace(record: &Record, trace: &Trace) -> Option<Self> {
        let (Trace::History {
            provider_reference, ..
        }
        | Trace::Replaced {
            provider_reference, ..
        }) = trace
        else {
            return None;
        };
        text(provider_reference).map(|reference| Self {
            recorded_at: None,
            result_until: None,
            memory_until: None,
            has_bytes: false,
            resource_id: None,
            provider_reference: Some(reference),
            content_reference: None,
            ..Self::of(record)
        })
    }
}
