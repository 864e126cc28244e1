//! What an effect is told when it begins, and what it says when it ends.

use std::time::Duration;

use bytes::Bytes;
use reprise_proto::v1::{Content, EarlierAttempts, GrantReason, RecordName, content::Body};
use tokio::sync::watch;

use crate::error::{ClaimOver, Reason};

/// What an effect needs to know. The effect hands `effect_key` to its provider, or `fence`
/// to the resource that it changes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Effect {
    /// The intent.
    pub record: RecordName,
    /// The provider's idempotency key: the same for every attempt of a generation.
    pub effect_key: String,
    /// Rises with every grant; for a resource that refuses older ones.
    pub fence: u64,
    /// Counted from 1; rises when an effect key was reported as spent.
    pub generation: u32,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// Why the attempt was granted.
    pub reason: GrantReason,
    /// The request to send: what an earlier attempt of this generation left, else the one
    /// given to Reserve or MarkSending. The provider knows the key with that request.
    pub instruction: Bytes,
    /// What else earlier attempts left.
    pub earlier: EarlierAttempts,
    pub(crate) lost: watch::Receiver<Option<LeaseLost>>,
}

/// The lease can no longer be relied on: others may begin, or may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseLost {
    /// The server refused to renew it.
    Refused(Reason),
    /// It was the lease of a claim, and the claim is over.
    ClaimOver(ClaimOver),
    /// No renewal got through in time.
    NotRenewed,
}

impl Effect {
    /// Ends when the lease can no longer be relied on: at once when a renewal is refused,
    /// and when a tenth of the lease is left that no renewal prolonged. What was not yet
    /// sent should not be sent any more; what was sent is to be reported all the same.
    pub async fn lease_lost(&self) -> LeaseLost {
        told(&self.lost).await
    }

    /// What [`Effect::lease_lost`] would answer now.
    pub fn lease_lost_already(&self) -> Option<LeaseLost> {
        *self.lost.borrow()
    }
}

/// Waits until the loss of a lease is told.
pub(crate) async fn told(lost: &watch::Receiver<Option<LeaseLost>>) -> LeaseLost {
    let mut lost = lost.clone();
    loop {
        if let Some(lost) = *lost.borrow_and_update() {
            return lost;
        }
        if lost.changed().await.is_err() {
            // The watch over the lease ended without a loss: what it was for has ended.
            std::future::pending::<()>().await;
        }
    }
}

/// What the effect came to. Whatever else ends it (an error, a panic, being dropped) counts
/// as unknown.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It took place; this is to be replayed.
    Done(Content),
    /// Provably nothing happened: the key is free for the next try. A refused connection
    /// or a 429 may say so; a time-out never does.
    NothingHappened(Content),
    /// It is decided that it does not take place; the error is to be replayed.
    Refused {
        /// What is replayed.
        error: Content,
        /// The provider has stored under this effect key the decision that the effect will
        /// not take place. "In progress", "already used", 429 and 5xx are not that.
        effect_key_spent: bool,
    },
    /// Nobody knows. The record is pending until someone finds out.
    Unknown(Uncertainty),
}

/// What helps to find out later.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Uncertainty {
    /// Why it is not known. At most 255 bytes.
    pub reason: String,
    /// What the provider calls the effect, if known. At most 255 bytes.
    pub provider_reference: String,
    /// How to find out or finish it. At most 16 KiB.
    pub instruction: Bytes,
    /// When finding out is worth a try; none takes the policy's.
    pub check_after: Option<Duration>,
}

impl Verdict {
    /// Nobody knows, because of `reason`.
    pub fn unknown(reason: impl Into<String>) -> Verdict {
        Verdict::Unknown(Uncertainty {
            reason: reason.into(),
            ..Uncertainty::default()
        })
    }

    /// A decided refusal that the provider did not store under the effect key.
    pub fn refused(error: Content) -> Verdict {
        Verdict::Refused {
            error,
            effect_key_spent: false,
        }
    }
}

/// What to replay: a code such as "201" and a body.
pub fn content(code: impl Into<String>, body: impl Into<Bytes>) -> Content {
    Content {
        code: code.into(),
        body: Some(Body::Data(body.into())),
        ..Content::default()
    }
}
