//! Lists audit rows, newest first.

use std::sync::LazyLock;
use std::time::Instant;

use reprise_domain::RecordId;
use reprise_domain::decide::{AuditAction, By};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::column::{Blob, Moment, Param, Uuid};
use super::database::Database;
use super::row::{Unreadable, coded, fixed};
use crate::store::{AuditPage, AuditPlace, AuditQuery, AuditRow, Audited, Error};

/// The action of the writing of a policy.
pub(super) const POLICY_WRITTEN: i16 = 64;

/// With a record, by the index over records; else by the one over a tenant's rows.
static SQL: LazyLock<String> = LazyLock::new(|| {
    let filters = "($2 = '' or a.operation = $2)
                and ($4::timestamptz is null or a.at >= $4)
                and ($5::timestamptz is null or a.at < $5)
                and ($6::timestamptz is null
                    or (a.at, a.entry) < ($6, encode($7, 'hex')::uuid))
            order by a.at desc, a.entry desc limit $8";
    format!(
        "select a.at, uuid_send(a.entry), a.actor, a.action, a.authority, a.tenant,
            coalesce(a.operation, ''), a.id, a.id_end, a.attempt, a.evidence
        from (
            (select * from reprise.audit a
            where $3::uuid is null and a.tenant = $1 and {filters})
            union all
            (select * from reprise.audit a
            where a.id = $3 and a.tenant = $1 and {filters})
        ) a order by a.at desc, a.entry desc"
    )
});

pub(super) async fn audit(
    database: &Database,
    query: AuditQuery,
    deadline: Instant,
) -> Result<AuditPage, Error> {
    let record = query.record.map(|id| Uuid::of(&id));
    let (from, before) = (query.from.map(Moment), query.before.map(Moment));
    let after_at = query.after.map(|(at, _)| Moment(at));
    let after_entry = query.after.map(|(_, entry)| Blob::copy(&entry));
    let max = i64::try_from(query.max).unwrap_or(i64::MAX);
    let params: [Param<'_>; 8] = [
        (&query.tenant, Type::TEXT),
        (&query.operation, Type::TEXT),
        (&record, Type::UUID),
        (&from, Type::TIMESTAMPTZ),
        (&before, Type::TIMESTAMPTZ),
        (&after_at, Type::TIMESTAMPTZ),
        (&after_entry, Type::BYTEA),
        (&max, Type::INT8),
    ];
    let rows = database.run(&SQL, &params, deadline).await?;
    let full = rows.len() >= query.max;
    let next = rows.last().filter(|_| full).map(place).transpose()?;
    Ok(AuditPage {
        rows: rows.iter().map(read).collect::<Result<_, _>>()?,
        next,
    })
}

fn place(row: &Row) -> Result<AuditPlace, Error> {
    let at: Moment = row.try_get(0).map_err(Error::internal)?;
    let entry: Blob = row.try_get(1).map_err(Error::internal)?;
    Ok((at.0, fixed("entry", &entry).map_err(Error::internal)?))
}

fn read(row: &Row) -> Result<AuditRow, Error> {
    let text = |at| {
        let text = row.try_get::<_, Option<String>>(at);
        text.map(Option::unwrap_or_default).map_err(Error::internal)
    };
    let number = |at| row.try_get::<_, i16>(at).map_err(Error::internal);
    let unreadable = |column: &'static str| Error::internal(Unreadable::Column(column));
    let id: Option<Uuid> = row.try_get(7).map_err(Error::internal)?;
    let id_end: Option<Blob> = row.try_get(8).map_err(Error::internal)?;
    let attempt: Option<i32> = row.try_get(9).map_err(Error::internal)?;
    let at: Moment = row.try_get(0).map_err(Error::internal)?;
    Ok(AuditRow {
        at: at.0,
        actor: text(2)?,
        action: match number(3)? {
            POLICY_WRITTEN => Audited::PolicyWritten,
            code => {
                let action: AuditAction = coded("action", code).map_err(Error::internal)?;
                Audited::Record(action)
            }
        },
        by: coded::<By>("authority", number(4)?).map_err(Error::internal)?,
        tenant: text(5)?,
        operation: text(6)?,
        record: match (id, id_end, attempt) {
            (Some(id), Some(end), Some(attempt)) => {
                let id = Blob([id.0.as_slice(), &end.0].concat().into());
                let id = RecordId(fixed("id_end", &id).map_err(Error::internal)?);
                Some((id, attempt.cast_unsigned()))
            }
            (None, None, None) => None,
            _ => return Err(unreadable("attempt")),
        },
        evidence: text(10)?,
    })
}
