//! What a case works with: a store, a clock that it moves by hand, a tenant that nobody
//! else has, and a verb for each thing that a caller can do.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use reprise::store::{Delivery, Error, Store, Target, TestClock};
use reprise_domain::command::{
    Authority, Command, Complete, Fail, FailureKind, Finding, Found, Holder, Lessee, MarkPending,
    MarkSending, Renew, Reserve, Resolve,
};
use reprise_domain::content::Body;
use reprise_domain::policy::OnLapse;
use reprise_domain::record::AttemptId;
use reprise_domain::{
    Content, Policy, Reading, Record, RecordId, RecordName, Request, Timestamp, Trace,
};
use reprise_fingerprint::{Context, Fingerprint, MediaType};
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedReceiver;

use super::told::{Grant, Told};

/// One microsecond: the step of every store's clock.
pub(super) const TICK: Duration = Duration::from_micros(1);

pub(super) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A case's view of a store. Copies share all but the policy.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: TestClock,
    pub(super) tenant: String,
    pub(super) policy: Arc<Policy>,
    pub(super) changes: Arc<Mutex<UnboundedReceiver<RecordId>>>,
}

impl Case {
    pub(super) fn new(
        store: Arc<dyn Store>,
        clock: TestClock,
        changes: UnboundedReceiver<RecordId>,
    ) -> Self {
        Self {
            store,
            clock,
            tenant: format!("t-{:032x}", rand::random::<u128>()),
            policy: Arc::new(Policy::default()),
            changes: Arc::new(Mutex::new(changes)),
        }
    }

    /// The same store and tenant, calls under another policy.
    pub(super) fn under(&self, policy: Policy) -> Self {
        policy.check().expect("a policy that may be stored");
        Self {
            policy: Arc::new(policy),
            ..self.clone()
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// The record of `key` of the operation and subject that most cases use.
    pub(super) fn name(&self, key: &str) -> RecordName {
        RecordName::new(&self.tenant, "charge", "customer-1", key).expect("a valid name")
    }

    /// Hands a command in and takes its answer.
    pub(super) async fn tell(&self, name: &RecordName, command: Command) -> Told {
        let delivery = self.hand_in(name, command).await.expect("an answer");
        self.told(delivery)
    }

    pub(super) fn told(&self, delivery: Delivery) -> Told {
        Told {
            answer: delivery.accept(),
            token_key: self.store.token_key().clone(),
        }
    }

    /// Hands a command in. A grant whose delivery is dropped has reached nobody.
    pub(super) async fn hand_in(
        &self,
        name: &RecordName,
        command: Command,
    ) -> Result<Delivery, Error> {
        let request = self.request(name, command);
        self.store.execute(request, soon()).await
    }

    pub(super) fn request(&self, name: &RecordName, command: Command) -> Request {
        Request {
            name: name.clone(),
            policy: Arc::clone(&self.policy),
            command,
        }
    }

    pub(super) fn reserve(&self, key: &str) -> ReserveCall<'_> {
        self.reserve_name(self.name(key))
    }

    pub(super) fn reserve_name(&self, name: RecordName) -> ReserveCall<'_> {
        ReserveCall {
            case: self,
            name,
            reserve: Reserve {
                attempt_id: new_id(),
                fingerprints: vec![payload("100 EUR")],
                lease: None,
                owner: String::new(),
                correlation_id: String::new(),
                instruction: Bytes::new(),
                intent_time: None,
            },
        }
    }

    pub(super) async fn complete(&self, grant: &Grant, result: Content) -> Told {
        let (digest, core) = (result.digest(), result.core_digest());
        let (result, _) = result.adjust("result", &self.policy);
        let complete = Complete {
            held: grant.held,
            result,
            digest,
            core,
        };
        self.tell(&grant.name, Command::Complete(complete)).await
    }

    pub(super) async fn fail(&self, grant: &Grant, kind: FailureKind, error: Content) -> Told {
        self.fail_with(grant, kind, false, error).await
    }

    /// The provider has decided under this effect key that the effect does not take place.
    pub(super) async fn fail_spent(
        &self,
        grant: &Grant,
        kind: FailureKind,
        error: Content,
    ) -> Told {
        self.fail_with(grant, kind, true, error).await
    }

    async fn fail_with(
        &self,
        grant: &Grant,
        kind: FailureKind,
        effect_key_spent: bool,
        error: Content,
    ) -> Told {
        let digest = Fail::digest_of(kind, effect_key_spent, &error);
        let (error, _) = error.adjust("error", &self.policy);
        let fail = Fail {
            holder: Holder::Token(grant.held),
            kind,
            effect_key_spent,
            error,
            digest,
        };
        self.tell(&grant.name, Command::Fail(fail)).await
    }

