use std::fs;
use std::io::BufRead;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use reprise_tests::poll;
use reprise_tests::process::{Process, RunAs, Server, Started};

const LIMIT: Duration = Duration::from_secs(30);
/// Names a directory to a test that runs in a process of its own.
const OWNER_IN: &str = "HARNESS_OWNER_IN";
/// The name of that directory where its server is to be frozen.
const FROZEN: &str = "frozen";

fn start(command: &[&str], directory: Option<&Path>) -> Result<Started> {
    let command = command.iter().map(Into::into).collect();
    let run_as = RunAs::OrdinaryUser;
    let server = Server {
        command,
        env: &[],
        run_as,
        end_signal: "TERM",
        directory,
    };
    Process::start(&server, Stdio::inherit())
}

#[test]
fn a_server_is_not_root_and_its_exit_code_is_told() -> Result<()> {
    let mut started = start(&["sh", "-c", "id -u; exit 3"], None)?;
    let mut user = String::new();
    started.stdout.read_line(&mut user)?;
    assert_ne!(user.trim(), "0");
    poll::until("its end", LIMIT, || {
        Ok((!started.process.running()).then_some(()))
    })?;
    assert_eq!(started.process.end("TERM")?, 3);
    assert_eq!(started.process.end("TERM")?, 3, "the same when asked again");
    Ok(())
}

#[test]
fn signals_end_it_and_kill_9_takes_its_children_along() -> Result<()> {
    assert_eq!(
        start(&["sleep", "600"], None)?.process.end("TERM")?,
        128 + 15
    );

    let mut started = start(&["sh", "-c", "sleep 600 & echo $!; wait"], None)?;
    let mut child = String::new();
    started.stdout.read_line(&mut child)?;
    started.process.kill_9()?;
    assert!(!started.process.running());
    assert!(!runs(child.trim()), "its child is still there");
    Ok(())
}

#[test]
fn a_server_ends_and_its_directory_goes_when_its_owner_is_killed() -> Result<()> {
    if let Some(directory) = std::env::var_os(OWNER_IN) {
        return own_a_server(Path::new(&directory));
    }
    kill_the_owner_of("running")?;
    kill_the_owner_of(FROZEN)
}

fn kill_the_owner_of(server: &str) -> Result<()> {
    let base = tempfile::tempdir()?;
    let directory = base.path().join(server);
    fs::create_dir_all(directory.join("of-server"))?;
    let this_test = thread::current()
        .name()
        .context("a test has a name")?
        .to_owned();
    let mut owner = Command::new(std::env::current_exe()?)
        .args(["--exact", &this_test])
        .env(OWNER_IN, &directory)
        .stdout(Stdio::null())
        .spawn()?;
    let pid = poll::until("the server", LIMIT, || {
        Ok(fs::read_to_string(directory.join("pid")).ok())
    })?;
    assert!(runs(&pid), "{server}");
    owner.kill()?;
    owner.wait()?;
    poll::until(
        "the server's end",
        LIMIT,
        || Ok((!runs(&pid)).then_some(())),
    )?;
    poll::until("the directory's end", LIMIT, || {
        Ok((!directory.join("of-server").exists()).then_some(()))
    })
}

/// What the test does in the process that it starts and kills.
fn own_a_server(directory: &Path) -> Result<()> {
    let started = start(&["sleep", "600"], Some(&directory.join("of-server")))?;
    if directory.ends_with(FROZEN) {
        started.process.freeze()?;
    }
    let draft = directory.join("pid.new");
    fs::write(&draft, started.process.pid().to_string())?;
    fs::rename(draft, directory.join("pid"))?;
    poll::until("a kill", LIMIT, || Ok(None))
}

/// Whether a process is there and not merely waiting to be collected.
fn runs(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}
