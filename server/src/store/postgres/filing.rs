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
        // Most records of a second have one end: they are brought together first, which is
        // cheap, in whole seconds, which lose nothing, since both stretches are whole seconds.
        // Whoever was closed long after its grant would have a whole stretch looked through
        // for itself alone: it is filed under its own moment.
        "insert into reprise.removal (due, granted_from, granted_to)
        select distinct
            to_timestamp(ceil(e.over / g.grain) * g.grain), s.from_at, s.from_at + s.width
        from (select distinct
                case when late then granted_at end as late_at,
                floor(date_part('epoch', granted_at)) as granted,
                ceil(memory_end) as memory_end, round(memory_end - recorded) as memory_time,
                ceil(result_end) as result_end, round(result_end - recorded) as result_time
            from (select f.granted_at, f.recorded_at - f.granted_at > interval '1 hour' as late,
                    date_part('epoch', f.recorded_at) as recorded,
                    date_part('epoch', f.memory_until) as memory_end,
                    case when f.has_bytes then date_part('epoch', f.result_until) end as result_end
                from {source} f where f.recorded_at is not null) f) f
        cross join lateral (values
            (memory_end, memory_time), (result_end, result_time)) e(over, kept)
        cross join lateral (select greatest(1, floor(e.kept / 64)) as grain) g
        cross join lateral (select
            coalesce(f.late_at, to_timestamp(
                floor(f.granted / least(g.grain, 3600)) * least(g.grain, 3600))) as from_at,
            case when f.late_at is null then least(g.grain, 3600) * interval '1 second'
                else interval '1 microsecond' end as width) s
        where e.over is not null
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
        where coalesce(f.resource_id, f.provider_reference, f.content_reference) is not null
            and x.reference is not null"
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
