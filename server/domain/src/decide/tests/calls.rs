//! One row as a store keeps it, and what callers ask of it, in a few words each. Shared
//! by the table tests, the property tests and the model; knows no expectation of theirs.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use reprise_fingerprint::{Fingerprint, RuleId, Scheme};

use crate::command::{
    Authority, Claim, Command, Complete, Fail, FailureKind, Finding, Forget, Found, GiveBack,
    Holder, Lessee, MarkPending, MarkSending, Renew, Request, Reserve, Resolve,
};
use crate::content::Content;
use crate::decide::{Decision, decide};
use crate::name::RecordName;
use crate::policy::{Mode, OnLapse, Policy};
use crate::reading::Reading;
use crate::record::{AttemptId, ClaimId, Record};
use crate::time::Timestamp;
use crate::token::Held;

/// When every row begins.
pub(crate) const T0: Timestamp = Timestamp(1_800_000_000_000_000);
/// The provider's memory in [`take_over`].
pub(crate) const WITHIN: Duration = Duration::from_mins(10);
/// How long a [`claim`] runs.
pub(crate) const CLAIM: Duration = Duration::from_secs(90);

/// A row, its store's clock, and the policy in force.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) record: Option<Record>,
    pub(crate) now: Timestamp,
    pub(crate) policy: Arc<Policy>,
}

impl Row {
    pub(crate) fn new(policy: Policy) -> Self {
        let record = None;
        let policy = Arc::new(policy);
        Self {
            record,
            now: T0,
            policy,
        }
    }

    /// What would be decided now.
    pub(crate) fn decide(&self, ask: impl Ask) -> Decision {
        let request = Request {
            name: name(),
            policy: Arc::clone(&self.policy),
            command: ask.command(),
        };
        decide(self.record.as_ref(), &request, self.now)
    }

    /// Decides, and writes as a store does.
    pub(crate) fn ask(&mut self, ask: impl Ask) -> Decision {
        let decision = self.decide(ask);
        if let Some(change) = &decision.change {
            let before = self.record.as_ref().map_or(0, |record| record.revision);
            assert_eq!(change.revision, before + 1, "one write, one revision");
            assert_eq!(change.updated_at, self.now);
            self.record = Some((**change).clone());
        }
        decision
    }

    pub(crate) fn record(&self) -> &Record {
        self.record.as_ref().expect("the test made a record")
    }

    /// The token of the newest grant.
    pub(crate) fn token(&self) -> Held {
        token_of(self.record())
    }

    pub(crate) fn reads(&self) -> Reading {
        Reading::of(self.record(), &self.policy, self.now)
    }
}

pub(crate) fn token_of(record: &Record) -> Held {
    Held {
        attempt: record.attempt.number,
        fence: record.attempt.fence,
        authentic: true,
    }
}

pub(crate) fn claim_of(record: &Record) -> Option<Held> {
    record.claim.as_ref().map(|claim| Held {
        attempt: record.attempt.number,
        fence: claim.fence,
        authentic: true,
    })
}

pub(crate) fn name() -> RecordName {
    NAME.clone()
}

static NAME: LazyLock<RecordName> = LazyLock::new(|| {
    RecordName::new("shop", "charge", "customer-1", "order-1").expect("a valid name")
});

pub(crate) fn id(number: u8) -> AttemptId {
    AttemptId([number; 16])
}

/// The payload that the first caller sent, for number 1, and others.
pub(crate) fn payload(number: u8) -> Fingerprint {
    Fingerprint {
        scheme: Scheme::Raw,
        rule: RuleId::none(),
        digest: [number; 32],
    }
}

pub(crate) fn unless_sent() -> Policy {
    Policy {
        on_lapse: OnLapse::TakeOverUnlessSent,
        ..Policy::default()
    }
}

pub(crate) fn take_over() -> Policy {
    Policy {
        on_lapse: OnLapse::TakeOver,
        repeat_within: Some(WITHIN),
        ..Policy::default()
    }
}

/// The same settings, but nobody is granted an attempt.
pub(crate) fn holding(policy: Policy) -> Policy {
    Policy {
        mode: Mode::Hold,
        ..policy
    }
}

/// What can be asked of a row.
pub(crate) trait Ask {
    fn command(self) -> Command;
}

macro_rules! ask {
    ($($message:ident),*) => {$(
        impl Ask for $message {
            fn command(self) -> Command {
                Command::$message(self)
            }
        }
    )*};
}
ask!(
    Reserve,
    MarkSending,
    Complete,
    Fail,
    MarkPending,
    Renew,
    GiveBack,
    Claim,
    Resolve,
    Forget
);

