//! Work under load with a ledger of what was acknowledged. A worker repeats a call whose
//! outcome is unknown until it knows, as the contract asks, and takes no other error.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use reprise_client::proto::{Content, FailureKind, MarkSendingRequest, State};
use reprise_client::{AttemptId, Client, Error, Found, Outcome, Reading, Reason};
use reprise_tests::poll::until_true;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::calls::*;

/// How long a worker repeats one call.
const PATIENCE: Duration = Duration::from_secs(60);

/// The last transition of a key that was acknowledged.
#[derive(Clone, Debug, PartialEq)]
enum Mark {
    Granted { attempt: u32 },
    Sent { reference: String },
    Completed(Content),
    FailedRetryable(Content),
    FailedFinal(Content),
    Pending { detail: String },
}

/// What was acknowledged so far.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    marks: Mutex<BTreeMap<String, Mark>>,
    acknowledged: AtomicUsize,
    stopping: AtomicBool,
}

impl Ledger {
    /// How many transitions were acknowledged so far.
    pub(crate) fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Relaxed)
    }

    fn note(&self, key: &str, mark: Mark) {
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        marks.insert(key.to_owned(), mark);
    }

    /// Compares every key with what is on record.
    pub(crate) async fn check(&self, client: &Client) -> Result<()> {
        let marks = self
            .marks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for (key, mark) in marks {
            let found = look(client, &key).await?;
            let found = found.with_context(|| format!("{key} is gone, it was {mark:?}"))?;
            ensure!(reads_as(&found, &mark), "{key} was {mark:?}, is {found:?}");
        }
        Ok(())
    }
}

fn reads_as(found: &Found, mark: &Mark) -> bool {
    let state = found.record.state();
    match (mark, &found.reading) {
        (Mark::Granted { attempt }, Reading::Processing(_)) => found.record.attempt == *attempt,
        (Mark::Sent { reference }, Reading::Processing(_)) => {
            found.record.provider_reference == *reference
        }
        (Mark::Completed(result), Reading::Completed(recorded)) => recorded.content == *result,
        (Mark::FailedRetryable(error), Reading::Failed(recorded)) => {
            found.record.failure_kind() == FailureKind::Retryable && recorded.content == *error
        }
        (Mark::FailedFinal(error), Reading::Failed(recorded)) => {
            found.record.failure_kind() == FailureKind::Final && recorded.content == *error
        }
        (Mark::Pending { detail }, Reading::Pending(pending)) => {
            state == State::Pending && pending.detail == *detail
        }
        _ => false,
    }
}

/// Workers that live through keys, each its own, until they are stopped.
pub(crate) struct Load {
    ledger: Arc<Ledger>,
    workers: JoinSet<Result<()>>,
}

impl Load {
    pub(crate) fn start(client: &Client, workers: usize) -> Self {
        let ledger = Arc::new(Ledger::default());
        let mut set = JoinSet::new();
        for worker in 0..workers {
            let worker = Worker {
                client: client.clone(),
                ledger: Arc::clone(&ledger),
                number: worker,
            };
            set.spawn(worker.work());
        }
        Self {
            ledger,
            workers: set,
        }
    }

    /// Returns when `count` more transitions were acknowledged, and how long that took.
    ///
    /// # Errors
    /// That of a worker that met one.
    pub(crate) async fn progress(&mut self, count: usize) -> Result<Duration> {
        let began = Instant::now();
        let goal = self.ledger.acknowledged() + count;
        let mut ended = None;
        until_true("the load to go on", LIMIT, async || {
            ended = self.workers.try_join_next();
            ended.is_some() || self.ledger.acknowledged() >= goal
        })
        .await?;
        match ended {
            Some(worker) => worker?.and_then(|()| bail!("a worker ended")),
            None => Ok(began.elapsed()),
        }
    }

    /// Lets every worker end the life that it is at.
    pub(crate) async fn stop(mut self) -> Result<Arc<Ledger>> {
        self.ledger.stopping.store(true, Ordering::Relaxed);
        while let Some(worker) = self.workers.join_next().await {
            worker??;
        }
        Ok(self.ledger)
    }
}

struct Worker {
    client: Client,
    ledger: Arc<Ledger>,
    number: usize,
}

impl Worker {
    async fn work(self) -> Result<()> {
        for life in 0.. {
            if self.ledger.stopping.load(Ordering::Relaxed) {
                break;
            }
            let key = format!("w{}-{life}", self.number);
            let lived = self.live(&key, life % 6).await;
            lived.with_context(|| format!("{key}, kind {}", life % 6))?;
        }
        Ok(())
    }

    /// One key, from its grant to one of several ends.
    async fn live(&self, key: &str, kind: usize) -> Result<()> {
        let client = &self.client;
        let token = self.acquire(key, 1).await?;
        let content = body(Bytes::from(format!("{key} came to {kind}")));
        match kind {
            0 => self.complete(key, &token, content).await,
            1 => {
                let request = MarkSendingRequest {
                    record: Some(name(key)),
                    token: token.clone(),
                    provider_reference: format!("p-{key}"),
                    ..MarkSendingRequest::default()
                };
                insist(|| client.mark_sending(request.clone())).await?;
                let reference = format!("p-{key}");
                self.ledger.note(key, Mark::Sent { reference });
                self.complete(key, &token, content).await
            }
            2 => {
                let request = fail(key, &token, FailureKind::Retryable, content.clone());
                insist(|| client.fail(request.clone())).await?;
                self.ledger
                    .note(key, Mark::FailedRetryable(content.clone()));
                let token = self.acquire(key, 2).await?;
                self.complete(key, &token, content).await
            }
            3 => {
                let request = fail(key, &token, FailureKind::Final, content.clone());
                insist(|| client.fail(request.clone())).await?;
                self.ledger.note(key, Mark::FailedFinal(content));
                Ok(())
            }
            4 => {
                let detail = format!("{key} is not known");
                let request = mark_pending(key, &token, &detail);
                insist(|| client.mark_pending(request.clone())).await?;
                self.ledger.note(key, Mark::Pending { detail });
                Ok(())
            }
            // Its holder never reports.
            _ => Ok(()),
        }
    }

    async fn acquire(&self, key: &str, attempt: u32) -> Result<Bytes> {
        let (request, attempt_id) = (reserve(key), AttemptId::random());
        let reserved = insist(|| self.client.reserve_as(&request, attempt_id)).await?;
        let Outcome::Acquired(acquired) = reserved.outcome else {
            bail!("not acquired: {:?}", reserved.outcome);
        };
        ensure!(reserved.record.attempt == attempt, "{:?}", reserved.record);
        self.ledger.note(key, Mark::Granted { attempt });
        Ok(acquired.token)
    }

    async fn complete(&self, key: &str, token: &Bytes, result: Content) -> Result<()> {
        let request = complete(key, token, result.clone());
        insist(|| self.client.complete(request.clone())).await?;
        self.ledger.note(key, Mark::Completed(result));
        Ok(())
    }
}

/// Repeats a call for as long as its outcome is unknown or it was never sent.
async fn insist<T, F>(call: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let end = Instant::now() + PATIENCE;
    loop {
        match call().await {
            Err(error) if may_repeat(&error) && Instant::now() < end => {}
            answer => return answer,
        }
    }
}

fn may_repeat(error: &Error) -> bool {
    let fault_of_ours = error.reason() == Some(Reason::Internal);
    (error.outcome_unknown() || error.never_sent()) && !fault_of_ours
}
