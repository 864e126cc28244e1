//! One caller alone: how much longer does Reserve take than the bare INSERT?

use anyhow::{Context, Result};

use crate::bench::Bench;
use crate::direct::Work;
use crate::generator::{Length, Load};
use crate::pgbench::{self, Pace};
use crate::service::checkpoint;

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let seconds = if bench.options.quick { 4 } else { 8 };
    let load = Load {
        mix: "reserve",
        connections: 1,
        concurrency: 1,
        length: Length::Seconds(seconds),
        warm_up_s: 2,
        more: Vec::new(),
    };
    let (mut service_ms, mut direct_ms) = (Vec::new(), Vec::new());
    for _ in 0..bench.options.alternations {
        // Databases of their own each time: what was reserved and never completed would
        // lapse, and be looked at, in the middle of the next run.
        let direct = bench.direct()?;
        checkpoint(&bench.postgres)?;
        let run = |seconds| {
            let length = pgbench::Length::Seconds(seconds);
            direct.run(&bench.postgres, Work::Insert, 1, length, Pace::Noted)
        };
        run(2)?;
        let latency = run(seconds)?.latency.context("noted no latencies")?;
        direct_ms.push(latency.p50_ms);
        let service = bench.service()?;
        let measured = service.measure(&bench.postgres, &load)?;
        service_ms.push(measured.generated.number("/calls/reserve/p50_ms")?);
        bench.progress.say(&format!(
            "INSERT {:.3} ms, Reserve {:.3} ms",
            direct_ms.last().copied().unwrap_or_default(),
            service_ms.last().copied().unwrap_or_default(),
        ));
    }
    let ratios = service_ms
        .iter()
        .zip(&direct_ms)
        .map(|(ours, it)| ours / it);
    bench.report.figure("reserve_p50_ratio", ratios.collect())?;
    bench.report.raw("reserve_alone_p50_ms", &service_ms)?;
    bench.report.raw("direct_insert_alone_p50_ms", &direct_ms)
}
