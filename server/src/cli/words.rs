//! What an answer means and what to do next, in words for people.

use reprise_client::proto::{
    FailureKind, GrantReason, MismatchReason, Pending, PendingReason, Processing, ProcessingReason,
    RecordSummary, StartOver, State,
};
use reprise_client::{Acquired, Found, Outcome, Reading, Reserved};

use super::{duration, table};

/// The answer to Reserve.
pub(crate) fn reserved(answer: &Reserved) -> String {
    match &answer.outcome {
        Outcome::Acquired(grant) => acquired(grant, answer.record.attempt),
        Outcome::Completed(_) => {
            "Completed before. Do not carry it out: this is its result.".to_owned()
        }
        Outcome::Failed(_) => format!(
            "Failed for good before: this is its error. {}",
            over(answer.start_over)
        ),
        Outcome::Processing(it) => processing(it),
        Outcome::Pending(it) => pending(it),
        Outcome::Mismatch(it) => match it.reason() {
            MismatchReason::NotComparable => {
                "Mismatch: this key's record has a fingerprint that this payload cannot be compared with. Do not carry it out.".to_owned()
            }
            _ => "Mismatch: this key was used with another payload. Do not carry it out; another intent needs another key.".to_owned(),
        },
        Outcome::ResultGone(_) => gone(answer.start_over),
    }
}

/// The answer to Lookup.
pub(crate) fn found(answer: &Found) -> String {
    match &answer.reading {
        Reading::Completed(_) => {
            "Completed: it took place, and whoever asks again gets this result.".to_owned()
        }
        Reading::Failed(_) if answer.record.failure_kind() == FailureKind::Retryable => {
            "Failed without an effect: the next caller with this key may try again.".to_owned()
        }
        Reading::Failed(_) => format!(
            "Failed for good: whoever asks again gets this error. {}",
            over(answer.start_over)
        ),
        Reading::Processing(it) => processing(it),
        Reading::Pending(it) => pending(it),
        Reading::ResultGone(_) => gone(answer.start_over),
    }
}

/// How a record stands after a report.
pub(crate) fn record(record: &RecordSummary) -> &'static str {
    match (record.state(), record.failure_kind()) {
        (State::Processing, _) => "PROCESSING: somebody holds it",
        (State::Completed, _) => "COMPLETED: whoever asks again gets the result",
        (State::Failed, FailureKind::Retryable) => "FAILED: the next caller may try again",
        (State::Failed, _) => "FAILED for good: whoever asks again gets the error",
        (State::Pending, _) => {
            "PENDING: nobody carries it out until somebody finds out what happened"
        }
        (State::Unspecified, _) => "in a state that this program does not know",
    }
}

/// The state of a record in two words at most.
pub(crate) fn state(record: &RecordSummary) -> &'static str {
    state_of(record.state(), record.failure_kind())
}

/// As [`state`].
pub(crate) fn state_of(state: State, kind: FailureKind) -> &'static str {
    match (state, kind) {
        (State::Processing, _) => "PROCESSING",
        (State::Completed, _) => "COMPLETED",
        (State::Failed, FailureKind::Retryable) => "FAILED retryable",
        (State::Failed, _) => "FAILED final",
        (State::Pending, _) => "PENDING",
        (State::Unspecified, _) => "UNKNOWN",
    }
}

fn acquired(grant: &Acquired, attempt: u32) -> String {
    let why = match grant.reason {
        GrantReason::First => "nobody did before",
        GrantReason::AfterRetryableFailure => "the attempt before had no effect",
        GrantReason::AfterLapsedLease => "the attempt before lapsed",
        GrantReason::Again => "this attempt asked again",
        GrantReason::AfterResolution => "a resolution took over",
        GrantReason::Unspecified => "for a reason that this program does not know",
    };
    let left = duration::show(grant.lease.remaining());
    let mut words = format!(
        "Acquired, attempt {attempt}: {why}. Carry it out within {left}, then report it with the token."
    );
    if !grant.earlier.instruction.is_empty() {
        words.push_str(
            "\nAn earlier attempt left an instruction: send that request, not a new one.",
        );
    }
    if grant.earlier.unaccounted {
        words.push_str(
            "\nAn earlier attempt may have had its effect: the provider must get the same effect key.",
        );
    }
    words
}

fn processing(processing: &Processing) -> String {
    if processing.reason() == ProcessingReason::Held {
        return "Held: an operator stopped this operation. Do not carry it out; ask again \
                later. `reprise status` says since when."
            .to_owned();
    }
    let owner = match table::visible(&processing.owner) {
        owner if owner.is_empty() => "Somebody".to_owned(),
        owner => owner,
    };
    let left = span(processing.lease_remaining);
    if left.is_zero() {
        return format!("{owner} let the lease lapse: whoever asks next may take over.");
    }
    format!(
        "{owner} is at it, for {} more at least. Do not carry it out: ask again, or wait with --wait.",
        duration::show(left)
    )
}

fn pending(pending: &Pending) -> String {
    let why = match pending.reason() {
        PendingReason::Reported => "its caller does not know whether it took place",
        PendingReason::LeaseExpired => "its caller fell silent",
        PendingReason::LeaseExpiredAfterSending => {
            "its caller fell silent after it said that it was sending"
        }
        PendingReason::EarlierAttemptUnknown => {
            "an earlier attempt may have had its effect, and the provider may have forgotten its key"
        }
        PendingReason::ContradictoryReports => "reports about it contradict each other",
        PendingReason::Unspecified => "for a reason that this program does not know",
    };
    let next = match &pending.claim {
        None => "Ask the provider about the effect key, then tell the record: `reprise resolve`."
            .to_owned(),
        Some(claim) => {
            let owner = match table::visible(&claim.owner) {
                owner if owner.is_empty() => "Somebody".to_owned(),
                owner => owner,
            };
            format!("{owner} is finding out: see what comes of it before you do.")
        }
    };
    format!("Pending: {why}. Do not carry it out and do not start over.\n{next}")
}

fn gone(start_over: StartOver) -> String {
    format!(
        "The outcome is known, its bytes are no longer kept. {}",
        over(start_over)
    )
}

fn over(answer: StartOver) -> &'static str {
    match answer {
        StartOver::Yes => "The intent may start over with a new key.",
        StartOver::No => "Do not start over with a new key.",
        StartOver::Unknown | StartOver::Unspecified => {
            "Whether it took place is not sure: do not start over with a new key."
        }
    }
}

fn span(wire: Option<prost_types::Duration>) -> std::time::Duration {
    let span = wire.and_then(|span| std::time::Duration::try_from(span).ok());
    span.unwrap_or_default()
}
