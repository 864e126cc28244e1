//! The command line against a real server on its embedded store: answers, exit codes,
//! the guide's example, finding out, holding, the demo.

mod bench;
mod demo;
mod example;
mod hold;
mod input;
mod output;
mod pending;
mod policy;
mod programs;
mod records;
mod resolve;
mod resolve_many;
mod story;
mod tokens;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use reprise_tests::reprise_bin::{self, ServerProcess};
use serde_json::Value;
use tempfile::TempDir;

/// A server with an empty store, and a directory for a command's files.
struct Stage {
    // Before `home`: the server ends before its data is removed.
    server: ServerProcess,
    home: TempDir,
}

impl Stage {
    fn new() -> Result<Self> {
        let home = tempfile::Builder::new().prefix("cli-").tempdir()?;
        let data = home.path().join("data");
        let data = data.to_str().context("a path that is text")?;
        let server = ServerProcess::start(&["serve", "--data-dir", data], &[])?;
        Ok(Self { server, home })
    }

    fn path(&self, name: &str) -> String {
        self.home.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> Result<String> {
        let path = self.path(name);
        std::fs::write(&path, text)?;
        Ok(path)
    }

    fn command(&self) -> Result<Command> {
        let mut command = quiet(reprise_bin::path()?.as_os_str());
        command
            .env("REPRISE_SERVER", format!("http://{}", self.server.addr()))
            .env("REPRISE_TENANT", "shop");
        Ok(command)
    }

    /// Runs `reprise` with these words. All that begins a test's lines is here, so that
    /// a test reads like a session.
    fn reprise(&self, line: &str) -> Result<Done> {
        self.with_input(line, b"")
    }

    /// As [`Stage::reprise`], for a record of the operation `charge`.
    fn record(&self, command: &str, key: &str, line: &str) -> Result<Done> {
        self.reprise(&format!("{command} --operation charge --key {key} {line}"))
    }

    fn with_input(&self, line: &str, input: &[u8]) -> Result<Done> {
        let mut command = self.command()?;
        command.args(line.split_whitespace());
        finish(command, input)
    }
}

/// A program without what the environment says to `reprise`.
fn quiet(program: &std::ffi::OsStr) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("REPRISE_") {
            command.env_remove(name);
        }
    }
    command
}

/// How a program ended.
#[derive(Debug)]
struct Done {
    code: i32,
    stdout: Vec<u8>,
    stderr: String,
}

fn finish(mut command: Command, input: &[u8]) -> Result<Done> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // Who does not read its input closes it.
        let _closed = stdin.write_all(input);
    }
    let output = child.wait_with_output()?;
    Ok(Done {
        code: output.status.code().context("ended by a signal")?,
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr)?,
    })
}

impl Done {
    /// Fails unless it exited with `code`; with what it printed.
    #[track_caller]
    fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}", self.text(), self.stderr);
        self
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.stdout).with_context(|| self.text())
    }

    #[track_caller]
    fn says(&self, words: &str) {
        let (stdout, stderr) = (self.text(), &self.stderr);
        let said = stdout.contains(words) || stderr.contains(words);
        assert!(said, "{words:?} is not in:\n{stdout}\n{stderr}");
    }
}

/// A file of this repository.
fn repository(path: &str) -> Result<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::fs::read_to_string(root.join(path)).with_context(|| path.to_owned())
}

/// The first block of `language` in a page.
fn block<'a>(page: &'a str, language: &str) -> Result<&'a str> {
    let (_, after) = page
        .split_once(&format!("```{language}\n"))
        .context("no block")?;
    Ok(after.split_once("```").context("no end")?.0)
}
