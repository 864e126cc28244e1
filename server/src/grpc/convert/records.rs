//! Lists of records, and their erasure.

use std::sync::Arc;

use reprise_domain::command::{Command, Forget};
use reprise_domain::reading::View;
use reprise_domain::record::State;
use reprise_domain::text::{self, FieldError};
use reprise_domain::{Policy, Reading, RecordId, RecordName, Timestamp, name};
use reprise_proto::v1 as proto;
use reprise_proto::v1::forget_record_request::Target as ToForget;
use reprise_proto::v1::get_history_request::Target as OfHistory;

use super::answer::summary;
use super::fields::{moment, prose, record_name, record_name_message, required_text};
use super::page::{Filters, page_size};
use crate::store::{RecordsPage, RecordsQuery, Target};

const REASON_BYTES_MAX: usize = 1024;

/// What to list.
pub(crate) struct RecordsList {
    /// What the store finds by.
    pub(crate) query: RecordsQuery,
    wanted: Wanted,
    filters: Filters,
}

/// How a record is to read.
#[derive(Clone, Copy)]
enum Wanted {
    Any,
    Processing,
    Completed,
    Pending,
    Failed,
    FailedRetryable,
    FailedFinal,
}

impl Wanted {
    fn of(state: i32, kind: i32) -> Result<Self, FieldError> {
        use proto::{FailureKind as Kind, State};
        let state = State::try_from(state).map_err(|_| {
            let allowed = "unset, PROCESSING, COMPLETED, FAILED or PENDING";
            FieldError::new("state", allowed)
        })?;
        let wrong_kind = || FieldError::new("failure_kind", "unset; with FAILED also a kind");
        let kind = Kind::try_from(kind).map_err(|_| wrong_kind())?;
        match (state, kind) {
            (State::Unspecified, Kind::Unspecified) => Ok(Self::Any),
            (State::Processing, Kind::Unspecified) => Ok(Self::Processing),
            (State::Completed, Kind::Unspecified) => Ok(Self::Completed),
            (State::Pending, Kind::Unspecified) => Ok(Self::Pending),
            (State::Failed, Kind::Unspecified) => Ok(Self::Failed),
            (State::Failed, Kind::Retryable) => Ok(Self::FailedRetryable),
            (State::Failed, Kind::Final) => Ok(Self::FailedFinal),
            _ => Err(wrong_kind()),
        }
    }

    /// The one state that such records have as written; none where there are several.
    fn written(self) -> Option<State> {
        match self {
            Self::Any | Self::Failed => None,
            Self::Processing => Some(State::Processing),
            Self::Completed => Some(State::Completed),
            Self::Pending => Some(State::Pending),
            Self::FailedRetryable => Some(State::FailedRetryable),
            Self::FailedFinal => Some(State::FailedFinal),
        }
    }

    fn is(self, reading: &Reading) -> bool {
        match reading {
            Reading::Running { .. } | Reading::Takeable => {
                matches!(self, Self::Any | Self::Processing)
            }
            Reading::Pending(_) => matches!(self, Self::Any | Self::Pending),
            Reading::Completed { .. } => matches!(self, Self::Any | Self::Completed),
            Reading::FailedRetryable => {
                matches!(self, Self::Any | Self::Failed | Self::FailedRetryable)
            }
            Reading::FailedFinal { .. } => {
                matches!(self, Self::Any | Self::Failed | Self::FailedFinal)
            }
            Reading::Over => false,
        }
    }
}

