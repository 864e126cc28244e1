//! What callers ask of a record, and what they are answered.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reprise_fingerprint::Fingerprint;

use crate::content::{Content, Parts, Sha};
use crate::name::RecordName;
use crate::policy::Policy;
use crate::reading::View;
use crate::record::{AttemptId, ClaimId, PendingReason, ReportKind, State};
use crate::time::{Timestamp, micros};
use crate::token::Held;

/// A command for one record under the policy in force.
#[derive(Clone, Debug)]
pub struct Request {
    /// The record.
    pub name: RecordName,
    /// In force for its operation.
    pub policy: Arc<Policy>,
    /// What is asked.
    pub command: Command,
}

/// What is asked of a record.
#[derive(Clone, Debug)]
pub enum Command {
    /// May I carry the intent out?
    Reserve(Reserve),
    /// The effect may begin.
    MarkSending(MarkSending),
    /// The effect took place.
    Complete(Complete),
    /// This attempt had no effect.
    Fail(Fail),
    /// The effect may have taken place.
    MarkPending(MarkPending),
    /// Move the end of the lease.
    Renew(Renew),
    /// The answer of a grant reached nobody.
    GiveBack(GiveBack),
    /// May I find out?
    Claim(Claim),
    /// Somebody found out.
    Resolve(Resolve),
    /// Erase what callers stored.
    Forget(Forget),
    /// From the service itself: write down what time has done, and say when to look again.
    Sweep,
}

/// Asks for an attempt.
#[derive(Clone, Debug)]
pub struct Reserve {
    /// Of this try.
    pub attempt_id: AttemptId,
    /// The payload under each accepted rule; the first one is for a new record.
    pub fingerprints: Vec<Fingerprint>,
    /// Wanted length; none takes the policy's.
    pub lease: Option<Duration>,
    /// Who asks.
    pub owner: String,
    /// For people.
    pub correlation_id: String,
    /// The request that will be sent; empty when not given.
    pub instruction: Bytes,
    /// When the key was made.
    pub intent_time: Option<Timestamp>,
}

/// Says that the effect may begin.
#[derive(Clone, Debug)]
pub struct MarkSending {
    /// Who says so.
    pub held: Held,
    /// Empty when not given.
    pub provider_reference: String,
    /// Empty when not given.
    pub instruction: Bytes,
    /// None takes the attempt's own length.
    pub lease: Option<Duration>,
}

/// Reports that the effect took place.
#[derive(Clone, Debug)]
pub struct Complete {
    /// Who says so.
    pub held: Held,
    /// As kept.
    pub result: Content,
    /// [`Content::digest`] of the result as sent.
    pub digest: Sha,
    /// [`Content::core_digest`] of the result as sent.
    pub core: Sha,
}

/// Reports that this attempt had no effect.
#[derive(Clone, Debug)]
pub struct Fail {
    /// Who says so.
    pub holder: Holder,
    /// Retryable or final.
    pub kind: FailureKind,
    /// The provider decided under this effect key that the effect will not take place.
    pub effect_key_spent: bool,
    /// As kept.
    pub error: Content,
    /// [`Fail::digest_of`] the report as sent.
    pub digest: Sha,
}

impl Fail {
    /// Tells whether two Fail reports are the same.
    #[must_use]
    pub fn digest_of(kind: FailureKind, effect_key_spent: bool, error_as_sent: &Content) -> Sha {
        Self::digest_of_content(kind, effect_key_spent, error_as_sent.digest())
    }

    /// As [`Fail::digest_of`], from the digest of the error.
    #[must_use]
    pub fn digest_of_content(kind: FailureKind, effect_key_spent: bool, error: Sha) -> Sha {
        let mut hash = Parts::new("reprise-fail-1");
        hash.part(&[kind as u8, u8::from(effect_key_spent)]);
        hash.part(&error);
        hash.finish()
    }
}

/// Who reports a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The holder of a token.
    Token(Held),
    /// A client whose Reserve ended without an answer.
    AttemptId(AttemptId),
}

/// What may follow a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FailureKind {
    /// The next caller may try.
    Retryable = 1,
    /// Decided for good.
    Final = 2,
}

