//! A server process that cannot outlive the test program that started it.
//!
//! Between the two stands a small shell, the warden, which holds the reading end
//! of a pipe from the test program. A line on it says how to end the server; its
//! end without a line says that the test program is gone, be it by exit, panic or
//! kill -9, and then the warden ends the server and removes its directory. A
//! parent-death signal alone would not do: it follows the *thread* that started
//! the process, and every test runs in a thread of its own.
//!
//! Knows nothing of what the server is.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::poll;

/// Arguments: the signal that ends an orphaned server, the directory to remove
/// then (may be empty), the command. The server's process id is the first line of
/// output; what follows is the server's own.
///
/// A stopped process heeds no signal but KILL until it is continued, so CONT comes
/// with each. And where a process is stopped when the test program goes, the kernel
/// sends HUP to its whole process group, which must not end the warden.
const WARDEN: &str = r#"
signal=$1 directory=$2
shift 2
sh -c 'echo "$$"; exec "$@"' sh "$@" </dev/null &
server=$!
trap '' HUP
exec >/dev/null 2>&1
if read -r asked; then
    kill -s "$asked" "$server"; kill -s CONT "$server"
    wait "$server"
    exit $?
fi
kill -s "$signal" "$server"; kill -s CONT "$server"
wait "$server"
if [ -n "$directory" ]; then rm -rf "$directory"; fi
"#;

/// How long a server may take to end before it is killed.
const END_LIMIT: Duration = Duration::from_secs(30);

/// Who a process runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunAs {
    /// The user of the test program.
    Caller,
    /// The same, except that root becomes `nobody`: PostgreSQL and PgBouncer
    /// refuse to run as root.
    OrdinaryUser,
}

/// The user and group `nobody` of Linux systems.
const NOBODY: u32 = 65_534;

impl RunAs {
    fn drops_root(self) -> bool {
        self == Self::OrdinaryUser && rustix::process::geteuid().is_root()
    }

    /// Makes `path` the property of this user.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn give(self, path: &Path) -> Result<()> {
        if self.drops_root() {
            std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY))
                .with_context(|| format!("giving {} to nobody", path.display()))?;
        }
        Ok(())
    }

    /// The words that go before a command to run it as this user, and to kill it
    /// when its parent dies.
    fn prefix(self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["setpriv".into()];
        if self.drops_root() {
            words.push(format!("--reuid={NOBODY}").into());
            words.push(format!("--regid={NOBODY}").into());
            words.push("--clear-groups".into());
        }
        words.push("--pdeathsig=KILL".into());
        words
    }

    /// `program` as this user, for a command that ends by itself.
    pub fn command(self, program: &OsStr) -> Command {
        let mut words = self.prefix().into_iter().chain([program.to_owned()]);
        let first = words.next().unwrap_or_default();
        let mut command = Command::new(first);
        command.args(words).stdin(Stdio::null());
        command
    }
}

/// What to start.
#[derive(Debug)]
pub struct Server<'a> {
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Environment variables set beside the inherited ones.
    pub env: &'a [(&'a str, &'a str)],
    /// The user it runs as.
    pub run_as: RunAs,
    /// The signal, without `SIG`, that ends it soon when its test program is gone.
    pub end_signal: &'static str,
    /// A directory to remove when its test program is gone.
    pub directory: Option<&'a Path>,
}

/// A server process, ended on drop.
#[derive(Debug)]
pub struct Process {
    warden: Child,
    orders: Option<ChildStdin>,
    pid: Pid,
    end_signal: &'static str,
}

impl Process {
    /// Starts a server and returns it with its standard output; its standard
    /// error goes to `stderr`.
    ///
    /// # Errors
    /// When no process can be started. A program that cannot be executed shows as
    /// a process that has ended ([`Process::running`]).
    pub fn start(server: &Server<'_>, stderr: Stdio) -> Result<Started> {
        let mut warden = Command::new("sh")
            .args(["-c", WARDEN, "warden", server.end_signal])
            .arg(server.directory.unwrap_or(Path::new("")))
            .args(server.run_as.prefix())
            .args(&server.command)
            .envs(server.env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            // An interrupt at the keyboard is for the test program.
            .process_group(0)
            .spawn()
            .context("starting sh")?;
        let orders = warden.stdin.take();
        let mut stdout = BufReader::new(warden.stdout.take().context("sh without an output")?);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let pid = parse_pid(line.trim()).context("sh did not say the server's process id")?;
        let stderr = warden.stderr.take();
        let end_signal = server.end_signal;
        let process = Self {
            warden,
            orders,
            pid,
            end_signal,
        };
        Ok(Started {
            process,
            stdout,
            stderr,
        })
    }

    /// The server's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Whether it has not ended yet.
    #[must_use]
    pub fn running(&self) -> bool {
        state(self.pid).is_some()
    }

    /// Sends a signal, without waiting for what comes of it.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(self.pid, signal).with_context(|| format!("signal to {}", self.pid()))
    }

