//! The worklist in a write: entries come, change and go in the statement that writes their
//! records. So does what erasing takes from side rows.

use reprise_domain::decide::AuditAction;
use reprise_domain::{RecordName, Work};

use super::column::{Blob, Code, Moment, Uuid, columns, under, unnest};
use super::filing;
use super::trace::REPORTED_PENDING;

/// What tells of one life of a key, and goes with it. The audit stays longer.
pub(super) const SIDE_TABLES: [&str; 5] =
    ["history", "replaced", "evidence", "mismatch", "reference"];

columns! {
    /// What becomes of one entry.
    WorkRow, WorkArrays {
        id: Uuid,
        tenant: String,
        operation: String,
        kind: i16,
        due: Option<Moment>,
        since: Option<Moment>,
        reason: Option<i16>,
        claim_id: Option<Blob>,
        claimed_until: Option<Moment>,
    }
}

columns! {
    /// A row that stays as it is while its entry changes.
    KeptRow, KeptArrays {
        id: Uuid,
        expected: Option<i64>,
        valid_until: Moment,
    }
}

/// The entry goes.
const CLOSED: i16 = 0;
/// The service itself looks at the record.
pub(super) const LOOK: i16 = 1;
/// Somebody has to find out.
pub(super) const FIND_OUT: i16 = 2;

impl WorkRow {
    pub(super) fn of(name: &RecordName, work: &Work) -> Self {
        let closed = Self {
            id: Uuid::of(&name.id()),
            tenant: name.tenant().to_owned(),
            operation: name.operation().to_owned(),
            kind: CLOSED,
            due: None,
            since: None,
            reason: None,
            claim_id: None,
            claimed_until: None,
        };
        match work {
            Work::Close => closed,
            Work::Look { at } => Self {
                kind: LOOK,
                due: Some(Moment(*at)),
                ..closed
            },
            Work::FindOut {
                due,
                since,
                reason,
                claim,
            } => Self {
                kind: FIND_OUT,
                due: Some(Moment(*due)),
                since: Some(Moment(*since)),
                reason: Some(reason.code()),
                claim_id: claim.map(|(id, _)| Blob::copy(&id.0)),
                claimed_until: claim.map(|(_, until)| Moment(until)),
                ..closed
            },
        }
    }
}

/// Rows that stay as they are and are still the ones that were decided on; of the locked
/// rows `held`, or none at all.
pub(super) fn kept(first_param: usize) -> String {
    format!(
        "k as materialized (
            select * from {kept}
        ), kept as (
            select k.id from k join held h on h.id = k.id cross join clock c
            where h.revision = k.expected and c.now < k.valid_until
            union all
            select k.id from k
            where k.expected is null
                and not exists (select from reprise.record r where r.id = k.id)
        )",
        kept = unnest(first_param, "k", KeptArrays::NAMES),
    )
}

/// Carries out, for the records that are `written`, what becomes of their entries, what is
/// filed about them, and what is erased. What the statement itself inserts is not erased:
/// its parts see one snapshot, from before.
pub(super) fn tended(works: usize, filed: usize, erased: usize) -> String {
    let columns: Vec<String> = WorkArrays::NAMES[1..]
        .iter()
        .map(|name| format!("{name} = excluded.{name}"))
        .collect();
    format!(
        "w as materialized (
            select * from {works} where w.id in (select id from written)
        ), closed as (
            delete from reprise.worklist l
            where l.id = any(array(select id from w where kind = {CLOSED} order by id))
        ), entered as (
            insert into reprise.worklist ({names})
            select {from_work} from w where w.kind <> {CLOSED} order by w.id
            on conflict (id) do update set {columns}
        ), f as materialized (
            select * from {filed} where f.id in (select id from written)
        ), removals as (
            {removals}
        ), filed as (
            {references}
        ), e as materialized (
            select id from unnest(${erased}) as e(id) where id in (select id from written)
        ), erased_audit as (
            update reprise.audit set evidence = null
            where id = any(array(select id from e)) and action <> {forgotten}
        ), erased_words as (
            update reprise.evidence set code = null
            where id = any(array(select id from e)) and reported = {REPORTED_PENDING}
        ), erased_replaced as (
            delete from reprise.replaced where id = any(array(select id from e))
        ), erased_references as (
            delete from reprise.reference where id = any(array(select id from e))
                and (id, kind, reference) not in (select id, kind, reference from (
                    {reference_rows}) x)
        ), n as materialized (
            select id from unnest(${anew}) as n(id) where id in (select id from written)
        ){of_former_lives}",
        anew = erased + 1,
        of_former_lives = SIDE_TABLES
            .map(|table| format!(
                ", former_{table} as (
            delete from reprise.{table} where id = any(array(select id from n))
        )"
            ))
            .concat(),
        // Why it was erased before stays.
        forgotten = AuditAction::Forgotten.code(),
        works = unnest(works, "w", WorkArrays::NAMES),
        names = WorkArrays::NAMES.join(", "),
        from_work = under("w", WorkArrays::NAMES),
        columns = columns.join(", "),
        filed = unnest(filed, "f", filing::FiledArrays::NAMES),
        removals = filing::removals("f"),
        references = filing::references("f"),
        reference_rows = filing::reference_rows("f"),
    )
}
