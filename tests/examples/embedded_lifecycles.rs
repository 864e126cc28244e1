//! How many lifecycles (Reserve, then Complete) a second does the embedded store carry, and
//! what do they cost?
//!
//! `cargo run --release -p reprise-tests --example embedded_lifecycles -- \
//!     [callers] [body bytes] [seconds] [records before] [directory]`
//!
//! Makes a new file, in `directory` or where temporary files go, with so many records in it
//! before it measures. The walk over grants goes on beside the callers, as it does in a
//! server.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use reprise::store::Store;
use reprise::store::embedded::{Embedded, Options};
use reprise_tests::lifecycle::lifecycle;

/// Of those who fill the file before.
const FILLERS: usize = 512;
/// Between two walks, as in a server.
const WALK: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| match arguments.get(at) {
        Some(text) => text.parse().with_context(|| format!("argument {}", at + 1)),
        None => Ok(default),
    };
    let (callers, body_bytes) = (number(0, 128)? as usize, number(1, 70)? as usize);
    let (seconds, before) = (number(2, 10)?, number(3, 0)?);
    let directory = arguments
        .get(4)
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let home = tempfile::tempdir_in(directory)?;
    let path = home.path().join("store");
    let store = Arc::new(Embedded::open(&path, Options::default())?);
    let body = Bytes::from(vec![b'x'; body_bytes]);
    let walk = tokio::spawn(walk(Arc::clone(&store)));
    if before > 0 {
        let begun = Instant::now();
        load(&store, FILLERS, "before", &body, Until::Count(before)).await?;
        println!(
            "{before} records after {:.1} s",
            begun.elapsed().as_secs_f64()
        );
    }
    println!("{callers} callers, {body_bytes} bytes of body");
    let (begun, cpu, written) = (Instant::now(), cpu()?, written()?);
    let until = Until::Moment(begun + Duration::from_secs(seconds));
    let times = load(&store, callers, "k", &body, until).await?;
    let elapsed = begun.elapsed().as_secs_f64();
    let count = times.len() as f64;
    report(times, elapsed, &cpu)?;
    let [bytes, calls] = self::written()?;
    println!(
        "{:.0} bytes written a lifecycle, in {:.1} calls",
        (bytes - written[0]) as f64 / count,
        (calls - written[1]) as f64 / count,
    );
    walk.abort();
    let open = size(&path)?;
    store.close().await?;
    drop(store);
    println!("{open} bytes of files while open");
    Ok(())
}

async fn walk(store: Arc<Embedded>) -> Result<()> {
    loop {
        if !store.walk().await?.more {
            tokio::time::sleep(WALK).await;
        }
    }
}

#[derive(Clone, Copy)]
enum Until {
    Moment(Instant),
    Count(u64),
}

/// Answers how long each lifecycle took.
async fn load(
    store: &Arc<Embedded>,
    callers: usize,
    prefix: &'static str,
    body: &Bytes,
    until: Until,
) -> Result<Vec<Duration>> {
    let begun = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let (store, body, begun) = (Arc::clone(store), body.clone(), Arc::clone(&begun));
            tokio::spawn(async move {
                let mut times = Vec::new();
                loop {
                    let number = begun.fetch_add(1, Ordering::Relaxed);
                    let start = Instant::now();
                    let over = match until {
                        Until::Moment(end) => start >= end,
                        Until::Count(count) => number >= count,
                    };
                    if over {
                        return anyhow::Ok(times);
                    }
                    lifecycle(store.as_ref(), &format!("{prefix}-{number}"), &body).await?;
                    times.push(start.elapsed());
                }
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await??);
    }
    Ok(times)
}

fn report(mut times: Vec<Duration>, elapsed: f64, before: &[(String, u64)]) -> Result<()> {
    let count = times.len();
    if count == 0 {
        bail!("no lifecycle ended in time");
    }
    times.sort_unstable();
    let at = |share: usize| times[(count - 1) * share / 1000];
    println!(
        "{:.0} lifecycles/s; one takes {:?} (median), {:?} (99 %), {:?} (99.9 %)",
        count as f64 / elapsed,
        at(500),
        at(990),
        at(999),
    );
    for (thread, ticks) in cpu()? {
        let before = before.iter().find(|(name, _)| *name == thread);
        let spent = ticks - before.map_or(0, |(_, ticks)| *ticks);
        // The kernel counts in hundredths of a second.
        let each = spent as f64 * 10_000.0 / count as f64;
        println!("{each:.1} us of CPU a lifecycle: {thread}");
    }
    Ok(())
}

/// CPU time of this process's threads, by name, in ticks.
fn cpu() -> Result<Vec<(String, u64)>> {
    let mut sums: Vec<(String, u64)> = Vec::new();
    for thread in fs::read_dir("/proc/self/task")? {
        let stat = fs::read_to_string(thread?.path().join("stat"))?;
        let (start, rest) = stat.rsplit_once(')').context("no name")?;
        let name = start.split_once('(').context("no name")?.1;
        let mut fields = rest.split_whitespace().skip(11);
        let mut next = || anyhow::Ok(fields.next().context("too short")?.parse::<u64>()?);
        let ticks = next()? + next()?;
        match sums.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += ticks,
            None => sums.push((name.to_owned(), ticks)),
        }
    }
    Ok(sums)
}

/// What this process has written: bytes, calls.
fn written() -> Result<[u64; 2]> {
    let io = fs::read_to_string("/proc/self/io")?;
    let figure = |name: &str| {
        let line = io.lines().find_map(|line| line.strip_prefix(name));
        anyhow::Ok(line.context("no such figure")?.trim().parse()?)
    };
    Ok([figure("wchar:")?, figure("syscw:")?])
}

/// Bytes of the file and of its log.
fn size(path: &Path) -> Result<u64> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    Ok(fs::metadata(path)?.len() + fs::metadata(log)?.len())
}
