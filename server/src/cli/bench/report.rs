//! What a run is told as: a table for people, one object of JSON for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::load::Done;
use super::plan::{Mix, Plan};
use super::tally::{Latencies, Rpc};
use crate::cli::{duration, table, value};

/// The report, as `--json` prints it.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    version: &'static str,
    target: String,
    mix: BTreeMap<&'static str, u32>,
    connections: usize,
    concurrency: usize,
    /// Operations a second of an open loop.
    rate: Option<f64>,
    payload_bytes: usize,
    result_bytes: usize,
    keys: usize,
    warm_up_s: f64,
    measured_s: f64,
    pub(super) operations: u64,
    operations_all: u64,
    per_second: f64,
    cpu_s: Option<f64>,
    cpu_all_s: Option<f64>,
    operations_by: BTreeMap<&'static str, Operations>,
    calls: BTreeMap<&'static str, Latency>,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) wrong: BTreeMap<&'static str, u64>,
    missed: u64,
    /// The title of the table.
    #[serde(skip)]
    title: String,
}

#[derive(Debug, Serialize)]
struct Operations {
    count: u64,
    per_second: f64,
    latency: Latency,
}

#[derive(Debug, Serialize)]
struct Latency {
    count: u64,
    mean_ms: f64,
    p50_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
}

impl Latency {
    fn new(of: &Latencies) -> Latency {
        let percentile = |percent| rounded(of.percentile_ms(percent));
        Latency {
            count: of.count(),
            mean_ms: rounded(of.mean_ms()),
            p50_ms: percentile(50.0),
            p90_ms: percentile(90.0),
            p99_ms: percentile(99.0),
            p999_ms: percentile(99.9),
            max_ms: rounded(of.max_ms()),
        }
    }

    fn cells(&self) -> [String; 6] {
        [
            self.mean_ms,
            self.p50_ms,
            self.p90_ms,
            self.p99_ms,
            self.p999_ms,
            self.max_ms,
        ]
        .map(|ms| format!("{ms:.3}"))
    }
}

impl Report {
    pub(super) fn new(target: &str, plan: &Plan, done: &Done) -> Report {
        let seconds = done.measured.as_secs_f64();
        // A run that measured nothing took no time.
        let per_second = |count: u64| match seconds > 0.0 {
            true => rounded(count as f64 / seconds),
            false => 0.0,
        };
        let tally = &done.tally;
        let operations = |mix: Mix| {
            let of = tally.of(mix)?;
            let operations = Operations {
                count: of.count,
                per_second: per_second(of.count),
                latency: Latency::new(&of.latencies),
            };
            Some((mix.name(), operations))
        };
        let calls = |rpc: Rpc| Some((rpc.name(), Latency::new(tally.calls(rpc)?)));
        let cpu = |used: Option<Duration>| used.map(|used| rounded(used.as_secs_f64()));
        let count = tally.count();
        Report {
            version: env!("CARGO_PKG_VERSION"),
            target: target.to_owned(),
            mix: plan
                .mixes
                .iter()
                .map(|(mix, weight)| (mix.name(), weight))
                .collect(),
            connections: plan.connections,
            concurrency: plan.concurrency,
            rate: plan.rate,
            payload_bytes: plan.payload_bytes,
            result_bytes: plan.result_bytes,
            keys: plan.keys,
            warm_up_s: plan.warm_up.as_secs_f64(),
            measured_s: rounded(seconds),
            operations: count,
            operations_all: tally.all,
            per_second: per_second(count),
            cpu_s: cpu(done.cpu),
            cpu_all_s: cpu(done.cpu_all),
            operations_by: Mix::ALL.into_iter().filter_map(operations).collect(),
            calls: Rpc::ALL.into_iter().filter_map(calls).collect(),
            errors: tally.errors.clone(),
            wrong: tally.wrong.clone(),
            missed: done.missed,
            title: title(target, plan),
        }
    }

    /// As it is printed.
    pub(super) fn show(&self, json: bool) -> String {
        match json {
            true => value::json(self) + "\n",
            false => self.table(),
        }
    }

    fn table(&self) -> String {
        let mut told = format!("{}\n\n", self.title);
        let cpu = match self.cpu_s {
            Some(cpu) if self.operations > 0 => format!(
                "; own CPU time {:.1} us each",
                cpu / self.operations as f64 * 1e6
            ),
            _ => String::new(),
        };
        let _ = writeln!(
            told,
            "{:.1} operations/s: {} in {:.3} s{cpu}\n",
            self.per_second, self.operations, self.measured_s
        );
        let line = |name: String, count: u64, per_second: String, latency: &Latency| {
            let [mean, p50, p90, p99, p999, max] = latency.cells();
            let count = count.to_string();
            [name, count, per_second, mean, p50, p90, p99, p999, max]
        };
        let operations = self.operations_by.iter().map(|(name, of)| {
            let rate = format!("{:.1}", of.per_second);
            line((*name).to_owned(), of.count, rate, &of.latency)
        });
        let calls = self.calls.iter().map(|(name, of)| {
            let name = format!("  call {name}");
            line(name, of.count, String::new(), of)
        });
        let lines: Vec<_> = operations.chain(calls).collect();
        let head = [
            "OPERATION",
            "COUNT",
            "PER S",
            "MEAN MS",
            "P50 MS",
            "P90 MS",
            "P99 MS",
            "P99.9 MS",
            "MAX MS",
        ];
        told.push_str(&table::columns(head, &lines));
        if self.missed > 0 {
            let missed = self.missed;
            let _ = writeln!(
                told,
                "\n{missed} operations were due and never begun: no caller was free. The server \
                 is slower than the rate, or --concurrency too low."
            );
        }
        let errors = self.errors.iter().map(|(told, n)| (told.as_str(), n));
        counted(&mut told, "ERROR", errors);
        counted(
            &mut told,
            "WRONG ANSWER",
            self.wrong.iter().map(|(what, n)| (*what, n)),
        );
        told
    }
}

fn title(target: &str, plan: &Plan) -> String {
    let callers = match plan.concurrency {
        1 => "1 caller".to_owned(),
        many => format!("{many} callers"),
    };
    let connections = match plan.connections {
        1 => "1 connection".to_owned(),
        many => format!("{many} connections"),
    };
    let begun = match plan.rate {
        Some(rate) => format!("{rate} operations/s are due"),
        None => "each begins when its last is answered".to_owned(),
    };
    format!(
        "{} at {}: {callers} on {connections}, {begun};\n\
         payloads of {} bytes, results of {} bytes, after {} of warm-up",
        plan.mixes,
        table::visible(target),
        plan.payload_bytes,
        plan.result_bytes,
        duration::show(plan.warm_up),
    )
}

/// Adds a table of what was counted, unless there is nothing.
fn counted<'a>(told: &mut String, head: &str, counts: impl Iterator<Item = (&'a str, &'a u64)>) {
    let line = |(what, count): (&str, &u64)| [table::visible(what), count.to_string()];
    let lines: Vec<_> = counts.map(line).collect();
    if !lines.is_empty() {
        told.push('\n');
        told.push_str(&table::columns([head, "COUNT"], &lines));
    }
}

/// To four digits after the point: of milliseconds, to 0.1 us.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}
