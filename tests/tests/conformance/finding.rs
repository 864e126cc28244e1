//! What finds out, sees and forgets: verbs of a case beside those that callers have.

use std::time::Duration;

use reprise::store::{
    AuditPage, AuditQuery, PendingCount, PendingQuery, RecordsPage, RecordsQuery, Removed,
};
use reprise_domain::command::{Authority, Claim, Command, Finding, Forget, Lessee, Renew, Resolve};
use reprise_domain::record::ClaimId;
use reprise_domain::token::Held;
use reprise_domain::{Content, Policy, RecordName, View};

use super::case::{Case, found, secs};
use super::told::Told;

/// How long claims of cases run.
pub(super) const CLAIM: Duration = Duration::from_secs(90);
/// Longer than the walk stays behind the clock.
pub(super) const SOON: Duration = Duration::from_secs(10);
/// Longer than names that were handed out to be looked at are not handed out again.
pub(super) const LATER: Duration = Duration::from_mins(10);

/// A claim, as its worker knows it.
#[derive(Clone, Debug)]
pub(super) struct Claimed {
    pub(super) name: RecordName,
    pub(super) id: ClaimId,
    /// What the server reads from the claim.
    pub(super) held: Held,
    pub(super) view: View,
}

impl Claimed {
    pub(super) fn fence(&self) -> u64 {
        self.held.fence
    }
}

pub(super) fn new_claim_id() -> ClaimId {
    ClaimId(rand::random())
}

/// An error that a resolution found.
pub(super) fn found_failed(code: &str) -> Finding {
    Finding::Failed(found(Content::of_code(code)))
}

/// TAKE_OVER, HOLD and the like under another settling time or retention.
pub(super) fn short_memory() -> Policy {
    Policy {
        result_retention: secs(1_000),
        memory_retention: secs(10_000),
        ..Policy::default()
    }
}

impl Case {
    /// To the moment from which a claim may say everything.
    pub(super) async fn settle(&self, key: &str) {
        let end = self.record(key).await.attempt.lease_end;
        let settled = end.after(self.policy.settle_after);
        self.advance(settled.since(self.now()));
    }

    pub(super) async fn claim(&self, key: &str) -> Told {
        self.claim_as(key, new_claim_id()).await
    }

    pub(super) async fn claim_as(&self, key: &str, id: ClaimId) -> Told {
        let claim = Claim {
            id,
            lease: CLAIM,
            owner: "finder".to_owned(),
        };
        self.tell(&self.name(key), Command::Claim(claim)).await
    }

    /// A lapsed record under a claim that may say everything.
    pub(super) async fn claimed(&self, key: &str) -> (super::told::Grant, Claimed) {
        let grant = self.reserve(key).await.granted();
        self.settle(key).await;
        let claim = self.claim(key).await.claimed();
        (grant, claim)
    }

    pub(super) async fn renew_claim(
        &self,
        claim: &Claimed,
        lease: impl Into<Option<Duration>>,
    ) -> Told {
        let renew = Renew {
            lessee: Lessee::Claim(claim.held),
            lease: lease.into(),
        };
        self.tell(&claim.name, Command::Renew(renew)).await
    }

    pub(super) async fn resolve_by(&self, claim: &Claimed, finding: Finding) -> Told {
        self.resolve_by_held(claim, claim.held, finding, false)
            .await
    }

    pub(super) async fn resolve_by_spent(&self, claim: &Claimed, finding: Finding) -> Told {
        self.resolve_by_held(claim, claim.held, finding, true).await
    }

    pub(super) async fn resolve_by_held(
        &self,
        claim: &Claimed,
        held: Held,
        finding: Finding,
        effect_key_spent: bool,
    ) -> Told {
        let resolve = Resolve {
            authority: Authority::Claim(held),
            finding,
            effect_key_spent,
            evidence: "asked the provider".to_owned(),
            actor: "finder".to_owned(),
        };
        self.tell(&claim.name, Command::Resolve(resolve)).await
    }

