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

use reprise_domain::decide::{AuditAction, By};
use reprise_domain::policy::Mode;
use reprise_domain::record::{ClaimId, PendingReason, State};
use reprise_domain::token::TokenKey;
use reprise_domain::{EffectKey, Policy, Record, RecordId, RecordName, Request, Timestamp, Trace};
use reprise_fingerprint::Fingerprint;

pub(crate) use queue::answer_to_reading;
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

    /// One step of the walk over grants, in order of `granted_at` and a little behind the
    /// clock, so that none is passed by. Each grant is visited once, by whichever server:
    /// what is not closed gets an entry on the worklist (PROCESSING at the end of its
    /// lease, all else at once; an entry that is there stays); what is closed is filed for
    /// removal at the ends of its retention; references are filed for search.
    fn walk(&self) -> Later<'_, Walked>;

    /// Records that the service itself is to look at now ([`Work::Look`]), the longest due
    /// first; names that were answered are not answered again for a while, by no server.
    /// The caller has a Sweep decided for each.
    ///
    /// [`Work::Look`]: reprise_domain::Work::Look
    fn to_look_at(&self, max: usize) -> Later<'_, Vec<RecordName>>;

    /// One step of removal: headers and bodies past the end of their replay, records past
    /// the end of their memory with their side rows, audit rows older than
    /// [`AUDIT_RETENTION`]. Small, so that callers do not feel it; PROCESSING and PENDING
    /// are never touched, and what is revived meanwhile survives.
    fn remove(&self) -> Later<'_, Removed>;

    /// Entries of the worklist that somebody has to find out about, the longest due first.
    fn pending(&self, query: PendingQuery) -> Later<'_, PendingPage>;

    /// Records of a tenant whose entry names this claim call.
    fn claimed<'a>(&'a self, tenant: &'a str, claim: ClaimId) -> Later<'a, Vec<RecordName>>;

    /// Counts entries of the worklist by operation and reason, in this order. An empty
    /// operation stands for all.
    fn count_pending<'a>(
        &'a self,
        tenant: &'a str,
        operation: &'a str,
    ) -> Later<'a, Vec<PendingCount>>;

    /// Records by what people know of them, newest grant first.
    fn records(&self, query: RecordsQuery) -> Later<'_, RecordsPage>;

    /// Audit rows, newest first.
    fn audit(&self, query: AuditQuery) -> Later<'_, AuditPage>;

    /// Counts repeats with another payload, at most [`MISMATCHES_MAX`] fingerprints a
    /// record: further ones are not kept.
    fn note_mismatches(&self, seen: Vec<(RecordId, Fingerprint, u64)>) -> Later<'_, ()>;

    /// What was counted for a record, oldest first.
    fn mismatches(&self, id: RecordId) -> Later<'_, Vec<SeenMismatch>>;

    /// How the store is.
    fn overview(&self) -> Later<'_, Overview>;

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

/// How long audit rows are kept.
pub const AUDIT_RETENTION: Duration = Duration::from_hours(24 * 400);
/// Refused reports that are kept of a record: callers cause them, so they are bounded.
pub const EVIDENCE_MAX: usize = 16;
/// Replaced references and instructions that are kept of a record, the first ones.
pub const REPLACED_MAX: usize = 100;
/// Fingerprints of mismatches that are kept of a record.
pub const MISMATCHES_MAX: usize = 8;

/// What a step of the walk did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// Grants that were visited.
    pub visited: u64,
    /// There are more to visit at once.
    pub more: bool,
}

/// What a step of removal did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Records that lost headers and body.
    pub bodies: u64,
    /// Records that were removed whole.
    pub records: u64,
    /// There is more to remove at once.
    pub more: bool,
}

/// Which entries of the worklist to answer.
#[derive(Clone, Debug)]
pub struct PendingQuery {
    /// Whose.
    pub tenant: String,
    /// Empty: of all operations.
    pub operation: String,
    /// Only those that are due and under no claim that runs.
    pub only_due: bool,
    /// The last entry of the page before: when it was due, and whose it was.
    pub after: Option<(Timestamp, RecordId)>,
    /// Most entries.
    pub max: usize,
}

/// Entries of the worklist with their records as they are stored; how these read is not
/// judged.
#[derive(Clone, Debug)]
pub struct PendingPage {
    /// The store's clock.
    pub now: Timestamp,
    /// When each is due, and the record, without headers and body. Those that cannot be read
    /// are left out.
    pub entries: Vec<(Timestamp, Record)>,
    /// Where to go on: the last entry that was looked at; none at the end.
    pub next: Option<(Timestamp, RecordId)>,
}