    /// Stops the process and its children where they are, so that they answer
    /// nothing and keep their connections open.
    ///
    /// # Errors
    /// When the process is gone, or does not stop within seconds.
    pub fn freeze(&self) -> Result<()> {
        self.freeze_family().map(drop)
    }

    /// Lets a frozen process and its children go on.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn thaw(&self) -> Result<()> {
        for child in children(self.pid)? {
            signal_if_there(child, Signal::CONT)?;
        }
        self.signal(Signal::CONT)
    }

    /// Kills the process and its children as a crash would, and waits until all
    /// are gone.
    ///
    /// # Errors
    /// When one of them does not go within seconds.
    pub fn kill_9(&mut self) -> Result<()> {
        // A stopped parent starts no further child while the list is made.
        let children = if self.running() {
            self.freeze_family()?
        } else {
            Vec::new()
        };
        for &child in &children {
            signal_if_there(child, Signal::KILL)?;
        }
        self.end("KILL")?;
        poll::until("the end of killed processes", END_LIMIT, || {
            Ok(children
                .iter()
                .all(|&child| state(child).is_none())
                .then_some(()))
        })
    }

    /// Sends `signal` (a name without `SIG`), waits for the end, and returns the
    /// exit code; 128 + n after signal n, as a shell has it. Of a process that was
    /// ended before it returns the exit code again.
    ///
    /// # Errors
    /// When it had to be killed because it did not end within 30 s.
    pub fn end(&mut self, signal: &str) -> Result<i32> {
        if let Some(mut orders) = self.orders.take() {
            writeln!(orders, "{signal}").context("the server's warden is gone")?;
        }
        let ended = poll::until("a server's end", END_LIMIT, || {
            Ok(self.warden.try_wait()?)
        });
        let status = match ended {
            Ok(status) => status,
            Err(error) => {
                signal_if_there(self.pid, Signal::KILL)?;
                self.warden.wait()?;
                return Err(error.context(format!("after SIG{signal}, then killed")));
            }
        };
        status
            .code()
            .with_context(|| format!("warden ended by signal {:?}", status.signal()))
    }

    fn freeze_family(&self) -> Result<Vec<Pid>> {
        self.signal(Signal::STOP)?;
        until_stopped(self.pid)?;
        let children = children(self.pid)?;
        for &child in &children {
            signal_if_there(child, Signal::STOP)?;
        }
        children
            .iter()
            .try_for_each(|&child| until_stopped(child))?;
        Ok(children)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.orders.is_some()
            && let Err(error) = self.end(self.end_signal)
        {
            eprintln!("ending a server: {error:#}");
        }
    }
}

/// A process that was just started.
#[derive(Debug)]
pub struct Started {
    /// The process.
    pub process: Process,
    /// What it prints; ends when it ends.
    pub stdout: BufReader<ChildStdout>,
    /// Its standard error, if that was asked for as a pipe.
    pub stderr: Option<std::process::ChildStderr>,
}

fn parse_pid(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}

/// State and parent of a process, `None` for one that is gone or has ended and
/// only waits to be collected.
fn state(pid: Pid) -> Option<(char, Option<Pid>)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it stands in parentheses and may hold any character.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = parse_pid(fields.next()?);
    (!matches!(state, 'Z' | 'X')).then_some((state, parent))
}

fn children(parent: Pid) -> Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let pid = entry?.file_name().to_str().and_then(parse_pid);
        found.extend(pid.filter(|&pid| state(pid).is_some_and(|(_, its)| its == Some(parent))));
    }
    Ok(found)
}

fn until_stopped(pid: Pid) -> Result<()> {
    poll::until("a process to stop", END_LIMIT, || {
        Ok(state(pid)
            .is_none_or(|(state, _)| matches!(state, 'T' | 't'))
            .then_some(()))
    })
}

fn signal_if_there(pid: Pid, signal: Signal) -> io::Result<()> {
    match kill_process(pid, signal) {
        Err(rustix::io::Errno::SRCH) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
