//! Workers that find out: any number side by side, and killed at the worst moment.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reprise_client::proto::{AuditAction, ListAuditRequest, RenewRequest, renew_request};
use reprise_client::{Client, Event, Finding, Outcome};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::calls::{LIMIT, body, mark_pending, name, reserve, result_of};
use super::site::{Backend, Site, client};

const RECORDS: usize = 10_000;
const WORKERS: usize = 8;
const CALLERS: usize = 64;

on_both_stores! {
    eight_workers_resolve_each_of_ten_thousand_pending_records_once
    a_worker_killed_with_the_answer_in_hand_leaves_it_to_the_next_one
}

async fn eight_workers_resolve_each_of_ten_thousand_pending_records_once(
    backend: Backend,
) -> Result<()> {
    let site = Site::new(backend)?;
    let servers = site.serve_all()?;
    let clients = servers
        .iter()
        .map(|server| client(server.addr()))
        .collect::<Result<Vec<_>>>()?;
    leave_pending(&clients, RECORDS).await?;

    let asked: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    let resolved = Arc::new(AtomicUsize::new(0));
    let done = Done::new();
    let mut workers = tokio::task::JoinSet::new();
    for number in 0..WORKERS {
        let (resolved, all, stop) = (Arc::clone(&resolved), done.clone(), done.clone());
        let asked = Arc::clone(&asked);
        let worker = clients[number % clients.len()]
            .worker("t1")
            .operation("op")
            .actor(format!("worker-{number}"))
            .batch(50)
            .events(move |event| {
                if matches!(event, Event::Resolved { .. })
                    && resolved.fetch_add(1, Ordering::SeqCst) + 1 == RECORDS
                {
                    all.tell();
                }
            });
        workers.spawn(worker.run(
            move |case| {
                *lock(&asked).entry(case.record.key.clone()).or_default() += 1;
                async move {
                    let found = Finding::Applied(body(case.record.key));
                    Ok::<_, anyhow::Error>(found.because("the provider has it"))
                }
            },
            async move { stop.told().await },
        ));
    }
    tokio::time::timeout(4 * LIMIT, done.told())
        .await
        .with_context(|| format!("{} were resolved", resolved.load(Ordering::SeqCst)))?;
    while let Some(stopped) = workers.join_next().await {
        ensure!(stopped??, "a worker did not finish what it had in hand");
    }

    let asked = lock(&asked).clone();
    assert_eq!(asked.len(), RECORDS);
    assert!(asked.values().all(|times| *times == 1));
    let resolutions = resolutions(&clients[0]).await?;
    assert_eq!(resolutions.len(), RECORDS, "each has its audit row");
    assert!(resolutions.values().all(|times| *times == 1));
    for key in ["0", "4999", "9999"] {
        assert_eq!(result_of(&clients[0], key).await?, body(key));
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves records `0..count` pending, their leases over, and due.
async fn leave_pending(clients: &[Client], count: usize) -> Result<()> {
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let client = clients[caller % clients.len()].clone();
        callers.spawn(async move {
            for number in (caller..count).step_by(CALLERS) {
                give_up(&client, &number.to_string()).await?;
            }
            Ok::<_, anyhow::Error>(())
        });
    }
    while let Some(left) = callers.join_next().await {
        left??;
    }
    Ok(())
}

/// The lease ends by being renewed with nothing: a short one could end before its answer came.
async fn give_up(client: &Client, key: &str) -> Result<()> {
    let outcome = client.reserve(&reserve(key)).await?.outcome;
    let Outcome::Acquired(acquired) = outcome else {
        anyhow::bail!("{key} was not acquired: {outcome:?}");
    };
    let mut doubt = mark_pending(key, &acquired.token, "timeout");
    doubt.check_after = Some(Duration::ZERO.try_into()?);
    client.mark_pending(doubt).await?;
    let end = RenewRequest {
        record: Some(name(key)),
        holder: Some(renew_request::Holder::Token(acquired.token)),
        lease: Some(Duration::ZERO.try_into()?),
    };
    client.renew(end).await?;
    Ok(())
}

/// How often each record was resolved as applied.
async fn resolutions(client: &Client) -> Result<HashMap<String, usize>> {
    let mut found: HashMap<String, usize> = HashMap::new();
    let mut request = ListAuditRequest {
        tenant: "t1".to_owned(),
        page_size: 1000,
        ..ListAuditRequest::default()
    };
    loop {
        let page = client.list_audit(request.clone()).await?;
        for entry in page.entries {
            if entry.action() == AuditAction::ResolvedApplied {
                *found.entry(entry.record_id).or_default() += 1;
            }
        }
        if page.next_page_token.is_empty() {
            return Ok(found);
        }
        request.page_token = page.next_page_token;
    }
}

/// That all is done, told once to all.
#[derive(Clone)]
struct Done(watch::Sender<bool>);

impl Done {
    fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    fn tell(&self) {
        self.0.send_replace(true);
    }

    async fn told(&self) {
        let _ = self.0.subscribe().wait_for(|told| *told).await;
    }
}

/// A provider on loopback that remembers one charge under its effect key, and how often it
/// was asked about it.
struct Provider {
    addr: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl Provider {
    async fn start(effect_key: String) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (count, effect_key) = (Arc::clone(&count), effect_key.clone());
                tokio::spawn(async move {
                    let mut stream = tokio::io::BufReader::new(stream);
                    let mut asked_for = String::new();
                    stream.read_line(&mut asked_for).await?;
                    count.fetch_add(1, Ordering::SeqCst);
                    let answer: &[u8] = match asked_for.trim() == effect_key {
                        true => b"ch_1\n",
                        false => b"none\n",
                    };
                    stream.write_all(answer).await
                });
            }
        });
        Ok(Self { addr, asked })
    }
}

