//! What is remembered about one intent.

use std::time::Duration;

use bytes::Bytes;
use reprise_fingerprint::Fingerprint;

use crate::content::{Content, Sha};
use crate::name::{EffectKey, RecordName};
use crate::policy::OnLapse;
use crate::time::Timestamp;

/// Earlier attempt ids that a record keeps.
pub const EARLIER_IDS_MAX: usize = 4;
/// Accepted MarkPending reports that a record keeps of one attempt, by digest.
pub const PENDING_DIGESTS_MAX: usize = 16;

/// 16 random bytes that name one try of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttemptId(pub [u8; 16]);

/// 16 random bytes that name one call for claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimId(pub [u8; 16]);

/// The durable memory of one business intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The identity.
    pub name: RecordName,
    /// Rises with every write; a write needs the one that was decided on.
    pub revision: u64,
    /// First grant.
    pub created_at: Timestamp,
    /// Newest write.
    pub updated_at: Timestamp,
    /// Of the first grant; what repeats are compared with.
    pub fingerprint: Fingerprint,
    /// As written; [`crate::Reading`] says how it reads at a moment.
    pub state: State,
    /// Counts effect keys, from 1.
    pub generation: u32,
    /// The provider decided under the current effect key that the effect will not take
    /// place; the next grant begins a new generation.
    pub key_spent: bool,
    /// An attempt that was taken over may have had its effect.
    pub unaccounted: bool,
    /// A report contradicts the record; nothing is granted until a resolution.
    pub contradicted: bool,
    /// The newest attempt.
    pub attempt: Attempt,
    /// How the attempt before it ended; none after a first grant.
    pub previous: Option<Ended>,
    /// As given by the newest attempt.
    pub correlation_id: String,
    /// Newest one known.
    pub provider_reference: String,
    /// From the newest outcome.
    pub resource_id: String,
    /// The request of this generation.
    pub instruction: Bytes,
    /// Present in state PENDING.
    pub pending: Option<Pending>,
    /// The newest outcome. In PROCESSING and PENDING: what an earlier report left.
    pub outcome: Option<Outcome>,
    /// The newest resolution, until two grants later.
    pub resolution: Option<Resolution>,
    /// The newest claim on the newest attempt, also when it ran out or is over: it may
    /// still tell.
    pub claim: Option<Claim>,
}

/// The state as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// A lease was granted.
    Processing,
    /// The effect may have taken place.
    Pending,
    /// The effect took place.
    Completed,
    /// It did not; the next caller may try.
    FailedRetryable,
    /// It did not, for good.
    FailedFinal,
}

/// One try to carry the intent out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Counted from 1.
    pub number: u32,
    /// Of the caller.
    pub id: AttemptId,
    /// Of the attempts before, newest first, at most [`EARLIER_IDS_MAX`].
    pub earlier_ids: Vec<AttemptId>,
    /// Rises with every grant.
    pub fence: u64,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// End of the lease.
    pub lease_end: Timestamp,
    /// The attempt's own length of lease.
    pub lease: Duration,
    /// What a lapse means.
    pub on_lapse: OnLapse,
    /// Last moment for a grant while an attempt may have sent and is not accounted for.
    pub repeat_until: Option<Timestamp>,
    /// Why it was granted.
    pub why: GrantReason,
    /// Who holds it, for people.
    pub owner: String,
    /// MarkSending was accepted.
    pub sent: bool,
    /// The token was used, so its answer reached somebody.
    pub used: bool,
    /// The grant reached nobody.
    pub given_back: Option<GivenBack>,
    /// The outcome that the token reported.
    pub report: Option<Report>,
    /// Digests of accepted MarkPending reports, newest last.
    pub pending_digests: Vec<Sha>,
}

/// Why an attempt was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GrantReason {
    /// Nobody tried before, or the earlier grant reached nobody.
    First,
    /// The attempt before had no effect.
    AfterRetryableFailure,
    /// The attempt before lapsed.
    AfterLapsedLease,
    /// A resolver took over.
    AfterResolution,
}

/// Who gave a grant back that reached nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GivenBack {
    /// The caller was gone before the answer was handed to the transport. The same
    /// attempt id may ask again.
    Server,
    /// The client, by attempt id.
    Client,
}

/// An outcome that a token reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Report {
    /// Which.
    pub kind: ReportKind,
    /// Of the report as sent.
    pub digest: Sha,
}

/// Kinds of outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReportKind {
    /// Complete.
    Completed,
    /// Fail, retryable.
    FailedRetryable,
    /// Fail, final.
    FailedFinal,
}

