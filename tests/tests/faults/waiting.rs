//! Many callers wait for one key on few connections: other keys go on, and the end of the
//! wait reaches all of them, on whichever server they wait.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use reprise_client::proto::FailureKind;
use reprise_client::proto::reserve_response::Outcome;
use reprise_tests::reprise_bin::ServerProcess;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::calls::*;
use super::site::{Backend, Site};

const WAITERS: usize = 200;
const OTHERS: usize = 200;
const POOL: usize = 4;
/// Longer than the test takes up to the end that is waited for.
const WAIT: Duration = Duration::from_secs(30);

on_both_stores! {
    all_waiters_return_after_the_completion_and_slow_nobody
    a_retryable_failure_frees_the_key_to_exactly_one_waiter
}

/// Callers that wait for one key, over all servers.
struct Waiters(JoinSet<Result<(Outcome, Instant)>>);

impl Waiters {
    async fn gather(servers: &[ServerProcess], key: &str) -> Result<Self> {
        let stubs: Vec<Stub> = (0..8)
            .map(|at| stub(servers[at % servers.len()].addr()))
            .collect::<Result<_>>()?;
        let mut waiters = JoinSet::new();
        for at in 0..WAITERS {
            let mut stub = stubs[at % stubs.len()].clone();
            let mut request = reserve_request(key, "the payload")?;
            request.wait = Some(WAIT.try_into()?);
            waiters.spawn(async move {
                let answer = stub.reserve(within(WAIT + LIMIT, request)).await?;
                let outcome = answer.into_inner().outcome.context("no outcome")?;
                Ok((outcome, Instant::now()))
            });
        }
        // Calls of one connection are taken in order: after this one, its waiters were.
        for mut stub in stubs {
            stub.lookup(lookup(key)).await?;
        }
        Ok(Self(waiters))
    }

    async fn next(&mut self) -> Result<(Outcome, Instant)> {
        let next = timeout(LIMIT, self.0.join_next()).await;
        next.context("a waiter does not return")?
            .context("no waiter is left")??
    }

    fn check_all_wait(&mut self) -> Result<()> {
        match self.0.try_join_next() {
            None => Ok(()),
            Some(early) => bail!("a waiter came back early: {:?}", early??.0),
        }
    }

    /// All that are left return this result; answers when the last one did.
    async fn all_completed(&mut self, result: &str) -> Result<Instant> {
        let mut last = Instant::now();
        while !self.0.is_empty() {
            let (outcome, at) = self.next().await?;
            let Outcome::Completed(completed) = outcome else {
                bail!("{outcome:?}");
            };
            let result = body(result.to_owned());
            ensure!(completed.result == Some(result), "another result");
            last = last.max(at);
        }
        Ok(last)
    }
}

async fn all_waiters_return_after_the_completion_and_slow_nobody(backend: Backend) -> Result<()> {
    let site = Site::new(backend)?.pool_size(POOL);
    let servers = site.serve_all()?;
    let mut holder = stub(servers[0].addr())?;
    let acquired = acquire(&mut holder, "waited-for").await?;
    let mut waiters = Waiters::gather(&servers, "waited-for").await?;

    let began = Instant::now();
    for (at, server) in servers.iter().cycle().enumerate().take(8) {
        let mut stub = stub(server.addr())?;
        for other in (at..OTHERS).step_by(8) {
            live(&mut stub, &format!("other{other}")).await?;
        }
    }
    println!(
        "{OTHERS} other lives beside {WAITERS} waiters: {:?}",
        began.elapsed()
    );
    waiters.check_all_wait()?;

    let report = complete("waited-for", &acquired.token, body("the result"));
    holder.complete(within(LIMIT, report)).await?;
    let completed = Instant::now();
    let last = waiters.all_completed("the result").await?;
    println!(
        "{WAITERS} waiters on {} servers returned within {:?} of the completion",
        servers.len(),
        last.saturating_duration_since(completed)
    );
    Ok(())
}

async fn a_retryable_failure_frees_the_key_to_exactly_one_waiter(backend: Backend) -> Result<()> {
    let site = Site::new(backend)?.pool_size(POOL);
    let servers = site.serve_all()?;
    let mut holder = stub(servers[0].addr())?;
    let acquired = acquire(&mut holder, "waited-for").await?;
    let mut waiters = Waiters::gather(&servers, "waited-for").await?;

    // Twice, so that the turn passes on among waiters.
    let mut token: Bytes = acquired.token;
    for turn in 1..=2 {
        let report = fail(
            "waited-for",
            &token,
            FailureKind::Retryable,
            body("not now"),
        );
        holder.fail(within(LIMIT, report)).await?;
        let (outcome, _) = waiters.next().await?;
        let Outcome::Acquired(next) = outcome else {
            bail!("turn {turn}: {outcome:?}");
        };
        token = next.token;
        // The others go on waiting: this read comes after their turn.
        holder.lookup(within(LIMIT, lookup("waited-for"))).await?;
        waiters.check_all_wait()?;
    }
    let report = complete("waited-for", &token, body("at last"));
    holder.complete(within(LIMIT, report)).await?;
    waiters.all_completed("at last").await?;
    Ok(())
}
