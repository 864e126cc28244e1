//! A caller of a store: commands for one record of one tenant.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use reprise::store::postgres::Postgres;
use reprise::store::{Error, Store};
use reprise_domain::command::{
    Answer, Authority, Claim, Command, Complete, Fail, FailureKind, Finding, Forget, Holder,
    Lessee, MarkPending, MarkSending, Outcome, Refusal, Renew, Reserve, Resolve,
};
use reprise_domain::content::Body;
use reprise_domain::record::{AttemptId, ClaimId};
use reprise_domain::token::Held;
use reprise_domain::{Content, Policy, RecordName, Request, View};
use reprise_fingerprint::{Fingerprint, RuleId, Scheme};

pub(super) type Answered = Result<Result<Answer, Refusal>, Error>;

/// Calls for one record.
#[derive(Clone)]
pub(super) struct Caller {
    store: Arc<Postgres>,
    pub(super) name: RecordName,
    pub(super) attempt_id: AttemptId,
    payload: u8,
    patience: Duration,
    policy: Arc<Policy>,
}

impl Caller {
    pub(super) fn new(store: &Arc<Postgres>, key: &str) -> Self {
        Self {
            store: Arc::clone(store),
            name: RecordName::new("t1", "charge", "", key).expect("a valid name"),
            attempt_id: AttemptId(rand::random()),
            payload: 1,
            patience: Duration::from_secs(30),
            policy: Arc::default(),
        }
    }

    pub(super) fn with_payload(self, payload: u8) -> Self {
        Self { payload, ..self }
    }

    pub(super) fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    pub(super) async fn ask(&self, command: Command) -> Answered {
        let request = Request {
            name: self.name.clone(),
            policy: Arc::clone(&self.policy),
            command,
        };
        let deadline = Instant::now() + self.patience;
        let delivery = self.store.execute(request, deadline).await?;
        Ok(delivery.accept())
    }

    pub(super) async fn reserve(&self) -> Answered {
        self.ask(Command::Reserve(Reserve {
            attempt_id: self.attempt_id,
            fingerprints: vec![Fingerprint {
                scheme: Scheme::Raw,
                rule: RuleId::none(),
                digest: [self.payload; 32],
            }],
            lease: None,
            owner: "worker-1".to_owned(),
            correlation_id: String::new(),
            instruction: Bytes::new(),
            intent_time: None,
        }))
        .await
    }

    /// Reserves and expects a grant.
    pub(super) async fn acquire(&self) -> Result<Held> {
        match self.reserve().await? {
            Ok(Answer::Outcome(Outcome::Acquired { .. }, view)) => Ok(self.held(&view)),
            other => bail!("no grant: {other:?}"),
        }
    }

    pub(super) fn held(&self, view: &View) -> Held {
        let attempt = &view.record.attempt;
        let key = self.store.token_key();
        let token = key.issue(&self.name.id(), attempt.number, attempt.fence);
        key.read(&self.name.id(), &token)
            .expect("a token just issued")
    }

    pub(super) async fn mark_sending(&self, held: Held, provider_reference: &str) -> Answered {
        self.ask(Command::MarkSending(MarkSending {
            held,
            provider_reference: provider_reference.to_owned(),
            instruction: Bytes::new(),
            lease: None,
        }))
        .await
    }

    pub(super) async fn renew(&self, held: Held, lease: Option<Duration>) -> Answered {
        let lessee = Lessee::Attempt(held);
        self.ask(Command::Renew(Renew { lessee, lease })).await
    }

    pub(super) async fn complete(&self, held: Held) -> Answered {
        self.complete_with(held, result()).await
    }

    pub(super) async fn complete_with(&self, held: Held, result: Content) -> Answered {
        self.ask(Command::Complete(Complete {
            held,
            digest: result.digest(),
            core: result.core_digest(),
            result,
        }))
        .await
    }

