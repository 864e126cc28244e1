//! `reprise records forget`: erases the bytes that callers stored with a record.

use std::io::{self, IsTerminal as _};

use clap::Args;
use reprise_client::proto::{
    ForgetRecordRequest, ForgetRecordResponse, ReportDisposition, forget_record_request,
};

use super::{past, show, story};
use crate::cli::args::{self, OutputFlags, ServerFlags};
use crate::cli::exit::{Error, Exit};
use crate::cli::output::{Output, note};
use crate::cli::resolve::confirm;
use crate::cli::target::TargetFlags;
use crate::cli::{answer, words};

/// Erase the bytes that callers stored with a record, for privacy; the key stays protected
///
/// Headers, body, instruction, and the words of doubt and of evidence are gone, also from
/// the history and the audit. Name, outcome with its code, ids and references stay.
#[derive(Args, Debug)]
pub(crate) struct ForgetFlags {
    #[command(flatten)]
    target: TargetFlags,
    /// Why: 1 byte to 1 KiB. Is kept in the audit: name nobody in it
    #[arg(long, value_parser = args::reason)]
    reason: String,
    /// Who asks for it; user@host unless given
    #[arg(long, value_parser = args::actor)]
    actor: Option<String>,
    /// The revision that you read; the present one unless given
    #[arg(long, value_name = "NUMBER")]
    revision: Option<u64>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    server: ServerFlags,
}

pub(super) async fn run(flags: &ForgetFlags) -> Result<Exit, Error> {
    let target = flags.target.target()?;
    if !flags.yes && !io::stdin().is_terminal() {
        let told = "nobody can be asked here: look with `records show`, then add --yes";
        return Err(Error::Usage(told.to_owned()));
    }
    let client = flags.server.client()?;
    let found = show::found(&client, target).await?;
    if !flags.yes {
        let (history, audit) = past(&client, &found).await?;
        note!("{}", story::tell(&found, &history, &audit));
        note!(
            "Erased are the headers and the body, the instruction, and the words of doubt \
             and of evidence above. Nothing brings them back."
        );
        confirm("Erase them?")?;
    }
    let revision = flags.revision.unwrap_or(found.record.revision);
    let request = ForgetRecordRequest {
        target: Some(forget_record_request::Target::Record(found.name)),
        revision,
        actor: flags.actor.clone().unwrap_or_else(args::user_at_host),
        reason: flags.reason.clone(),
    };
    let forgotten = client.forget_record(request).await?;
    tell(flags, &forgotten)
}

fn tell(flags: &ForgetFlags, forgotten: &ForgetRecordResponse) -> Result<Exit, Error> {
    let what = match forgotten.disposition() {
        ReportDisposition::Recorded => "Erased",
        ReportDisposition::Repeated => "Erased before, nothing was left",
        _ => "Answered in a way that this program does not know",
    };
    let record = forgotten.record.clone().unwrap_or_default();
    let words = format!("{what}. The record still reads {}.", words::state(&record));
    Output::new(&flags.output).answer(words, &answer::seen::forgotten(forgotten))?;
    Ok(Exit::Done)
}