async fn ask(provider: SocketAddr, effect_key: &str) -> Result<String> {
    let mut stream = tokio::io::BufReader::new(TcpStream::connect(provider).await?);
    stream
        .write_all(format!("{effect_key}\n").as_bytes())
        .await?;
    let mut answer = String::new();
    stream.read_line(&mut answer).await?;
    Ok(answer.trim().to_owned())
}

/// Has the test below play the worker that is killed: the addresses of server and provider.
const WORKER: &str = "REPRISE_TEST_WORKER";
/// What that worker says when it has the provider's answer.
const ANSWERED: &str = "the provider answered";

async fn a_worker_killed_with_the_answer_in_hand_leaves_it_to_the_next_one(
    backend: Backend,
) -> Result<()> {
    if let Ok(addresses) = std::env::var(WORKER) {
        let (server, provider) = addresses.split_once(' ').context("two addresses")?;
        return hold_the_answer(server.parse()?, provider.parse()?).await;
    }
    let site = Site::new(backend)?;
    let server = site.serve()?;
    let client = client(server.addr())?;
    give_up(&client, "k1").await?;
    let record = super::calls::look(&client, "k1")
        .await?
        .context("k1")?
        .record;
    let provider = Provider::start(record.effect_key.clone()).await?;

    let mut first = Killed(spawn_worker(backend, server.addr(), provider.addr)?);
    first.wait_for(ANSWERED)?;
    first.kill()?;
    assert_eq!(provider.asked.load(Ordering::SeqCst), 1);

    let done = Done::new();
    let (all, at) = (done.clone(), provider.addr);
    let next = client
        .worker("t1")
        .actor("the next one")
        .poll(Duration::from_millis(100), Duration::from_millis(200))
        .events(move |event| {
            if matches!(event, Event::Resolved { .. }) {
                all.tell();
            }
        })
        .run(
            move |case| async move {
                let charge = ask(at, &case.effect_key).await?;
                Ok::<_, anyhow::Error>(Finding::Applied(body(charge)).because("it is there"))
            },
            done.told(),
        );
    tokio::time::timeout(LIMIT, next)
        .await
        .context("resolved by the next one")??;

    assert_eq!(provider.asked.load(Ordering::SeqCst), 2, "asked twice");
    assert_eq!(result_of(&client, "k1").await?, body("ch_1"));
    assert_eq!(
        resolutions(&client)
            .await?
            .into_values()
            .collect::<Vec<_>>(),
        [1]
    );
    let again = client.reserve(&reserve("k1")).await?;
    assert!(
        matches!(again.outcome, Outcome::Completed(_)),
        "acted once: {again:?}"
    );
    Ok(())
}

/// The worker that is killed: has the provider's answer, and never gets to say so.
async fn hold_the_answer(server: SocketAddr, provider: SocketAddr) -> Result<()> {
    let worker = client(server)?
        .worker("t1")
        .actor("the one that is killed")
        .lease(Duration::from_secs(1))
        .poll(Duration::from_millis(100), Duration::from_millis(200));
    worker
        .run(
            move |case| async move {
                ask(provider, &case.effect_key).await?;
                println!("{ANSWERED}");
                // Nor does a renewal keep the claim once the process is gone.
                std::future::pending::<()>().await;
                Ok::<_, anyhow::Error>(Finding::still_unknown().because("never said"))
            },
            std::future::pending(),
        )
        .await?;
    Ok(())
}

fn spawn_worker(backend: Backend, server: SocketAddr, provider: SocketAddr) -> Result<Child> {
    let module = match backend {
        Backend::Embedded => "embedded",
        Backend::Postgres => "postgres",
    };
    let this = "a_worker_killed_with_the_answer_in_hand_leaves_it_to_the_next_one";
    let child = Command::new(std::env::current_exe()?)
        .args([
            "--exact",
            "--nocapture",
            &format!("faults::workers::{module}::{this}"),
        ])
        .env(WORKER, format!("{server} {provider}"))
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()?;
    Ok(child)
}

/// A process that does not outlive the test.
struct Killed(Child);

impl Killed {
    fn wait_for(&mut self, line: &str) -> Result<()> {
        let stdout = self.0.stdout.take().context("its output")?;
        let found = BufReader::new(stdout)
            .lines()
            .map_while(Result::ok)
            .any(|said| said.contains(line));
        ensure!(found, "it ended without saying {line:?}");
        Ok(())
    }

    /// With SIGKILL.
    fn kill(&mut self) -> Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
