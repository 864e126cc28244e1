//! `reprise audit`: what people and rare events did.

use clap::Args;
use reprise_client::proto::{AuditEntry, ListAuditRequest};

use super::answer;
use super::args::{self, OutputFlags, ServerFlags};
use super::exit::{Error, Exit};
use super::listing::{self, LimitFlags, Page, Shape};
use super::scope::ScopeFlags;
use super::table::visible;

/// Characters of a record's id in a table.
const ID_SHOWN: usize = 12;

/// List what people and rare events did, newest first: resolutions, take-overs,
/// contradictions, policies, erasures
#[derive(Args, Debug)]
pub(crate) struct AuditFlags {
    #[command(flatten)]
    scope: ScopeFlags,
    /// Of this record: 64 hexadecimal digits
    #[arg(
        long,
        value_name = "HEX",
        default_value = "",
        hide_default_value = true
    )]
    record_id: String,
    /// At this time or later: RFC 3339, or how long ago, e.g. 2h
    #[arg(long, value_name = "TIME", value_parser = args::moment_or_ago)]
    since: Option<prost_types::Timestamp>,
    /// Before this time: RFC 3339, or how long ago
    #[arg(long, value_name = "TIME", value_parser = args::moment_or_ago)]
    until: Option<prost_types::Timestamp>,
    #[command(flatten)]
    limit: LimitFlags,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    server: ServerFlags,
}

pub(crate) async fn run(flags: &AuditFlags) -> Result<Exit, Error> {
    let scope = flags.scope.scope()?;
    let client = flags.server.client()?;
    let shape = Shape {
        head: [
            "TIME",
            "ACTION",
            "WHO",
            "RIGHT",
            "OPERATION",
            "RECORD",
            "#",
            "WHY",
        ],
        cells,
        fields: answer::seen::audit_entry,
        none: "Nothing was done.",
    };
    let read = async |page: Page| {
        let request = ListAuditRequest {
            tenant: scope.tenant.clone(),
            operation: scope.operation.clone(),
            record_id: flags.record_id.clone(),
            after: flags.since,
            before: flags.until,
            page_size: page.size,
            page_token: page.token,
        };
        let got = client.list_audit(request).await?;
        Ok((got.entries, got.next_page_token))
    };
    listing::show(&flags.output, flags.limit, shape, read).await
}

fn cells(it: &AuditEntry) -> [String; 8] {
    let attempt = (it.attempt > 0).then(|| it.attempt.to_string());
    [
        listing::second(it.time),
        answer::word(it.action().as_str_name(), "AUDIT_ACTION_").to_owned(),
        visible(&it.actor),
        answer::word(it.authority().as_str_name(), "AUDIT_AUTHORITY_").to_owned(),
        it.operation.clone(),
        it.record_id.chars().take(ID_SHOWN).collect(),
        attempt.unwrap_or_default(),
        visible(&it.reason),
    ]
}
