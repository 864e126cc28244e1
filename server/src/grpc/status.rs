//! Errors to statuses: one match, which a new error cannot escape. Texts name fields,
//! limits and places, never what was sent, and nothing of the database; faults of the
//! server are logged here, once, with their causes.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use reprise_domain::Refusal;
use reprise_domain::record::State;
use reprise_domain::text::FieldError;
use reprise_fingerprint::CanonicalError;
use reprise_proto::v1::{ERROR_DOMAIN, ErrorReason};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::store;

/// Status texts stay under this many bytes.
const TEXT_BYTES_MAX: usize = 1000;

/// Why a call is answered with an error.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A field cannot be accepted.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The payload has no canonical form.
    #[error("the payload has no canonical form: {0}")]
    NotCanonical(#[from] CanonicalError),
    /// A message, or a part of one, is too large.
    #[error("{0}")]
    TooLarge(&'static str),
    /// The contract refuses.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store cannot answer.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The deadline passed.
    #[error("the deadline passed and the outcome is unknown; repeat with the same attempt_id")]
    DeadlineExceeded,
    /// No calls are taken any more.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// Too many calls at once.
    #[error("the server has as many calls under way as it takes")]
    Overloaded,
    /// There is no such method.
    #[error("the server does not know this method")]
    UnknownMethod,
    /// A compressed message.
    #[error("compressed messages are not read; send identity")]
    Compressed,
    /// A fault that is ours.
    #[error("internal fault")]
    Internal(#[source] Arc<dyn StdError + Send + Sync>),
}

impl Error {
    /// Wraps a fault of ours.
    pub(crate) fn internal(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Internal(Arc::from(cause.into()))
    }

    fn code_and_reason(&self) -> (Code, ErrorReason) {
        match self {
            Self::Field(_) => (Code::InvalidArgument, ErrorReason::InvalidField),
            Self::NotCanonical(_) => (Code::InvalidArgument, ErrorReason::PayloadNotCanonical),
            Self::TooLarge(_) => (Code::ResourceExhausted, ErrorReason::TooLarge),
            Self::Refused(refusal) => refused(*refusal),
            Self::Store(error) => match error {
                store::Error::Unavailable(_) => (Code::Unavailable, ErrorReason::StoreUnavailable),
                store::Error::Contention => (Code::Unavailable, ErrorReason::Contention),
                store::Error::Damaged(_) => (Code::DataLoss, ErrorReason::StoredResultDamaged),
                store::Error::EtagChanged => {
                    (Code::FailedPrecondition, ErrorReason::RevisionChanged)
                }
                store::Error::Closed => (Code::Unavailable, ErrorReason::ShuttingDown),
                store::Error::Internal(_) => (Code::Internal, ErrorReason::Internal),
            },
            Self::DeadlineExceeded => (Code::DeadlineExceeded, ErrorReason::DeadlineExceeded),
            Self::ShuttingDown => (Code::Unavailable, ErrorReason::ShuttingDown),
            Self::Overloaded => (Code::ResourceExhausted, ErrorReason::Overloaded),
            Self::UnknownMethod => (Code::Unimplemented, ErrorReason::UnknownMethod),
            Self::Compressed => (Code::Unimplemented, ErrorReason::InvalidField),
            Self::Internal(_) => (Code::Internal, ErrorReason::Internal),
        }
    }

    fn text(&self) -> String {
        let mut text = match self {
            Self::Store(store::Error::Damaged(_)) => {
                "the stored result does not match its digest and is not replayed".to_owned()
            }
            Self::Store(store::Error::Internal(_)) | Self::Internal(_) => {
                "internal fault of the server; its log has the details".to_owned()
            }
            Self::Store(store::Error::Unavailable(_)) => {
                "the store is unavailable or the outcome is unknown; repeating the same call is safe"
                    .to_owned()
            }
            Self::Store(store::Error::Contention) => {
                "the call lost too many races; repeating it is safe".to_owned()
            }
            Self::Store(store::Error::Closed) => Self::ShuttingDown.to_string(),
            told => told.to_string(),
        };
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text
    }

    /// When repeating is worth it, where waiting helps.
    fn retry_after(&self) -> Option<Duration> {
        match self.code_and_reason().1 {
            ErrorReason::StoreUnavailable => Some(Duration::from_millis(500)),
            ErrorReason::Contention | ErrorReason::ShuttingDown => Some(Duration::from_millis(100)),
            ErrorReason::Overloaded => Some(Duration::from_secs(1)),
            _ => None,
        }
    }

    /// What a program can act on beside the reason.
    fn metadata(&self) -> HashMap<String, String> {
        match self {
            Self::Refused(Refusal::ClaimOver { state }) => {
                HashMap::from([("state".to_owned(), state_name(*state).to_owned())])
            }
            _ => HashMap::new(),
        }
    }

    fn log(&self) {
        match self {
            Self::Store(store::Error::Internal(_)) | Self::Internal(_) => {
                tracing::error!(causes = %Causes(self), "a call failed by a fault of the server");
            }
            Self::Store(store::Error::Damaged(_)) => {
                tracing::error!(causes = %Causes(self), "stored bytes are damaged");
            }
            Self::Store(store::Error::Unavailable(_)) => {
                tracing::warn!(causes = %Causes(self), "the store could not answer a call");
            }
            _ => {}
        }
    }
}

fn refused(refusal: Refusal) -> (Code, ErrorReason) {
    let reason = match refusal {
        Refusal::RecordNotFound => return (Code::NotFound, ErrorReason::RecordNotFound),
        Refusal::StaleToken => return (Code::Aborted, ErrorReason::StaleToken),
        Refusal::OutcomeAlreadyRecorded => ErrorReason::OutcomeAlreadyRecorded,
        Refusal::AttemptOver => ErrorReason::AttemptOver,
        Refusal::LeaseExpired => ErrorReason::LeaseExpired,
        Refusal::RecordPending => ErrorReason::RecordPending,
        Refusal::Claimed => ErrorReason::Claimed,
        Refusal::ClaimOver { .. } => ErrorReason::ClaimOver,
        Refusal::Settling => ErrorReason::Settling,
        Refusal::TooLateToTell => ErrorReason::TooLateToTell,
        Refusal::LeaseRunning => ErrorReason::LeaseRunning,
        Refusal::Contradicted => ErrorReason::Contradicted,
        Refusal::IntentTooOld => ErrorReason::IntentTooOld,
        Refusal::RevisionChanged => ErrorReason::RevisionChanged,
    };
    (Code::FailedPrecondition, reason)
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Processing => "PROCESSING",
        State::Pending => "PENDING",
        State::Completed => "COMPLETED",
        State::FailedRetryable => "FAILED_RETRYABLE",
        State::FailedFinal => "FAILED_FINAL",
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        error.log();
        let (code, reason) = error.code_and_reason();
        let mut details = ErrorDetails::new();
        let name = reason.as_str_name().trim_start_matches("ERROR_REASON_");
        details.set_error_info(name, ERROR_DOMAIN, error.metadata());
        if let Error::Field(field) = &error {
            details.add_bad_request_violation(&field.field, &field.allowed);
        }
        if let Error::Compressed = &error {
            details.add_bad_request_violation("grpc-encoding", "identity, or unset");
        }
        if let Some(wait) = error.retry_after() {
            details.set_retry_info(Some(wait));
        }
        Status::with_error_details(code, error.text(), details)
    }
}

/// An error and what caused it, in one line.
pub(crate) struct Causes<'a>(pub(crate) &'a (dyn StdError + 'static));

impl std::fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_and_contents_of_server_faults_stay_in_the_log() {
        let secret = "insert into records: host db.internal";
        for error in [
            store::Error::internal(secret),
            store::Error::unavailable(secret),
        ] {
            let status = Status::from(Error::from(error));
            let shown = format!("{status:?}");
            assert!(
                !shown.contains("records") && !shown.contains("db.internal"),
                "{shown}"
            );
        }
        let internal = Error::internal(secret);
        assert!(Causes(&internal).to_string().contains(secret));
    }

    #[test]
    fn texts_stay_short_and_cut_between_characters() {
        let field = FieldError::new("record.key", "\u{20ac}".repeat(2000));
        let status = Status::from(Error::from(field));
        assert!(status.message().len() <= TEXT_BYTES_MAX);
    }

    #[test]
    fn a_reason_is_the_name_of_the_enum_without_its_prefix() {
        let status = Status::from(Error::Refused(Refusal::StaleToken));
        let info = status.get_details_error_info();
        let info = info.as_ref().expect("every status has an ErrorInfo");
        assert_eq!(
            (info.reason.as_str(), info.domain.as_str()),
            ("STALE_TOKEN", "reprise")
        );
    }
}
