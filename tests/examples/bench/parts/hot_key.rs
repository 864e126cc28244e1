//! A thousand callers on one key: what is left for the other keys?

use anyhow::Result;
use serde_json::json;

use crate::bench::Bench;
use crate::generator::{Length, Load};
use crate::service::checkpoint;

const CALLERS: usize = 1_000;

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let service = bench.service()?;
    let load = bench.load()?;
    let hot = Load {
        mix: "hot-key",
        concurrency: CALLERS,
        // Beyond both ends of the other load.
        length: Length::Seconds(bench.seconds() + load.warm_up_s + 3),
        warm_up_s: 0,
        more: vec!["--wait".to_owned(), "5s".to_owned()],
        ..load.clone()
    };
    let (mut with, mut without, mut hot_rates) = (Vec::new(), Vec::new(), Vec::new());
    let mut errors = Vec::new();
    for _ in 0..bench.options.alternations {
        let measured = service.measure(&bench.postgres, &load)?;
        without.push(measured.generated.per_second()?);
        checkpoint(&bench.postgres)?;
        let server = service.start()?;
        let beside = hot.start(&server.url())?;
        with.push(load.run(&server.url())?.per_second()?);
        let hot = beside.finish()?;
        server.stop()?;
        hot_rates.push(hot.per_second()?);
        errors.push(hot.errors());
        bench.progress.say(&format!(
            "other keys {:.0}/s without, {:.0}/s with the hot key ({:.0} answers/s on it)",
            without.last().copied().unwrap_or_default(),
            with.last().copied().unwrap_or_default(),
            hot_rates.last().copied().unwrap_or_default(),
        ));
    }
    let ratios = with.iter().zip(&without).map(|(with, it)| with / it);
    bench
        .report
        .figure("hot_key_other_ratio", ratios.collect())?;
    bench.report.raw("other_keys_per_s_with_hot_key", &with)?;
    bench
        .report
        .raw("other_keys_per_s_without_hot_key", &without)?;
    bench.report.raw("hot_key_operations_per_s", &hot_rates)?;
    bench.report.detail("hot_key_errors", json!(errors));
    Ok(())
}
