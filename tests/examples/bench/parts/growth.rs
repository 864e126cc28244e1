//! Does the service get slower as its table fills? The same load on a database with few old
//! records and on one with many, in turns.

use anyhow::Result;
use serde_json::json;

use crate::bench::Bench;
use crate::generator::{Length, Load};
use crate::old::{self, Age};
use crate::svg::{Chart, Line};

const FEW: i64 = 10_000;

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let many = bench.options.old_records;
    let (small, large) = (bench.service()?, bench.service()?);
    let key_bytes = bench.names.key_bytes;
    let begun = std::time::Instant::now();
    old::load(&small, Age::Kept, FEW, key_bytes)?;
    old::load(&large, Age::Kept, many, key_bytes)?;
    let loaded_s = begun.elapsed().as_secs_f64();
    bench
        .progress
        .say(&format!("{many} records loaded in {loaded_s:.0} s"));
    let load = Load {
        warm_up_s: 3,
        ..bench.load()?
    };
    // After a checkpoint the first change of each page is logged as the whole page. In a
    // large table that goes on for long, but not for ever: it is over before it is measured,
    // and no checkpoint comes in between.
    for (service, seconds) in [(&small, 5), (&large, 40)] {
        let settling = Load {
            length: Length::Seconds(seconds),
            ..load.clone()
        };
        service.measure_on(&bench.postgres, &settling)?;
    }
    let (mut few_rates, mut many_rates) = (Vec::new(), Vec::new());
    for _ in 0..bench.options.alternations {
        for (service, rates) in [(&small, &mut few_rates), (&large, &mut many_rates)] {
            let measured = service.measure_on(&bench.postgres, &load)?;
            rates.push(measured.generated.per_second()?);
        }
        bench.progress.say(&format!(
            "{:.0}/s with {FEW} old records, {:.0}/s with {many}",
            few_rates.last().copied().unwrap_or_default(),
            many_rates.last().copied().unwrap_or_default(),
        ));
    }
    let size = |service: &crate::service::Service| -> Result<i64> {
        service.session()?.value(&super::space::bytes_of("reprise"))
    };
    let ratios = many_rates
        .iter()
        .zip(&few_rates)
        .map(|(many, few)| many / few);
    bench.report.figure("growth_ratio", ratios.collect())?;
    bench
        .report
        .raw("few_records_lifecycles_per_s", &few_rates)?;
    bench
        .report
        .raw("many_records_lifecycles_per_s", &many_rates)?;
    let detail = json!({
        "few": FEW, "many": many, "load_s": loaded_s,
        "few_bytes": size(&small)?, "many_bytes": size(&large)?,
    });
    bench.report.detail("growth", detail);
    bench.report.chart(Chart {
        title: "Lifecycles a second, over what is in the table".to_owned(),
        x: "run",
        lines: vec![
            Line::of_runs(&format!("{FEW} old records"), &few_rates),
            Line::of_runs(&format!("{many} old records"), &many_rates),
        ],
    });
    Ok(())
}
