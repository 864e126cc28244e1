//! A thousand callers on one key: what is left for the other keys? The key is held as long as
//! a call of a provider may take. How it is where it is not held, so that the callers ask
//! again as fast as they are answered, is measured too, and told beside the figure.

use anyhow::Result;
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::generator::{Length, Load};
use crate::report::Report;
use crate::service::{Service, checkpoint};

const CALLERS: usize = 1_000;

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let service = bench.service()?;
    let load = bench.load()?;
    let hot = |hold: &str| Load {
        mix: "hot-key",
        concurrency: CALLERS,
        // Beyond both ends of the other load.
        length: Length::Seconds(bench.seconds() + load.warm_up_s + 3),
        warm_up_s: 0,
        more: ["--wait", "5s", "--hold", hold].map(str::to_owned).to_vec(),
        ..load.clone()
    };
    let (held, asked_again) = (hot("1s"), hot("2ms"));
    let mut without = Vec::new();
    let (mut with, mut flooded) = (Beside::default(), Beside::default());
    for _ in 0..bench.options.alternations {
        let measured = service.measure(&bench.postgres, &load)?;
        without.push(measured.generated.per_second()?);
        with.measure(bench, &service, &load, &held)?;
        flooded.measure(bench, &service, &load, &asked_again)?;
        let last = |rates: &[f64]| rates.last().copied().unwrap_or_default();
        bench.progress.say(&format!(
            "other keys {:.0}/s without the hot key, {:.0}/s with it ({:.0} answers/s on it), \
             {:.0}/s where it is not held ({:.0} answers/s)",
            last(&without),
            last(&with.others),
            last(&with.hot),
            last(&flooded.others),
            last(&flooded.hot),
        ));
    }
    let over = |rates: &[f64]| {
        rates
            .iter()
            .zip(&without)
            .map(|(with, it)| with / it)
            .collect()
    };
    let report = &mut bench.report;
    report.figure("hot_key_other_ratio", over(&with.others))?;
    report.raw("hot_key_other_ratio_not_held", &over(&flooded.others))?;
    report.raw("other_keys_per_s_without_hot_key", &without)?;
    with.report(report, "with_hot_key")?;
    flooded.report(report, "with_hot_key_not_held")
}

/// What two loads got at the same time.
#[derive(Default)]
struct Beside {
    others: Vec<f64>,
    hot: Vec<f64>,
    errors: Vec<Value>,
}

impl Beside {
    fn measure(&mut self, bench: &Bench, service: &Service, load: &Load, hot: &Load) -> Result<()> {
        checkpoint(&bench.postgres)?;
        let server = service.start()?;
        let beside = hot.start(&server.url())?;
        self.others.push(load.run(&server.url())?.per_second()?);
        let hot = beside.finish()?;
        server.stop()?;
        self.hot.push(hot.per_second()?);
        self.errors.push(json!(hot.errors()));
        Ok(())
    }

    fn report(self, report: &mut Report, name: &str) -> Result<()> {
        report.raw(&format!("other_keys_per_s_{name}"), &self.others)?;
        report.raw(&format!("hot_key_operations_per_s_{name}"), &self.hot)?;
        report.detail(&format!("errors_{name}"), json!(self.errors));
        Ok(())
    }
}
