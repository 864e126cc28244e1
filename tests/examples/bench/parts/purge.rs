//! Does the service stay fast while it removes what is over, and does the table stop
//! growing? The same load on a database of records that are over and on one of as many that
//! are kept, in turns; then once for long, with dead rows and sizes noted.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::bench::Bench;
use crate::generator::{Length, Load};
use crate::old::{self, Age};
use crate::service::Service;
use crate::sql::Session;
use crate::stats::{mean, quantile, rounded};
use crate::svg::{Chart, Line};

const RECORDS: i64 = 4_000_000;
/// Of a turn, long enough that vacuum comes round while it is measured, and of the long run;
/// in seconds, with the shorter ones of a quick run.
const TURN_S: [u64; 2] = [30, 10];
const LONG_S: [u64; 2] = [180, 40];
/// Between two looks at the table.
const LOOK_S: u64 = 5;
const REMOVED: &str = "select coalesce(sum(n_tup_del), 0)::int8 from pg_stat_user_tables
    where schemaname = 'reprise' and relname = 'record'";
const DEAD: &str = "select coalesce(sum(n_dead_tup), 0)::int8 from pg_stat_user_tables
    where schemaname = 'reprise'";

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let records = RECORDS.min(bench.options.old_records);
    let (kept, over) = (bench.service()?, bench.service()?);
    let key_bytes = bench.names.key_bytes;
    old::load(&kept, Age::Kept, records, key_bytes)?;
    old::load(&over, Age::Over, records, key_bytes)?;
    bench
        .progress
        .say(&format!("{records} records loaded twice"));
    let load = Load {
        length: Length::Seconds(TURN_S[usize::from(bench.options.quick)]),
        warm_up_s: 5,
        ..bench.load()?
    };
    // First changes of pages after a checkpoint, as in the growth run.
    kept.measure_on(&bench.postgres, &load)?;
    let (mut kept_rates, mut over_rates) = (Vec::new(), Vec::new());
    let mut shares = Vec::new();
    for _ in 0..bench.options.alternations {
        let measured = kept.measure_on(&bench.postgres, &load)?;
        kept_rates.push(measured.generated.per_second()?);
        let (rate, removed) = while_removing(bench, &over, &load, |_| Ok(()))?;
        over_rates.push(rate);
        shares.push(removed / rate);
        // What is left to clean up must not be cleaned up while the other side is measured.
        over.session()?.run("vacuum")?;
        bench.progress.say(&format!(
            "{:.0}/s with nothing to remove, {rate:.0}/s while {removed:.0}/s are removed",
            kept_rates.last().copied().unwrap_or_default(),
        ));
    }
    let ratios = over_rates
        .iter()
        .zip(&kept_rates)
        .map(|(over, kept)| over / kept);
    bench
        .report
        .figure("purge_growth_ratio", ratios.collect())?;
    bench
        .report
        .raw("nothing_to_remove_lifecycles_per_s", &kept_rates)?;
    bench.report.raw("removing_lifecycles_per_s", &over_rates)?;
    bench.report.raw("removed_for_each_lifecycle", &shares)?;
    level(bench, &over, &load)
}

/// The rate of lifecycles, and of removals while they run; nothing less than all of that
/// time has something to remove.
fn while_removing(
    bench: &Bench,
    service: &Service,
    load: &Load,
    look: impl FnMut(Duration) -> Result<()>,
) -> Result<(f64, f64)> {
    let session = service.session()?;
    let before: i64 = session.value(REMOVED)?;
    let server = service.start()?;
    let begun = std::time::Instant::now();
    let generated = load.start(&server.url())?.watch(look)?;
    let seconds = begun.elapsed().as_secs_f64();
    server.stop()?;
    let left: bool =
        session.value("select exists(select from reprise.removal where due <= now())")?;
    ensure!(
        left,
        "everything was removed before the end: load more records"
    );
    // Sessions tell their counts when they end, at the latest.
    std::thread::sleep(Duration::from_secs(1));
    let removed = session.value::<i64>(REMOVED)? - before;
    bench
        .progress
        .say(&format!("{removed} removed in {seconds:.0} s"));
    Ok((generated.per_second()?, removed as f64 / seconds))
}

/// What one look at the table saw.
struct Look {
    seconds: f64,
    dead: f64,
    megabytes: f64,
}

fn level(bench: &mut Bench, over: &Service, load: &Load) -> Result<()> {
    let long_s = LONG_S[usize::from(bench.options.quick)];
    let long = Load {
        length: Length::Seconds(long_s),
        ..load.clone()
    };
    let session: Session = over.session()?;
    let mut looks: Vec<Look> = Vec::new();
    let (rate, removed) = while_removing(bench, over, &long, |since| {
        let due = LOOK_S * looks.len() as u64;
        if since >= Duration::from_secs(due) {
            looks.push(Look {
                seconds: since.as_secs_f64(),
                dead: session.value::<i64>(DEAD)? as f64,
                megabytes: session.value::<i64>(&super::space::bytes_of("reprise"))? as f64 / 1e6,
            });
        }
        Ok(())
    })?;
    let half = looks.len() / 2;
    let dead = |of: &[Look]| mean(&of.iter().map(|it| it.dead).collect::<Vec<_>>());
    let size = |share: f64| {
        let sizes: Vec<f64> = looks.iter().map(|it| it.megabytes).collect();
        rounded(quantile(&sizes, share))
    };
    bench.report.detail(
        "purge",
        json!({
            "records": RECORDS.min(bench.options.old_records),
            "long_run_s": long_s,
            "lifecycles_per_s": rounded(rate),
            "removed_per_s": rounded(removed),
            "dead_rows_first_half": rounded(dead(&looks[..half])),
            "dead_rows_second_half": rounded(dead(&looks[half..])),
            "size_mb_least": size(0.0),
            "size_mb_median": size(0.5),
            "size_mb_most": size(1.0),
        }),
    );
    let line = |name: &str, of: fn(&Look) -> f64| Line {
        name: name.to_owned(),
        points: looks.iter().map(|it| (it.seconds, of(it))).collect(),
    };
    bench.report.chart(Chart {
        title: "While what is over is removed: dead rows".to_owned(),
        x: "seconds",
        lines: vec![line("dead rows", |it| it.dead)],
    });
    bench.report.chart(Chart {
        title: "While what is over is removed: size in MB".to_owned(),
        x: "seconds",
        lines: vec![line("tables and indexes", |it| it.megabytes)],
    });
    Ok(())
}
