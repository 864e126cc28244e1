//! `reprise pending count`: how many there are, once or again and again.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, SystemTime};

use clap::Args;
use reprise_client::Client;
use reprise_client::proto::{CountPendingRequest, CountPendingResponse, PendingCount};
use tokio::time::MissedTickBehavior;

use super::OfFlags;
use crate::cli::args::{OutputFlags, ServerFlags};
use crate::cli::exit::{Error, Exit};
use crate::cli::output::{Output, note, print};
use crate::cli::value::Fields;
use crate::cli::{answer, duration, listing, table};

/// Count them by operation and reason
#[derive(Args, Debug)]
pub(crate) struct CountFlags {
    #[command(flatten)]
    of: OfFlags,
    #[command(flatten)]
    watch: WatchFlags,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    server: ServerFlags,
}

/// Counting again and again.
#[derive(Args, Debug)]
pub(super) struct WatchFlags {
    /// Count again and again, until standard output is closed
    #[arg(long)]
    pub(super) watch: bool,
    /// With --watch, how often: 100ms to 1h
    #[arg(long, value_name = "DURATION", default_value = "2s", requires = "watch",
          value_parser = duration::within(Duration::from_millis(100)..=Duration::from_hours(1)))]
    every: Duration,
    /// With --watch, end after so many times
    #[arg(long, value_name = "NUMBER", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

pub(super) async fn run(flags: &CountFlags) -> Result<Exit, Error> {
    if flags.watch.watch {
        return watch(&flags.of, &flags.watch, &flags.output, &flags.server).await;
    }
    let counts = read(&flags.server.client()?, &flags.of).await?;
    let output = Output::new(&flags.output);
    match output.is_table() {
        true => print(block(&counts).as_bytes())?,
        false => output.answer("", &fields(&counts))?,
    }
    Ok(Exit::Done)
}

async fn read(client: &Client, of: &OfFlags) -> Result<CountPendingResponse, Error> {
    let request = CountPendingRequest {
        tenant: of.tenant.clone(),
        operation: of.operation(),
    };
    Ok(client.count_pending(request).await?)
}

/// Counts again and again: redrawn on a terminal, else one block or line each time. A
/// server that is away for a while is noted and asked again.
pub(super) async fn watch(
    of: &OfFlags,
    watch: &WatchFlags,
    flags: &OutputFlags,
    server: &ServerFlags,
) -> Result<Exit, Error> {
    let client = server.client()?;
    let output = Output::new(flags);
    let redraw = output.is_table() && io::stdout().is_terminal();
    let mut ticks = tokio::time::interval(watch.every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut left = watch.count;
    loop {
        ticks.tick().await;
        left = left.map(|left| left - 1);
        let is_last = left == Some(0);
        let counts = match read(&client, of).await {
            Ok(counts) => counts,
            Err(error) if is_last || !may_pass(&error) => return Err(error),
            Err(error) => {
                note!("note: {error}");
                continue;
            }
        };
        let printed = if redraw {
            // To the top, and nothing left of the block before.
            print(format!("\u{1b}[H\u{1b}[J{}", block(&counts)).as_bytes())
        } else if output.is_table() {
            print(format!("{}\n", block(&counts)).as_bytes())
        } else {
            output.answer("", &fields(&counts))
        };
        match printed {
            Err(error) if error.is_closed_output() => return Ok(Exit::Done),
            Err(error) => return Err(error),
            Ok(()) if is_last => return Ok(Exit::Done),
            Ok(()) => {}
        }
    }
}

fn may_pass(error: &Error) -> bool {
    error.exit() == Exit::Unknown
}

fn total(counts: &[PendingCount], of: fn(&PendingCount) -> u64) -> u64 {
    counts.iter().map(of).sum()
}

fn fields(answer: &CountPendingResponse) -> Fields {
    let counts = &answer.counts;
    let all: Vec<_> = counts.iter().map(answer::seen::pending_count).collect();
    Fields::new()
        .with("time", prost_types::Timestamp::from(SystemTime::now()))
        .with("total", total(counts, |it| it.total))
        .with("due", total(counts, |it| it.due))
        .with("claimed", total(counts, |it| it.claimed))
        .with("counts", all)
}

fn block(answer: &CountPendingResponse) -> String {
    let counts = &answer.counts;
    let now = SystemTime::now();
    let total = total(counts, |it| it.total);
    let time = listing::second(Some(now.into()));
    if total == 0 {
        return format!("{time}  nothing is pending\n");
    }
    let line = |it: &PendingCount| {
        [
            it.operation.clone(),
            answer::word(it.reason().as_str_name(), "PENDING_REASON_").to_owned(),
            it.total.to_string(),
            it.due.to_string(),
            it.claimed.to_string(),
            it.oldest_since_time
                .map(|since| age(since, now))
                .unwrap_or_default(),
        ]
    };
    let lines: Vec<_> = counts.iter().map(line).collect();
    let head = ["OPERATION", "REASON", "PENDING", "DUE", "CLAIMED", "OLDEST"];
    format!("{time}  {total} pending\n{}", table::columns(head, &lines))
}

/// How long ago, in whole seconds, by this machine's clock.
fn age(since: prost_types::Timestamp, now: SystemTime) -> String {
    let since = SystemTime::try_from(since).unwrap_or(now);
    let age = now.duration_since(since).unwrap_or_default();
    duration::show(Duration::from_secs(age.as_secs()))
}