impl Ask for Command {
    fn command(self) -> Command {
        self
    }
}

pub(crate) fn reserve(attempt: u8) -> Reserve {
    Reserve {
        attempt_id: id(attempt),
        fingerprints: vec![payload(1)],
        lease: None,
        owner: format!("worker-{attempt}"),
        correlation_id: String::new(),
        instruction: Bytes::new(),
        intent_time: None,
    }
}

pub(crate) fn mark_sending(held: Held) -> MarkSending {
    MarkSending {
        held,
        provider_reference: String::new(),
        instruction: Bytes::new(),
        lease: None,
    }
}

pub(crate) fn complete(held: Held, code: &str) -> Complete {
    complete_with(held, Content::of_code(code))
}

pub(crate) fn complete_with(held: Held, result: Content) -> Complete {
    Complete {
        held,
        digest: result.digest(),
        core: result.core_digest(),
        result,
    }
}

pub(crate) fn retryable(held: Held, code: &str) -> Fail {
    fail(Holder::Token(held), FailureKind::Retryable, false, code)
}

pub(crate) fn failed(held: Held, code: &str) -> Fail {
    fail(Holder::Token(held), FailureKind::Final, false, code)
}

/// The same failure, with the word that the provider stored it under the effect key.
pub(crate) fn spent(fail: Fail) -> Fail {
    Fail {
        effect_key_spent: true,
        digest: Fail::digest_of(fail.kind, true, &fail.error),
        ..fail
    }
}

pub(crate) fn give_back(attempt: u8) -> Fail {
    let holder = Holder::AttemptId(id(attempt));
    fail(holder, FailureKind::Retryable, false, "")
}

fn fail(holder: Holder, kind: FailureKind, effect_key_spent: bool, code: &str) -> Fail {
    let error = Content::of_code(code);
    Fail {
        holder,
        kind,
        effect_key_spent,
        digest: Fail::digest_of(kind, effect_key_spent, &error),
        error,
    }
}

pub(crate) fn mark_pending(held: Held, detail: &str) -> MarkPending {
    MarkPending {
        held,
        detail: detail.to_owned(),
        provider_reference: String::new(),
        instruction: Bytes::new(),
        check_after: None,
        digest: MarkPending::digest_of(detail, "", b"", None),
    }
}

pub(crate) fn renew(held: Held, lease: impl Into<Option<Duration>>) -> Renew {
    let lease = lease.into();
    Renew {
        lessee: Lessee::Attempt(held),
        lease,
    }
}

pub(crate) fn undelivered(revision: u64) -> GiveBack {
    GiveBack { revision }
}

pub(crate) fn claim(number: u8) -> Claim {
    Claim {
        id: ClaimId([number; 16]),
        lease: CLAIM,
        owner: format!("finder-{number}"),
    }
}

pub(crate) fn renew_claim(held: Held, lease: impl Into<Option<Duration>>) -> Renew {
    Renew {
        lessee: Lessee::Claim(held),
        lease: lease.into(),
    }
}

pub(crate) fn forget(revision: u64) -> Forget {
    Forget {
        revision,
        actor: "ann".to_owned(),
        reason: "asked to".to_owned(),
    }
}

/// What was found under a claim.
pub(crate) fn resolve_by(held: Held, finding: Finding) -> Resolve {
    Resolve {
        authority: Authority::Claim(held),
        actor: "finder".to_owned(),
        ..resolve(0, finding)
    }
}

/// An operator's override, by the revision that was read.
pub(crate) fn resolve(revision: u64, finding: Finding) -> Resolve {
    Resolve {
        authority: Authority::Operator { revision },
        finding,
        effect_key_spent: false,
        evidence: "looked it up".to_owned(),
        actor: "ann".to_owned(),
    }
}

pub(crate) fn found(content: Content) -> Found {
    Found {
        digest: content.digest(),
        core: content.core_digest(),
        content,
    }
}

pub(crate) fn applied(code: &str) -> Finding {
    Finding::Applied(found(Content::of_code(code)))
}

pub(crate) fn found_failed(code: &str) -> Finding {
    Finding::Failed(found(Content::of_code(code)))
}

pub(crate) fn resolver_takes_over(attempt: u8) -> Finding {
    Finding::TakeOver {
        attempt_id: id(attempt),
        lease: None,
    }
}

pub(crate) fn still_unknown() -> Finding {
    Finding::StillUnknown {
        check_after: None,
        provider_reference: String::new(),
    }
}
