//! Finds out what happened to pending records: claims those that are due, asks the user's
//! function, says what it found. Knows nothing of providers, nor of what is found.

mod case;
mod claim;
mod event;
mod finding;
mod inquiry;
mod pace;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rand::Rng;
use reprise_proto::v1::{ClaimPendingRequest, ClaimPendingResponse};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

pub use self::case::Case;
pub use self::event::{Event, Why};
pub use self::finding::{Finding, Resolution, TakeOver};

use self::case::Claimed;
use self::inquiry::{Desk, work};
use self::pace::{BackOff, Polls};
use crate::Client;
use crate::error::{BoxError, Error, Reason};
use crate::reserve::wire_duration;
use crate::retry::Answered;

/// Settings of a worker. Any number of workers may run side by side: a record is under one
/// claim at a time.
#[must_use]
pub struct Worker {
    client: Client,
    tenant: String,
    operation: String,
    actor: String,
    batch: u32,
    lease: Duration,
    concurrency: usize,
    poll: (Duration, Duration),
    back_off: BackOff,
    stop_limit: Duration,
    events: Box<dyn Fn(&Event<'_>) + Send + Sync>,
}

impl Client {
    /// Begins a worker for the pending records of `tenant`.
    pub fn worker(&self, tenant: impl Into<String>) -> Worker {
        Worker {
            client: self.clone(),
            tenant: tenant.into(),
            operation: String::new(),
            actor: "worker".to_owned(),
            batch: 10,
            lease: Duration::from_secs(60),
            concurrency: 8,
            poll: (Duration::from_secs(1), Duration::from_secs(10)),
            back_off: BackOff {
                first: Duration::from_secs(60),
                max: Duration::from_secs(3600),
            },
            stop_limit: Duration::from_secs(30),
            events: Box::new(|_| {}),
        }
    }
}

impl Worker {
    /// Only of this operation. Default: of all operations of the tenant.
    pub fn operation(mut self, operation: impl Into<String>) -> Worker {
        self.operation = operation.into();
        self
    }

    /// Who finds out, for people and for the audit. 1 to 255 bytes. Default "worker".
    pub fn actor(mut self, actor: impl Into<String>) -> Worker {
        self.actor = actor.into();
        self
    }

    /// Most records to claim at once: 1 to 100. Default 10.
    pub fn batch(mut self, records: u32) -> Worker {
        self.batch = records;
        self
    }

    /// How long a claim runs unless renewed, which it is while the record is in hand: how
    /// long a record waits whose worker died. 100 ms to 15 min. Default 60 s.
    pub fn lease(mut self, lease: Duration) -> Worker {
        self.lease = lease;
        self
    }

    /// How many records are worked on at once, at least 1. Default 8.
    pub fn concurrency(mut self, records: usize) -> Worker {
        self.concurrency = records.max(1);
        self
    }

    /// How often to ask while nothing is due: after `first`, doubling to `max`, each time
    /// shortened at random by up to a fifth. Default 1 s to 10 s.
    pub fn poll(mut self, first: Duration, max: Duration) -> Worker {
        self.poll = (first, max);
        self
    }

    /// When to look again at a record that stays unknown: after as long as it has been
    /// pending so far, within these bounds. Default 60 s to 1 h.
    pub fn back_off(mut self, first: Duration, max: Duration) -> Worker {
        self.back_off = BackOff { first, max };
        self
    }

    /// How long a worker that stops waits for what is in hand. Default 30 s.
    pub fn stop_limit(mut self, limit: Duration) -> Worker {
        self.stop_limit = limit;
        self
    }