    pub(super) async fn fail_by_attempt_id(&self, key: &str, id: AttemptId) -> Told {
        let error = Content::of_code("CALLER_GONE");
        let fail = Fail {
            holder: Holder::AttemptId(id),
            kind: FailureKind::Retryable,
            effect_key_spent: false,
            digest: Fail::digest_of(FailureKind::Retryable, false, &error),
            error,
        };
        self.tell(&self.name(key), Command::Fail(fail)).await
    }

    pub(super) async fn mark_pending(&self, grant: &Grant, detail: &str) -> Told {
        self.mark_pending_with(grant, detail, "", "", None).await
    }

    pub(super) async fn mark_pending_with(
        &self,
        grant: &Grant,
        detail: &str,
        provider_reference: &str,
        instruction: &str,
        check_after: Option<Duration>,
    ) -> Told {
        let digest = MarkPending::digest_of(
            detail,
            provider_reference,
            instruction.as_bytes(),
            check_after,
        );
        let mark = MarkPending {
            held: grant.held,
            detail: detail.to_owned(),
            provider_reference: provider_reference.to_owned(),
            instruction: Bytes::copy_from_slice(instruction.as_bytes()),
            check_after,
            digest,
        };
        self.tell(&grant.name, Command::MarkPending(mark)).await
    }

    pub(super) async fn mark_sending(&self, grant: &Grant) -> Told {
        self.mark_sending_with(grant, "", "", None).await
    }

    pub(super) async fn mark_sending_with(
        &self,
        grant: &Grant,
        provider_reference: &str,
        instruction: &str,
        lease: Option<Duration>,
    ) -> Told {
        let mark = MarkSending {
            held: grant.held,
            provider_reference: provider_reference.to_owned(),
            instruction: Bytes::copy_from_slice(instruction.as_bytes()),
            lease,
        };
        self.tell(&grant.name, Command::MarkSending(mark)).await
    }

    pub(super) async fn renew(&self, grant: &Grant, lease: Option<Duration>) -> Told {
        let renew = Renew {
            lessee: Lessee::Attempt(grant.held),
            lease,
        };
        self.tell(&grant.name, Command::Renew(renew)).await
    }

    /// An operator resolves what the record reads now.
    pub(super) async fn resolve(&self, key: &str, finding: Finding) -> Told {
        let revision = self.record(key).await.revision;
        self.resolve_read(key, revision, finding, false).await
    }

    pub(super) async fn resolve_spent(&self, key: &str, finding: Finding) -> Told {
        let revision = self.record(key).await.revision;
        self.resolve_read(key, revision, finding, true).await
    }

    pub(super) async fn resolve_read(
        &self,
        key: &str,
        revision: u64,
        finding: Finding,
        effect_key_spent: bool,
    ) -> Told {
        let resolve = Resolve {
            authority: Authority::Operator { revision },
            finding,
            effect_key_spent,
            evidence: "asked the provider".to_owned(),
            actor: "operator@example".to_owned(),
        };
        self.tell(&self.name(key), Command::Resolve(resolve)).await
    }

    pub(super) async fn find(&self, key: &str) -> Option<Record> {
        let target = Target::Id(self.name(key).id());
        self.store
            .find(&self.tenant, target, soon())
            .await
            .expect("the store answers")
            .map(|(record, _)| record)
    }

    /// The stored record, which is there.
    pub(super) async fn record(&self, key: &str) -> Record {
        self.find(key).await.expect("the record is there")
    }

    /// How the stored record reads now.
    pub(super) async fn reading(&self, key: &str) -> Reading {
        Reading::of(&self.record(key).await, &self.policy, self.now())
    }

    pub(super) async fn traces(&self, key: &str) -> Vec<Trace> {
        let id = self.name(key).id();
        self.store.traces(id).await.expect("the store answers")
    }

    /// Side rows of evidence.
    pub(super) async fn evidence(&self, key: &str) -> Vec<Trace> {
        let mut traces = self.traces(key).await;
        traces.retain(|trace| matches!(trace, Trace::Evidence { .. }));
        traces
    }

    /// The next record that the store says has changed.
    pub(super) async fn next_change(&self) -> RecordId {
        let next = self.changes.lock().await.recv().await;
        next.expect("the store lives as long as the case")
    }

    /// A grant that completed with [`result`].
    pub(super) async fn completed(&self, key: &str) -> Grant {
        let grant = self.reserve(key).await.granted();
        self.complete(&grant, result()).await.recorded();
        grant
    }

    /// A grant that failed with [`error`].
    pub(super) async fn failed(&self, key: &str, kind: FailureKind) -> Grant {
        let grant = self.reserve(key).await.granted();
        self.fail(&grant, kind, error()).await.recorded();
        grant
    }

    /// A grant that is marked pending as "timed out".
    pub(super) async fn pending(&self, key: &str) -> Grant {
        let grant = self.reserve(key).await.granted();
        self.mark_pending(&grant, "timed out").await.recorded();
        grant
    }

