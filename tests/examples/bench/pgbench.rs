//! Runs pgbench and reads what it says.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use reprise_tests::postgres::PostgresServer;
use reprise_tests::process::RunAs;

use crate::stats;

/// One run of a script.
pub(crate) struct Run<'a> {
    pub(crate) script: &'a Path,
    pub(crate) database: &'a str,
    pub(crate) clients: usize,
    pub(crate) length: Length,
    pub(crate) pace: Pace,
}

/// When transactions begin.
#[derive(Clone, Copy)]
pub(crate) enum Pace {
    /// Each when its client's last one ended.
    Closed,
    /// The same, and the latency of each is noted.
    Noted,
    /// So many a second, latencies noted from when they were due.
    Open(f64),
}

/// How long it runs.
#[derive(Clone, Copy)]
pub(crate) enum Length {
    Seconds(u64),
    /// Transactions of each client.
    Transactions(u64),
}

/// What came out.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    /// Transactions, that is, executions of the script.
    pub(crate) transactions: u64,
    /// A second, connecting left out.
    pub(crate) per_second: f64,
    /// If it was to be noted.
    pub(crate) latency: Option<Latency>,
}

/// Of transactions, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Latency {
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

impl Run<'_> {
    /// Runs it: prepared statements, two threads, over TCP as the service does.
    ///
    /// # Errors
    /// When pgbench fails, or one transaction does.
    pub(crate) fn run(&self, postgres: &PostgresServer) -> Result<Outcome> {
        let logs = tempfile::tempdir()?;
        let mut command = RunAs::Caller.command(postgres.binaries().join("pgbench").as_os_str());
        command.args(["-n", "-M", "prepared", "-h", "127.0.0.1", "-U", "postgres"]);
        command.arg("-p").arg(postgres.port().to_string());
        command.arg("-c").arg(self.clients.to_string());
        command.arg("-j").arg(self.clients.min(2).to_string());
        match self.length {
            Length::Seconds(seconds) => command.arg("-T").arg(seconds.to_string()),
            Length::Transactions(each) => command.arg("-t").arg(each.to_string()),
        };
        let noted = !matches!(self.pace, Pace::Closed);
        if noted {
            command.arg("-l");
            command.arg("--log-prefix").arg(logs.path().join("log"));
        }
        if let Pace::Open(per_second) = self.pace {
            command.arg("-R").arg(per_second.to_string());
        }
        command.arg("-f").arg(self.script).arg(self.database);
        let output = command.output().context("starting pgbench")?;
        let said = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!("pgbench: {}\n{said}{errors}", output.status);
        }
        let mut outcome = parse(&said).with_context(|| format!("in what pgbench says: {said}"))?;
        if noted {
            outcome.latency = Some(latency(&read_logs(logs.path())?)?);
        }
        Ok(outcome)
    }
}

fn parse(said: &str) -> Result<Outcome> {
    let after = |start: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(start));
        let word = line.and_then(|rest| rest.split_whitespace().next());
        word.with_context(|| format!("no line {start:?}"))
    };
    let failed: u64 = after("number of failed transactions:")?.parse()?;
    ensure!(failed == 0, "{failed} transactions failed");
    let processed = after("number of transactions actually processed:")?;
    // With a number of transactions it says how many of how many.
    let done = processed.split('/').next().unwrap_or(processed);
    Ok(Outcome {
        transactions: done.parse()?,
        per_second: after("tps =")?.parse()?,
        latency: None,
    })
}

fn read_logs(directory: &Path) -> Result<String> {
    let mut text = String::new();
    for entry in fs::read_dir(directory)? {
        let path: PathBuf = entry?.path();
        text.push_str(&fs::read_to_string(&path)?);
    }
    Ok(text)
}

/// Of lines `client transaction time script ...`, time in microseconds.
fn latency(log: &str) -> Result<Latency> {
    let times: Option<Vec<f64>> = log
        .lines()
        .map(|line| line.split_whitespace().nth(2)?.parse().ok())
        .collect();
    let times = times.context("a line of pgbench's log without a time")?;
    ensure!(!times.is_empty(), "pgbench noted no transaction");
    let quantile = |share| stats::quantile(&times, share) / 1_000.0;
    Ok(Latency {
        p50_ms: quantile(0.5),
        p99_ms: quantile(0.99),
    })
}

#[cfg(test)]
mod tests {
    use super::{latency, parse};

    const SAID: &str = "pgbench (15.18)\ntransaction type: direct.sql\nnumber of clients: 32\n\
        number of transactions actually processed: 41384\n\
        number of failed transactions: 0 (0.000%)\nlatency average = 6.187 ms\n\
        initial connection time = 41.187 ms\ntps = 5171.853741 (without initial connection time)\n";

    #[test]
    fn the_rate_is_read() -> anyhow::Result<()> {
        let outcome = parse(SAID)?;
        assert_eq!(
            (outcome.transactions, outcome.per_second),
            (41_384, 5_171.853_741)
        );
        let counted = SAID.replace("41384", "300/300");
        assert_eq!(parse(&counted)?.transactions, 300);
        Ok(())
    }

    #[test]
    fn failed_transactions_are_no_measurement() {
        let failed = SAID.replace("transactions: 0 (", "transactions: 3 (");
        let said = parse(&failed).map_err(|error| error.to_string());
        assert_eq!(said, Err("3 transactions failed".to_owned()));
        assert!(parse("").is_err());
    }

    #[test]
    fn latencies_of_the_log_are_in_milliseconds() -> anyhow::Result<()> {
        let log = "0 1 900 0 1700000000 1\n0 2 1100 0 1700000000 2\n0 3 5000 0 1700000000 3\n";
        let of_log = latency(log)?;
        assert_eq!(of_log.p50_ms, 1.1);
        assert!((1.1..=5.0).contains(&of_log.p99_ms), "{of_log:?}");
        assert!(latency("").is_err());
        assert!(latency("0 1 skipped\n").is_err());
        Ok(())
    }
}
