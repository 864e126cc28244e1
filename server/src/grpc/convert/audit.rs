//! What people and rare events did.

use prost::Message;
use reprise_domain::decide::{AuditAction, By};
use reprise_domain::text::FieldError;
use reprise_domain::{RecordId, name};
use reprise_proto::v1 as proto;

use super::fields::{moment, timestamp};
use super::page::{Filters, PAGE_BYTES_MAX, page_size};
use crate::store::{AuditPage, AuditQuery, AuditRow, Audited};

/// Rows that are read at once: with the longest evidence 1.6 MiB of messages.
const ROWS_AT_ONCE: usize = 100;

/// A page that fills.
pub(crate) struct AuditList {
    query: AuditQuery,
    size: usize,
    filters: Filters,
    entries: Vec<proto::AuditEntry>,
    bytes: usize,
}

/// ListAuditRequest.
pub(crate) fn list_audit(message: proto::ListAuditRequest) -> Result<AuditList, FieldError> {
    if !message.tenant.is_empty() {
        name::check_word("tenant", &message.tenant)?;
    }
    if !message.operation.is_empty() {
        name::check_word("operation", &message.operation)?;
    }
    let record = match message.record_id.as_str() {
        "" => None,
        id => {
            let parsed = RecordId::parse(id);
            Some(parsed.map_err(|error| FieldError::new("record_id", error.allowed))?)
        }
    };
    let at = |field, sent: Option<_>| sent.map(|sent| moment(field, sent)).transpose();
    let (from, before) = (at("after", message.after)?, at("before", message.before)?);
    let filters = Filters::of("audit")
        .with(&message.tenant)
        .with(&message.operation)
        .with_optional(record.map(|id| id.0))
        .with_moment(from)
        .with_moment(before);
    let query = AuditQuery {
        tenant: message.tenant,
        operation: message.operation,
        record,
        from,
        before,
        after: filters.read(&message.page_token)?,
        max: 0,
    };
    Ok(AuditList {
        query,
        size: page_size(message.page_size)?,
        filters,
        entries: Vec::new(),
        bytes: 0,
    })
}

impl AuditList {
    /// Whose entries are asked for.
    pub(crate) fn tenant(&self) -> &str {
        &self.query.tenant
    }

    /// Of which operation; empty for all.
    pub(crate) fn operation(&self) -> &str {
        &self.query.operation
    }

    /// What to read next.
    pub(crate) fn query(&self) -> AuditQuery {
        AuditQuery {
            max: (self.size - self.entries.len()).min(ROWS_AT_ONCE),
            ..self.query.clone()
        }
    }

    /// Takes what was read. Is there more to read for this page?
    pub(crate) fn take(&mut self, page: AuditPage) -> bool {
        for entry in page.rows.into_iter().map(entry) {
            self.bytes += entry.encoded_len();
            self.entries.push(entry);
        }
        self.query.after = page.next;
        page.next.is_some() && self.entries.len() < self.size && self.bytes <= PAGE_BYTES_MAX
    }

    /// The page.
    pub(crate) fn response(self) -> proto::ListAuditResponse {
        proto::ListAuditResponse {
            next_page_token: self.filters.token(self.query.after),
            entries: self.entries,
        }
    }
}

fn entry(row: AuditRow) -> proto::AuditEntry {
    let (record_id, attempt) = match row.record {
        Some((id, attempt)) => (id.to_string(), attempt),
        None => (String::new(), 0),
    };
    proto::AuditEntry {
        time: Some(timestamp(row.at)),
        actor: row.actor,
        action: action(row.action).into(),
        tenant: row.tenant,
        operation: row.operation,
        record_id,
        attempt,
        reason: row.evidence,
        authority: authority(row.by).into(),
    }
}

fn action(audited: Audited) -> proto::AuditAction {
    let action = match audited {
        Audited::PolicyWritten => return proto::AuditAction::PolicyWritten,
        Audited::Record(action) => action,
    };
    match action {
        AuditAction::TakenOver => proto::AuditAction::TakenOver,
        AuditAction::Contradicted => proto::AuditAction::Contradicted,
        AuditAction::ContradictsResolution => proto::AuditAction::ContradictsResolution,
        AuditAction::ResolvedApplied => proto::AuditAction::ResolvedApplied,
        AuditAction::ResolvedNotApplied => proto::AuditAction::ResolvedNotApplied,
        AuditAction::ResolvedTakeOver => proto::AuditAction::ResolvedTakeOver,
        AuditAction::ResolvedFailed => proto::AuditAction::ResolvedFailed,
        AuditAction::ResolvedStillUnknown => proto::AuditAction::ResolvedStillUnknown,
        AuditAction::ContradictsReport => proto::AuditAction::ContradictsReport,
        AuditAction::Forgotten => proto::AuditAction::Forgotten,
    }
}

fn authority(by: By) -> proto::AuditAuthority {
    match by {
        By::Caller => proto::AuditAuthority::Caller,
        By::Claim => proto::AuditAuthority::Claim,
        By::Operator => proto::AuditAuthority::Operator,
    }
}