/// ListRecordsRequest.
pub(crate) fn list_records(message: proto::ListRecordsRequest) -> Result<RecordsList, FieldError> {
    name::check_word("tenant", &message.tenant)?;
    if !message.operation.is_empty() {
        name::check_word("operation", &message.operation)?;
    }
    let short = |field, text: String, bytes_max| {
        let text = text::check(field, text)?;
        if text.len() > bytes_max {
            let allowed = format!("at most {bytes_max} bytes of UTF-8 without control characters");
            return Err(FieldError::new(field, allowed));
        }
        Ok(text)
    };
    let subject = message.subject;
    let subject = subject.map(|subject| short("subject", subject, name::PART_BYTES_MAX));
    let at = |field, sent: Option<_>| sent.map(|sent| moment(field, sent)).transpose();
    let query = RecordsQuery {
        tenant: message.tenant,
        operation: message.operation,
        subject: subject.transpose()?,
        state: None,
        created_from: at("create_after", message.create_after)?,
        created_before: at("create_before", message.create_before)?,
        key_prefix: short("key_prefix", message.key_prefix, name::KEY_BYTES_MAX)?,
        correlation_id: text::check("correlation_id", message.correlation_id)?,
        resource_id: text::check("resource_id", message.resource_id)?,
        provider_reference: text::check("provider_reference", message.provider_reference)?,
        after: None,
        max: page_size(message.page_size)?,
    };
    let wanted = Wanted::of(message.state, message.failure_kind)?;
    let filters = Filters::of("records")
        .with(&query.tenant)
        .with(&query.operation)
        .with_optional(query.subject.as_ref())
        .with([wanted as u8])
        .with_moment(query.created_from)
        .with_moment(query.created_before)
        .with(&query.key_prefix)
        .with(&query.correlation_id)
        .with(&query.resource_id)
        .with(&query.provider_reference);
    let after = filters.read(&message.page_token)?;
    Ok(RecordsList {
        query: RecordsQuery {
            state: wanted.written(),
            after: after.map(|(granted_at, id)| (granted_at, RecordId(id))),
            ..query
        },
        wanted,
        filters,
    })
}

/// Adds what was found and reads as asked at present under the policy of each; and says
/// where to go on.
pub(crate) fn found_records(
    list: &RecordsList,
    page: RecordsPage,
    policy: impl Fn(&RecordName) -> Arc<Policy>,
    records: &mut Vec<proto::RecordEntry>,
) -> Option<(Timestamp, RecordId)> {
    let views = page.records.into_iter().map(|record| {
        let policy = policy(&record.name);
        View::of(record, &policy, page.now)
    });
    let asked = views.filter(|view| list.wanted.is(&view.reading));
    records.extend(asked.map(|view| proto::RecordEntry {
        name: Some(record_name_message(&view.record.name)),
        record: Some(summary(&view)),
    }));
    page.next
}

/// The page.
pub(crate) fn list_records_response(
    list: &RecordsList,
    records: Vec<proto::RecordEntry>,
    next: Option<(Timestamp, RecordId)>,
) -> proto::ListRecordsResponse {
    let next = next.map(|(granted_at, id)| (granted_at, id.0));
    proto::ListRecordsResponse {
        records,
        next_page_token: list.filters.token(next),
    }
}

/// Whose record, and which, of GetHistory.
pub(crate) fn history_target(message: Option<OfHistory>) -> Result<(String, Target), FieldError> {
    match message {
        None => Err(FieldError::new("target", "required: record or record_id")),
        Some(OfHistory::Record(name)) => {
            let name = record_name(Some(name))?;
            Ok((name.tenant().to_owned(), Target::Id(name.id())))
        }
        Some(OfHistory::RecordId(id)) => by_id(id),
    }
}

/// What to forget, as its caller names it.
pub(crate) enum Forgetting {
    /// By name.
    Named(RecordName),
    /// By tenant and id.
    ById(String, Target),
}

/// ForgetRecordRequest: which record, and the command.
pub(crate) fn forget(
    message: proto::ForgetRecordRequest,
) -> Result<(Forgetting, Command), FieldError> {
    let target = match message.target {
        None => {
            return Err(FieldError::new("target", "required: record or record_id"));
        }
        Some(ToForget::Record(name)) => Forgetting::Named(record_name(Some(name))?),
        Some(ToForget::RecordId(id)) => {
            let (tenant, target) = by_id(id)?;
            Forgetting::ById(tenant, target)
        }
    };
    if message.revision == 0 {
        return Err(FieldError::new("revision", "of the record as it was read"));
    }
    let command = Command::Forget(Forget {
        revision: message.revision,
        actor: required_text("actor", message.actor)?,
        reason: prose("reason", message.reason, REASON_BYTES_MAX)?,
    });
    Ok((target, command))
}

fn by_id(id: proto::RecordId) -> Result<(String, Target), FieldError> {
    name::check_word("record_id.tenant", &id.tenant)?;
    Ok((id.tenant, Target::Id(RecordId::parse(&id.id)?)))
}