impl From<FailureKind> for ReportKind {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Retryable => Self::FailedRetryable,
            FailureKind::Final => Self::FailedFinal,
        }
    }
}

/// Reports that the effect may have taken place.
#[derive(Clone, Debug)]
pub struct MarkPending {
    /// Who says so.
    pub held: Held,
    /// Why, in the caller's words.
    pub detail: String,
    /// Empty when not given.
    pub provider_reference: String,
    /// Empty when not given.
    pub instruction: Bytes,
    /// None takes the policy's `settle_after`.
    pub check_after: Option<Duration>,
    /// [`MarkPending::digest_of`] the report as sent.
    pub digest: Sha,
}

impl MarkPending {
    /// Tells whether two MarkPending reports are the same.
    #[must_use]
    pub fn digest_of(
        detail: &str,
        provider_reference: &str,
        instruction: &[u8],
        check_after: Option<Duration>,
    ) -> Sha {
        let mut hash = Parts::new("reprise-pending-1");
        hash.part(detail.as_bytes());
        hash.part(provider_reference.as_bytes());
        hash.part(instruction);
        hash.part(&check_after.map_or(-1, micros).to_be_bytes());
        hash.finish()
    }
}

/// Moves the end of a lease.
#[derive(Clone, Debug)]
pub struct Renew {
    /// Whose.
    pub lessee: Lessee,
    /// Zero ends the lease; none takes the attempt's own length.
    pub lease: Option<Duration>,
}

/// Who has a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lessee {
    /// The holder of an attempt.
    Attempt(Held),
    /// Who claimed.
    Claim(Held),
}

/// A grant whose answer reached nobody. From the server itself, never from a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GiveBack {
    /// Revision that the grant was written with; a later one means that somebody has
    /// heard of it.
    pub revision: u64,
}

/// Asks for the right to find out. Answered [`Answer::Closed`] where there is nothing to
/// find out now.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Of this call; the same one asked again is answered its claim.
    pub id: ClaimId,
    /// How long it runs.
    pub lease: Duration,
    /// Who asks.
    pub owner: String,
}

/// Erases what callers stored with a record.
#[derive(Clone, Debug)]
pub struct Forget {
    /// Revision that the operator read.
    pub revision: u64,
    /// Who asks.
    pub actor: String,
    /// Why.
    pub reason: String,
}

/// By what right a record is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// A person decides.
    Operator {
        /// Revision that was read.
        revision: u64,
    },
    /// Under a claim.
    Claim(Held),
}

/// What somebody found out.
#[derive(Clone, Debug)]
pub struct Resolve {
    /// By what right.
    pub authority: Authority,
    /// What was found.
    pub finding: Finding,
    /// The provider decided under this effect key that the effect will not take place.
    pub effect_key_spent: bool,
    /// What the finding rests on.
    pub evidence: String,
    /// Who found out.
    pub actor: String,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The effect took place.
    Applied(Found),
    /// It did not; the next caller may try.
    NotApplied,
    /// It did not; the resolver carries it out.
    TakeOver {
        /// Of the resolver's try.
        attempt_id: AttemptId,
        /// None takes the policy's.
        lease: Option<Duration>,
    },
    /// It did not and will not.
    Failed(Found),
    /// Nothing is known yet.
    StillUnknown {
        /// None takes the policy's `settle_after`.
        check_after: Option<Duration>,
        /// Empty when not found.
        provider_reference: String,
    },
}

/// A content that a resolution recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// As kept.
    pub content: Content,
    /// [`Content::digest`] as sent.
    pub digest: Sha,
    /// [`Content::core_digest`] as sent.
    pub core: Sha,
}

