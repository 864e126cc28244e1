//! `reprise lookup`: how a record reads now.

use std::time::Duration;

use clap::{Args, ValueEnum};
use reprise_client::proto::{
    EffectKey, FailureKind, LookupRequest, LookupUntil, RecordId, RecordName,
    lookup_request::Target,
};
use reprise_client::{Found, Reading};
use reprise_domain::policy;

use super::args::{self, OutputFlags, ServerFlags};
use super::exit::{Error, Exit};
use super::output::Output;
use super::{answer, duration, wire_duration, words};

/// Look a record up, by its name, its id or an effect key
#[derive(Args, Debug)]
pub(crate) struct LookupFlags {
    /// Whose: 1 to 128 bytes of A-Z a-z 0-9 . _ - : / %
    #[arg(long, env = "REPRISE_TENANT", value_parser = args::word, help_heading = "Record")]
    tenant: String,
    /// What is to be done once
    #[arg(long, value_parser = args::word, help_heading = "Record", requires = "key",
          required_unless_present_any = ["record_id", "effect_key"])]
    operation: Option<String>,
    /// On whose behalf, empty for the tenant itself
    #[arg(long, default_value = "", hide_default_value = true, value_parser = args::subject, help_heading = "Record", requires = "operation")]
    subject: String,
    /// The key of the intent
    #[arg(long, value_parser = args::key, help_heading = "Record", requires = "operation")]
    key: Option<String>,
    /// In place of operation, subject and key: the record's id, 64 hexadecimal digits
    #[arg(long, value_name = "HEX", help_heading = "Record", conflicts_with_all = ["operation", "key", "subject", "effect_key"])]
    record_id: Option<String>,
    /// In place of operation, subject and key: an effect key, as the provider knows it
    #[arg(long, value_name = "UUID", help_heading = "Record", conflicts_with_all = ["operation", "key", "subject"])]
    effect_key: Option<String>,
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
        target: Some(target(flags)?),
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

fn target(flags: &LookupFlags) -> Result<Target, Error> {
    let tenant = flags.tenant.clone();
    let wrong = |flag: &str, allowed: String| Error::Usage(format!("{flag}: must be {allowed}"));
    if let Some(id) = &flags.record_id {
        let id = reprise_domain::RecordId::parse(id)
            .map_err(|error| wrong("--record-id", error.allowed))?;
        let id = id.to_string();
        return Ok(Target::RecordId(RecordId { tenant, id }));
    }
    if let Some(key) = &flags.effect_key {
        let key = reprise_domain::EffectKey::parse(key)
            .map_err(|error| wrong("--effect-key", error.allowed))?;
        let key = key.to_string();
        return Ok(Target::EffectKey(EffectKey { tenant, key }));
    }
    Ok(Target::Record(RecordName {
        tenant,
        operation: flags.operation.clone().unwrap_or_default(),
        subject: flags.subject.clone(),
        key: flags.key.clone().unwrap_or_default(),
    }))
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
