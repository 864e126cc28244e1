//! `reprise records list`: finds records by what people know of them.

use clap::{Args, ValueEnum};
use reprise_client::proto::{FailureKind, ListRecordsRequest, RecordEntry, State};

use crate::cli::args::{self, OutputFlags, ServerFlags};
use crate::cli::exit::{Error, Exit};
use crate::cli::listing::{self, LimitFlags, Page, Shape};
use crate::cli::table::visible;
use crate::cli::{answer, words};

/// Find records by what is known of them, newest grant first; all filters must hold
///
/// Fast among any number of records: --resource-id and --provider-reference. The others
/// read the tenant's records from the newest backwards: narrow them by --since. Who knows
/// the key or the effect key looks up in place of listing.
#[derive(Args, Debug)]
pub(crate) struct ListFlags {
    /// Whose: 1 to 128 bytes of A-Z a-z 0-9 . _ - : / %
    #[arg(long, env = "REPRISE_TENANT", value_parser = args::word)]
    tenant: String,
    /// Of this operation
    #[arg(long, value_parser = args::word, help_heading = "Filters")]
    operation: Option<String>,
    /// On behalf of this one; empty for those of the tenant itself
    #[arg(long, value_parser = args::subject, help_heading = "Filters")]
    subject: Option<String>,
    /// That read like this
    #[arg(long, value_enum, help_heading = "Filters")]
    state: Option<StateFilter>,
    /// First reserved at this time or later: RFC 3339, or how long ago, e.g. 2h
    #[arg(long, value_name = "TIME", value_parser = args::moment_or_ago, help_heading = "Filters")]
    since: Option<prost_types::Timestamp>,
    /// First reserved before this time: RFC 3339, or how long ago
    #[arg(long, value_name = "TIME", value_parser = args::moment_or_ago, help_heading = "Filters")]
    until: Option<prost_types::Timestamp>,
    /// Whose key begins like this
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT", value_parser = args::short_text, help_heading = "Filters")]
    key_prefix: String,
    /// Of this correlation id
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ID", value_parser = args::short_text, help_heading = "Filters")]
    correlation_id: String,
    /// That created this
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ID", value_parser = args::short_text, help_heading = "Filters")]
    resource_id: String,
    /// That the provider calls this
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ID", value_parser = args::short_text, help_heading = "Filters")]
    provider_reference: String,
    #[command(flatten)]
    limit: LimitFlags,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    server: ServerFlags,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum StateFilter {
    /// Somebody is at it
    Processing,
    /// It took place
    Completed,
    /// It did not, of either kind
    Failed,
    /// It did not, and may be tried again
    FailedRetryable,
    /// It did not, for good
    FailedFinal,
    /// Nobody knows
    Pending,
}

impl StateFilter {
    fn message(self) -> (State, FailureKind) {
        let any = FailureKind::Unspecified;
        match self {
            StateFilter::Processing => (State::Processing, any),
            StateFilter::Completed => (State::Completed, any),
            StateFilter::Failed => (State::Failed, any),
            StateFilter::FailedRetryable => (State::Failed, FailureKind::Retryable),
            StateFilter::FailedFinal => (State::Failed, FailureKind::Final),
            StateFilter::Pending => (State::Pending, any),
        }
    }
}

pub(super) async fn run(flags: &ListFlags) -> Result<Exit, Error> {
    let client = flags.server.client()?;
    let state = flags.state.map(StateFilter::message);
    let (state, kind) = state.unwrap_or_default();
    let shape = Shape {
        head: [
            "CREATED",
            "OPERATION",
            "SUBJECT",
            "KEY",
            "STATE",
            "ATTEMPT",
            "RESOURCE",
            "REFERENCE",
        ],
        cells,
        fields: answer::seen::record_entry,
        none: "No such record.",
    };
    let read = async |page: Page| {
        let request = ListRecordsRequest {
            tenant: flags.tenant.clone(),
            operation: flags.operation.clone().unwrap_or_default(),
            subject: flags.subject.clone(),
            state: state.into(),
            failure_kind: kind.into(),
            create_after: flags.since,
            create_before: flags.until,
            key_prefix: flags.key_prefix.clone(),
            correlation_id: flags.correlation_id.clone(),
            resource_id: flags.resource_id.clone(),
            provider_reference: flags.provider_reference.clone(),
            page_size: page.size,
            page_token: page.token,
        };
        let got = client.list_records(request).await?;
        Ok((got.records, got.next_page_token))
    };
    listing::show(&flags.output, flags.limit, shape, read).await
}

fn cells(it: &RecordEntry) -> [String; 8] {
    let name = it.name.clone().unwrap_or_default();
    let record = it.record.clone().unwrap_or_default();
    [
        listing::second(record.create_time),
        name.operation,
        visible(&name.subject),
        visible(&name.key),
        words::state(&record).to_owned(),
        record.attempt.to_string(),
        visible(&record.resource_id),
        visible(&record.provider_reference),
    ]
}
