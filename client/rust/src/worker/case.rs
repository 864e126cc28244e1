//! A claimed record as the user's function sees it.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reprise_proto::v1::{ClaimedRecord, PendingReason, RecordName};
use tokio::sync::watch;
use tokio::time::Instant;

use super::claim::Claim;
use crate::Client;
use crate::effect::{LeaseLost, told};
use crate::error::Error;
use crate::lease::Lease;

/// All that is known of a record about which somebody has to find out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Case {
    /// The intent.
    pub record: RecordName,
    /// Opaque text that names the record; for support.
    pub record_id: String,
    /// The provider's idempotency key: what to ask the provider about.
    pub effect_key: String,
    /// What the provider calls the effect; empty where nobody said.
    pub provider_reference: String,
    /// As given by the newest attempt.
    pub correlation_id: String,
    /// The request of this generation, as stored with Reserve, MarkSending or MarkPending.
    pub instruction: Bytes,
    /// Why the outcome is uncertain.
    pub reason: PendingReason,
    /// The holder's own words.
    pub detail: String,
    /// Since when it is pending, by the server's clock.
    pub since: SystemTime,
    /// How long it had been pending when it was claimed, by the server's clock.
    pub pending_for: Duration,
    /// Higher than that of every grant and claim before. To be handed to a resource that
    /// refuses older ones, before it is said that the effect did not take place.
    pub fence: u64,
    /// Under this claim it may be said that the effect did not take place. Where false,
    /// such a finding is kept as still unknown.
    pub may_deny: bool,
    /// An earlier attempt is not accounted for: it may have had its effect too.
    pub unaccounted: bool,
    /// Number of the newest attempt, from 1.
    pub attempt: u32,
    /// Counted from 1; rises when an effect key was reported as spent.
    pub generation: u32,
    claimed: Instant,
    lost: watch::Receiver<Option<LeaseLost>>,
}

impl Case {
    /// Ends when the claim can no longer be relied on: others may be asking too. What was
    /// found is to be answered all the same.
    pub async fn claim_lost(&self) -> LeaseLost {
        told(&self.lost).await
    }

    /// How long the record has been pending by now.
    pub(super) fn age(&self) -> Duration {
        self.pending_for + self.claimed.elapsed()
    }
}

/// A record with its claim, whose lease is renewed from here on.
pub(super) struct Claimed {
    pub(super) case: Case,
    pub(super) claim: Claim,
}

impl Claimed {
    /// `sent`: when the answered call was sent; its leases count from there.
    pub(super) fn read(
        client: &Client,
        wire: ClaimedRecord,
        sent: Instant,
        length: Duration,
    ) -> Result<Claimed, Error> {
        let unknown = |what| Error::UnknownOutcome {
            call: "ClaimPending",
            what,
        };
        let record = wire.name.ok_or(unknown("name"))?;
        let summary = wire.record.ok_or(unknown("record"))?;
        let pending = wire.pending.ok_or(unknown("pending"))?;
        let fence = wire.fence.parse().map_err(|_| unknown("fence"))?;
        let remaining = wire.lease_remaining.and_then(|it| it.try_into().ok());
        let remaining: Duration = remaining.ok_or(unknown("lease"))?;
        let time = |it: Option<prost_types::Timestamp>| it.and_then(|it| it.try_into().ok());
        let since: SystemTime = time(pending.since_time).ok_or(unknown("time"))?;
        let ends: SystemTime = time(wire.lease_expire_time).ok_or(unknown("time"))?;
        if wire.claim.is_empty() {
            return Err(unknown("claim"));
        }
        let now = ends.checked_sub(remaining).unwrap_or(since);
        let lease = Lease::counted(sent, remaining, length);
        let claim = Claim::taken(client, &record, wire.claim, lease);
        let reason = pending.reason();
        let provider_reference = match pending.provider_reference.is_empty() {
            true => summary.provider_reference,
            false => pending.provider_reference,
        };
        let case = Case {
            record,
            record_id: summary.record_id,
            effect_key: summary.effect_key,
            provider_reference,
            correlation_id: summary.correlation_id,
            instruction: wire.instruction,
            reason,
            detail: pending.detail,
            since,
            pending_for: now.duration_since(since).unwrap_or_default(),
            fence,
            may_deny: wire.may_deny,
            unaccounted: wire.unaccounted,
            attempt: summary.attempt,
            generation: summary.generation,
            claimed: sent,
            lost: claim.lost(),
        };
        Ok(Claimed { case, claim })
    }
}
