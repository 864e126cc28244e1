//! The operations: which calls each makes, and what their answers must be.

use std::rc::Rc;
use std::time::{Duration, Instant};

use reprise_client::proto::reserve_response::Outcome;
use reprise_client::proto::{
    Acquired, Completed, Content, GrantReason, ReportDisposition, ReserveResponse, lookup_response,
};

use super::caller::Caller;
use super::plan::Mix;
use super::tally::Fault;
use super::wire::Failure;
use super::world::Key;

impl Caller {
    /// Carries out one operation that was due at `due`, and counts it.
    pub(super) async fn operate(&mut self, mix: Mix, due: Instant) {
        self.begin(due);
        let end = self.attempt(mix).await;
        let mut tally = self.tally.borrow_mut();
        tally.operation(mix, due, self.answered(), end);
    }

    async fn attempt(&mut self, mix: Mix) -> Result<(), Fault> {
        match mix {
            Mix::Lifecycle => {
                let key = self.world.fresh_key();
                let acquired = self.acquire(key, None).await?;
                let world = Rc::clone(&self.world);
                self.report(key, acquired, &world.result).await
            }
            Mix::Reserve => {
                let key = self.world.fresh_key();
                self.acquire(key, None).await.map(drop)
            }
            Mix::Replay => self.replay().await,
            Mix::Busy => self.busy().await,
            Mix::Mismatch => self.mismatch().await,
            Mix::Lookup => self.look_up().await,
            Mix::HotKey => self.hot_key().await,
        }
    }

    /// Reserves a key that nobody used.
    pub(super) async fn acquire(
        &mut self,
        key: Key,
        lease: Option<Duration>,
    ) -> Result<Acquired, Fault> {
        let answer = self.reserve(key, false, Duration::ZERO, lease).await?;
        first_grant(answer)
    }

    /// Completes what was acquired.
    pub(super) async fn report(
        &mut self,
        key: Key,
        acquired: Acquired,
        result: &Content,
    ) -> Result<(), Fault> {
        let answer = self.complete(key, acquired.token, result).await?;
        match answer.disposition() {
            ReportDisposition::Recorded => Ok(()),
            _ => Err(Fault::Wrong("a first report that was not recorded")),
        }
    }

    fn any_completed(&self) -> usize {
        rand::random_range(0..self.world.completed.len())
    }

    async fn replay(&mut self) -> Result<(), Fault> {
        let number = self.any_completed();
        let key = Key::Completed(number);
        let answer = self.reserve(key, false, Duration::ZERO, None).await?;
        match answer.outcome {
            Some(Outcome::Completed(Completed {
                result: Some(result),
                ..
            })) => match result == self.world.completed[number] {
                true => Ok(()),
                false => Err(Fault::Wrong("a replay that differs from the first result")),
            },
            Some(Outcome::Acquired(_)) => Err(Fault::Wrong("a completed key that was granted")),
            _ => Err(Fault::Wrong("a completed key that was not replayed")),
        }
    }

    async fn busy(&mut self) -> Result<(), Fault> {
        let key = Key::Held(rand::random_range(0..self.world.held));
        let wait = self.world.plan.wait(Mix::Busy);
        let answer = self.reserve(key, false, wait, None).await?;
        match answer.outcome {
            Some(Outcome::Processing(_)) => Ok(()),
            Some(Outcome::Acquired(_)) => Err(Fault::Wrong("a held key that was granted")),
            _ => Err(Fault::Wrong(
                "a held key that was not answered as processing",
            )),
        }
    }

    async fn mismatch(&mut self) -> Result<(), Fault> {
        let key = Key::Completed(self.any_completed());
        let answer = self.reserve(key, true, Duration::ZERO, None).await?;
        match answer.outcome {
            Some(Outcome::Mismatch(_)) => Ok(()),
            Some(Outcome::Acquired(_)) => Err(Fault::Wrong("another payload that was granted")),
            _ => Err(Fault::Wrong(
                "another payload that was not answered as a mismatch",
            )),
        }
    }

    async fn look_up(&mut self) -> Result<(), Fault> {
        let number = self.any_completed();
        let answer = self.lookup(Key::Completed(number)).await?;
        match answer.reading {
            Some(lookup_response::Reading::Completed(Completed {
                result: Some(result),
                ..
            })) => match result == self.world.completed[number] {
                true => Ok(()),
                false => Err(Fault::Wrong("a lookup that differs from the first result")),
            },
            _ => Err(Fault::Wrong(
                "a completed key that does not read as completed",
            )),
        }
    }

    /// Whoever is done with the key, however it ended, lets the next round begin. Only the
    /// winner can be done while others still wait.
    async fn hot_key(&mut self) -> Result<(), Fault> {
        let world = Rc::clone(&self.world);
        let round = Rc::clone(&world.round.borrow());
        let key = Key::Hot(round.number);
        let wait = world.plan.wait(Mix::HotKey);
        let end = match self.reserve(key, false, wait, None).await {
            Err(failure) => {
                round.lose();
                Err(failure.into())
            }
            Ok(answer) => match answer.outcome {
                Some(Outcome::Acquired(_)) => {
                    match round.grant().and_then(|()| first_grant(answer)) {
                        Ok(acquired) => {
                            tokio::time::sleep(world.plan.hold()).await;
                            round.report();
                            let end = self.report(key, acquired, &round.result).await;
                            if end.is_err() {
                                round.lose();
                            }
                            end
                        }
                        Err(fault) => Err(fault),
                    }
                }
                Some(Outcome::Completed(completed)) => round.replay(completed.result.as_ref()),
                // The wait was shorter than the holder's hold and report.
                Some(Outcome::Processing(_)) => Err(Failure("OK PROCESSING".to_owned()).into()),
                Some(Outcome::Pending(_)) => Err(round.pending()),
                _ => Err(Fault::Wrong(
                    "a hot key that was neither granted nor replayed",
                )),
            },
        };
        world.end_round(round.number);
        end
    }
}

/// The grant of a key that nobody had before.
fn first_grant(answer: ReserveResponse) -> Result<Acquired, Fault> {
    let Some(Outcome::Acquired(acquired)) = answer.outcome else {
        return Err(Fault::Wrong("a fresh key that was not granted"));
    };
    let attempt = answer.record.map(|record| record.attempt);
    if acquired.reason() != GrantReason::First || attempt != Some(1) {
        return Err(Fault::Wrong("a fresh key whose grant is not the first"));
    }
    match acquired.token.is_empty() {
        true => Err(Fault::Wrong("a grant without a token")),
        false => Ok(acquired),
    }
}
