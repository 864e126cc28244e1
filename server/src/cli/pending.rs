//! `reprise pending`: the records of which nobody knows how they ended.

mod claim;
mod count;

use clap::{Args, Subcommand};
use reprise_client::proto::{ListPendingRequest, Pending, PendingRecord};

use super::args::{self, OutputFlags, ServerFlags};
use super::exit::{Error, Exit};
use super::listing::{self, LimitFlags, Page, Shape};
use super::resolve::ResolveFlags;
use super::table::visible;
use super::{answer, resolve};
use count::WatchFlags;

/// Find out about records of which nobody knows how they ended
#[derive(Subcommand, Debug)]
pub(crate) enum PendingCommand {
    List(ListFlags),
    Count(count::CountFlags),
    Claim(claim::ClaimFlags),
    Resolve(Box<ResolveFlags>),
}

pub(crate) async fn run(command: &PendingCommand) -> Result<Exit, Error> {
    match command {
        PendingCommand::List(flags) => list(flags).await,
        PendingCommand::Count(flags) => count::run(flags).await,
        PendingCommand::Claim(flags) => claim::run(flags).await,
        PendingCommand::Resolve(flags) => resolve::run(flags).await,
    }
}

/// Whose records.
#[derive(Args, Debug)]
struct OfFlags {
    /// Whose: 1 to 128 bytes of A-Z a-z 0-9 . _ - : / %
    #[arg(long, env = "REPRISE_TENANT", value_parser = args::word)]
    tenant: String,
    /// Of this operation only
    #[arg(long, value_parser = args::word)]
    operation: Option<String>,
}

impl OfFlags {
    /// Empty: of all operations.
    fn operation(&self) -> String {
        self.operation.clone().unwrap_or_default()
    }
}

/// List what is due to be found out, longest due first
#[derive(Args, Debug)]
pub(crate) struct ListFlags {
    #[command(flatten)]
    of: OfFlags,
    /// Also what is not due yet, and what somebody is finding out
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    watch: WatchFlags,
    #[command(flatten)]
    limit: LimitFlags,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    server: ServerFlags,
}

async fn list(flags: &ListFlags) -> Result<Exit, Error> {
    if flags.watch.watch {
        return count::watch(&flags.of, &flags.watch, &flags.output, &flags.server).await;
    }
    let client = flags.server.client()?;
    let shape = Shape {
        head: [
            "SINCE",
            "OPERATION",
            "SUBJECT",
            "KEY",
            "REASON",
            "REFERENCE",
            "NEXT",
        ],
        cells,
        fields: answer::seen::pending_record,
        none: match flags.all {
            true => "Nothing is pending.",
            false => "Nothing is due; --all shows what is not due yet or claimed.",
        },
    };
    let read = async |page: Page| {
        let request = ListPendingRequest {
            tenant: flags.of.tenant.clone(),
            operation: flags.of.operation(),
            include_not_due: flags.all,
            page_size: page.size,
            page_token: page.token,
        };
        let got = client.list_pending(request).await?;
        Ok((got.records, got.next_page_token))
    };
    listing::show(&flags.output, flags.limit, shape, read).await
}

fn cells(it: &PendingRecord) -> [String; 7] {
    let name = it.name.clone().unwrap_or_default();
    let pending = it.pending.clone().unwrap_or_default();
    let reason = answer::word(pending.reason().as_str_name(), "PENDING_REASON_");
    [
        listing::second(pending.since_time),
        name.operation,
        visible(&name.subject),
        visible(&name.key),
        reason.to_owned(),
        visible(&pending.provider_reference),
        next(&pending),
    ]
}

/// Who is finding out, or when somebody is due to.
fn next(pending: &Pending) -> String {
    match &pending.claim {
        Some(claim) if claim.owner.is_empty() => "claimed".to_owned(),
        Some(claim) => format!("claimed by {}", visible(&claim.owner)),
        None => listing::second(pending.next_check_time),
    }
}