    /// A record that is used up by two attempts: the first failed retryably and is stale
    /// only to its own follower; the second holds.
    pub(super) async fn followed(&self, key: &str) -> (Grant, Grant) {
        let first = self.failed(key, FailureKind::Retryable).await;
        let second = self.reserve(key).await.granted();
        (first, second)
    }

    /// A Reserve that was granted and whose answer reaches nobody.
    pub(super) async fn undelivered(&self, key: &str) -> AttemptId {
        let call = self.reserve(key);
        let id = call.reserve.attempt_id;
        let delivery = self
            .hand_in(&call.name, Command::Reserve(call.reserve.clone()))
            .await
            .expect("an answer");
        drop(delivery);
        id
    }
}

/// A Reserve in the making; sent by awaiting it.
pub(super) struct ReserveCall<'a> {
    pub(super) case: &'a Case,
    pub(super) name: RecordName,
    pub(super) reserve: Reserve,
}

impl ReserveCall<'_> {
    pub(super) fn by(mut self, id: AttemptId) -> Self {
        self.reserve.attempt_id = id;
        self
    }

    pub(super) fn paying(mut self, text: &str) -> Self {
        self.reserve.fingerprints = vec![payload(text)];
        self
    }

    pub(super) fn offering(mut self, fingerprints: Vec<Fingerprint>) -> Self {
        self.reserve.fingerprints = fingerprints;
        self
    }

    pub(super) fn lease(mut self, lease: Duration) -> Self {
        self.reserve.lease = Some(lease);
        self
    }

    pub(super) fn owner(mut self, owner: &str) -> Self {
        owner.clone_into(&mut self.reserve.owner);
        self
    }

    pub(super) fn correlation_id(mut self, id: &str) -> Self {
        id.clone_into(&mut self.reserve.correlation_id);
        self
    }

    pub(super) fn instruction(mut self, instruction: &'static [u8]) -> Self {
        self.reserve.instruction = Bytes::from_static(instruction);
        self
    }

    pub(super) fn intended_at(mut self, time: Timestamp) -> Self {
        self.reserve.intent_time = Some(time);
        self
    }
}

impl<'a> IntoFuture for ReserveCall<'a> {
    type Output = Told;
    type IntoFuture = Pin<Box<dyn Future<Output = Told> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let command = Command::Reserve(self.reserve);
            self.case.tell(&self.name, command).await
        })
    }
}

/// Long enough for every store, short enough for a case that hangs.
pub(super) fn soon() -> Instant {
    Instant::now() + secs(30)
}

pub(super) fn new_id() -> AttemptId {
    AttemptId(rand::random())
}

/// The fingerprint of a payload as sent.
pub(super) fn payload(text: &str) -> Fingerprint {
    let media_type: MediaType = "text/plain".parse().expect("a media type");
    reprise_fingerprint::raw(&media_type, &Context::default(), text.as_bytes())
}

/// What most cases complete with.
pub(super) fn result() -> Content {
    Content {
        code: "PAID".to_owned(),
        headers: vec![("content-type".to_owned(), Bytes::from_static(b"text/plain"))],
        body: Some(Body::Data(Bytes::from_static(b"charged 100 EUR"))),
        resource_id: "order-7".to_owned(),
        provider_reference: "ch_123".to_owned(),
    }
}

/// The same outcome in other words.
pub(super) fn other_result() -> Content {
    Content {
        body: Some(Body::Data(Bytes::from_static(b"charged 200 EUR"))),
        ..result()
    }
}

/// What most cases fail with.
pub(super) fn error() -> Content {
    Content {
        body: Some(Body::Data(Bytes::from_static(b"card declined"))),
        ..Content::of_code("DECLINED")
    }
}

/// Another failure.
pub(super) fn other_error() -> Content {
    Content::of_code("NO_SUCH_CARD")
}

/// A content as a resolution records it.
pub(super) fn found(content: Content) -> Found {
    Found {
        digest: content.digest(),
        core: content.core_digest(),
        content,
    }
}

pub(super) fn applied() -> Finding {
    Finding::Applied(found(result()))
}

pub(super) fn still_unknown() -> Finding {
    Finding::StillUnknown {
        check_after: None,
        provider_reference: String::new(),
    }
}

/// What lapsed is taken over unless it was marked as sent.
pub(super) fn unless_sent() -> Policy {
    Policy {
        on_lapse: OnLapse::TakeOverUnlessSent,
        ..Policy::default()
    }
}

/// What lapsed is taken over for ten minutes after its grant.
pub(super) fn take_over() -> Policy {
    Policy {
        on_lapse: OnLapse::TakeOver,
        repeat_within: Some(secs(600)),
        ..Policy::default()
    }
}