    pub(super) async fn fail(&self, held: Held, kind: FailureKind) -> Answered {
        let error = Content::of_code("DECLINED");
        self.ask(Command::Fail(Fail {
            holder: Holder::Token(held),
            kind,
            effect_key_spent: false,
            digest: Fail::digest_of(kind, false, &error),
            error,
        }))
        .await
    }

    pub(super) async fn mark_pending(&self, held: Held) -> Answered {
        self.ask(Command::MarkPending(MarkPending {
            held,
            detail: "connection lost".to_owned(),
            provider_reference: "pr_9".to_owned(),
            instruction: Bytes::new(),
            check_after: None,
            digest: MarkPending::digest_of("connection lost", "pr_9", b"", None),
        }))
        .await
    }

    /// Claims under a call of its own; the claim, if there is one.
    pub(super) async fn claim(&self) -> Result<Option<Held>> {
        let claim = Command::Claim(Claim {
            id: ClaimId(rand::random()),
            lease: Duration::from_secs(30),
            owner: "finder-1".to_owned(),
        });
        let Ok(Answer::Claimed(view)) = self.ask(claim).await? else {
            return Ok(None);
        };
        let claim = view.record.claim.as_ref().context("the view shows it")?;
        let (key, id) = (self.store.token_key(), self.name.id());
        let token = key.issue_claim(&id, view.record.attempt.number, claim.fence);
        Ok(Some(key.read_claim(&id, &token)?))
    }

    pub(super) async fn renew_claim(&self, held: Held) -> Answered {
        let lessee = Lessee::Claim(held);
        self.ask(Command::Renew(Renew {
            lessee,
            lease: None,
        }))
        .await
    }

    pub(super) async fn resolve(&self, authority: Authority, finding: Finding) -> Answered {
        self.ask(Command::Resolve(Resolve {
            authority,
            finding,
            effect_key_spent: false,
            evidence: "asked the provider".to_owned(),
            actor: "finder-1".to_owned(),
        }))
        .await
    }

    pub(super) async fn forget(&self, revision: u64) -> Answered {
        self.ask(Command::Forget(Forget {
            revision,
            actor: "officer".to_owned(),
            reason: "they asked".to_owned(),
        }))
        .await
    }

    pub(super) async fn sweep(&self) -> Answered {
        self.ask(Command::Sweep).await
    }

    /// From the first call to the recorded result.
    pub(super) async fn lifecycle(&self) -> Result<()> {
        let held = self.acquire().await?;
        self.complete(held).await?.context("completing")?;
        Ok(())
    }

    /// As a client does it: what is unknown is asked again, under the same attempt id.
    pub(super) async fn lifecycle_through_faults(&self, until: Instant) -> Result<()> {
        let held = loop {
            match self.reserve().await {
                Ok(Ok(Answer::Outcome(Outcome::Acquired { .. }, view))) => break self.held(&view),
                Ok(other) => bail!("no grant: {other:?}"),
                Err(error) => self.may_ask_again(error, until).await?,
            }
        };
        loop {
            match self.complete(held).await {
                Ok(Ok(Answer::Reported(..))) => return Ok(()),
                Ok(other) => bail!("not recorded: {other:?}"),
                Err(error) => self.may_ask_again(error, until).await?,
            }
        }
    }

    async fn may_ask_again(&self, error: Error, until: Instant) -> Result<()> {
        match error {
            Error::Unavailable(_) | Error::Contention if Instant::now() < until => {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Ok(())
            }
            other => Err(other.into()),
        }
    }
}

/// Every byte value, a header, references.
pub(super) fn result() -> Content {
    Content {
        code: "201".to_owned(),
        headers: vec![("content-type".to_owned(), Bytes::from_static(b"x/y"))],
        body: Some(Body::Data((0..=255).collect())),
        resource_id: "order-7".to_owned(),
        provider_reference: "pr_7".to_owned(),
    }
}
