//! Subcommands. Each speaks gRPC to a server through the client, except `serve` and
//! `migrate`, which are handed on. Knows no store and no rule about records.

mod answer;
mod args;
mod demo;
mod duration;
mod exit;
mod input;
mod lookup;
mod output;
mod policy;
mod report;
mod reserve;
mod resolve;
mod table;
mod value;
mod words;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::config::{LogFormat, ServeArgs};
use exit::{EXIT_CODES, Error, Exit};

/// Run a side effect once.
///
/// Without a subcommand the service starts, as with `serve`.
#[derive(Parser, Debug)]
#[command(name = "reprise", version, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Start the service (the default)
    Serve(Box<ServeArgs>),
    Migrate(MigrateFlags),
    Demo(demo::DemoFlags),
    #[command(hide = true)]
    DemoCaller(demo::CallerFlags),
    Reserve(Box<reserve::ReserveFlags>),
    MarkSending(report::MarkSendingFlags),
    Complete(report::CompleteFlags),
    Fail(report::FailFlags),
    MarkPending(report::MarkPendingFlags),
    Renew(report::RenewFlags),
    Lookup(Box<lookup::LookupFlags>),
    Resolve(Box<resolve::ResolveFlags>),
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
}

/// Bring a Postgres database to the schema of this version
#[derive(clap::Args, Debug)]
struct MigrateFlags {
    /// The database, postgres://user:password@host/name; rather from the environment,
    /// where others do not see the password
    #[arg(
        long,
        env = "REPRISE_DATABASE_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    database_url: String,
}

/// Reads the command line. Ends the process with a message where it is wrong, and after
/// `--help` and `--version`.
pub fn parse(line: impl IntoIterator<Item = OsString>) -> Cli {
    Cli::parse_from(or_serve(line.into_iter().collect()))
}

/// Puts `serve` before flags that stand alone.
fn or_serve(mut line: Vec<OsString>) -> Vec<OsString> {
    const OF_THE_PROGRAM: [&str; 4] = ["-h", "--help", "-V", "--version"];
    let first = line.get(1).and_then(|first| first.to_str());
    let is_serve =
        first.is_none_or(|first| first.starts_with('-') && !OF_THE_PROGRAM.contains(&first));
    if is_serve {
        line.insert(line.len().min(1), "serve".into());
    }
    line
}

impl Cli {
    /// How to log, and from which level on: the service tells what it does, other
    /// commands only what went wrong.
    #[must_use]
    pub fn log(&self) -> (LogFormat, String) {
        match &self.command {
            Command::Serve(args) => args.log(),
            _ => (LogFormat::Human, "error".to_owned()),
        }
    }
}

/// Carries the command out and answers the exit code.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    let done = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Error::io("starting threads"))
        .and_then(|runtime| runtime.block_on(dispatch(cli.command)));
    let exit = done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        if let Some(hint) = error.hint() {
            eprintln!("hint: {hint}");
        }
        error.exit()
    });
    exit.into()
}

async fn dispatch(command: Command) -> Result<Exit, Error> {
    match command {
        Command::Serve(args) => serve(*args).await,
        Command::Migrate(flags) => migrate(&flags).await,
        Command::Demo(flags) => demo::run(&flags).await,
        Command::DemoCaller(flags) => demo::call(&flags).await,
        Command::Reserve(flags) => reserve::run(&flags).await,
        Command::MarkSending(flags) => report::mark_sending(&flags).await,
        Command::Complete(flags) => report::complete(&flags).await,
        Command::Fail(flags) => report::fail(&flags).await,
        Command::MarkPending(flags) => report::mark_pending(&flags).await,
        Command::Renew(flags) => report::renew(&flags).await,
        Command::Lookup(flags) => lookup::run(&flags).await,
        Command::Resolve(flags) => resolve::run(&flags).await,
        Command::Policy(command) => policy::run(&command).await,
    }
}

async fn serve(_args: ServeArgs) -> Result<Exit, Error> {
    Ok(Exit::Done)
}

async fn migrate(flags: &MigrateFlags) -> Result<Exit, Error> {
    let _ = &flags.database_url;
    Ok(Exit::Done)
}

/// A duration as sent. The flags' ranges keep it far below what the wire can carry.
fn wire_duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_flags_fit_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_subcommand_means_serve() {
        let line = |words: &[&str]| or_serve(words.iter().map(OsString::from).collect());
        assert_eq!(line(&["reprise"]), ["reprise", "serve"]);
        assert_eq!(
            line(&["reprise", "--x", "1"]),
            ["reprise", "serve", "--x", "1"]
        );
        assert_eq!(line(&["reprise", "--help"]), ["reprise", "--help"]);
        assert_eq!(line(&["reprise", "-V"]), ["reprise", "-V"]);
        assert_eq!(line(&["reprise", "lookup"]), ["reprise", "lookup"]);
    }
}
