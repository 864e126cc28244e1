//! Memory of the server with a thousand connections and ten thousand lifecycles in flight.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::bench::Bench;
use crate::generator::{Length, Load};
use crate::process_info::rss;
use crate::service::checkpoint;
use crate::stats::{mean, rounded};
use crate::svg::{Chart, Line};

const MINUTE: f64 = 60.0;

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let seconds = if bench.options.quick { 60 } else { 600 };
    let service = bench.service()?;
    let load = Load {
        mix: "lifecycle",
        connections: 1_000,
        concurrency: 10_000,
        length: Length::Seconds(seconds),
        warm_up_s: 5,
        // Told below: what the server needed stands all the same.
        more: vec!["--allow-errors".to_owned()],
    };
    checkpoint(&bench.postgres)?;
    let server = service.start()?;
    let idle = rss(server.pid())? as f64 / 1e6;
    let mut points = Vec::new();
    let generated = load.start(&server.url())?.watch(|since| {
        points.push((since.as_secs_f64(), rss(server.pid())? as f64 / 1e6));
        if points.len() % 30 == 0 {
            let newest = points.last().map_or(0.0, |it| it.1);
            bench.progress.say(&format!("{newest:.1} MB"));
        }
        Ok(())
    })?;
    server.stop()?;
    ensure!(!points.is_empty(), "never looked at the server's memory");
    let end = points.last().map_or(0.0, |it| it.0);
    // The warm-up fills it.
    let of = |from: f64, to: f64| {
        let within = points.iter().filter(|it| it.0 >= from && it.0 <= to);
        mean(&within.map(|it| it.1).collect::<Vec<_>>())
    };
    let highest = points.iter().map(|it| it.1).fold(0.0, f64::max);
    bench.report.figure("server_rss_mb", vec![highest])?;
    bench.report.detail(
        "memory",
        json!({
            "seconds": seconds,
            "idle_mb": rounded(idle),
            "first_minute_mb": rounded(of(5.0, 5.0 + MINUTE)),
            "last_minute_mb": rounded(of(end - MINUTE, end)),
            "lifecycles_per_s": rounded(generated.per_second()?),
            "errors": generated.errors(),
        }),
    );
    bench.report.raw("server_rss_idle_mb", &[idle])?;
    bench.report.chart(Chart {
        title: "Memory of the server, 1,000 connections, 10,000 lifecycles in flight, MB"
            .to_owned(),
        x: "seconds",
        lines: vec![Line {
            name: "resident".to_owned(),
            points,
        }],
    });
    let errors = generated.errors();
    ensure!(
        errors.as_object().is_some_and(serde_json::Map::is_empty),
        "calls failed, so that fewer were in flight for a while: {errors}"
    );
    Ok(())
}
