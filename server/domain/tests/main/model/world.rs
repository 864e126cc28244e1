//! Who takes part, and what of the world tells two states apart.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use super::Excuse;
use super::finding_out::Saw;
use crate::calls::Row;
use crate::content::Sha;
use crate::policy::{OnLapse, Policy};
use crate::reading::Reading;
use crate::record::{AttemptId, GivenBack, PendingReason, Record, Report, State};
use crate::time::Timestamp;
use crate::token::Held;

pub(super) const TICK: Duration = Duration::from_secs(1);
/// Longest time that a request is under way, in ticks; and the operator's patience.
pub(super) const UNDER_WAY: u32 = 1;
/// How long the provider remembers a key, in ticks.
pub(super) const MEMORY: u32 = 3;

/// One world to explore.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) on_lapse: OnLapse,
    /// Callers say MarkSending before they send.
    pub(super) marks: bool,
    /// The provider knows effect keys.
    pub(super) dedups: bool,
    pub(super) excuse: Option<Excuse>,
    /// Length of leases, in ticks.
    pub(super) lease: u32,
    /// When time stops, in ticks.
    pub(super) horizon: u32,
    /// Attempt ids that each caller may begin with.
    pub(super) tries: [u8; 2],
    /// Requests that the provider may refuse.
    pub(super) refusals: u8,
    /// Grants that the server may give back.
    pub(super) give_backs: u8,
    /// Overrides that the operator may make.
    pub(super) overrides: u8,
    /// Who find out.
    pub(super) workers: u8,
    /// Claims that each worker may take.
    pub(super) claims: u8,
    /// How long the provider remembers a key, in ticks.
    pub(super) memory: u32,
    /// Memory retention in ticks, if it is short.
    pub(super) retention: Option<u32>,
    /// Erasures that the operator may make.
    pub(super) forgets: u8,
}

impl Setting {
    /// Only TAKE_OVER needs a provider that knows keys.
    pub(super) fn new(on_lapse: OnLapse) -> Self {
        let take_over = on_lapse == OnLapse::TakeOver;
        Self {
            on_lapse,
            marks: false,
            dedups: take_over,
            excuse: None,
            lease: 1,
            horizon: if take_over { MEMORY } else { MEMORY + 1 },
            tries: [1, 1],
            refusals: 1,
            give_backs: 1,
            overrides: 1,
            workers: 0,
            claims: 0,
            memory: MEMORY,
            retention: None,
            forgets: 0,
        }
    }

    /// Workers find out in place of the operator; for that, less of all else happens.
    pub(super) fn finding_out(self, workers: u8, claims: u8) -> Self {
        let take_over = self.on_lapse == OnLapse::TakeOver;
        Self {
            workers,
            claims,
            overrides: 0,
            refusals: 0,
            give_backs: 0,
            // Long enough for a claim that may deny while the provider remembers.
            memory: if take_over { MEMORY + 1 } else { MEMORY },
            horizon: MEMORY + 1,
            ..self
        }
    }

    pub(super) fn shorter(self) -> Self {
        let horizon = self.horizon - 1;
        Self { horizon, ..self }
    }

    pub(super) fn overridden(self) -> Self {
        let overrides = 1;
        Self { overrides, ..self }
    }

    pub(super) fn refusing(self) -> Self {
        let refusals = 1;
        Self { refusals, ..self }
    }

    pub(super) fn giving_back(self) -> Self {
        let give_backs = 1;
        Self { give_backs, ..self }
    }

    /// Records are erased, and forgotten after two ticks.
    pub(super) fn forgetting(self) -> Self {
        Self {
            retention: Some(2),
            forgets: 1,
            ..self
        }
    }

    /// Callers say when they made the key.
    pub(super) fn says_when(&self) -> bool {
        self.retention.is_some() && self.excuse != Some(Excuse::NoIntentTime)
    }

    /// A caller may crash and begin anew; for that, less of all else happens.
    pub(super) fn restarting(self) -> Self {
        Self {
            tries: [1, 2],
            horizon: MEMORY,
            refusals: 0,
            give_backs: 0,
            ..self
        }
    }

    pub(super) fn marking(self) -> Self {
        Self {
            marks: true,
            ..self
        }
    }

    pub(super) fn without_refusals(self) -> Self {
        let refusals = 0;
        Self { refusals, ..self }
    }

