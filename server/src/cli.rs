//! Subcommands. Each speaks gRPC to a server through the client, except `serve` and
//! `migrate`, which are handed on. Knows no store and no rule about records.

mod answer;
mod args;
mod audit;
mod bench;
mod demo;
mod duration;
mod exit;
mod hold;
mod input;
mod listing;
mod lookup;
mod output;
mod pending;
mod policy;
mod records;
mod report;
mod reserve;
mod resolve;
mod scope;
mod status;
mod table;
mod target;
mod value;
mod words;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::config::{Config, DatabaseUrl, LogFormat, ServeArgs, Settings};
use crate::serve;
use crate::store::postgres;
use exit::{EXIT_CODES, Error, Exit};
use output::note;

/// Run a side effect once.
///
/// Without a subcommand the service starts, as with `serve`.
#[derive(Parser, Debug)]
#[command(name = "reprise", version, after_help = EXIT_CODES, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Start the service (the default)
    Serve(Box<ServeArgs>),
    #[command(flatten)]
    Other(Box<Other>),
}

/// Everything but the service.
#[derive(Subcommand, Debug)]
enum Other {
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
    Pending(pending::PendingCommand),
    #[command(subcommand)]
    Records(records::RecordsCommand),
    Audit(audit::AuditFlags),
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    Hold(hold::HoldFlags),
    Release(hold::ReleaseFlags),
    Status(status::StatusFlags),
    Bench(Box<bench::BenchFlags>),
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
    database_url: Option<DatabaseUrl>,
    /// Settings file of `serve`, TOML, to take the database from
    #[arg(long, env = "REPRISE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

/// What the command line asks for, its settings read and checked.
#[derive(Debug)]
pub struct Work(Kind);

#[derive(Debug)]
enum Kind {
    Serve(Box<Config>),
    Other(Box<Other>),
}

/// Reads the command line and the settings that it names. Ends the process with a message
/// where they are wrong, and after `--help` and `--version`.
pub fn parse(line: impl IntoIterator<Item = OsString>) -> Work {
    let line = or_serve(line.into_iter().collect());
    let matches = without_empty_variables(Cli::command()).get_matches_from(line);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    Work(match cli.command {
        Command::Serve(args) => match args.load() {
            Ok(config) => Kind::Serve(Box::new(config)),
            Err(error) => {
                note!("error: {error:#}");
                std::process::exit(i32::from(Exit::Usage as u8));
            }
        },
        Command::Other(other) => Kind::Other(other),
    })
}

/// A variable that is set to nothing is not set: so a parent's can be taken back.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |name: &std::ffi::OsStr| std::env::var_os(name).is_some_and(|it| it.is_empty());
    command
        .mut_args(|arg| match arg.get_env() {
            Some(name) if is_empty(name) => arg.env(clap::builder::Resettable::Reset),
            _ => arg,
        })
        .mut_subcommands(without_empty_variables)
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

impl Work {
    /// How to log, and from which level on: the service tells what it does, other
    /// commands only what went wrong.
    #[must_use]
    pub fn log(&self) -> (LogFormat, &str) {
        match &self.0 {
            Kind::Serve(config) => (config.log_format, &config.log_level),
            Kind::Other(_) => (LogFormat::Human, "error"),
        }
    }
}

/// Time for what blocks a thread at the end, such as a store that answers no more.
const END_TIME: Duration = Duration::from_millis(500);

/// Carries it out and answers the exit code.
#[must_use]
pub fn run(work: Work) -> ExitCode {
    let done = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Error::io("starting threads"))
        .and_then(|runtime| {
            let done = runtime.block_on(dispatch(work));
            runtime.shutdown_timeout(END_TIME);
            done
        });
    let exit = done.unwrap_or_else(|error| {
        note!("error: {error}");
        if let Some(hint) = error.hint() {
            note!("hint: {hint}");
        }
        error.exit()
    });
    exit.into()
}

async fn dispatch(work: Work) -> Result<Exit, Error> {
    let other = match work.0 {
        Kind::Serve(config) => return serve(*config).await,
        Kind::Other(other) => *other,
    };
    match other {
        Other::Migrate(flags) => migrate(flags).await,
        Other::Demo(flags) => demo::run(&flags).await,
        Other::DemoCaller(flags) => demo::call(&flags).await,
        Other::Reserve(flags) => reserve::run(&flags).await,
        Other::MarkSending(flags) => report::mark_sending(&flags).await,
        Other::Complete(flags) => report::complete(&flags).await,
        Other::Fail(flags) => report::fail(&flags).await,
        Other::MarkPending(flags) => report::mark_pending(&flags).await,
        Other::Renew(flags) => report::renew(&flags).await,
        Other::Lookup(flags) => lookup::run(&flags).await,
        Other::Resolve(flags) => resolve::run(&flags).await,
        Other::Pending(command) => pending::run(&command).await,
        Other::Records(command) => records::run(&command).await,
        Other::Audit(flags) => audit::run(&flags).await,
        Other::Policy(command) => policy::run(&command).await,
        Other::Hold(flags) => hold::hold(&flags).await,
        Other::Release(flags) => hold::release(&flags).await,
        Other::Status(flags) => status::run(&flags).await,
        Other::Bench(flags) => bench::run(*flags).await,
    }
}

async fn serve(config: Config) -> Result<Exit, Error> {
    serve::run(config, serve::shutdown_signal())
        .await
        .map_err(Error::other)?;
    Ok(Exit::Done)
}

async fn migrate(flags: MigrateFlags) -> Result<Exit, Error> {
    let settings = Settings {
        database_url: flags.database_url,
        ..Settings::default()
    };
    let args = ServeArgs {
        config: flags.config,
        settings,
    };
    let config = args
        .load()
        .map_err(|error| Error::Usage(format!("{error:#}")))?;
    let Some(url) = config.database_url else {
        let ways = "--database-url, REPRISE_DATABASE_URL or database_url in --config FILE";
        return Err(Error::Usage(format!("no database: use {ways}")));
    };
    let migrated = postgres::migrate(url.reveal()).await;
    let migrated = migrated.map_err(|error| Error::other(error.into()))?;
    let mut told: String = migrated
        .applied
        .iter()
        .map(|name| format!("applied {name}\n"))
        .collect();
    told.push_str(&format!(
        "{} is at schema version {}\n",
        url.place(),
        migrated.version
    ));
    output::print(told.as_bytes())?;
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
