//! The figures, and what is asked of them.

/// One figure of the report.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Least, good, beyond.
    pub(crate) marks: [f64; 3],
    /// Is more of it better?
    pub(crate) more_is_better: bool,
    /// Measured by a quick run too.
    pub(crate) quick: bool,
}

const fn more(name: &'static str, what: &'static str, marks: [f64; 3], quick: bool) -> Figure {
    Figure {
        name,
        what,
        marks,
        more_is_better: true,
        quick,
    }
}

const fn less(name: &'static str, what: &'static str, marks: [f64; 3], quick: bool) -> Figure {
    Figure {
        name,
        what,
        marks,
        more_is_better: false,
        quick,
    }
}

pub(crate) const FIGURES: [Figure; 12] = [
    more(
        "postgres_lifecycle_ratio",
        "lifecycles/s through the service on Postgres ÷ direct pgbench lifecycles/s",
        [2.0, 2.5, 3.0],
        true,
    ),
    more(
        "postgres_lifecycle_ratio_server_side",
        "the same with the generator's own CPU time taken out of the service's side",
        [2.5, 3.0, 3.5],
        true,
    ),
    more(
        "embedded_lifecycle_ratio",
        "embedded store ÷ direct pgbench",
        [2.5, 3.0, 4.0],
        true,
    ),
    less(
        "reserve_p50_ratio",
        "one caller alone: p50 of Reserve ÷ p50 of the bare INSERT from pgbench with one client",
        [2.0, 1.5, 1.25],
        true,
    ),
    more(
        "replay_ratio",
        "replays of completed keys/s ÷ direct SELECT by primary key in pgbench",
        [0.8, 1.0, 1.5],
        true,
    ),
    less(
        "reserve_p99_ms_half_load",
        "p99 of Reserve at half of the highest rate, open loop, ms",
        [20.0, 10.0, 5.0],
        false,
    ),
    more(
        "growth_ratio",
        "lifecycles/s with 10 million records in the table ÷ with 10 thousand",
        [0.8, 0.9, 1.0],
        false,
    ),
    more(
        "purge_growth_ratio",
        "the same while the purger removes as fast as new ones come",
        [0.6, 0.7, 0.8],
        false,
    ),
    more(
        "hot_key_other_ratio",
        "one hot key with 1,000 callers (wait 5 s): throughput of other keys ÷ without it",
        [0.8, 0.9, 0.95],
        false,
    ),
    less(
        "bytes_per_record_ratio",
        "bytes a completed record with 70-byte result, all tables and indexes, after vacuum ÷ the direct table's",
        [1.5, 1.2, 1.0],
        false,
    ),
    less(
        "server_rss_mb",
        "server with 1,000 connections and 10,000 calls in flight, MB",
        [150.0, 100.0, 60.0],
        false,
    ),
    less(
        "server_cpu_us_per_lifecycle",
        "CPU of the server, not the database, µs",
        [60.0, 45.0, 30.0],
        false,
    ),
];

impl Figure {
    /// In a word, how far `value` reaches.
    pub(crate) fn reached(&self, value: f64) -> &'static str {
        let reaches = |mark: f64| {
            if self.more_is_better {
                value >= mark
            } else {
                value <= mark
            }
        };
        let words = ["least", "good", "beyond"];
        let best = self.marks.iter().zip(words).rev().find(|it| reaches(*it.0));
        best.map_or("missed", |it| it.1)
    }
}

#[cfg(test)]
mod tests {
    use super::FIGURES;

    #[test]
    fn a_value_is_judged_by_the_best_mark_that_it_reaches() {
        let ratio = &FIGURES[0];
        let words = [1.99, 2.0, 2.7, 3.0].map(|it| ratio.reached(it));
        assert_eq!(words, ["missed", "least", "good", "beyond"]);
        let latency = &FIGURES[3];
        let words = [2.1, 2.0, 1.4, 1.0].map(|it| latency.reached(it));
        assert_eq!(words, ["missed", "least", "good", "beyond"]);
    }

    #[test]
    fn marks_get_harder() {
        for figure in &FIGURES {
            let [least, good, beyond] = figure.marks.map(|it| figure.reached(it));
            assert_eq!(
                [least, good, beyond],
                ["least", "good", "beyond"],
                "{}",
                figure.name
            );
        }
    }
}
