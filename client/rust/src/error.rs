//! What can go wrong with a call, sorted by the one question that matters to a caller:
//! may it have had an effect on the record? Knows statuses, not calls.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use reprise_proto::v1::{FailureKind, State};
use tonic::{Code, ConnectError, Status, TimeoutExpired};
use tonic_types::StatusExt;

/// Why the server refused, as named by `google.rpc.ErrorInfo`. `Unspecified` stands for
/// a refusal without a reason or with one that this client does not know.
pub use reprise_proto::v1::ErrorReason as Reason;

/// Any error of the caller's own code.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Why a call has no answer. Outcomes such as "somebody else is at it" are answers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The endpoint cannot be used.
    #[error("endpoint {endpoint:?}: {cause}")]
    Endpoint {
        /// As given.
        endpoint: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The request is larger than this client sends. It was not sent.
    #[error("the request has {bytes} bytes, at most {limit} are sent")]
    TooLarge {
        /// Encoded size of the request.
        bytes: usize,
        /// What is allowed.
        limit: usize,
    },
    /// The operation's name is too long to be observed under.
    #[error("the operation has {bytes} bytes with `.observe`, at most {limit} are allowed")]
    OperationTooLong {
        /// With `.observe`.
        bytes: usize,
        /// What is allowed.
        limit: usize,
    },
    /// No try reached the server, e.g. connection refused or no such host.
    #[error("not sent: {0}")]
    NotSent(Box<Fault>),
    /// The request may or may not have been carried out: deadline, cancellation, broken
    /// stream, or the server could not tell. Repeating it with the same attempt id is
    /// safe and leads to the truth.
    #[error("outcome unknown: {0}")]
    OutcomeUnknown(Box<Fault>),
    /// The server refused; this call changed nothing but possibly evidence.
    #[error("refused: {0}")]
    Refused(Box<Fault>),
    /// The answer says something that this client does not know. Execute nothing.
    #[error("{call} was answered with an unknown {what}: nothing may be executed")]
    UnknownOutcome {
        /// The call.
        call: &'static str,
        /// Which part of the answer.
        what: &'static str,
    },
    /// The effect ended with an error that says nothing about whether it took place.
    /// The record is pending, or its lease was ended where take-over is allowed.
    #[error("the effect ended in an unknown way: {0}")]
    Effect(#[source] BoxError),
}

impl Error {
    /// The server's reason, if it gave one.
    pub fn reason(&self) -> Option<Reason> {
        self.fault()
            .map(|fault| fault.reason)
            .filter(|reason| *reason != Reason::Unspecified)
    }

    /// How the record reads, where the claim that was presented is over. None otherwise.
    pub fn claim_over(&self) -> Option<ClaimOver> {
        self.fault()
            .filter(|fault| fault.reason == Reason::ClaimOver)
            .map(|fault| fault.claim_over.unwrap_or_default())
    }

    /// The gRPC status behind it, if there is one.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Error::NotSent(fault) | Error::OutcomeUnknown(fault) | Error::Refused(fault) => {
                Some(fault)
            }
            _ => None,
        }
    }

    /// Whether the server surely never saw the request.
    pub fn never_sent(&self) -> bool {
        matches!(
            self,
            Error::NotSent(_)
                | Error::TooLarge { .. }
                | Error::OperationTooLong { .. }
                | Error::Endpoint { .. }
        )
    }

    /// Whether the call may have been carried out all the same.
    pub fn outcome_unknown(&self) -> bool {
        matches!(
            self,
            Error::OutcomeUnknown(_) | Error::UnknownOutcome { .. }
        )
    }

    /// The runtime ended before there was an answer.
    pub(crate) fn interrupted() -> Error {
        Error::OutcomeUnknown(Box::new(Fault {
            code: Code::Cancelled,
            message: "the runtime is shutting down".to_owned(),
            reason: Reason::Unspecified,
            fields: Vec::new(),
            retry_after: None,
            claim_over: None,
        }))
    }

    /// Whether the record's own state was the ground of the refusal, so that the same
    /// report can never succeed.
    pub(crate) fn decided(&self) -> bool {
        matches!(self, Error::Refused(fault) if fault.decided())
    }
}

/// A gRPC status with its details read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fault {
    /// The status code.
    pub code: Code,
    /// The status text.
    pub message: String,
    /// The machine-readable cause.
    pub reason: Reason,
    /// The fields at fault, with what is allowed.
    pub fields: Vec<FieldFault>,
    /// When repeating the call is worth it, if the server said so.
    pub retry_after: Option<Duration>,
    /// With CLAIM_OVER: how the record reads now.
    pub claim_over: Option<ClaimOver>,
}

/// The claim ended or was superseded, by another claim, a report or an operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimOver {
    /// How the record reads now; unspecified where the server did not say.
    pub state: State,
    /// With state FAILED.
    pub failure_kind: FailureKind,
}

impl ClaimOver {
    /// From the metadata of `google.rpc.ErrorInfo`: `state` as the enum names it without its
    /// prefix, FAILED with its kind, e.g. "PENDING" or "FAILED_RETRYABLE".
    fn read(metadata: &HashMap<String, String>) -> ClaimOver {
        let word = metadata.get("state").map_or("", String::as_str);
        let (state, kind) = match word.strip_prefix("FAILED_") {
            Some(kind) => ("FAILED", kind),
            None => (word, "UNSPECIFIED"),
        };
        let state = State::from_str_name(&format!("STATE_{state}"));
        let kind = FailureKind::from_str_name(&format!("FAILURE_KIND_{kind}"));
        ClaimOver {
            state: state.unwrap_or_default(),
            failure_kind: kind.unwrap_or_default(),
        }
    }
}

