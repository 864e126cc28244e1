//! How long Reserve takes at half of the highest rate, from when it was due to be sent.

use anyhow::Result;
use serde_json::json;

use crate::bench::Bench;
use crate::generator::{Length, Load};

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
    let (mut p50, mut p99, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    let mut missed = Vec::new();
    for _ in 0..bench.options.alternations {
        let generated = service.measure(&bench.postgres, &load)?.generated;
        p50.push(generated.number("/calls/reserve/p50_ms")?);
        p99.push(generated.number("/calls/reserve/p99_ms")?);
        rates.push(generated.per_second()?);
        missed.push(generated.number("/missed")?);
        bench.progress.say(&format!(
            "at {rate:.0}/s: p50 {:.2} ms, p99 {:.2} ms",
            p50.last().copied().unwrap_or_default(),
            p99.last().copied().unwrap_or_default(),
        ));
    }
    bench.report.figure("reserve_p99_ms_half_load", p99)?;
    bench.report.raw("reserve_p50_ms_half_load", &p50)?;
    bench.report.raw("half_load_lifecycles_per_s", &rates)?;
    let detail = json!({"highest_per_s": highest, "rate": rate, "missed": missed});
    bench.report.detail("half_load", detail);
    Ok(())
}
