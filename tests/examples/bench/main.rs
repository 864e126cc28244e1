//! Is the service faster than the two statements that it replaces, and does it stay so?
//!
//! `make bench` and `make bench-quick`; `BENCHMARKS.md` says how each figure is measured.
//! Runs everything on a private PostgreSQL 15 with production durability, the load on the
//! same machine, and lets the two sides of each comparison take turns within one run.
//!
//! Asserts no figure. It ends with an error when something went wrong: wrong answers, a
//! crash, a part that could not be measured. The other parts are measured all the same.

mod bench;
mod direct;
mod figures;
mod generator;
mod machine;
mod old;
mod options;
mod parts;
mod pgbench;
mod process_info;
mod progress;
mod report;
mod service;
mod sql;
mod stats;
mod svg;

use std::time::Instant;

use anyhow::{Context, Result, bail};

use bench::Bench;
use options::Options;
use parts::PARTS;
use progress::Progress;

fn main() -> Result<()> {
    if std::env::args().any(|it| it == "--help") {
        println!("{}", options::HELP);
        return Ok(());
    }
    let options = Options::parse(std::env::args().skip(1))?;
    machine::scratch_on_disk()?;
    let wanted = || {
        PARTS
            .iter()
            .filter(|part| part.figures.iter().any(|it| options.wants(it)))
    };
    let expected = |part: &parts::Part| {
        if options.quick {
            part.quick_s
        } else {
            part.full_s
        }
    };
    let wanted: Vec<_> = wanted().map(|part| (part, expected(part))).collect();
    let progress = Progress::new(wanted.iter().map(|it| it.1).sum());
    let out = options.out.clone();
    let mut bench = Bench::start(options, progress).context("starting PostgreSQL and reprise")?;
    for (part, expected) in wanted {
        bench.progress.part(part.name, expected);
        let begun = Instant::now();
        let measured = (part.run)(&mut bench).and_then(|()| bench.clear());
        let failure = measured.err().map(|error| format!("{error:#}"));
        if let Some(failure) = &failure {
            bench.progress.say(&format!("FAILED: {failure}"));
            // What a part left behind must not be in the next one's way.
            bench.clear().context("after a part that failed")?;
        }
        let seconds = begun.elapsed().as_secs_f64();
        bench.report.part(part.name, seconds, failure);
        // After each: what was measured stays, however the run goes on.
        bench.report.write(&out)?;
    }
    println!("{}", bench.report.table());
    println!(
        "written: {0}/report.json, {0}/report.md, {0}/report.svg",
        out.display()
    );
    let failed = bench.report.failed();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}
