//! Pending records: listed, counted, claimed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reprise_domain::command::Claim;
use reprise_domain::decide::may_deny;
use reprise_domain::reading::{Uncertain, View};
use reprise_domain::record::ClaimId;
use reprise_domain::text::{self, FieldError};
use reprise_domain::token::TokenKey;
use reprise_domain::{Policy, Reading, RecordId, RecordName};
use reprise_proto::v1 as proto;

use super::answer::{pending_reason, seen_pending, summary};
use super::fields::{lease, record_name_message, span, tenant_and_operation, timestamp};
use super::page::{Filters, page_size};
use crate::grpc::status::Error;
use crate::store::{PendingCount, PendingPage, PendingQuery};

const CLAIMS_DEFAULT: usize = 10;
const CLAIMS_MAX: u32 = 100;
const CLAIM_LEASE_DEFAULT: Duration = Duration::from_mins(1);

/// What to list.
pub(crate) struct PendingList {
    pub(crate) query: PendingQuery,
    filters: Filters,
}

/// ListPendingRequest.
pub(crate) fn list_pending(message: proto::ListPendingRequest) -> Result<PendingList, FieldError> {
    tenant_and_operation(&message.tenant, &message.operation)?;
    let max = page_size(message.page_size)?;
    let filters = Filters::of("pending")
        .with(&message.tenant)
        .with(&message.operation)
        .with([u8::from(message.include_not_due)]);
    let after = filters.read(&message.page_token)?;
    let query = PendingQuery {
        tenant: message.tenant,
        operation: message.operation,
        only_due: !message.include_not_due,
        after: after.map(|(due, id)| (due, RecordId(id))),
        max,
    };
    Ok(PendingList { query, filters })
}

/// The page, of what reads as asked at present under the policy of each.
pub(crate) fn list_pending_response(
    list: &PendingList,
    page: PendingPage,
    policy: impl Fn(&RecordName) -> Arc<Policy>,
) -> proto::ListPendingResponse {
    let last = page.next.map(|(due, id)| (due, id.0));
    let views = page.entries.into_iter().map(|(_, record)| {
        let policy = policy(&record.name);
        View::of(record, &policy, page.now)
    });
    let pending = views.filter_map(|view| match view.reading {
        Reading::Pending(uncertain) => Some((view, uncertain)),
        _ => None,
    });
    let asked = pending.filter(|(view, uncertain)| !list.query.only_due || due(view, uncertain));
    let records = asked.map(|(view, uncertain)| proto::PendingRecord {
        name: Some(record_name_message(&view.record.name)),
        record: Some(summary(&view)),
        pending: Some(seen_pending(&view, uncertain.reason)),
    });
    proto::ListPendingResponse {
        records: records.collect(),
        next_page_token: list.filters.token(last),
    }
}

/// Is it worth finding out now, and is nobody at it?
fn due(view: &View, uncertain: &Uncertain) -> bool {
    let due = uncertain.next_check.max(view.record.attempt.lease_end);
    due <= view.now && view.record.running_claim(view.now).is_none()
}

/// The counts, in the order given.
pub(crate) fn count_pending_response(counts: Vec<PendingCount>) -> proto::CountPendingResponse {
    let counts = counts.into_iter().map(|count| proto::PendingCount {
        operation: count.operation,
        reason: pending_reason(count.reason).into(),
        total: count.total,
        due: count.due,
        claimed: count.claimed,
        oldest_since_time: Some(timestamp(count.oldest)),
    });
    proto::CountPendingResponse {
        counts: counts.collect(),
    }
}

/// A call for claims.
pub(crate) struct Claims {
    /// Whose records.
    pub(crate) tenant: String,
    /// Empty: of all operations.
    pub(crate) operation: String,
    /// Most records to take.
    pub(crate) max: usize,
    /// What each is asked.
    pub(crate) claim: Claim,
}

/// ClaimPendingRequest.
pub(crate) fn claim_pending(message: proto::ClaimPendingRequest) -> Result<Claims, FieldError> {
    tenant_and_operation(&message.tenant, &message.operation)?;
    let id = <[u8; 16]>::try_from(message.claim_id.as_ref())
        .map_err(|_| FieldError::new("claim_id", "exactly 16 bytes"))?;
    let max = match message.max_records {
        0 => CLAIMS_DEFAULT,
        max @ 1..=CLAIMS_MAX => max as usize,
        _ => return Err(FieldError::new("max_records", "0 to 100")),
    };
    let claim = Claim {
        id: ClaimId(id),
        lease: lease("lease", message.lease)?.unwrap_or(CLAIM_LEASE_DEFAULT),
        owner: text::check("owner", message.owner)?,
    };
    Ok(Claims {
        tenant: message.tenant,
        operation: message.operation,
        max,
        claim,
    })
}

/// A record under the claim that runs on it.
pub(crate) fn claimed_record(
    view: &View,
    policy: &Policy,
    key: &TokenKey,
) -> Result<proto::ClaimedRecord, Error> {
    let record = &view.record;
    let (Reading::Pending(uncertain), Some(claim)) = (&view.reading, &record.claim) else {
        return Err(Error::internal("a claim on a record that is not pending"));
    };
    let token = key.issue_claim(&record.name.id(), record.attempt.number, claim.fence);
    Ok(proto::ClaimedRecord {
        name: Some(record_name_message(&record.name)),
        record: Some(summary(view)),
        pending: Some(seen_pending(view, uncertain.reason)),
        claim: Bytes::copy_from_slice(&token),
        fence: claim.fence.to_string(),
        lease_remaining: Some(span(claim.lease_end.since(view.now))),
        lease_expire_time: Some(timestamp(claim.lease_end)),
        instruction: record.instruction.clone(),
        may_deny: may_deny(record, claim, policy, false, view.now).is_ok(),
        unaccounted: record.unaccounted,
    })
}
