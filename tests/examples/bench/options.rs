//! The command line.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::figures::FIGURES;

pub(crate) const HELP: &str = "\
Measures the service against the same work done directly in SQL, and writes report.json,
report.md and report.svg.

  --quick               the first five figures, in less than five minutes
  --only NAME[,NAME]    only these figures
  --out DIR             where the report goes (target/bench)
  --server-args 'ARGS'  further flags of `reprise serve`, to compare settings
  --alternations N      how often the two sides take turns (5; with --quick 3)
  --load N:M            callers and connections of the service's load, not searched for
  --clients N           clients of pgbench, not searched for
  --old-records N       of the growth runs (10000000)";

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    /// Names of figures.
    pub(crate) only: Vec<String>,
    pub(crate) out: PathBuf,
    pub(crate) server_args: Vec<String>,
    pub(crate) alternations: usize,
    /// Concurrency and connections.
    pub(crate) load: Option<(usize, usize)>,
    pub(crate) clients: Option<usize>,
    pub(crate) old_records: i64,
}

impl Options {
    /// # Errors
    /// When a flag is unknown, or its value is not allowed.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self {
            quick: false,
            only: Vec::new(),
            out: PathBuf::from("target/bench"),
            server_args: Vec::new(),
            alternations: 0,
            load: None,
            clients: None,
            old_records: 10_000_000,
        };
        while let Some(flag) = args.next() {
            let mut value = || {
                args.next()
                    .with_context(|| format!("{flag}: needs a value"))
            };
            match flag.as_str() {
                "--quick" => options.quick = true,
                "--only" => options.only.extend(value()?.split(',').map(str::to_owned)),
                "--out" => options.out = value()?.into(),
                "--server-args" => {
                    let value = value()?;
                    options.server_args = value.split_whitespace().map(str::to_owned).collect();
                }
                "--alternations" => options.alternations = number(&flag, &value()?)?,
                "--load" => {
                    let value = value()?;
                    let (callers, connections) = value
                        .split_once(':')
                        .context("--load: callers:connections")?;
                    options.load = Some((number(&flag, callers)?, number(&flag, connections)?));
                }
                "--clients" => options.clients = Some(number(&flag, &value()?)?),
                "--old-records" => {
                    options.old_records = i64::try_from(number(&flag, &value()?)?)?;
                }
                _ => bail!("{flag}: unknown\n\n{HELP}"),
            }
        }
        if options.alternations == 0 {
            options.alternations = if options.quick { 3 } else { 5 };
        }
        for name in &options.only {
            let known = FIGURES.iter().any(|figure| figure.name == name);
            ensure!(known, "--only {name}: there is no such figure");
        }
        Ok(options)
    }

    /// Is this figure to be measured?
    pub(crate) fn wants(&self, name: &str) -> bool {
        if self.only.is_empty() {
            let quick = |figure: &&crate::figures::Figure| figure.name == name && figure.quick;
            return !self.quick || FIGURES.iter().any(|figure| quick(&figure));
        }
        self.only.iter().any(|only| only == name)
    }
}

fn number(flag: &str, text: &str) -> Result<usize> {
    let number = text.parse().ok().filter(|&number| number > 0);
    number.with_context(|| format!("{flag} {text}: a number from 1"))
}

#[cfg(test)]
mod tests {
    use super::Options;

    fn parse(line: &[&str]) -> anyhow::Result<Options> {
        Options::parse(line.iter().map(|&word| word.to_owned()))
    }

    #[test]
    fn quick_wants_the_first_five_figures() -> anyhow::Result<()> {
        let quick = parse(&["--quick"])?;
        assert_eq!(quick.alternations, 3);
        assert!(quick.wants("replay_ratio") && !quick.wants("growth_ratio"));
        let full = parse(&[])?;
        assert_eq!(full.alternations, 5);
        assert!(full.wants("replay_ratio") && full.wants("growth_ratio"));
        Ok(())
    }

    #[test]
    fn only_what_is_named_is_measured() -> anyhow::Result<()> {
        let some = parse(&["--quick", "--only", "growth_ratio,server_rss_mb"])?;
        assert!(some.wants("growth_ratio") && some.wants("server_rss_mb"));
        assert!(!some.wants("replay_ratio"));
        assert!(parse(&["--only", "speed"]).is_err());
        Ok(())
    }

    #[test]
    fn wrong_flags_are_refused() -> anyhow::Result<()> {
        for line in [
            &["--slow"][..],
            &["--out"],
            &["--clients", "0"],
            &["--load", "64"],
            &["--alternations", "x"],
        ] {
            assert!(parse(line).is_err(), "{line:?}");
        }
        let settings = parse(&["--server-args", "--writers 4 --prepared", "--load", "128:4"])?;
        assert_eq!(settings.server_args, ["--writers", "4", "--prepared"]);
        assert_eq!(settings.load, Some((128, 4)));
        Ok(())
    }
}
