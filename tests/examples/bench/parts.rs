//! What is measured, in this order. Each part makes its own databases and fills in its
//! figures.

mod alone;
mod growth;
mod half_load;
mod hot_key;
mod memory;
mod purge;
mod replay;
mod setup;
mod space;
mod throughput;

use anyhow::Result;

use crate::bench::Bench;

/// One of them.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    /// What it fills in. Measured when one of them is wanted.
    pub(crate) figures: &'static [&'static str],
    /// About how long it takes, in seconds.
    pub(crate) full_s: f64,
    pub(crate) quick_s: f64,
    pub(crate) run: fn(&mut Bench) -> Result<()>,
}

pub(crate) const PARTS: [Part; 10] = [
    Part {
        name: "load",
        figures: &[
            "postgres_lifecycle_ratio",
            "postgres_lifecycle_ratio_server_side",
            "embedded_lifecycle_ratio",
            "server_cpu_us_per_lifecycle",
            "replay_ratio",
            "reserve_p99_ms_half_load",
            "growth_ratio",
            "purge_growth_ratio",
            "hot_key_other_ratio",
            "bytes_per_record_ratio",
        ],
        full_s: 45.0,
        quick_s: 30.0,
        run: setup::run,
    },
    Part {
        name: "throughput",
        figures: &[
            "postgres_lifecycle_ratio",
            "postgres_lifecycle_ratio_server_side",
            "embedded_lifecycle_ratio",
            "server_cpu_us_per_lifecycle",
        ],
        full_s: 220.0,
        quick_s: 95.0,
        run: throughput::run,
    },
    Part {
        name: "one caller alone",
        figures: &["reserve_p50_ratio"],
        full_s: 130.0,
        quick_s: 45.0,
        run: alone::run,
    },
    Part {
        name: "replays",
        figures: &["replay_ratio"],
        full_s: 200.0,
        quick_s: 75.0,
        run: replay::run,
    },
    Part {
        name: "half load",
        figures: &["reserve_p99_ms_half_load"],
        full_s: 270.0,
        quick_s: 170.0,
        run: half_load::run,
    },
    Part {
        name: "hot key",
        figures: &["hot_key_other_ratio"],
        full_s: 150.0,
        quick_s: 60.0,
        run: hot_key::run,
    },
    Part {
        name: "space",
        figures: &["bytes_per_record_ratio"],
        full_s: 120.0,
        quick_s: 120.0,
        run: space::run,
    },
    Part {
        name: "growth",
        figures: &["growth_ratio"],
        full_s: 600.0,
        quick_s: 500.0,
        run: growth::run,
    },
    Part {
        name: "purge",
        figures: &["purge_growth_ratio"],
        full_s: 900.0,
        quick_s: 600.0,
        run: purge::run,
    },
    Part {
        name: "memory",
        figures: &["server_rss_mb"],
        full_s: 620.0,
        quick_s: 75.0,
        run: memory::run,
    },
];

#[cfg(test)]
mod tests {
    use super::PARTS;
    use crate::figures::FIGURES;

    #[test]
    fn every_figure_is_some_parts_matter() {
        for figure in &FIGURES {
            let parts = PARTS.iter().skip(1);
            let part = parts.filter(|part| part.figures.contains(&figure.name));
            assert_eq!(part.count(), 1, "{}", figure.name);
        }
    }

    #[test]
    fn a_quick_run_takes_less_than_five_minutes() {
        let quick = |name: &str| FIGURES.iter().any(|it| it.quick && it.name == name);
        let parts = PARTS
            .iter()
            .filter(|part| part.figures.iter().any(|it| quick(it)));
        assert!(parts.map(|part| part.quick_s).sum::<f64>() < 300.0);
    }
}
