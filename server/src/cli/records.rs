//! `reprise records`: finding records, telling the story of one, erasing its bytes.

mod forget;
mod list;
mod show;
mod story;

use clap::Subcommand;
use reprise_client::proto::{
    AuditEntry, GetHistoryRequest, GetHistoryResponse, ListAuditRequest, RecordId,
    get_history_request,
};
use reprise_client::{Client, Found};

use super::exit::{Error, Exit};
pub(crate) use story::{audit_lines, endings};

/// Entries of the audit that are shown of one record, from the newest.
const AUDIT_MAX: u32 = 50;

/// Find records, tell the story of one, erase its bytes
#[derive(Subcommand, Debug)]
pub(crate) enum RecordsCommand {
    List(Box<list::ListFlags>),
    Show(show::ShowFlags),
    Forget(forget::ForgetFlags),
}

pub(crate) async fn run(command: &RecordsCommand) -> Result<Exit, Error> {
    match command {
        RecordsCommand::List(flags) => list::run(flags).await,
        RecordsCommand::Show(flags) => show::run(flags).await,
        RecordsCommand::Forget(flags) => forget::run(flags).await,
    }
}

/// What is known of a record beside how it reads, and its entries in the audit, oldest
/// first.
pub(crate) async fn past(
    client: &Client,
    found: &Found,
) -> Result<(GetHistoryResponse, Vec<AuditEntry>), Error> {
    let tenant = found.name.tenant.clone();
    let id = found.record.record_id.clone();
    let request = ListAuditRequest {
        tenant: tenant.clone(),
        record_id: id.clone(),
        page_size: AUDIT_MAX,
        ..ListAuditRequest::default()
    };
    let target = get_history_request::Target::RecordId(RecordId { tenant, id });
    let history = GetHistoryRequest {
        target: Some(target),
    };
    let history = client.get_history(history).await?;
    let mut audit = client.list_audit(request).await?.entries;
    audit.reverse();
    Ok((history, audit))
}
