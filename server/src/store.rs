//! What keeps records. A store finds or inserts a record, has [`reprise_domain::decide()`]
//! decide, and writes back only if the row is still the one that was decided on. It knows
//! no rule of its own and no message of the wire; every store passes the same conformance
//! suite.

pub mod embedded;
mod policy_document;
pub mod postgres;
mod queue;

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use reprise_domain::token::TokenKey;
use reprise_domain::{EffectKey, Policy, Record, RecordId, Request, Timestamp, Trace};

pub use queue::{Delivery, Limits};

/// A store's answer, later.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Keeps records and policies. Dropping a returned future cancels nothing that was
/// already under way.
pub trait Store: Send + Sync + 'static {
    /// Has `request` decided and makes the change durable before it is answered. A
    /// Reserve whose future is dropped before it entered a batch leaves nothing; a
    /// report that was handed in is always carried out. Past `deadline` the outcome is
    /// unknown: [`Error::Unavailable`], never an answer.
    fn execute(&self, request: Request, deadline: Instant) -> Later<'_, Delivery>;

    /// Reads one record strongly, with the store's clock read beside it. Records of
    /// other tenants are not found.
    fn find<'a>(
        &'a self,
        tenant: &'a str,
        target: Target,
        deadline: Instant,
    ) -> Later<'a, Option<(Record, Timestamp)>>;

    /// The revisions of those of `ids` that exist, in one cheap read.
    fn revisions(&self, ids: Vec<RecordId>) -> Later<'_, Vec<(RecordId, u64)>>;

    /// All side rows of a record, oldest first within their kind.
    fn traces(&self, id: RecordId) -> Later<'_, Vec<Trace>>;

    /// All stored policies, in order of tenant and operation.
    fn policies(&self) -> Later<'_, Vec<StoredPolicy>>;

    /// Stores a policy in place of the one with the named etag, and leaves an audit row.
    fn put_policy(&self, put: PutPolicy) -> Later<'_, StoredPolicy>;

    /// The secret that all servers of this database share.
    fn token_key(&self) -> &TokenKey;

    /// Is the database there? For health, not for decisions.
    fn ping(&self) -> Later<'_, ()>;

    /// Finishes what was handed in and closes. Later calls answer [`Error::Closed`].
    fn close(&self) -> Later<'_, ()>;
}

/// How a record is named to [`Store::find`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// By its id; of a name or as presented.
    Id(RecordId),
    /// By an effect key of any of its generations.
    EffectKey(EffectKey),
}

/// A policy as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPolicy {
    /// Whose.
    pub tenant: String,
    /// Empty: the tenant's default.
    pub operation: String,
    /// The settings.
    pub policy: Policy,
    /// Changes with every write.
    pub etag: String,
    /// When it was written.
    pub updated_at: Timestamp,
}

/// A policy to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutPolicy {
    /// Whose.
    pub tenant: String,
    /// Empty: the tenant's default.
    pub operation: String,
    /// The settings, already checked.
    pub policy: Policy,
    /// Of the policy that this one replaces; empty when there must be none yet. Another
    /// one stored: [`Error::EtagChanged`].
    pub etag: String,
    /// Who writes it.
    pub actor: String,
    /// Why.
    pub reason: String,
}

/// Called with each record that a committed batch changed; wakes local waiters. Must not
/// block.
pub type OnChange = Arc<dyn Fn(&RecordId) + Send + Sync>;

/// A clock that tests move by hand; without one the store's own clock decides.
#[derive(Clone, Debug, Default)]
pub struct TestClock(Arc<AtomicI64>);

impl TestClock {
    /// A clock that stands at `now`.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(now.0)))
    }

    /// The moment at which it stands.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }

    /// Moves it on.
    pub fn advance(&self, by: Duration) {
        self.0
            .fetch_add(reprise_domain::time::micros(by), Ordering::SeqCst);
    }
}

/// Why a store could not answer. An outcome of a commit that is not known is
/// `Unavailable`: repeating the same call leads to the truth.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The database is away, or whether a commit took place is unknown.
    #[error("the store is unavailable")]
    Unavailable(#[source] Arc<dyn StdError + Send + Sync>),
    /// Too many lost races.
    #[error("lost too many races for one record")]
    Contention,
    /// Stored bytes do not match their checksum.
    #[error("stored bytes of record {0} are damaged")]
    Damaged(RecordId),
    /// The stored policy is another one than the caller read.
    #[error("the policy has changed since it was read")]
    EtagChanged,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// A fault that is ours.
    #[error("internal fault of the store")]
    Internal(#[source] Arc<dyn StdError + Send + Sync>),
}

impl Error {
    /// Wraps a cause that repeating may cure.
    pub fn unavailable(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Unavailable(Arc::from(cause.into()))
    }

    /// Wraps a fault of ours.
    pub fn internal(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Internal(Arc::from(cause.into()))
    }
}
