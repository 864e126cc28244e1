//! How long Reserve takes at half of the highest rate, from when it was due to be sent.

use anyhow::{Context, Result};
use serde_json::json;

use crate::bench::Bench;
use crate::direct::Work;
use crate::generator::{Length, Load};
use crate::pgbench::{self, Pace};
use crate::service::checkpoint;

const SECONDS: u64 = 20;
/// Lifecycles at once: enough that none waits for another one to end.
const CONCURRENCY: usize = 1_024;

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let service = bench.service()?;
    let load = bench.load()?;
    let highest = match bench.highest {
        Some(highest) => highest,
        None => service
            .measure(&bench.postgres, &load)?
            .generated
            .per_second()?,
    };
    let rate = (highest / 2.0).round();
    let load = Load {
        concurrency: CONCURRENCY,
        length: Length::Seconds(SECONDS),
        more: vec!["--rate".to_owned(), format!("{rate:.0}")],
        ..load
    };
    // The two statements directly, at half of their own highest rate: whatever makes the disk
    // slow makes them slow too.
    let clients = bench.clients()?;
    let direct = bench.direct()?;
    let directly = bench.directly(&direct, Work::Lifecycle, clients)?;
    let pace = Pace::Open((directly.per_second / 2.0).round());
    let (mut p50, mut p99, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    let (mut lifecycle_p99, mut direct_p99) = (Vec::new(), Vec::new());
    let mut missed = Vec::new();
    for _ in 0..bench.options.alternations {
        checkpoint(&bench.postgres)?;
        let length = pgbench::Length::Seconds(SECONDS);
        let outcome = direct.run(&bench.postgres, Work::Lifecycle, clients, length, pace)?;
        direct_p99.push(outcome.latency.context("noted no latencies")?.p99_ms);
        let generated = service.measure(&bench.postgres, &load)?.generated;
        p50.push(generated.number("/calls/reserve/p50_ms")?);
        p99.push(generated.number("/calls/reserve/p99_ms")?);
        lifecycle_p99.push(generated.number("/operations_by/lifecycle/latency/p99_ms")?);
        rates.push(generated.per_second()?);
        missed.push(generated.number("/missed")?);
        bench.progress.say(&format!(
            "at {rate:.0}/s: p50 {:.2} ms, p99 {:.2} ms; directly p99 {:.2} ms of both statements",
            p50.last().copied().unwrap_or_default(),
            p99.last().copied().unwrap_or_default(),
            direct_p99.last().copied().unwrap_or_default(),
        ));
    }
    bench.report.figure("reserve_p99_ms_half_load", p99)?;
    bench.report.raw("reserve_p50_ms_half_load", &p50)?;
    let raw = [
        ("lifecycle_p99_ms_half_load", &lifecycle_p99),
        ("direct_lifecycle_p99_ms_half_load", &direct_p99),
        ("half_load_lifecycles_per_s", &rates),
    ];
    for (name, values) in raw {
        bench.report.raw(name, values)?;
    }
    let detail = json!({"highest_per_s": highest, "rate": rate, "missed": missed});
    bench.report.detail("half_load", detail);
    Ok(())
}
