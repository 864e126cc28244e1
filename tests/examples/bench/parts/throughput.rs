//! Lifecycles a second: directly, through the service on Postgres, through the service on
//! its file. They take turns; each run of the service is compared with the mean of the two
//! direct runs around it.

use anyhow::Result;

use crate::bench::Bench;
use crate::direct::Work;
use crate::service::Service;
use crate::stats::mean;
use crate::svg::{Chart, Line};

/// What the runs of one store gave.
#[derive(Default)]
struct Runs {
    per_second: Vec<f64>,
    server_side: Vec<f64>,
    generator_cpu_us: Vec<f64>,
    server_cpu_us: Vec<f64>,
    postgres_cpu_us: Vec<f64>,
}

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let on_postgres = [
        "postgres_lifecycle_ratio",
        "postgres_lifecycle_ratio_server_side",
        "server_cpu_us_per_lifecycle",
    ];
    let on_postgres = on_postgres.iter().any(|it| bench.options.wants(it));
    let service = on_postgres.then(|| bench.service()).transpose()?;
    let on_file = bench.options.wants("embedded_lifecycle_ratio");
    let args = embedded_args(&bench.options.server_args);
    let embedded = on_file.then(|| Service::embedded(&args)).transpose()?;
    let (load, clients) = (bench.load()?, bench.clients()?);
    let embedded_load = match on_file {
        true => bench.embedded_load(&args)?,
        false => load.clone(),
    };
    let direct = bench.direct()?;
    let (mut postgres_runs, mut embedded_runs) = (Runs::default(), Runs::default());
    let (mut directly, mut direct_cpu) = (Vec::new(), Vec::new());
    let mut measure_directly = |bench: &Bench| {
        let measured = bench.directly(&direct, Work::Lifecycle, clients)?;
        bench
            .progress
            .say(&format!("directly {:.0}/s", measured.per_second));
        directly.push(measured.per_second);
        direct_cpu.push(measured.postgres_cpu_us);
        anyhow::Ok(())
    };
    measure_directly(bench)?;
    for _ in 0..bench.options.alternations {
        let sides = [
            ("on Postgres", &service, &load, &mut postgres_runs),
            ("on its file", &embedded, &embedded_load, &mut embedded_runs),
        ];
        for (name, service, load, runs) in sides {
            let Some(service) = service else { continue };
            runs.add(&service.measure(&bench.postgres, load)?)?;
            let rate = runs.per_second.last().copied().unwrap_or_default();
            bench.progress.say(&format!("{name} {rate:.0}/s"));
        }
        measure_directly(bench)?;
    }
    let beside: Vec<f64> = directly.windows(2).map(mean).collect();
    let over = |rates: &[f64]| {
        rates
            .iter()
            .zip(&beside)
            .map(|(rate, it)| rate / it)
            .collect()
    };
    let report = &mut bench.report;
    report.raw("direct_lifecycles_per_s", &directly)?;
    report.raw("direct_postgres_cpu_us_per_lifecycle", &direct_cpu)?;
    let mut lines = vec![Line::of_runs("directly", &directly)];
    if service.is_some() {
        let runs = &postgres_runs;
        report.figure("postgres_lifecycle_ratio", over(&runs.per_second))?;
        report.figure(
            "postgres_lifecycle_ratio_server_side",
            over(&runs.server_side),
        )?;
        report.figure("server_cpu_us_per_lifecycle", runs.server_cpu_us.clone())?;
        report.raw("postgres_lifecycles_per_s", &runs.per_second)?;
        report.raw("postgres_lifecycles_per_s_server_side", &runs.server_side)?;
        report.raw("generator_cpu_us_per_lifecycle", &runs.generator_cpu_us)?;
        report.raw("postgres_cpu_us_per_lifecycle", &runs.postgres_cpu_us)?;
        lines.push(Line::of_runs("service on Postgres", &runs.per_second));
        bench.highest = runs.per_second.iter().copied().reduce(f64::max);
    }
    if embedded.is_some() {
        let runs = &embedded_runs;
        report.figure("embedded_lifecycle_ratio", over(&runs.per_second))?;
        report.raw("embedded_lifecycles_per_s", &runs.per_second)?;
        report.raw("embedded_lifecycles_per_s_server_side", &runs.server_side)?;
        report.raw("embedded_server_cpu_us_per_lifecycle", &runs.server_cpu_us)?;
        lines.push(Line::of_runs("service on its file", &runs.per_second));
    }
    report.chart(Chart {
        title: "Lifecycles a second, the sides taking turns".to_owned(),
        x: "run",
        lines,
    });
    Ok(())
}

/// Without the settings that are about a database.
fn embedded_args(args: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--writers" | "--pool-size" => drop(args.next()),
            "--prepared" => {}
            _ => kept.push(arg.clone()),
        }
    }
    kept
}

impl Runs {
    fn add(&mut self, measured: &crate::service::Measured) -> Result<()> {
        let generated = &measured.generated;
        let cores = crate::machine::cores();
        self.per_second.push(generated.per_second()?);
        self.server_side
            .push(generated.per_second_server_side(cores)?);
        let cpu_us = generated.number("/cpu_s")? * 1e6 / generated.number("/operations")?;
        self.generator_cpu_us.push(cpu_us);
        self.server_cpu_us.push(measured.server_cpu_us);
        self.postgres_cpu_us.push(measured.postgres_cpu_us);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::embedded_args;

    #[test]
    fn the_embedded_store_is_not_told_about_databases() {
        let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        let given = words("--writers 4 --prepared --calls-max 9 --pool-size 8");
        assert_eq!(embedded_args(&given), words("--calls-max 9"));
    }
}