    /// Forgets what the record reads now.
    pub(super) async fn forget(&self, key: &str) -> Told {
        let revision = self.record(key).await.revision;
        self.forget_read(key, revision).await
    }

    pub(super) async fn forget_read(&self, key: &str, revision: u64) -> Told {
        let forget = Forget {
            revision,
            actor: "operator@example".to_owned(),
            reason: "asked to".to_owned(),
        };
        self.tell(&self.name(key), Command::Forget(forget)).await
    }

    pub(super) async fn sweep(&self, key: &str) -> Told {
        self.tell(&self.name(key), Command::Sweep).await
    }

    /// The walk up to its end; answers how many grants it visited.
    pub(super) async fn walk(&self) -> u64 {
        let mut visited = 0;
        loop {
            let walked = self.store.walk().await.expect("the store answers");
            visited += walked.visited;
            if !walked.more {
                return visited;
            }
        }
    }

    /// Looks at all that is due, as the service does; answers their keys.
    pub(super) async fn look(&self) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            let due = self.store.to_look_at(100).await;
            let due = due.expect("the store answers");
            if due.is_empty() {
                seen.sort_unstable();
                return seen;
            }
            for name in due {
                self.tell(&name, Command::Sweep).await.swept();
                seen.push(name.key().to_owned());
            }
        }
    }

    /// Soon after: the walk, and a look at all that is due.
    pub(super) async fn tidy(&self) {
        self.advance(SOON);
        self.walk().await;
        self.look().await;
    }

    /// All steps of removal that are due.
    pub(super) async fn remove(&self) -> Removed {
        let mut all = Removed::default();
        loop {
            let step = self.store.remove().await.expect("the store answers");
            all.bodies += step.bodies;
            all.records += step.records;
            if !step.more {
                return all;
            }
        }
    }

    pub(super) fn pending_query(&self) -> PendingQuery {
        PendingQuery {
            tenant: self.tenant.clone(),
            operation: String::new(),
            only_due: false,
            after: None,
            max: 100,
        }
    }

    /// Keys of the entries that somebody has to find out about.
    pub(super) async fn listed(&self, query: PendingQuery) -> Vec<String> {
        let page = self.store.pending(query).await.expect("the store answers");
        assert_eq!(page.now, self.now());
        let keys = page.entries.iter().map(|(_, record)| record.name.key());
        keys.map(str::to_owned).collect()
    }

    pub(super) async fn open(&self) -> Vec<String> {
        self.listed(self.pending_query()).await
    }

    /// Those that are due and under no claim.
    pub(super) async fn due(&self) -> Vec<String> {
        self.listed(PendingQuery {
            only_due: true,
            ..self.pending_query()
        })
        .await
    }

    pub(super) async fn counts(&self, operation: &str) -> Vec<PendingCount> {
        let counts = self.store.count_pending(&self.tenant, operation).await;
        counts.expect("the store answers")
    }

    pub(super) fn records_query(&self) -> RecordsQuery {
        RecordsQuery {
            tenant: self.tenant.clone(),
            max: 100,
            ..RecordsQuery::default()
        }
    }

    pub(super) async fn records(&self, query: RecordsQuery) -> RecordsPage {
        let page = self.store.records(query).await.expect("the store answers");
        assert_eq!(page.now, self.now());
        page
    }

    /// All keys that fit, page by page.
    pub(super) async fn found(&self, query: RecordsQuery) -> Vec<String> {
        let mut keys = Vec::new();
        let mut query = query;
        loop {
            let page = self.records(query.clone()).await;
            assert!(page.records.len() <= query.max);
            keys.extend(page.records.iter().map(|it| it.name.key().to_owned()));
            match page.next {
                Some(next) => query.after = Some(next),
                None => return keys,
            }
        }
    }

    pub(super) fn audit_query(&self) -> AuditQuery {
        AuditQuery {
            tenant: self.tenant.clone(),
            max: 100,
            ..AuditQuery::default()
        }
    }

    pub(super) async fn audit(&self, query: AuditQuery) -> AuditPage {
        self.store.audit(query).await.expect("the store answers")
    }
}
