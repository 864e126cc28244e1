//! The load: `reprise bench` in a process of its own, and what it says.

use std::ffi::OsString;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use reprise_tests::process::RunAs;
use reprise_tests::reprise_bin;
use serde_json::Value;

/// What load to put on a server.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) mix: &'static str,
    pub(crate) connections: usize,
    pub(crate) concurrency: usize,
    pub(crate) length: Length,
    pub(crate) warm_up_s: u64,
    /// Further flags.
    pub(crate) more: Vec<String>,
}

/// How long it goes on after the warm-up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    Seconds(u64),
    Operations(u64),
}

impl Load {
    fn args(&self, url: &str) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["bench".into(), "--server".into(), url.into()];
        let mut flag = |name: &str, value: String| args.extend([name.into(), value.into()]);
        flag("--mix", self.mix.to_owned());
        flag("--connections", self.connections.to_string());
        flag("--concurrency", self.concurrency.to_string());
        flag("--warm-up", format!("{}s", self.warm_up_s));
        flag("--result-bytes", crate::direct::BODY_BYTES.to_string());
        match self.length {
            Length::Seconds(seconds) => flag("--duration", format!("{seconds}s")),
            Length::Operations(count) => flag("--count", count.to_string()),
        }
        args.extend(self.more.iter().map(OsString::from));
        args.extend(["--json".into(), "--quiet".into()]);
        args
    }

    /// Starts it. It dies with the thread that started it.
    ///
    /// # Errors
    /// When there is no `reprise`.
    pub(crate) fn start(&self, url: &str) -> Result<Running> {
        let mut command = RunAs::Caller.command("env".as_ref());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("REPRISE_") {
                command.arg("-u").arg(name);
            }
        }
        command.arg(reprise_bin::path()?).args(self.args(url));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().context("starting reprise bench")?;
        Ok(Running { child: Some(child) })
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// When it fails, which it does when it got wrong answers or errors.
    pub(crate) fn run(&self, url: &str) -> Result<Generated> {
        self.start(url)?.finish()
    }
}

/// A load that is under way; ended on drop.
pub(crate) struct Running {
    child: Option<Child>,
}

impl Running {
    /// Calls `look` every second, for as long as it runs, with the time since then; and waits
    /// for its end.
    ///
    /// # Errors
    /// As [`Load::run`]; and what `look` says.
    pub(crate) fn watch(
        mut self,
        mut look: impl FnMut(Duration) -> Result<()>,
    ) -> Result<Generated> {
        let begun = Instant::now();
        let mut looks = 0;
        loop {
            let child = self.child.as_mut().context("already ended")?;
            if child.try_wait()?.is_some() {
                return self.finish();
            }
            if begun.elapsed() >= Duration::from_secs(looks) {
                look(begun.elapsed())?;
                looks += 1;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// As [`Load::run`].
    pub(crate) fn finish(mut self) -> Result<Generated> {
        let child = self.child.take().context("already ended")?;
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!("reprise bench: {}\n{said}{errors}", output.status);
        }
        Generated::parse(&said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take()
            && let Err(error) = child.kill().and_then(|()| child.wait())
        {
            eprintln!("ending a load: {error}");
        }
    }
}

/// What `reprise bench --json` said.
#[derive(Clone, Debug)]
pub(crate) struct Generated(Value);

impl Generated {
    /// # Errors
    /// When it is no JSON, when answers were wrong, or when nothing was done.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let json: Value = serde_json::from_str(text.trim())
            .with_context(|| format!("in what reprise bench says: {text:?}"))?;
        let found = Self(json);
        let wrong = found.0.get("wrong").context("no field wrong")?;
        let none = wrong.as_object().is_some_and(serde_json::Map::is_empty);
        ensure!(none, "wrong answers: {wrong}");
        ensure!(found.number("/operations")? > 0.0, "no operations: {text}");
        Ok(found)
    }

    /// A number by its JSON pointer.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn number(&self, pointer: &str) -> Result<f64> {
        let value = self.0.pointer(pointer).and_then(Value::as_f64);
        value.with_context(|| format!("no number {pointer} in {}", self.0))
    }

    pub(crate) fn per_second(&self) -> Result<f64> {
        self.number("/per_second")
    }

    /// Errors by code and reason; an empty object without any.
    pub(crate) fn errors(&self) -> Value {
        self.0.get("errors").cloned().unwrap_or_default()
    }

    /// The rate with the generator's own CPU time taken out of the measured time: as if it ran
    /// on another machine, and the cores that it used did nothing.
    ///
    /// # Errors
    /// When the generator could not tell its CPU time.
    pub(crate) fn per_second_server_side(&self, cores: usize) -> Result<f64> {
        let without = self.number("/measured_s")? - self.number("/cpu_s")? / cores as f64;
        ensure!(without > 0.0, "the generator used all of the machine");
        Ok(self.number("/operations")? / without)
    }
}

#[cfg(test)]
mod tests {
    use super::{Generated, Length, Load};

    const SAID: &str = r#"{"measured_s": 10.0, "operations": 100000, "operations_all": 120000,
        "per_second": 10000.0, "cpu_s": 4.0, "cpu_all_s": 5.0,
        "calls": {"reserve": {"p50_ms": 1.5}}, "errors": {}, "wrong": {}}"#;

    #[test]
    fn rates_and_latencies_are_read() -> anyhow::Result<()> {
        let said = Generated::parse(SAID)?;
        assert_eq!(said.per_second()?, 10_000.0);
        assert_eq!(said.number("/calls/reserve/p50_ms")?, 1.5);
        assert!(said.number("/calls/complete/p50_ms").is_err());
        // Two of the ten seconds of both cores were the generator's.
        assert_eq!(said.per_second_server_side(2)?, 12_500.0);
        Ok(())
    }

    #[test]
    fn wrong_answers_are_no_measurement() {
        let wrong = SAID.replace(r#""wrong": {}"#, r#""wrong": {"two grants": 1}"#);
        assert!(Generated::parse(&wrong).is_err());
        assert!(Generated::parse(&SAID.replace("100000,", "0,")).is_err());
        assert!(Generated::parse("").is_err());
        assert!(Generated::parse(r#"{"operations": 1}"#).is_err());
    }

    #[test]
    fn without_its_cpu_time_there_is_no_server_side() -> anyhow::Result<()> {
        let said = Generated::parse(&SAID.replace("4.0", "null"))?;
        assert!(said.per_second_server_side(2).is_err());
        let all = Generated::parse(&SAID.replace("4.0", "20.0"))?;
        assert!(all.per_second_server_side(2).is_err());
        Ok(())
    }

    #[test]
    fn the_load_is_told_by_flags() {
        let load = Load {
            mix: "replay",
            connections: 2,
            concurrency: 64,
            length: Length::Seconds(8),
            warm_up_s: 2,
            more: vec!["--keys".to_owned(), "7".to_owned()],
        };
        let args = load.args("http://127.0.0.1:1").join(" ".as_ref());
        assert_eq!(
            args.to_string_lossy(),
            "bench --server http://127.0.0.1:1 --mix replay --connections 2 --concurrency 64 \
             --warm-up 2s --result-bytes 70 --duration 8s --keys 7 --json --quiet"
        );
    }
}
