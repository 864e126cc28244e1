//! The worker of the demo: claims the record that nobody knows the end of, asks the
//! provider, and tells the record. It knows the caller's effect by the effect key alone.

use std::time::{Duration, Instant};

use bytes::Bytes;
use reprise_client::proto::{
    Applied, ClaimPendingRequest, ClaimedRecord, Content, GetPolicyRequest, LookupRequest, Policy,
    PutPolicyRequest, RecordName, ResolveRequest, lookup_request::Target, resolve_request,
};
use reprise_client::{AttemptId, Reason};

use super::{OPERATION, Stage, claim, heading, say, step};
use crate::cli::args::user_at_host;
use crate::cli::exit::Error;
use crate::cli::{duration, records, wire_duration};

/// Who finds out.
const WORKER: &str = "demo-worker";
/// How long a request of the demo may be under way after its lease.
const SETTLE_AFTER: Duration = Duration::from_secs(1);
/// Between two looks at what is due.
const PAUSE: Duration = Duration::from_millis(200);
/// Until then the record must be due.
const DUE_LIMIT: Duration = Duration::from_secs(20);
/// How long a claim of the demo runs.
const LEASE: Duration = Duration::from_secs(10);
/// How often a policy that another demo writes is read again.
const ROUNDS: usize = 5;

/// Has the demo's records looked at soon after their lease, by policy of its operation.
/// All other settings stay as they are in force.
pub(super) async fn settle_soon(stage: &Stage) -> Result<(), Error> {
    let mut last = None;
    for _ in 0..ROUNDS {
        let request = GetPolicyRequest {
            tenant: stage.killed.tenant.clone(),
            operation: OPERATION.to_owned(),
        };
        let policy = stage.client.get_policy(request).await?.policy;
        let policy = policy.unwrap_or_default();
        let wanted = Some(wire_duration(SETTLE_AFTER));
        if policy.settle_after == wanted {
            return Ok(());
        }
        let request = PutPolicyRequest {
            policy: Some(Policy {
                settle_after: wanted,
                inherits: false,
                ..policy
            }),
            actor: user_at_host(),
            reason: "the demo: nobody wants to wait a minute".to_owned(),
        };
        match stage.client.put_policy(request).await {
            Ok(_) => return Ok(()),
            Err(error) if error.reason() == Some(Reason::RevisionChanged) => last = Some(error),
            Err(error) => return Err(error.into()),
        }
    }
    last.map_or(Ok(()), |error| Err(error.into()))
}

/// Claims the record, asks the provider, and tells what it found. Answers the receipt.
pub(super) async fn find_out(stage: &Stage) -> Result<Content, Error> {
    let began = Instant::now();
    let claimed = claim_ours(stage).await?;
    let record = claimed.record.clone().unwrap_or_default();
    let after = duration::show(began.elapsed());
    step(
        "a worker",
        &format!("claims it, {after} later, and asks the provider about"),
    )?;
    let key = &record.effect_key;
    step("", &format!("the effect key {key}"))?;
    let charges = stage.provider.charges()?;
    let Some(charge) = charges.iter().find(|charge| charge.effect_key == *key) else {
        let told = "the provider has no charge under the record's effect key".to_owned();
        return Err(Error::Other(told));
    };
    let result = charge.result();
    let request = ResolveRequest {
        record: claimed.name,
        authority: Some(resolve_request::Authority::Claim(claimed.claim)),
        outcome: Some(resolve_request::Outcome::Applied(Applied {
            result: Some(result.clone()),
        })),
        evidence: format!(
            "the provider's ledger has {} under the effect key",
            charge.id
        ),
        actor: WORKER.to_owned(),
        ..ResolveRequest::default()
    };
    stage.client.resolve(request).await?;
    let found = format!(
        "finds {}, and resolves the record with that as evidence",
        charge.id
    );
    step("", &found)?;
    Ok(result)
}

/// Claims until the killed caller's record is among what is due.
async fn claim_ours(stage: &Stage) -> Result<ClaimedRecord, Error> {
    let end = Instant::now() + DUE_LIMIT;
    loop {
        let request = ClaimPendingRequest {
            tenant: stage.killed.tenant.clone(),
            operation: OPERATION.to_owned(),
            claim_id: Bytes::copy_from_slice(AttemptId::random().as_bytes()),
            max_records: 100,
            lease: Some(wire_duration(LEASE)),
            owner: WORKER.to_owned(),
        };
        let claimed = stage.client.claim_pending(request).await?.records;
        let is_ours = |it: &ClaimedRecord| {
            let key = it.name.as_ref().map(|name| &*name.key);
            key == Some(&*stage.killed.order)
        };
        if let Some(ours) = claimed.into_iter().find(is_ours) {
            return Ok(ours);
        }
        let limit = duration::show(DUE_LIMIT);
        let told = format!("the record was not due to be found out within {limit}");
        claim(Instant::now() < end, told)?;
        tokio::time::sleep(PAUSE).await;
    }
}

/// What the record remembers of it, as `records show` does.
pub(super) async fn look_back(stage: &Stage) -> Result<(), Error> {
    heading("What the record remembers (reprise records show)")?;
    let request = LookupRequest {
        target: Some(Target::Record(RecordName {
            tenant: stage.killed.tenant.clone(),
            operation: OPERATION.to_owned(),
            subject: String::new(),
            key: stage.killed.order.clone(),
        })),
        ..LookupRequest::default()
    };
    let found = stage.client.lookup(request).await?;
    let (history, audit) = records::past(&stage.client, &found).await?;
    for line in records::endings(&found, &history) {
        say(&format!("   {line}\n"))?;
    }
    for line in records::audit_lines(&audit).lines() {
        say(&format!("   {line}\n"))?;
    }
    let who = audit.iter().any(|entry| entry.actor == WORKER);
    claim(who, "the audit does not name the worker")
}
