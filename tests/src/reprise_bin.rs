//! The real `reprise` program as a server process: started on a free port,
//! asked to end, or killed. Knows only how it says where it listens.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{env, thread};

use anyhow::{Context, Result, bail};

use crate::poll;
use crate::process::{Process, RunAs, Server};

const START_LIMIT: Duration = Duration::from_secs(30);

/// The `reprise` program that was built with the running test.
///
/// # Errors
/// When there is none.
pub fn path() -> Result<PathBuf> {
    let test = env::current_exe()?;
    // target/<profile>/deps/<test> stands beside target/<profile>/reprise.
    let profile = test
        .ancestors()
        .nth(2)
        .context("a test program in no directory")?;
    let program = profile.join("reprise");
    if !program.exists() {
        bail!(
            "{} is not there: build it first with \
             `cargo build --profile test --bin reprise`, or use `make test`",
            program.display()
        );
    }
    Ok(program)
}

/// A running server, killed on drop.
#[derive(Debug)]
pub struct ServerProcess {
    process: Process,
    addr: SocketAddr,
    stdout: Output,
    stderr: Output,
}

impl ServerProcess {
    /// Runs `reprise ARGS --listen 127.0.0.1:0` and returns when it has said where
    /// it listens. Of the environment it sees no `REPRISE_` variable but those in
    /// `env`.
    ///
    /// # Errors
    /// When it ends, or says no address within 30 s; with what it printed.
    pub fn start(args: &[&str], env: &[(&str, &str)]) -> Result<Self> {
        let mut command: Vec<OsString> = vec!["env".into()];
        for (name, _) in env::vars_os() {
            let set_here = env.iter().any(|&(given, _)| name == given);
            if name.to_string_lossy().starts_with("REPRISE_") && !set_here {
                command.extend(["-u".into(), name]);
            }
        }
        command.push(path()?.into());
        command.extend(args.iter().map(OsString::from));
        command.extend(["--listen".into(), "127.0.0.1:0".into()]);
        let server = Server {
            command,
            env,
            run_as: RunAs::Caller,
            end_signal: "KILL",
            directory: None,
        };
        let started = Process::start(&server, Stdio::piped())?;
        let stdout = Output::collect(started.stdout);
        let stderr = Output::collect(BufReader::new(started.stderr.context("no stderr")?));
        let process = started.process;
        let said = || format!("stdout:\n{}\nstderr:\n{}", stdout.text(), stderr.text());
        let addr = poll::until("reprise to say where it listens", START_LIMIT, || {
            // Looked at first: nothing is added to complete output later.
            let ended = stdout.complete() && stderr.complete();
            let addr = stdout.text().lines().find_map(address_in);
            if addr.is_none() && ended {
                bail!("reprise ended instead of listening");
            }
            Ok(addr)
        })
        .with_context(said)?;
        Ok(Self {
            process,
            addr,
            stdout,
            stderr,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Whether it has not ended yet.
    #[must_use]
    pub fn running(&self) -> bool {
        self.process.running()
    }

    /// What it has printed so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// What it has printed to standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Kills it as a crash would, and waits until it is gone.
    ///
    /// # Errors
    /// When it does not go within seconds.
    pub fn kill_9(&mut self) -> Result<()> {
        self.process.kill_9()
    }

    /// Asks it to end (SIGTERM), waits, and returns its exit code; 128 + n where
    /// signal n ended it.
    ///
    /// # Errors
    /// When it did not end within 30 s; it is killed then.
    pub fn terminate(&mut self) -> Result<i32> {
        self.process.end("TERM")
    }

    /// Stops it where it is, connections open, until [`ServerProcess::thaw`].
    ///
    /// # Errors
    /// When it is gone.
    pub fn freeze(&self) -> Result<()> {
        self.process.freeze()
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// When it is gone.
    pub fn thaw(&self) -> Result<()> {
        self.process.thaw()
    }
}

/// The address in a line like `listening on 127.0.0.1:4000`, however it is
/// decorated.
fn address_in(line: &str) -> Option<SocketAddr> {
    let (_, after) = line.split_once("listening on")?;
    let start = after.find("127.0.0.1:")?;
    let rest = &after[start..];
    let is_part = |c: char| c.is_ascii_digit() || c == '.' || c == ':';
    let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    rest[..end].trim_end_matches(['.', ':']).parse().ok()
}

/// Text that a thread collects from a pipe, so that its writer never blocks.
#[derive(Debug, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    fn collect(mut pipe: BufReader<impl Read + Send + 'static>) -> Self {
        let output = Self::default();
        let sink = Arc::clone(&output.0);
        thread::spawn(move || {
            // An error or nothing more to read: the process has closed its end.
            while let Ok(bytes) = pipe.fill_buf()
                && !bytes.is_empty()
            {
                sink.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .extend_from_slice(bytes);
                let length = bytes.len();
                pipe.consume(length);
            }
        });
        output
    }

    /// Whether the other end was closed and everything is here.
    fn complete(&self) -> bool {
        // The thread's share of it ends with the thread.
        Arc::strong_count(&self.0) == 1
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::address_in;

    #[test]
    fn the_address_is_found_however_the_line_is_decorated() {
        let plain = "127.0.0.1:4000".parse().ok();
        for line in [
            "listening on 127.0.0.1:4000",
            "  Reprise 0.1 is listening on http://127.0.0.1:4000/ (gRPC)",
            "\u{1b}[1mlistening on\u{1b}[0m 127.0.0.1:4000.",
        ] {
            assert_eq!(address_in(line), plain, "{line}");
        }
        assert_eq!(address_in("data in /var/lib, see 127.0.0.1:4000"), None);
    }
}
