//! Delivers what is to be said about an attempt, in a task of its own: whoever waits for
//! it may be dropped, the report may not. Repeats identical content only.

use std::time::Duration;

use reprise_proto::v1::{CompleteRequest, FailRequest, MarkPendingRequest, RenewRequest};
use reprise_proto::v1::{RecordSummary, ReportDisposition};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::Client;
use crate::error::{Error, Reason};
use crate::outcome::Reported;
use crate::renewal::Renewal;

/// Between two rounds in the background, each of which repeats until its own deadline.
pub(crate) const ROUND_PAUSE: Duration = Duration::from_secs(5);

/// What is said about an attempt, once.
#[derive(Clone, Debug)]
pub(crate) enum Report {
    Complete(CompleteRequest),
    Fail(FailRequest),
    MarkPending(MarkPendingRequest),
    /// Renew with a lease of zero, where take-over is allowed.
    EndLease(RenewRequest),
}

/// A report under way. Dropping it does not stop the report.
#[must_use]
pub(crate) struct Delivery(oneshot::Receiver<Result<Reported, Error>>);

impl Delivery {
    /// What became of the report within the deadline of a call.
    pub(crate) async fn answer(self) -> Result<Reported, Error> {
        self.0.await.unwrap_or_else(|_| Err(Error::interrupted()))
    }
}

impl Report {
    /// Delivers on `runtime` after `renewal` was stopped. While the answer of the first
    /// round is not certain, further rounds follow in the background.
    pub(crate) fn deliver(
        self,
        client: &Client,
        renewal: Option<Renewal>,
        runtime: &Handle,
    ) -> Delivery {
        let (answer, delivery) = oneshot::channel();
        let worker = client.clone();
        let work = async move {
            if let Some(renewal) = renewal {
                renewal.stop().await;
            }
            let end = Instant::now() + worker.background_limit();
            let first = self.send(&worker).await;
            let again = first.as_ref().is_err_and(worth_another_round);
            // Nobody waits when the run was dropped; the report goes on all the same.
            let _unheard = answer.send(first);
            if again {
                self.send_until(end, &worker).await;
            }
        };
        client.background().spawn_on(work, runtime);
        Delivery(delivery)
    }

    async fn send_until(&self, end: Instant, client: &Client) {
        while Instant::now() + ROUND_PAUSE < end {
            tokio::time::sleep(ROUND_PAUSE).await;
            match self.send(client).await {
                Err(error) if worth_another_round(&error) => {
                    tracing::debug!(%error, "a report did not get through");
                }
                Err(error) => {
                    tracing::warn!(%error, report = self.name(), "a late report was refused");
                    return;
                }
                Ok(_) => return,
            }
        }
        tracing::error!(
            report = self.name(),
            "a report never got through; the attempt's lease decides"
        );
    }

    async fn send(&self, client: &Client) -> Result<Reported, Error> {
        match self {
            Report::Complete(request) => client.complete(request.clone()).await,
            Report::Fail(request) => client.fail(request.clone()).await,
            Report::MarkPending(request) => client.mark_pending(request.clone()).await,
            Report::EndLease(request) => {
                let renewed = client.renew(request.clone()).await?;
                Ok(ended(renewed.closed, renewed.record))
            }
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Report::Complete(_) => "Complete",
            Report::Fail(_) => "Fail",
            Report::MarkPending(_) => "MarkPending",
            Report::EndLease(_) => "Renew",
        }
    }
}

fn ended(closed: bool, record: RecordSummary) -> Reported {
    let disposition = match closed {
        true => ReportDisposition::Closed,
        false => ReportDisposition::Recorded,
    };
    Reported {
        disposition,
        record,
        adjusted: Vec::new(),
    }
}

/// Whether the same report may still be accepted: not when the record was looked at, and
/// not when the report itself is at fault.
pub(crate) fn worth_another_round(error: &Error) -> bool {
    let at_fault = matches!(
        error.reason(),
        Some(Reason::InvalidField | Reason::TooLarge | Reason::UnknownMethod)
    );
    !(error.decided() || at_fault || matches!(error, Error::TooLarge { .. }))
}