/// How the attempt before the newest ended, so that a lost report can be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its number.
    pub number: u32,
    /// Its fence.
    pub fence: u64,
    /// The outcome that it reported.
    pub report: Option<Report>,
    /// Digests of its accepted MarkPending reports.
    pub pending_digests: Vec<Sha>,
}

/// Why and since when the outcome is uncertain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Why.
    pub reason: PendingReason,
    /// In the holder's words.
    pub detail: String,
    /// Since when.
    pub since: Timestamp,
    /// When finding out is worth a try.
    pub next_check: Timestamp,
}

/// Why an outcome is uncertain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PendingReason {
    /// The holder, or a person, said so.
    Reported,
    /// The lease ended without a word.
    LeaseExpired,
    /// The lease ended after MarkSending.
    LeaseExpiredAfterSending,
    /// An attempt that was taken over may have had its effect.
    EarlierAttemptUnknown,
    /// Reports contradict each other.
    ContradictoryReports,
}

/// An outcome on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What is replayed, as kept.
    pub content: Content,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// End of the replay of headers and body.
    pub result_until: Timestamp,
    /// End of the record.
    pub memory_until: Timestamp,
}

/// What somebody found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// Number of the attempt that was the newest.
    pub attempt: u32,
    /// Of the resolution as sent, with the right by which it was made.
    pub digest: Sha,
    /// With *applied* and *failed*: of the content as sent.
    pub content: Option<Sha>,
    /// With *applied*: of the content without headers and body.
    pub core: Option<Sha>,
}

/// The right to find out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Of the call that took it.
    pub id: ClaimId,
    /// Rises with every grant and claim of the record.
    pub fence: u64,
    /// When it was taken.
    pub taken_at: Timestamp,
    /// End of its lease.
    pub lease_end: Timestamp,
    /// Its own length of lease.
    pub lease: Duration,
    /// Who took it, for people.
    pub owner: String,
    /// A report, a resolution or an override ended it.
    pub over: bool,
}

impl Claim {
    /// Does it keep others from finding out?
    #[must_use]
    pub fn runs(&self, now: Timestamp) -> bool {
        !self.over && now < self.lease_end
    }
}

impl Record {
    /// The claim that runs.
    #[must_use]
    pub fn running_claim(&self, now: Timestamp) -> Option<&Claim> {
        self.claim.as_ref().filter(|claim| claim.runs(now))
    }

    /// Of the newest grant or claim.
    #[must_use]
    pub fn last_fence(&self) -> u64 {
        let claim = self.claim.as_ref().map_or(0, |claim| claim.fence);
        self.attempt.fence.max(claim)
    }

    /// Is nothing left to find out, whatever time does? Then its retention counts, and only a
    /// new grant or a person opens it again.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        match self.state {
            State::Completed | State::FailedFinal => true,
            State::FailedRetryable => !self.unaccounted && !self.contradicted,
            State::Processing | State::Pending => false,
        }
    }

    /// Of a closed record: are there bytes that go when the result is no longer replayed? The
    /// instruction of what failed retryable is for the next attempt.
    #[must_use]
    pub fn loses_bytes(&self) -> bool {
        self.outcome
            .as_ref()
            .is_some_and(|it| it.content.has_bytes())
            || self.state != State::FailedRetryable && !self.instruction.is_empty()
    }

    /// What is left of a closed record when the result is no longer replayed.
    #[must_use]
    pub fn tombstone(mut self) -> Self {
        if let Some(outcome) = &mut self.outcome {
            outcome.content = std::mem::take(&mut outcome.content).stripped();
        }
        if self.state != State::FailedRetryable {
            self.instruction = Bytes::new();
        }
        self
    }

    /// Are there bytes that callers stored and that a tombstone has not?
    #[must_use]
    pub fn has_bytes(&self) -> bool {
        let detail = self
            .pending
            .as_ref()
            .is_some_and(|it| !it.detail.is_empty());
        let content = self
            .outcome
            .as_ref()
            .is_some_and(|it| it.content.has_bytes());
        detail || content || !self.instruction.is_empty()
    }

    /// The error of the newest attempt in FAILED: of a grant that reached nobody, that it
    /// did not; else what is on record.
    #[must_use]
    pub fn failure(&self) -> Option<Content> {
        match self.attempt.given_back {
            Some(_) => Some(Content::of_code(crate::decide::NOT_DELIVERED)),
            None => self.outcome.as_ref().map(|outcome| outcome.content.clone()),
        }
    }

    /// The provider's idempotency key of the newest attempt.
    #[must_use]
    pub fn effect_key(&self) -> EffectKey {
        self.name.effect_key(self.generation)
    }
}