/// A field at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldFault {
    /// Its path in the request, e.g. "record.key".
    pub field: String,
    /// What is allowed.
    pub description: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            Reason::Unspecified => write!(f, "{:?}: {}", self.code, self.message)?,
            reason => write!(f, "{}: {}", reason_name(reason), self.message)?,
        }
        for fault in &self.fields {
            write!(f, "; {}: {}", fault.field, fault.description)?;
        }
        Ok(())
    }
}

impl Fault {
    /// A try that this client gave up on after `bound` without an answer.
    pub(crate) fn silence(bound: Duration) -> Fault {
        Fault {
            code: Code::DeadlineExceeded,
            message: format!("no answer within {bound:?}"),
            reason: Reason::Unspecified,
            fields: Vec::new(),
            retry_after: None,
            claim_over: None,
        }
    }

    fn read(status: &Status) -> Fault {
        let details = status.get_error_details();
        let info = details
            .error_info()
            .filter(|info| info.domain == reprise_proto::v1::ERROR_DOMAIN);
        let reason =
            info.and_then(|info| Reason::from_str_name(&format!("{REASON_PREFIX}{}", info.reason)));
        let fields = details.bad_request().map(|bad| {
            let faults = bad.field_violations.iter().map(|violation| FieldFault {
                field: violation.field.clone(),
                description: violation.description.clone(),
            });
            faults.collect()
        });
        Fault {
            code: status.code(),
            message: status.message().to_owned(),
            reason: reason.unwrap_or(Reason::Unspecified),
            fields: fields.unwrap_or_default(),
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
            claim_over: info
                .filter(|_| reason == Some(Reason::ClaimOver))
                .map(|info| ClaimOver::read(&info.metadata)),
        }
    }

    /// Whether the record was looked at. Faults such as a quota say nothing about what
    /// an earlier try of the same call did.
    fn decided(&self) -> bool {
        use Reason::*;
        match self.reason {
            RecordNotFound
            | StaleToken
            | OutcomeAlreadyRecorded
            | AttemptOver
            | LeaseExpired
            | RecordPending
            | Claimed
            | ClaimOver
            | LeaseRunning
            | Settling
            | TooLateToTell
            | Contradicted
            | IntentTooOld
            | RevisionChanged
            | StoredResultDamaged => true,
            Unspecified | InvalidField | PayloadNotCanonical | NotAuthenticated | NotAllowed
            | TooLarge | Quota | Overloaded | StoreUnavailable | Contention | Internal
            | DeadlineExceeded | ShuttingDown | UnknownMethod => false,
        }
    }
}

const REASON_PREFIX: &str = "ERROR_REASON_";

fn reason_name(reason: Reason) -> &'static str {
    let name = reason.as_str_name();
    name.strip_prefix(REASON_PREFIX).unwrap_or(name)
}

/// How one try of a call ended, and whether another may help.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) fault: Fault,
    pub(crate) fate: Fate,
    /// Whether the same request may be answered differently soon.
    pub(crate) passing: bool,
}

/// What is known about a request whose try failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    NotSent,
    Unknown,
    Refused,
}

impl Failure {
    pub(crate) fn silence(bound: Duration) -> Failure {
        Failure {
            fault: Fault::silence(bound),
            fate: Fate::Unknown,
            passing: true,
        }
    }

    pub(crate) fn read(status: &Status) -> Failure {
        let fault = Fault::read(status);
        let (fate, passing) = if never_sent(status) {
            (Fate::NotSent, true)
        } else if status.source().is_some() {
            // Made by the transport, not by a server: a broken or reset stream.
            (Fate::Unknown, true)
        } else {
            match fault.code {
                Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => {
                    (Fate::Unknown, true)
                }
                Code::Internal | Code::Unknown | Code::Ok => (Fate::Unknown, false),
                Code::Unauthenticated | Code::PermissionDenied | Code::Unimplemented => {
                    (Fate::Refused, false)
                }
                Code::ResourceExhausted => (
                    Fate::Refused,
                    matches!(fault.reason, Reason::Quota | Reason::Overloaded),
                ),
                // Without a reason of ours it is not our server's word, e.g. an answer
                // that is too large for this client after a grant.
                _ if fault.reason == Reason::Unspecified => (Fate::Unknown, false),
                _ => (Fate::Refused, false),
            }
        };
        Failure {
            fault,
            fate,
            passing,
        }
    }

    /// The error of a whole call. `maybe_sent`: an earlier try, or this one, may have
    /// been carried out.
    pub(crate) fn into_error(self, maybe_sent: bool) -> Error {
        let fault = Box::new(self.fault);
        match self.fate {
            Fate::Refused if fault.decided() || !maybe_sent => Error::Refused(fault),
            Fate::NotSent if !maybe_sent => Error::NotSent(fault),
            _ => Error::OutcomeUnknown(fault),
        }
    }
}

fn never_sent(status: &Status) -> bool {
    caused_by::<ConnectError>(status)
}

/// Whether this side gave up waiting, which the transport does by itself at the time-out
/// that a request carries.
pub(crate) fn is_silence(status: &Status) -> bool {
    caused_by::<TimeoutExpired>(status)
}

fn caused_by<E: StdError + 'static>(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<E>() {
            return true;
        }
        source = error.source();
    }
    false
}