/// How many records wait for somebody who finds out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCount {
    /// Which operation.
    pub operation: String,
    /// Why they are pending.
    pub reason: PendingReason,
    /// How many.
    pub total: u64,
    /// How many of them are due and under no claim that runs.
    pub due: u64,
    /// How many of them are under a claim that runs.
    pub claimed: u64,
    /// Since when the oldest is pending.
    pub oldest: Timestamp,
}

/// Which records to answer. All filters must hold.
#[derive(Clone, Debug, Default)]
pub struct RecordsQuery {
    /// Whose.
    pub tenant: String,
    /// Empty: of all operations.
    pub operation: String,
    /// None: of all subjects.
    pub subject: Option<String>,
    /// State as written; none: all.
    pub state: Option<State>,
    /// First reserved at this moment or later.
    pub created_from: Option<Timestamp>,
    /// First reserved before this moment.
    pub created_before: Option<Timestamp>,
    /// Of the key; empty: all.
    pub key_prefix: String,
    /// Empty: all.
    pub correlation_id: String,
    /// Empty: all. Found by the filed references, also those that were replaced since.
    pub resource_id: String,
    /// As `resource_id`.
    pub provider_reference: String,
    /// Where the page before ended.
    pub after: Option<(Timestamp, RecordId)>,
    /// Most records.
    pub max: usize,
}

/// Records as they are stored; how they read is not judged.
#[derive(Clone, Debug)]
pub struct RecordsPage {
    /// The store's clock.
    pub now: Timestamp,
    /// Without headers and body, newest grant first.
    pub records: Vec<Record>,
    /// Where to go on: moment of grant and id of the last record that was looked at. A
    /// page ends early when many were looked at in vain.
    pub next: Option<(Timestamp, RecordId)>,
}

/// Which audit rows to answer. All filters must hold.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// Whose. Empty: about the policy of all tenants.
    pub tenant: String,
    /// Empty: of all operations.
    pub operation: String,
    /// Of this record alone.
    pub record: Option<RecordId>,
    /// At this moment or later.
    pub from: Option<Timestamp>,
    /// Before this moment.
    pub before: Option<Timestamp>,
    /// Where the page before ended.
    pub after: Option<AuditPlace>,
    /// Most rows.
    pub max: usize,
}

/// Where an audit row stands: its moment, and what tells rows of one moment apart.
pub type AuditPlace = (Timestamp, [u8; 16]);

/// Audit rows, newest first.
#[derive(Clone, Debug)]
pub struct AuditPage {
    /// The rows.
    pub rows: Vec<AuditRow>,
    /// Where to go on; none at the end.
    pub next: Option<AuditPlace>,
}

/// Who did what, when and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
    /// What.
    pub action: Audited,
    /// By what right.
    pub by: By,
    /// Whose.
    pub tenant: String,
    /// Of which operation; empty for a tenant's default policy.
    pub operation: String,
    /// The record and the number of its newest attempt then; none for a policy.
    pub record: Option<(RecordId, u32)>,
    /// Why. Empty where it was erased.
    pub evidence: String,
}

/// What an audit row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audited {
    /// A record.
    Record(AuditAction),
    /// A policy was written.
    PolicyWritten,
}

/// Repeats with one other payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenMismatch {
    /// Of the other payload, under the operation's first rule.
    pub fingerprint: Fingerprint,
    /// How many came.
    pub count: u64,
    /// When the first was counted.
    pub first_at: Timestamp,
    /// When the last was counted.
    pub last_at: Timestamp,
}

/// How a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// "embedded" or "postgres".
    pub kind: &'static str,
    /// The store's clock.
    pub now: Timestamp,
    /// The walk has visited all grants before this moment.
    pub walked_to: Timestamp,
    /// Entries on the worklist, counted up to [`OPEN_COUNT_MAX`].
    pub open: u64,
    /// When the oldest removal that is left is due.
    pub removal_due: Option<Timestamp>,
}

/// Up to how many open records are counted.
pub const OPEN_COUNT_MAX: u64 = 100_000;

/// A policy as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPolicy {
    /// Whose. Empty: of all tenants.
    pub tenant: String,
    /// Empty: the tenant's default.
    pub operation: String,
    /// The settings; none: those of the wider scope.
    pub policy: Option<Policy>,
    /// Whether attempts are granted in this scope, as far as it is for this policy to say.
    pub mode: Mode,
    /// Changes with every write.
    pub etag: String,
    /// When it was written.
    pub updated_at: Timestamp,
}

/// A policy to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutPolicy {
    /// Whose. Empty: of all tenants.
    pub tenant: String,
    /// Empty: the tenant's default.
    pub operation: String,
    /// The settings, already checked; none: those of the wider scope.
    pub policy: Option<Policy>,
    /// Whether attempts are granted in this scope.
    pub mode: Mode,
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