    /// Leases that would reach beyond the last moment to repeat.
    pub(super) fn longer_leases(self) -> Self {
        Self { lease: 2, ..self }
    }

    pub(super) fn without_keys(self) -> Self {
        let dedups = false;
        Self { dedups, ..self }
    }

    pub(super) fn excused(self, excuse: Excuse) -> Self {
        let excuse = Some(excuse);
        Self { excuse, ..self }
    }

    /// Is this a way to use the policy that the contract promises something about?
    pub(super) fn is_promised(&self) -> bool {
        match self.on_lapse {
            OnLapse::Pending => true,
            OnLapse::TakeOverUnlessSent => self.marks,
            OnLapse::TakeOver => self.dedups,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct World {
    /// The service.
    pub(super) row: Row,
    /// In order: which of two callers it is that does something makes no difference.
    pub(super) callers: [Caller; 2],
    /// The tokens of all grants.
    pub(super) tokens: Vec<Held>,
    pub(super) ids_used: u8,
    /// Requests under way to the provider, in order.
    pub(super) wire: Vec<Sent>,
    /// What the provider has decided, remembered or forgotten.
    pub(super) keys: Vec<Remembered>,
    pub(super) effects: u8,
    /// Requests that the provider may still refuse.
    pub(super) refusals: u8,
    /// Overrides that the operator may still make.
    pub(super) overrides: u8,
    /// Grants that the server may still give back.
    pub(super) give_backs: u8,
    /// Revision of the newest write, a grant whose answer reached nobody, as the server
    /// knows.
    pub(super) undelivered: Option<u64>,
    /// In order, as the callers.
    pub(super) workers: Vec<Worker>,
    /// All claims that were taken.
    pub(super) claims: Vec<Held>,
    pub(super) claim_ids: u8,
    /// Erasures that the operator may still make.
    pub(super) forgets: u8,
    /// The record was removed.
    pub(super) purged: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Worker {
    /// Claims that it may still take.
    pub(super) tries: u8,
    pub(super) look: Look,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Look {
    /// Has nothing under way; also what a crash leaves.
    Idle,
    /// Claimed under this id, and the answer was lost.
    Asking(u8),
    Claimed {
        claim: usize,
    },
    /// The provider answered.
    Knowing {
        claim: usize,
        saw: Saw,
    },
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Caller {
    /// Attempt ids that it may still begin with.
    pub(super) tries: u8,
    pub(super) stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Has nothing under way; also what a crash leaves.
    Idle,
    /// Reserved under this id, and the answer was lost.
    Asking(u8),
    Holding(Grant),
    /// The request is sent.
    Waiting {
        attempt: u32,
        /// It said already that it does not know.
        doubted: bool,
    },
    /// Has something to report.
    Knowing {
        attempt: u32,
        word: Word,
    },
    /// Knows how the intent ended.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Grant {
    pub(super) attempt: u32,
    pub(super) generation: u32,
    /// When the last OK came.
    pub(super) at: Timestamp,
    /// End of the lease, as of the last OK.
    pub(super) until: Timestamp,
    pub(super) marked: bool,
    /// Others resolved the record after the last OK.
    pub(super) resolved_since: bool,
}

/// What a caller knows about its own request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Word {
    Applied,
    /// The provider decided under this effect key that it will not.
    Declined,
    NoEffect,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Sent {
    pub(super) at: Timestamp,
    pub(super) attempt: u32,
    pub(super) generation: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Remembered {
    pub(super) generation: u32,
    pub(super) applied: bool,
    pub(super) until: Timestamp,
}

impl World {
    pub(super) fn new(setting: &Setting) -> Self {
        let policy = Policy {
            on_lapse: setting.on_lapse,
            repeat_within: (setting.on_lapse == OnLapse::TakeOver)
                .then_some(TICK * (setting.memory - UNDER_WAY)),
            lease: TICK * setting.lease,
            settle_after: TICK * UNDER_WAY,
            memory_retention: setting
                .retention
                .map_or(Policy::default().memory_retention, |ticks| TICK * ticks),
            ..Policy::default()
        };
        let caller = |tries| Caller {
            tries,
            stage: Stage::Idle,
        };
        Self {
            row: Row::new(policy),
            callers: setting.tries.map(caller),
            tokens: Vec::new(),
            ids_used: 0,
            wire: Vec::new(),
            keys: Vec::new(),
            effects: 0,
            refusals: setting.refusals,
            overrides: setting.overrides,
            give_backs: setting.give_backs,
            undelivered: None,
            workers: (0..setting.workers)
                .map(|_| Worker {
                    tries: setting.claims,
                    look: Look::Idle,
                })
                .collect(),
            claims: Vec::new(),
            claim_ids: 0,
            forgets: setting.forgets,
            purged: false,
        }
    }

    pub(super) fn is(&self, holds: impl Fn(&Record) -> bool) -> bool {
        self.row.record.as_ref().is_some_and(holds)
    }

    pub(super) fn reads_pending(&self) -> bool {
        self.row.record.is_some() && matches!(self.row.reads(), Reading::Pending(_))
    }

    fn key(&self) -> Key<'_> {
        Key {
            now: self.row.now,
            record: self.row.record.as_ref().map(|record| {
                let forgets = record
                    .outcome
                    .as_ref()
                    .is_some_and(|outcome| outcome.memory_until < self.row.now.after(TICK * 100));
                RecordKey::of(record, !self.workers.is_empty(), forgets)
            }),
            callers: &self.callers,
            wire: &self.wire,
            keys: &self.keys,
            counters: [self.effects, self.refusals, self.overrides, self.give_backs],
            undelivered: self.undelivered.is_some(),
            workers: &self.workers,
            claims: (self.claims.len(), self.tokens.len(), self.claim_ids),
            forgets: (self.forgets, self.purged),
        }
    }
}

/// What of a world decides what can happen next.
#[derive(PartialEq, Hash)]
struct Key<'a> {
    now: Timestamp,
    record: Option<RecordKey<'a>>,
    callers: &'a [Caller; 2],
    wire: &'a [Sent],
    keys: &'a [Remembered],
    counters: [u8; 4],
    undelivered: bool,
    workers: &'a [Worker],
    claims: (usize, usize, u8),
    forgets: (u8, bool),
}

/// Left out is what no step of this model looks at: revisions and fences (attempt
/// numbers say as much while nothing is forgotten), moments that are only shown, texts.
#[derive(PartialEq, Hash)]
struct RecordKey<'a> {
    state: State,
    generation: u32,
    flags: [bool; 5],
    number: u32,
    id: AttemptId,
    earlier_ids: &'a [AttemptId],
    lease_end: Timestamp,
    repeat_until: Option<Timestamp>,
    given_back: Option<GivenBack>,
    report: Option<Report>,
    doubts: &'a [Sha],
    previous: Option<(u32, Option<Report>, &'a [Sha])>,
    pending: Option<(PendingReason, Option<Timestamp>)>,
    resolution: Option<(u32, Option<Sha>)>,
    claim: Option<(Timestamp, Timestamp, bool)>,
    memory_until: Option<Timestamp>,
}

impl<'a> RecordKey<'a> {
    /// Where nobody claims and nothing is forgotten, the moments for that make no difference.
    fn of(record: &'a Record, has_workers: bool, forgets: bool) -> Self {
        let attempt = &record.attempt;
        Self {
            state: record.state,
            generation: record.generation,
            flags: [
                record.key_spent,
                record.unaccounted,
                record.contradicted,
                attempt.sent,
                attempt.used,
            ],
            number: attempt.number,
            id: attempt.id,
            earlier_ids: &attempt.earlier_ids,
            lease_end: attempt.lease_end,
            repeat_until: attempt.repeat_until,
            given_back: attempt.given_back,
            report: attempt.report,
            doubts: &attempt.pending_digests,
            previous: record
                .previous
                .as_ref()
                .map(|ended| (ended.number, ended.report, ended.pending_digests.as_slice())),
            pending: record.pending.as_ref().map(|pending| {
                let due = has_workers.then_some(pending.next_check);
                (pending.reason, due)
            }),
            resolution: record
                .resolution
                .map(|resolution| (resolution.attempt, resolution.content)),
            claim: record
                .claim
                .as_ref()
                .map(|claim| (claim.taken_at, claim.lease_end, claim.over)),
            memory_until: record
                .outcome
                .as_ref()
                .filter(|_| forgets)
                .map(|outcome| outcome.memory_until),
        }
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}
