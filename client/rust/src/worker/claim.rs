//! The right to find out about one record, from the claim to its end. Whatever way it
//! ends, its lease is not renewed any more; unless it was used, the lease is ended too, so
//! that the next worker need not wait for it.

use std::time::Duration;

use bytes::Bytes;
use reprise_proto::v1::{RecordName, RenewRequest, renew_request::Holder};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::Client;
use crate::effect::{LeaseLost, told};
use crate::error::ClaimOver;
use crate::lease::Lease;
use crate::renewal::Renewal;
use crate::reserve::wire_duration;

pub(super) struct Claim {
    client: Client,
    record: RecordName,
    token: Bytes,
    runtime: Handle,
    renewal: Option<Renewal>,
    lost: watch::Receiver<Option<LeaseLost>>,
    used: bool,
}

impl Claim {
    /// To be made inside the runtime; the renewal begins with it.
    pub(super) fn taken(client: &Client, record: &RecordName, token: Bytes, lease: Lease) -> Claim {
        let request = renewal(record, &token, None);
        let (renewal, lost) = Renewal::start(client, request, lease);
        Claim {
            client: client.clone(),
            record: record.clone(),
            token,
            runtime: Handle::current(),
            renewal: Some(renewal),
            lost,
            used: false,
        }
    }

    pub(super) fn token(&self) -> Bytes {
        self.token.clone()
    }

    pub(super) fn lost(&self) -> watch::Receiver<Option<LeaseLost>> {
        self.lost.clone()
    }

    /// Waits until the claim is known to be over. A lease that merely ran out is not it:
    /// while it is the newest, the claim keeps its right to Resolve.
    pub(super) async fn over(&self) -> ClaimOver {
        match told(&self.lost).await {
            LeaseLost::ClaimOver(over) => over,
            LeaseLost::Refused(_) => ClaimOver::default(),
            LeaseLost::NotRenewed => std::future::pending().await,
        }
    }

    /// Nothing is left to do with it: it was used, is over, or is left to run out.
    pub(super) async fn closed(mut self) {
        self.used = true;
        if let Some(renewal) = self.renewal.take() {
            renewal.stop().await;
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let renewing = self.renewal.take();
        if self.used && renewing.is_none() {
            return;
        }
        let client = self.client.clone();
        let end = (!self.used).then(|| renewal(&self.record, &self.token, Some(Duration::ZERO)));
        let work = async move {
            if let Some(renewing) = renewing {
                renewing.stop().await;
            }
            let Some(request) = end else { return };
            match client.renew(request).await {
                Err(error) if error.claim_over().is_none() => {
                    tracing::debug!(%error, "a claim could not be ended; its lease runs out");
                }
                _ => {}
            }
        };
        self.client.background().spawn_on(work, &self.runtime);
    }
}

fn renewal(record: &RecordName, token: &Bytes, lease: Option<Duration>) -> RenewRequest {
    RenewRequest {
        record: Some(record.clone()),
        holder: Some(Holder::Claim(token.clone())),
        lease: lease.map(wire_duration),
    }
}
