//! How the program ends: exit codes that a script branches on, and errors, each with
//! its code. Codes are part of the interface and never change their meaning.

use std::io;
use std::process::ExitCode;

use reprise_client::proto::State;
use reprise_client::{Error as CallError, Fault, Reason};

/// For the end of `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes of the record commands:
   0  acquired (reserve, resolve --take-over), recorded (reports), found (lookup)
   1  something failed that is neither the caller's nor the record's fault
   2  bad flags or bad input, named on standard error
   3  refused; standard error says `error: REASON: text`
   4  not reached, or nobody knows whether it was carried out: repeat the command
   5  there is no such record
  10  completed before: the answer is the result
  11  failed for good before: the answer is the error
  12  somebody else is at it
  13  pending: the effect may have taken place, do not carry it out
  14  the key was used with another payload
  15  the outcome is known, its bytes are gone
  16  failed, may be tried again (lookup --exit-code, resolve --take-over)
Carry the effect out after 0 of reserve or resolve --take-over, and of mark-sending where
you call it; after no other code.";

/// Exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Done = 0,
    Fault = 1,
    Usage = 2,
    Refused = 3,
    Unknown = 4,
    NotFound = 5,
    Completed = 10,
    Failed = 11,
    Processing = 12,
    Pending = 13,
    Mismatch = 14,
    ResultGone = 15,
    Retryable = 16,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Why a command has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// What was asked cannot be right. Says what is allowed.
    #[error("{0}")]
    Usage(String),
    /// A file, standard input or output.
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    /// The call to the server.
    #[error("{}", told(.0))]
    Call(#[from] CallError),
    /// No connection to the server.
    #[error("not reached: {0}")]
    NotReached(String),
    /// The operator did not confirm.
    #[error("not confirmed, nothing was changed")]
    NotConfirmed,
    /// A part of the program that gives its own words: the service, a migration.
    #[error("{0}")]
    Other(String),
}

impl Error {
    /// An input or output error on `what`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        |source| Error::Io { what, source }
    }

    /// With the whole chain of causes.
    pub(crate) fn other(error: anyhow::Error) -> Error {
        Error::Other(format!("{error:#}"))
    }

    /// Whoever read standard output closed it.
    pub(crate) fn is_closed_output(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The code to exit with.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Error::Usage(_) => Exit::Usage,
            Error::Io { .. } | Error::Other(_) => Exit::Fault,
            Error::NotReached(_) => Exit::Unknown,
            Error::NotConfirmed => Exit::Refused,
            Error::Call(error) => call_exit(error),
        }
    }

    /// What may help, if anything is known to.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Error::NotReached(_) | Error::Call(CallError::NotSent(_)) => {
                Some("is a server running there? `reprise` starts one, --server names another")
            }
            Error::Call(CallError::OutcomeUnknown(_)) => {
                Some("whether it was carried out is not known; repeating the command is safe")
            }
            _ => None,
        }
    }
}

/// The code that a call's error means.
pub(crate) fn call_exit(error: &CallError) -> Exit {
    match error {
        CallError::Endpoint { .. } | CallError::TooLarge { .. } => Exit::Usage,
        CallError::NotSent(_) | CallError::OutcomeUnknown(_) | CallError::UnknownOutcome { .. } => {
            Exit::Unknown
        }
        CallError::Refused(fault) => match fault.reason {
            Reason::InvalidField | Reason::PayloadNotCanonical | Reason::TooLarge => Exit::Usage,
            Reason::RecordNotFound => Exit::NotFound,
            Reason::Quota | Reason::Overloaded => Exit::Unknown,
            Reason::StoredResultDamaged | Reason::UnknownMethod => Exit::Fault,
            _ => Exit::Refused,
        },
        _ => Exit::Fault,
    }
}

/// `REASON: text`, with the fields at fault.
fn told(error: &CallError) -> String {
    let Some(fault) = error.fault() else {
        return error.to_string();
    };
    let (reason, text) = reason_and_text(error);
    let mut told = format!("{reason}: {text}");
    if let Some(after) = retry_after(fault) {
        told.push_str(&after);
    }
    told
}

/// Why a call had no answer, as a word and as text with the fields at fault.
pub(crate) fn reason_and_text(error: &CallError) -> (&'static str, String) {
    let (fallback, fault) = match error {
        CallError::NotSent(fault) => ("NOT_SENT", fault),
        CallError::OutcomeUnknown(fault) => ("OUTCOME_UNKNOWN", fault),
        CallError::Refused(fault) => ("REFUSED", fault),
        other => return ("OTHER", other.to_string()),
    };
    let reason = match fault.reason {
        Reason::Unspecified => fallback,
        reason => super::answer::word(reason.as_str_name(), "ERROR_REASON_"),
    };
    let mut text = fault.message.clone();
    for field in &fault.fields {
        text.push_str(&format!(
            "\n  {}: {}",
            flag_of(&field.field),
            field.description
        ));
    }
    if let Some(over) = fault.claim_over.filter(|it| it.state != State::Unspecified) {
        let state = super::words::state_of(over.state, over.failure_kind);
        text.push_str(&format!("; the record is {state}"));
    }
    (reason, text)
}

fn retry_after(fault: &Fault) -> Option<String> {
    let after = fault.retry_after?;
    Some(format!(
        "\n  try again after {}",
        super::duration::show(after)
    ))
}

/// The flag that sets a field of a request, where one flag does; else the field.
fn flag_of(field: &str) -> String {
    let last = field.rsplit('.').next().unwrap_or(field);
    match last {
        "tenant" | "operation" | "subject" | "key" | "token" | "lease" | "wait" | "owner"
        | "correlation_id" | "attempt_id" | "intent_time" | "evidence" | "actor" | "reason"
        | "provider_reference" | "check_after" | "revision" => {
            format!("--{}", last.replace('_', "-"))
        }
        "instruction" => "--instruction-file".to_owned(),
        _ => field.to_owned(),
    }
}
