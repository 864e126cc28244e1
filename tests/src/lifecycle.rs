//! The usual life of a record, straight on a store: Reserve, then Complete.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use bytes::Bytes;
use reprise::store::Store;
use reprise_domain::command::{Answer, Command, Complete, Outcome, Reserve};
use reprise_domain::content::Body;
use reprise_domain::record::AttemptId;
use reprise_domain::{Content, Policy, RecordName, Request};
use reprise_fingerprint::{Fingerprint, RuleId, Scheme};

/// Has a fresh key granted and completed with `body`; tenant `t1`, operation `charge`.
///
/// # Errors
/// When the key is not fresh, or the store gave no answer.
pub async fn lifecycle(store: &dyn Store, key: &str, body: &Bytes) -> Result<()> {
    let name = RecordName::new("t1", "charge", "", key)?;
    let reserve = Command::Reserve(Reserve {
        attempt_id: AttemptId(rand::random()),
        fingerprints: vec![Fingerprint {
            scheme: Scheme::Raw,
            rule: RuleId::none(),
            digest: [7; 32],
        }],
        lease: None,
        owner: "worker-1".to_owned(),
        correlation_id: String::new(),
        instruction: Bytes::new(),
        intent_time: None,
    });
    let view = match ask(store, &name, reserve).await? {
        Answer::Outcome(Outcome::Acquired { .. }, view) => view,
        other => bail!("no grant: {other:?}"),
    };
    let (id, attempt) = (name.id(), &view.record.attempt);
    let token = store.token_key().issue(&id, attempt.number, attempt.fence);
    let result = Content {
        body: Some(Body::Data(body.clone())),
        ..Content::of_code("201")
    };
    let complete = Command::Complete(Complete {
        held: store.token_key().read(&id, &token)?,
        digest: result.digest(),
        core: result.core_digest(),
        result,
    });
    ask(store, &name, complete).await?;
    Ok(())
}

async fn ask(store: &dyn Store, name: &RecordName, command: Command) -> Result<Answer> {
    let request = Request {
        name: name.clone(),
        policy: Arc::new(Policy::default()),
        command,
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    Ok(store.execute(request, deadline).await?.accept()?)
}