impl Resolve {
    /// Tells whether two resolutions are the same one, sent again.
    #[must_use]
    pub fn digest(&self) -> Sha {
        let mut hash = Parts::new("reprise-resolve-1");
        match self.authority {
            Authority::Operator { revision } => hash.part(&revision.to_be_bytes()),
            Authority::Claim(held) => {
                hash.part(b"claim");
                hash.part(&held.attempt.to_be_bytes());
                hash.part(&held.fence.to_be_bytes());
            }
        }
        hash.part(&[u8::from(self.effect_key_spent)]);
        match &self.finding {
            Finding::Applied(found) => {
                hash.part(b"applied");
                hash.part(&found.digest);
            }
            Finding::NotApplied => hash.part(b"not applied"),
            Finding::TakeOver { attempt_id, .. } => {
                hash.part(b"take over");
                hash.part(&attempt_id.0);
            }
            Finding::Failed(found) => {
                hash.part(b"failed");
                hash.part(&found.digest);
            }
            Finding::StillUnknown {
                check_after,
                provider_reference,
            } => {
                hash.part(b"still unknown");
                hash.part(&check_after.map_or(-1, micros).to_be_bytes());
                hash.part(provider_reference.as_bytes());
            }
        }
        hash.finish()
    }
}

/// What a caller is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To Reserve, and to a resolver that took over.
    Outcome(Outcome, View),
    /// To Complete, Fail, MarkPending and Resolve.
    Reported(Disposition, View),
    /// To MarkSending and Renew: the lease runs until [`crate::record::Attempt::lease_end`].
    Leased(View),
    /// To Renew: the attempt has reported; to a give-back that came too late; to a Claim
    /// where there is nothing to find out now; to Sweep.
    Closed(View),
    /// To Claim, and to Renew of a claim: [`crate::record::Claim`] runs.
    Claimed(View),
    /// To what would be a grant: nobody is granted one at present. Nothing was written;
    /// the view is of the record, where there is one.
    Held(Option<Box<View>>),
}

/// The outcome of Reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Go ahead.
    Acquired {
        /// The same attempt id asked again: same attempt, token and fence.
        again: bool,
    },
    /// Completed or failed: replay, or say that it is gone, as the view reads.
    Recorded,
    /// Somebody else is at it.
    Processing,
    /// It may have taken place.
    Pending {
        /// Why.
        reason: PendingReason,
        /// The asker's own attempt.
        yours: bool,
    },
    /// The key was used with another payload.
    Mismatch(MismatchReason),
}

/// Why two fingerprints do not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MismatchReason {
    /// The payload differs.
    DifferentPayload,
    /// They were made under different schemes or rules.
    NotComparable,
}

/// What became of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Recorded now.
    Recorded,
    /// The same content was recorded before.
    Repeated,
    /// A resolution recorded the same outcome with other bytes.
    AlreadyRecorded,
    /// Nothing is left to report.
    Closed,
}

/// Why a command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// There is no such record.
    #[error("there is no such record")]
    RecordNotFound,
    /// The token is not the newest.
    #[error("the token is not the newest")]
    StaleToken,
    /// Another outcome is on record.
    #[error("another outcome is on record, and the first stays")]
    OutcomeAlreadyRecorded,
    /// The attempt ended.
    #[error("the attempt is over; ask again with a new attempt_id")]
    AttemptOver,
    /// The lease ended.
    #[error("the lease has ended; the effect must not begin")]
    LeaseExpired,
    /// The record is pending.
    #[error("the record is pending; the effect must not begin")]
    RecordPending,
    /// Somebody is finding out.
    #[error("somebody is finding out what happened; the effect must not begin")]
    Claimed,
    /// The claim is not the newest, or was ended.
    #[error("the claim is over")]
    ClaimOver {
        /// How the record reads.
        state: State,
    },
    /// The claim was taken too early for what it says.
    #[error(
        "the claim was taken before the settling time was over, when a request could still be \
         under way; claim anew"
    )]
    Settling,
    /// The provider may have forgotten.
    #[error("it is too late to tell: the provider may have forgotten; an operator must decide")]
    TooLateToTell,
    /// The newest grant's lease still runs.
    #[error("the lease of the newest attempt still runs")]
    LeaseRunning,
    /// A contradicting report is on record.
    #[error("a contradicting report is on record; only a resolution helps")]
    Contradicted,
    /// The intent is older than the memory of its record would be.
    #[error(
        "the intent is older than the memory retention; whether it was carried out is not known"
    )]
    IntentTooOld,
    /// The record changed since it was read.
    #[error("the record has changed since it was read")]
    RevisionChanged,
}
