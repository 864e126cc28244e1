//! Repeats a call until its deadline: the same request each time, with pauses that grow,
//! jitter and obey the server. Knows nothing of what the calls mean.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::RngExt;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::Client;
use crate::error::{Error, Failure, Fate, is_silence};

/// Largest message that is sent or received. Whatever the server accepts fits.
pub(crate) const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A try that waited for less says nothing about its connection: an answer may take so long.
const SILENCE_MIN: Duration = Duration::from_secs(1);
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long a call may take, and whether its tries may be several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For all tries together.
    pub(crate) deadline: Duration,
    /// For one try.
    pub(crate) per_try: Duration,
}

impl Limits {
    /// A call that the server may hold for `wait`. A try gets half of what is left
    /// beside it, so that one lost answer leaves time for another try.
    pub(crate) fn repeatable(deadline: Duration, wait: Duration) -> Limits {
        Limits {
            deadline: deadline + wait,
            per_try: wait + deadline / 2,
        }
    }

    /// A call that must not be sent twice.
    pub(crate) fn once(deadline: Duration) -> Limits {
        Limits {
            deadline,
            per_try: deadline,
        }
    }

    fn is_repeatable(&self) -> bool {
        self.per_try < self.deadline
    }
}

/// An answer, and when the try that it belongs to was sent.
pub(crate) struct Answered<T> {
    pub(crate) message: T,
    /// Taken right before that try was sent: leases count from here.
    pub(crate) sent: Instant,
    /// Taken before the first try.
    pub(crate) first_sent: Instant,
}

impl Client {
    /// Sends `request` until there is an answer, a refusal, or no time left.
    /// `maybe_sent` follows whether any try so far may have been carried out, also for
    /// whoever drops this future.
    pub(crate) async fn call<Q, A, F>(
        &self,
        request: Q,
        limits: Limits,
        maybe_sent: &AtomicBool,
        send: impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<Answered<A>, Error>
    where
        Q: prost::Message + Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let bytes = request.encoded_len();
        if bytes > MESSAGE_BYTES_MAX {
            let limit = MESSAGE_BYTES_MAX;
            return Err(Error::TooLarge { bytes, limit });
        }
        let first_sent = Instant::now();
        let end = first_sent + limits.deadline;
        let mut pauses = Pauses::default();
        loop {
            let before = maybe_sent.swap(true, Ordering::Relaxed);
            let sent = Instant::now();
            let bound = limits.per_try.min(end.saturating_duration_since(sent));
            let failure = match self.send_once(request.clone(), bound, &send).await {
                Ok(message) => {
                    return Ok(Answered {
                        message,
                        sent,
                        first_sent,
                    });
                }
                Err(failure) => failure,
            };
            let unknown = before || failure.fate == Fate::Unknown;
            maybe_sent.store(unknown, Ordering::Relaxed);
            let pause = pauses.next(failure.fault.retry_after);
            let over = Instant::now() + pause >= end;
            if over || !failure.passing || !limits.is_repeatable() {
                return Err(failure.into_error(unknown));
            }
            tracing::debug!(fault = %failure.fault, ?pause, "repeating a call");
            sleep(pause).await;
        }
    }

    async fn send_once<Q, A, F>(
        &self,
        message: Q,
        bound: Duration,
        send: &impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<A, Failure>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let line = self.connection().line();
        let mut request = Request::new(message);
        request.set_timeout(bound);
        match timeout(bound, send(line.channel, request)).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) if !is_silence(&status) => Err(Failure::read(&status)),
            Ok(Err(_)) | Err(_) => {
                if bound >= SILENCE_MIN {
                    self.connection().abandon(line.number);
                }
                Err(Failure::silence(bound))
            }
        }
    }
}

/// Pauses that double from 50 ms to 5 s, each shortened at random by up to a half.
#[derive(Default)]
struct Pauses {
    count: u32,
}

impl Pauses {
    /// The next pause. The server's own wish is a lower bound, and is stretched at
    /// random by up to a fifth so that callers do not come back all at once.
    fn next(&mut self, wished: Option<Duration>) -> Duration {
        let full = PAUSE_FIRST
            .saturating_mul(1 << self.count.min(10))
            .min(PAUSE_MAX);
        self.count += 1;
        let mut rng = rand::rng();
        let own = full.mul_f64(rng.random_range(0.5..=1.0));
        match wished {
            Some(wished) => own.max(wished.mul_f64(rng.random_range(1.0..=1.2))),
            None => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound_and_never_undercut_the_servers_wish() {
        let mut pauses = Pauses::default();
        let first = pauses.next(None);
        assert!(
            (PAUSE_FIRST / 2..=PAUSE_FIRST).contains(&first),
            "{first:?}"
        );
        for _ in 0..40 {
            assert!(pauses.next(None) <= PAUSE_MAX);
        }
        assert!(pauses.next(None) >= PAUSE_MAX / 2);
        let wish = Duration::from_secs(30);
        assert!((wish..=wish.mul_f64(1.2)).contains(&pauses.next(Some(wish))));
    }
}
