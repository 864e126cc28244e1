//! `reprise lookup`: how a record reads now.

use std::time::Duration;

use clap::{Args, ValueEnum};
use reprise_client::proto::{FailureKind, LookupRequest, LookupUntil};
use reprise_client::{Found, Reading};
use reprise_domain::policy;

use super::args::{OutputFlags, ServerFlags};
use super::exit::{Error, Exit};
use super::output::Output;
use super::target::TargetFlags;
use super::{answer, duration, wire_duration, words};

/// Look a record up, by its name, its id or an effect key
#[derive(Args, Debug)]
pub(crate) struct LookupFlags {
    #[command(flatten)]
    target: TargetFlags,
    /// Print headers and body too
    #[arg(long)]
    with_result: bool,
    /// How long to wait until the record is as --until says: 0 to 30s
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = duration::within(Duration::ZERO..=policy::WAIT_MAX))]
    wait: Duration,
    /// What to wait for
    #[arg(long, value_enum, default_value = "left-processing")]
    until: Until,
    /// Exit with the code of the state, as reserve does, and 16 where it may be tried
    /// again, in place of 0
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    server: ServerFlags,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Until {
    /// Nobody is at it any more
    LeftProcessing,
    /// It is completed, or failed for good
    Final,
}

pub(crate) async fn run(flags: &LookupFlags) -> Result<Exit, Error> {
    let until = match flags.until {
        Until::LeftProcessing => LookupUntil::LeftProcessing,
        Until::Final => LookupUntil::Final,
    };
    let request = LookupRequest {
        target: Some(flags.target.target()?),
        with_result: flags.with_result,
        wait: (!flags.wait.is_zero()).then(|| wire_duration(flags.wait)),
        until: until.into(),
    };
    let found = flags.server.client()?.lookup(request).await?;
    Output::new(&flags.output).answer(words::found(&found), &answer::found(&found))?;
    Ok(if flags.exit_code {
        exit(&found)
    } else {
        Exit::Done
    })
}

fn exit(found: &Found) -> Exit {
    match &found.reading {
        Reading::Completed(_) => Exit::Completed,
        Reading::Failed(_) if found.record.failure_kind() == FailureKind::Retryable => {
            Exit::Retryable
        }
        Reading::Failed(_) => Exit::Failed,
        Reading::Processing(_) => Exit::Processing,
        Reading::Pending(_) => Exit::Pending,
        Reading::ResultGone(_) => Exit::ResultGone,
    }
}
