//! The bounded load test: many keys, each wanted by several callers at once, through all
//! its ends. It claims correctness and prints throughput.
//!
//! `REPRISE_LOAD_KEYS` sets how many keys it goes through, at most 20,000; a short form
//! runs by default.

use std::collections::HashMap;
use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use reprise_client::proto::{
    Applied, Content, FailureKind, OperatorOverride, RenewRequest, ReportDisposition,
    ResolveRequest, renew_request, resolve_request,
};
use reprise_client::{Client, Outcome, Reading, Reserved};
use tokio::task::JoinSet;

use super::calls::*;
use super::site::{Backend, Site, client};

const KEYS_DEFAULT: usize = 600;
const KEYS_MAX: usize = 20_000;
/// Keys that are lived through at once.
const LANES: usize = 24;
/// Callers that want one key.
const CALLERS: usize = 3;
/// Longer than any end is waited for.
const WAIT: Duration = Duration::from_secs(20);

on_both_stores! {
    a_mixed_load_grants_each_attempt_once_and_replays_byte_for_byte
}

/// How a key ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Completed,
    CompletedAtSecond,
    FailedFinal,
    ResolvedFromPending,
}

impl End {
    fn of(key: usize) -> Self {
        match key % 10 {
            0 => Self::CompletedAtSecond,
            1 => Self::FailedFinal,
            2 => Self::ResolvedFromPending,
            _ => Self::Completed,
        }
    }

    fn grants(self) -> u32 {
        if self == Self::CompletedAtSecond {
            2
        } else {
            1
        }
    }
}

struct Key {
    name: String,
    end: End,
    content: Content,
    grants: AtomicU32,
}

impl Key {
    fn new(number: usize) -> Self {
        // Every byte value, and lengths around what fits a page of either store.
        let data: Bytes = (0..number * 37 % 10_000)
            .map(|at| u8::try_from((at + number) % 256).unwrap_or_default())
            .collect();
        Self {
            name: format!("k{number}"),
            end: End::of(number),
            content: body(data),
            grants: AtomicU32::new(0),
        }
    }
}

async fn a_mixed_load_grants_each_attempt_once_and_replays_byte_for_byte(
    backend: Backend,
) -> Result<()> {
    let keys = match env::var("REPRISE_LOAD_KEYS") {
        Ok(text) => text.parse().context("REPRISE_LOAD_KEYS: 1 to 20000")?,
        Err(_) => KEYS_DEFAULT,
    };
    ensure!(
        (1..=KEYS_MAX).contains(&keys),
        "REPRISE_LOAD_KEYS: 1 to 20000"
    );
    let site = Site::new(backend)?;
    let servers = site.serve_all()?;
    let clients: Vec<Client> = servers
        .iter()
        .map(|server| client(server.addr()))
        .collect::<Result<_>>()?;

    let began = Instant::now();
    let next = Arc::new(AtomicUsize::new(0));
    let mut lanes = JoinSet::new();
    for _ in 0..LANES {
        let (next, clients) = (Arc::clone(&next), clients.clone());
        lanes.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= keys {
                    return anyhow::Ok(());
                }
                let key = Arc::new(Key::new(number));
                let lived = live_through(&clients, &key).await;
                lived.with_context(|| format!("{}, {:?}", key.name, key.end))?;
            }
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane??;
    }
    let took = began.elapsed();
    println!(
        "{backend:?}: {keys} keys, {CALLERS} callers each, in {took:?}: {:.0} keys/s",
        f64::from(u32::try_from(keys)?) / took.as_secs_f64()
    );
    Ok(())
}

