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
    /// Note the latency of each transaction.
    pub(crate) log: bool,
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
    /// In milliseconds, if that was to be noted.
    pub(crate) p50_ms: Option<f64>,
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
        if self.log {
            command.arg("-l");
            command.arg("--log-prefix").arg(logs.path().join("log"));
        }
        command.arg("-f").arg(self.script).arg(self.database);
        let output = command.output().context("starting pgbench")?;
        let said = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!("pgbench: {}\n{said}{errors}", output.status);
        }
        let mut outcome = parse(&said).with_context(|| format!("in what pgbench says: {said}"))?;
        if self.log {
            outcome.p50_ms = Some(p50_ms(&read_logs(logs.path())?)?);
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
        p50_ms: None,
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
fn p50_ms(log: &str) -> Result<f64> {
    let times: Option<Vec<f64>> = log
        .lines()
        .map(|line| line.split_whitespace().nth(2)?.parse().ok())
        .collect();
    let times = times.context("a line of pgbench's log without a time")?;
    ensure!(!times.is_empty(), "pgbench noted no transaction");
    Ok(stats::quantile(&times, 0.5) / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::{p50_ms, parse};

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
    fn the_median_of_the_log_is_in_milliseconds() -> anyhow::Result<()> {
        let log = "0 1 900 0 1700000000 1\n0 2 1100 0 1700000000 2\n0 3 5000 0 1700000000 3\n";
        assert_eq!(p50_ms(log)?, 1.1);
        assert!(p50_ms("").is_err());
        assert!(p50_ms("0 1 skipped\n").is_err());
        Ok(())
    }
}
