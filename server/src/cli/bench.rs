//! `reprise bench`: load on a server over gRPC, measured, and its answers checked against
//! what is promised. One thread makes all the load, over a client of its own that spends
//! little: what a load generator takes from its machine, the server beside it lacks.

mod caller;
mod cpu;
mod hot;
mod load;
mod mixes;
mod plan;
mod progress;
mod report;
mod schedule;
mod setup;
mod tally;
mod wire;
mod world;

use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use reprise_domain::content::BODY_BYTES_MAX;
use tokio::task::LocalSet;

use super::args::{self, ServerFlags};
use super::duration;
use super::exit::{Error, Exit};
use super::output::{note, print};
use plan::{Mixes, Plan};
use report::Report;
use wire::Endpoint;
use world::World;

/// Put load on a server, measure it, and check its answers
///
/// Writes records into the server's store. Exits with 1 when an answer broke a promise,
/// when a call failed (unless --allow-errors), or when nothing was done.
#[derive(Args, Debug)]
pub(crate) struct BenchFlags {
    /// What to do: lifecycle, reserve, replay, busy, mismatch, lookup, hot-key; or several,
    /// each with its weight, e.g. lifecycle=3,replay=1
    #[arg(
        long,
        default_value = "lifecycle",
        value_name = "NAME[=WEIGHT],...",
        help_heading = "Load"
    )]
    mix: Mixes,
    /// Connections to the server; no more than callers
    #[arg(long, default_value = "2", value_name = "NUMBER", help_heading = "Load",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Callers, each with one operation at a time
    #[arg(long, default_value = "64", value_name = "NUMBER", help_heading = "Load",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    concurrency: u32,
    /// How long to measure: 100ms to 24h; default 10s
    #[arg(long, value_name = "DURATION", conflicts_with = "count", help_heading = "Load",
          value_parser = duration::within(Duration::from_millis(100)..=Duration::from_hours(24)))]
    duration: Option<Duration>,
    /// In place of a duration: how many operations to measure
    #[arg(long, value_name = "NUMBER", help_heading = "Load",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    count: Option<u64>,
    /// Before it is measured: 100ms to 1h, or 0
    #[arg(long, default_value = "2s", value_name = "DURATION", help_heading = "Load",
          value_parser = duration::zero_or_within(Duration::from_millis(100)..=Duration::from_hours(1)))]
    warm_up: Duration,
    /// Open loop: begin so many operations a second, whether or not those before are
    /// answered. Latency counts from when an operation was due. Default: each caller
    /// begins one when its last is answered
    #[arg(long, value_name = "PER_SECOND", help_heading = "Load", value_parser = plan::rate)]
    rate: Option<f64>,
    /// Records that replay, busy, mismatch and lookup ask for, each
    #[arg(long, default_value = "1000", value_name = "NUMBER", help_heading = "Load",
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    keys: u32,
    /// Size of a payload; 0 sends a ready fingerprint in its place
    #[arg(long, default_value = "100", value_name = "BYTES", help_heading = "Load",
          value_parser = clap::value_parser!(u64).range(0..=BODY_BYTES_MAX))]
    payload_bytes: u64,
    /// Size of a result
    #[arg(long, default_value = "70", value_name = "BYTES", help_heading = "Load",
          value_parser = clap::value_parser!(u64).range(0..=BODY_BYTES_MAX))]
    result_bytes: u64,
    /// How long hot-key and busy let the server hold an answer: 1ms to 30s, or 0; default
    /// 5s for hot-key, 0 for busy
    #[arg(long, value_name = "DURATION", help_heading = "Load",
          value_parser = duration::zero_or_within(Duration::from_millis(1)..=Duration::from_secs(30)))]
    wait: Option<Duration>,
    /// How long the winner of a hot key holds it, as the side effect would take: 1ms to 20s,
    /// or 0; default 2ms
    #[arg(long, value_name = "DURATION", help_heading = "Load",
          value_parser = duration::zero_or_within(Duration::from_millis(1)..=Duration::from_secs(20)))]
    hold: Option<Duration>,
    /// Whose records
    #[arg(long, default_value = "bench", value_parser = args::word, help_heading = "Load")]
    tenant: String,
    /// Of which operation
    #[arg(long, default_value = "bench", value_parser = args::word, help_heading = "Load")]
    operation: String,
    /// Exit with 0 although calls failed
    #[arg(long, help_heading = "Output")]
    allow_errors: bool,
    /// Print the report as one line of JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Draw no progress on the terminal
    #[arg(long, help_heading = "Output")]
    quiet: bool,
    #[command(flatten)]
    server: ServerFlags,
}

pub(crate) async fn run(flags: BenchFlags) -> Result<Exit, Error> {
    let plan = Plan::new(&flags)?;
    // The load has a thread of its own, and nothing moves between threads.
    let done = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Error::io("starting the load"))?;
        LocalSet::new().block_on(&runtime, measure(&flags, plan))
    });
    done.await
        .map_err(|error| Error::Other(error.to_string()))?
}

async fn measure(flags: &BenchFlags, plan: Plan) -> Result<Exit, Error> {
    // What the server is told beside the wait, as with all other commands.
    let deadline = flags.server.timeout + plan.wait_max();
    let endpoint = Endpoint::new(&flags.server.server, deadline);
    let endpoint = endpoint.map_err(|told| Error::Usage(format!("--server: {told}")))?;
    let world = World::new(plan, endpoint)?;
    world.connect().await.map_err(Error::NotReached)?;
    let world = Rc::new(setup::prepare(world).await?);
    let progress = progress::is_wanted(flags.quiet, flags.json);
    let done = load::run(&world, progress).await?;
    let report = Report::new(&flags.server.server, &world.plan, &done);
    print(report.show(flags.json).as_bytes())?;
    Ok(verdict(flags, &report))
}

/// Says on standard error why the run is not all right.
fn verdict(flags: &BenchFlags, report: &Report) -> Exit {
    let mut exit = Exit::Done;
    for (what, count) in &report.wrong {
        note!("error: wrong answers: {count} times {what}");
        exit = Exit::Fault;
    }
    let errors: u64 = report.errors.values().sum();
    if errors > 0 && !flags.allow_errors {
        note!("error: {errors} operations failed; --allow-errors exits with 0 all the same");
        exit = Exit::Fault;
    }
    if report.operations == 0 {
        note!("error: no operation was carried out in the measured time");
        exit = Exit::Fault;
    }
    exit
}