/// All callers of one key at once, over all servers.
async fn live_through(clients: &[Client], key: &Arc<Key>) -> Result<()> {
    let mut callers = JoinSet::new();
    for at in 0..CALLERS {
        let (client, key) = (clients[at % clients.len()].clone(), Arc::clone(key));
        callers.spawn(async move { call(&client, &key).await });
    }
    let mut seen: HashMap<&str, usize> = HashMap::new();
    while let Some(caller) = callers.join_next().await {
        *seen.entry(caller??).or_default() += 1;
    }
    let grants = key.grants.load(Ordering::Relaxed);
    ensure!(grants == key.end.grants(), "{grants} grants: {seen:?}");

    let found = look(&clients[0], &key.name).await?.context("no record")?;
    let content = match (key.end, found.reading) {
        (End::FailedFinal, Reading::Failed(recorded)) => recorded.content,
        (End::FailedFinal, other) => bail!("{other:?}"),
        (_, Reading::Completed(recorded)) => recorded.content,
        (_, other) => bail!("{other:?}"),
    };
    ensure!(content == key.content, "another content on record");
    Ok(())
}

/// Wants the key carried out: asks until it has an outcome, acts when granted. Answers in
/// a word what it came to.
async fn call(client: &Client, key: &Key) -> Result<&'static str> {
    loop {
        let request = reserve(key.name.clone()).wait(WAIT);
        let reserved = client.reserve(&request).await?;
        match &reserved.outcome {
            Outcome::Acquired(acquired) => {
                let token = acquired.token.clone();
                key.grants.fetch_add(1, Ordering::Relaxed);
                if act(client, key, &token, &reserved).await? {
                    return Ok("acted");
                }
            }
            Outcome::Completed(recorded) if key.end != End::FailedFinal => {
                ensure!(recorded.content == key.content, "another result replayed");
                return Ok("replayed");
            }
            Outcome::Failed(recorded) if key.end == End::FailedFinal => {
                ensure!(recorded.content == key.content, "another error replayed");
                return Ok("replayed");
            }
            // Until the operator has found out.
            Outcome::Pending(_) if key.end == End::ResolvedFromPending => return Ok("pending"),
            other => bail!("{other:?}"),
        }
    }
}

/// What the holder does; true when the key has its end.
async fn act(client: &Client, key: &Key, token: &Bytes, reserved: &Reserved) -> Result<bool> {
    let content = key.content.clone();
    let report = match (key.end, reserved.record.attempt) {
        (End::Completed, 1) | (End::CompletedAtSecond, 2) => {
            client.complete(complete(&key.name, token, content)).await?
        }
        (End::CompletedAtSecond, 1) => {
            let request = fail(&key.name, token, FailureKind::Retryable, body("again"));
            client.fail(request).await?
        }
        (End::FailedFinal, 1) => {
            client
                .fail(fail(&key.name, token, FailureKind::Final, content))
                .await?
        }
        (End::ResolvedFromPending, 1) => {
            client
                .mark_pending(mark_pending(&key.name, token, "who knows"))
                .await?;
            return resolve(client, key, token).await;
        }
        (_, attempt) => bail!("attempt {attempt}"),
    };
    ensure!(
        report.disposition == ReportDisposition::Recorded,
        "{report:?}"
    );
    Ok(key.end != End::CompletedAtSecond || reserved.record.attempt == 2)
}

/// An operator finds out that it was applied.
async fn resolve(client: &Client, key: &Key, token: &Bytes) -> Result<bool> {
    let end = RenewRequest {
        record: Some(name(key.name.clone())),
        holder: Some(renew_request::Holder::Token(token.clone())),
        lease: Some(Duration::ZERO.try_into()?),
    };
    client.renew(end).await?;
    let found = look(client, &key.name).await?.context("no record")?;
    let revision = found.record.revision;
    let request = ResolveRequest {
        record: Some(name(key.name.clone())),
        authority: Some(resolve_request::Authority::OperatorOverride(
            OperatorOverride { revision },
        )),
        outcome: Some(resolve_request::Outcome::Applied(Applied {
            result: Some(key.content.clone()),
        })),
        effect_key_spent: false,
        evidence: "seen at the provider".to_owned(),
        actor: "operator".to_owned(),
    };
    let resolved = client.resolve(request).await?;
    ensure!(
        resolved.disposition == ReportDisposition::Recorded,
        "{resolved:?}"
    );
    Ok(true)
}
