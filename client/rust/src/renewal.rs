//! Keeps a lease alive while an effect or an inquiry runs, and says when that fails. Never
//! judges it, and never outlives it.

use std::time::Duration;

use rand::RngExt;
use reprise_proto::v1::RenewRequest;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::Client;
use crate::effect::LeaseLost;
use crate::error::Error;
use crate::lease::Lease;

/// The running renewal of one lease, to be stopped by whoever reports the effect.
#[must_use]
pub(crate) struct Renewal {
    task: JoinHandle<()>,
}

impl Renewal {
    /// Renews `lease` by sending `request` each time a third of it has passed.
    pub(crate) fn start(
        client: &Client,
        request: RenewRequest,
        lease: Lease,
    ) -> (Renewal, watch::Receiver<Option<LeaseLost>>) {
        let (signal, lost) = watch::channel(None);
        let client = client.clone();
        let task = tokio::spawn(async move {
            if let Some(loss) = keep(&client, &request, lease).await {
                tracing::warn!(?loss, "a lease was lost while it was needed");
                signal.send_replace(Some(loss));
            }
        });
        (Renewal { task }, lost)
    }

    /// Ends the renewal; no renewal is sent any more once this returned.
    pub(crate) async fn stop(self) {
        self.task.abort();
        // It was cancelled, or had ended by itself; both are what is wanted here.
        let _ended = self.task.await;
    }
}

/// Renews until the lease is lost, or until nothing is left to renew.
async fn keep(client: &Client, request: &RenewRequest, mut lease: Lease) -> Option<LeaseLost> {
    // What is in doubt in the last tenth is lost: the effect needs time to stop. Counted
    // by the first lease: later ones may be short, where take-over bounds them.
    let tenth = lease.length() / 10;
    let mut pause = third_of(lease.remaining());
    loop {
        let alarm = Instant::now() + lease.remaining().saturating_sub(tenth);
        let due = Instant::now() + pause;
        sleep_until(due.min(alarm)).await;
        if due >= alarm {
            return Some(LeaseLost::NotRenewed);
        }
        match timeout_at(alarm, client.renew(request.clone())).await {
            Ok(Ok(renewed)) if renewed.closed => return None,
            Ok(Ok(renewed)) => {
                lease = renewed.lease;
                pause = third_of(lease.remaining());
            }
            Ok(Err(error)) if error.decided() => {
                return Some(match error.claim_over() {
                    Some(over) => LeaseLost::ClaimOver(over),
                    None => LeaseLost::Refused(error.reason().unwrap_or_default()),
                });
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "a renewal did not get through");
                pause = pause_after(&error, tenth);
            }
            Err(_) => return Some(LeaseLost::NotRenewed),
        }
    }
}

/// A third of what is left, shortened at random by up to a fifth.
fn third_of(remaining: Duration) -> Duration {
    (remaining / 3).mul_f64(rand::rng().random_range(0.8..=1.0))
}

fn pause_after(error: &Error, tenth: Duration) -> Duration {
    let wished = error.fault().and_then(|fault| fault.retry_after);
    (tenth / 2).max(wished.unwrap_or_default())
}
