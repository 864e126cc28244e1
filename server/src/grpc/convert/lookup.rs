//! LookupRequest and its answer.

use std::time::Duration;

use reprise_domain::content::Body;
use reprise_domain::reading::View;
use reprise_domain::text::FieldError;
use reprise_domain::{EffectKey, Reading, RecordId, name};
use reprise_proto::v1 as proto;
use reprise_proto::v1::lookup_request::Target as Named;
use reprise_proto::v1::lookup_response::Reading as Sent;

use super::answer::{processing, recorded_at, result_gone, seen_pending, start_over, summary};
use super::content::{send, send_brief, send_while_kept};
use super::fields::{duration, record_name, record_name_message, timestamp};
use super::hashing;
use crate::grpc::status::Error;
use crate::store::Target;

/// What a waiting Lookup waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The record is no longer PROCESSING.
    LeftProcessing,
    /// COMPLETED or FAILED final.
    Final,
}

impl Until {
    /// Is there nothing left to wait for?
    pub(crate) fn holds(self, reading: &Reading) -> bool {
        match reading {
            Reading::Running { .. } | Reading::Takeable => false,
            Reading::Pending(_) | Reading::FailedRetryable => self == Self::LeftProcessing,
            Reading::Completed { .. } | Reading::FailedFinal { .. } | Reading::Over => true,
        }
    }
}

/// Whose record, and which.
pub(crate) fn target(message: Option<Named>) -> Result<(String, Target), FieldError> {
    match message {
        None => Err(FieldError::new(
            "target",
            "required: record, record_id or effect_key",
        )),
        Some(Named::Record(name)) => {
            let name = record_name(Some(name))?;
            Ok((name.tenant().to_owned(), Target::Id(name.id())))
        }
        Some(Named::RecordId(id)) => {
            name::check_word("record_id.tenant", &id.tenant)?;
            Ok((id.tenant, Target::Id(RecordId::parse(&id.id)?)))
        }
        Some(Named::EffectKey(key)) => {
            name::check_word("effect_key.tenant", &key.tenant)?;
            Ok((key.tenant, Target::EffectKey(EffectKey::parse(&key.key)?)))
        }
    }
}

/// How long the caller would wait. The policy and the deadline bound it later.
pub(crate) fn wait(message: Option<prost_types::Duration>) -> Result<Duration, FieldError> {
    let range = Duration::ZERO..=Duration::MAX;
    let wait = duration("wait", message, &range, "0 or longer")?;
    Ok(wait.unwrap_or_default())
}

/// What to wait for.
pub(crate) fn until(value: i32) -> Result<Until, FieldError> {
    match proto::LookupUntil::try_from(value) {
        Ok(proto::LookupUntil::Unspecified | proto::LookupUntil::LeftProcessing) => {
            Ok(Until::LeftProcessing)
        }
        Ok(proto::LookupUntil::Final) => Ok(Until::Final),
        Err(_) => Err(FieldError::new("until", "LEFT_PROCESSING or FINAL")),
    }
}

/// How the record reads. It is none whose memory is over.
pub(crate) async fn lookup_response(
    view: View,
    with_result: bool,
) -> Result<proto::LookupResponse, Error> {
    let body = view.record.outcome.as_ref();
    let hashed = match body.and_then(|outcome| outcome.content.body.as_ref()) {
        Some(Body::Data(data)) if !with_result => data.len(),
        _ => 0,
    };
    hashing(hashed, move || response(view, with_result)).await
}

fn response(view: View, with_result: bool) -> proto::LookupResponse {
    proto::LookupResponse {
        name: Some(record_name_message(&view.record.name)),
        record: Some(summary(&view)),
        start_over: start_over(view.start_over()).into(),
        reading: Some(reading(view, with_result)),
    }
}

fn reading(view: View, with_result: bool) -> Sent {
    match view.reading {
        Reading::Running { .. } | Reading::Takeable => Sent::Processing(processing(&view)),
        Reading::Pending(uncertain) => Sent::Pending(seen_pending(&view, uncertain.reason)),
        Reading::Completed { gone: false } => Sent::Completed(proto::Completed {
            record_time: recorded_at(&view),
            result: content(view, with_result),
        }),
        // The outcome on record is another attempt's, if there is one.
        Reading::FailedRetryable if view.record.attempt.given_back.is_some() => {
            Sent::Failed(proto::Failed {
                record_time: Some(timestamp(view.record.updated_at)),
                error: view.record.failure().map(send),
            })
        }
        Reading::FailedRetryable | Reading::FailedFinal { gone: false } => {
            Sent::Failed(proto::Failed {
                record_time: recorded_at(&view),
                error: content(view, with_result),
            })
        }
        Reading::Completed { gone: true } | Reading::FailedFinal { gone: true } | Reading::Over => {
            Sent::ResultGone(result_gone(view))
        }
    }
}

fn content(view: View, with_result: bool) -> Option<proto::Content> {
    let now = view.now;
    view.record.outcome.map(|outcome| {
        if with_result {
            send_while_kept(outcome, now)
        } else {
            send_brief(outcome.content)
        }
    })
}