    /// Called for each event, from within the worker: it must be quick.
    pub fn events(mut self, tell: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Worker {
        self.events = Box::new(tell);
        self
    }

    /// Works until `shutdown` ends: claims records that are due, calls `find_out` for each,
    /// and records what it found, under the claim, whose lease is renewed meanwhile.
    ///
    /// - An error or a panic of `find_out` counts as still unknown, with its text as the
    ///   evidence.
    /// - A resolution that does not get through is repeated for up to
    ///   [`Builder::background_limit`](crate::Builder::background_limit).
    /// - Stopping, it takes nothing new, gives back what it has not begun with, and finishes
    ///   what is in hand. What is not done within [`Worker::stop_limit`] is dropped:
    ///   its claim is given back, and a taken-over effect reported as unknown, both in the
    ///   background, which [`Client::close`] waits for. Answers whether all was finished.
    ///
    /// # Errors
    /// When the settings are refused, e.g. the tenant's name. Where the service is merely
    /// away, it is asked again.
    pub async fn run<F, Fut, E>(
        self,
        find_out: F,
        shutdown: impl Future<Output = ()>,
    ) -> Result<bool, Error>
    where
        F: Fn(Case) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Resolution, E>> + Send + 'static,
        E: Into<BoxError> + 'static,
    {
        let mut claims = Claims {
            request: ClaimPendingRequest {
                tenant: self.tenant,
                operation: self.operation,
                claim_id: claim_id(),
                max_records: self.batch,
                lease: Some(wire_duration(self.lease)),
                owner: self.actor.clone(),
            },
            lease: self.lease,
            desk: Arc::new(Desk {
                client: self.client,
                actor: self.actor,
                back_off: self.back_off,
                slots: Semaphore::new(self.concurrency),
                stopping: CancellationToken::new(),
                events: self.events,
            }),
        };
        let mut polls = Polls::new(self.poll.0, self.poll.1);
        let find_out = Arc::new(find_out);
        let mut in_hand = JoinSet::new();
        tokio::pin!(shutdown);
        let ended = loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break Ok(()),
                () = below(self.concurrency, &mut in_hand) => {}
            }
            let (taken, stop) = claims.take(shutdown.as_mut()).await;
            let taken = match taken {
                Ok(taken) => taken,
                Err(error) => break Err(error),
            };
            let none = taken.is_empty();
            if stop {
                taken.iter().for_each(|it| claims.released(it));
                break Ok(());
            }
            for claimed in taken {
                let desk = Arc::clone(&claims.desk);
                in_hand.spawn(work(desk, Arc::clone(&find_out), claimed));
            }
            if !none {
                polls.reset();
                continue;
            }
            tokio::select! {
                biased;
                () = &mut shutdown => break Ok(()),
                () = sleep(polls.pause()) => {}
            }
        };
        claims.desk.stopping.cancel();
        let all = below(1, &mut in_hand);
        let finished = timeout(self.stop_limit, all).await.is_ok();
        in_hand.shutdown().await;
        ended.map(|()| finished)
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("tenant", &self.tenant)
            .field("operation", &self.operation)
            .field("actor", &self.actor)
            .finish_non_exhaustive()
    }
}

/// Where records to work on come from.
struct Claims {
    request: ClaimPendingRequest,
    lease: Duration,
    desk: Arc<Desk>,
}

impl Claims {
    /// Asks for records once, and says whether to stop. Claims must not be forgotten: when
    /// the worker is to stop meanwhile, the answer is waited for all the same.
    async fn take(
        &mut self,
        shutdown: impl Future<Output = ()>,
    ) -> (Result<Vec<Claimed>, Error>, bool) {
        let client = self.desk.client.clone();
        let asking = client.claim_pending_timed(self.request.clone());
        tokio::pin!(asking);
        let (answer, stop) = tokio::select! {
            biased;
            answer = &mut asking => (answer, false),
            () = shutdown => (asking.await, true),
        };
        let taken = match answer {
            Ok(answer) => Ok(self.read(answer)),
            Err(error) if hopeless(&error) => Err(error),
            Err(error) => {
                // The id stays: what it may have taken is answered to its repetition.
                self.desk.tell(Event::NotClaimed { error: &error });
                Ok(Vec::new())
            }
        };
        (taken, stop)
    }

    fn read(&mut self, answer: Answered<ClaimPendingResponse>) -> Vec<Claimed> {
        self.request.claim_id = claim_id();
        let mut taken = Vec::new();
        for record in answer.message.records {
            match Claimed::read(&self.desk.client, record, answer.sent, self.lease) {
                Ok(claimed) => taken.push(claimed),
                Err(error) => {
                    self.desk.tell(Event::NotClaimed { error: &error });
                }
            }
        }
        if !taken.is_empty() {
            let count = taken.len();
            self.desk.tell(Event::Claimed { count });
        }
        taken
    }

    fn released(&self, claimed: &Claimed) {
        let record = &claimed.case.record;
        self.desk.tell(Event::Released { record });
    }
}

/// Waits until fewer than `count` records are in hand: then none of them waits for a slot.
async fn below(count: usize, in_hand: &mut JoinSet<()>) {
    loop {
        let over = match in_hand.len() < count {
            true => in_hand.try_join_next(),
            false => in_hand.join_next().await,
        };
        match over {
            Some(Err(error)) => tracing::error!(%error, "work on a record ended in a panic"),
            Some(Ok(())) => {}
            None => return,
        }
    }
}

/// Asking again cannot help.
fn hopeless(error: &Error) -> bool {
    matches!(
        error.reason(),
        Some(Reason::InvalidField | Reason::UnknownMethod)
    )
}

/// 16 random bytes, made in memory for one call.
fn claim_id() -> Bytes {
    let mut id = [0; 16];
    rand::rng().fill_bytes(&mut id);
    Bytes::copy_from_slice(&id)
}
