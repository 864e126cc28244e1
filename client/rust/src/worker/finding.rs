//! What the user's function found out about a record.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use reprise_proto::v1::Content;

use crate::effect::{Effect, Verdict};
use crate::error::BoxError;
use crate::run::Sending;

/// What was found out, and what that rests on.
#[derive(Debug)]
#[must_use]
pub struct Resolution {
    /// What was found out.
    pub finding: Finding,
    /// In words, for people; kept in the audit. Cut at 16 KiB.
    pub evidence: String,
}

/// What was found out about a record.
///
/// Mere absence at the provider proves nothing while a request may still be under way. Where
/// [`Case::may_deny`](crate::Case::may_deny) is false, `NotApplied`, `Failed` and `TakeOver`
/// are kept as still unknown; only those with a spent effect key are tried.
#[derive(Debug)]
pub enum Finding {
    /// The effect took place; this is to be replayed.
    Applied(Content),
    /// It did not, and the next caller may try again.
    NotApplied,
    /// The same, and the provider has stored under this effect key the decision that the
    /// effect will not take place: the next attempt gets another key.
    NotAppliedKeySpent,
    /// It did not and will not; the error is to be replayed.
    Failed {
        /// What is replayed.
        error: Content,
        /// As in [`Verdict::Refused`].
        effect_key_spent: bool,
    },
    /// Nobody knows yet.
    StillUnknown {
        /// When to look again, at most 30 days; none takes the worker's back-off.
        check_after: Option<Duration>,
        /// What the provider calls the effect, if it was found. At most 255 bytes.
        provider_reference: String,
    },
    /// It did not take place, and this worker carries it out now.
    TakeOver(TakeOver),
}

impl Finding {
    /// The same with what it rests on.
    pub fn because(self, evidence: impl Into<String>) -> Resolution {
        Resolution {
            finding: self,
            evidence: evidence.into(),
        }
    }

    /// A decided failure that the provider did not store under the effect key.
    pub fn failed(error: Content) -> Finding {
        Finding::Failed {
            error,
            effect_key_spent: false,
        }
    }

    /// Nobody knows yet; to be looked at again as the worker backs off.
    pub fn still_unknown() -> Finding {
        Finding::StillUnknown {
            check_after: None,
            provider_reference: String::new(),
        }
    }

    /// This worker carries the effect out now. See [`TakeOver`].
    pub fn take_over<F, E>(effect: impl FnOnce(Effect) -> F + Send + 'static) -> Finding
    where
        F: Future<Output = Result<Verdict, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        Finding::TakeOver(TakeOver::new(effect))
    }
}

type Ended = Pin<Box<dyn Future<Output = Result<Verdict, BoxError>> + Send>>;
pub(super) type Begin = Box<dyn FnOnce(Effect) -> Ended + Send>;

/// An effect to be carried out by the worker, in the way of [`Client::run`](crate::Client::run):
/// under a grant of its own, renewed while it runs, reported however it ends.
///
/// A [`Verdict::NothingHappened`] leaves the record to its callers: no worker sees it again.
/// Where nobody repeats the intent, as in an outbox, say [`Verdict::Unknown`] to be asked
/// again. What was taken over and not begun stays pending.
pub struct TakeOver {
    pub(super) begin: Begin,
    pub(super) lease: Option<Duration>,
    pub(super) sending: Option<Sending>,
    pub(super) effect_key_spent: bool,
}

impl TakeOver {
    /// Carries out `effect` with the policy's lease.
    pub fn new<F, E>(effect: impl FnOnce(Effect) -> F + Send + 'static) -> TakeOver
    where
        F: Future<Output = Result<Verdict, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        TakeOver {
            begin: Box::new(|given| {
                let ended = effect(given);
                Box::pin(async { ended.await.map_err(Into::into) })
            }),
            lease: None,
            sending: None,
            effect_key_spent: false,
        }
    }

    /// With a lease of 100 ms to 15 min.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> TakeOver {
        self.lease = Some(lease);
        self
    }

    /// Says MarkSending right before the effect: without its OK the effect is not called.
    #[must_use]
    pub fn marked(mut self, sending: Sending) -> TakeOver {
        self.sending = Some(sending);
        self
    }

    /// The effect key is spent, as in [`Finding::NotAppliedKeySpent`]: the effect runs under
    /// another one.
    #[must_use]
    pub fn effect_key_spent(mut self) -> TakeOver {
        self.effect_key_spent = true;
        self
    }
}

impl fmt::Debug for TakeOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakeOver")
            .field("lease", &self.lease)
            .field("sending", &self.sending)
            .field("effect_key_spent", &self.effect_key_spent)
            .finish_non_exhaustive()
    }
}
