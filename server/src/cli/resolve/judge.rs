//! Whether a record already is as a line of a file says. Compares what the line states;
//! what it leaves out does not count.

use std::time::SystemTime;

use reprise_client::proto::content::Body;
use reprise_client::proto::resolve_request::Outcome;
use reprise_client::proto::{AuditAction, Content, FailureKind, State};
use reprise_client::{Found, Reading};
use sha2::{Digest, Sha256};

use crate::cli::answer::word;

/// How a record stands to what was found out about it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Standing {
    /// Nobody knows yet how it ended.
    Pending,
    /// It already is as was found out.
    Alike,
    /// It is decided in another way, or busy; says how.
    Other(String),
}

pub(super) fn standing(found: &Found, outcome: &Outcome) -> Standing {
    let retryable = found.record.failure_kind() == FailureKind::Retryable;
    let differs = match (&found.reading, outcome) {
        (Reading::Pending(_), _) => return Standing::Pending,
        (Reading::Completed(it), Outcome::Applied(said)) => said
            .result
            .as_ref()
            .and_then(|said| differs(said, &it.content)),
        (Reading::Failed(_), Outcome::NotApplied(_)) if retryable => None,
        (Reading::Failed(it), Outcome::Failed(said)) if !retryable => said
            .error
            .as_ref()
            .and_then(|said| differs(said, &it.content)),
        (Reading::ResultGone(gone), Outcome::Applied(_) | Outcome::Failed(_))
            if (gone.state() == State::Completed) == matches!(outcome, Outcome::Applied(_)) =>
        {
            None
        }
        _ => return Standing::Other(format!("the record is {}", state(found))),
    };
    match differs {
        None => Standing::Alike,
        Some(what) => {
            let state = state(found);
            Standing::Other(format!("the record is {state} with another {what}"))
        }
    }
}

/// Whether a line names when to look again.
pub(super) fn puts_off(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::StillUnknown(unknown) if unknown.check_after.is_some())
}

/// Whether nobody is to look at a pending record yet, by this machine's clock.
pub(super) fn is_put_off(found: &Found) -> bool {
    let Reading::Pending(pending) = &found.reading else {
        return false;
    };
    let next: Option<SystemTime> = pending.next_check_time.and_then(|it| it.try_into().ok());
    next.is_some_and(|next| next > SystemTime::now())
}

fn state(found: &Found) -> String {
    let state = word(found.record.state().as_str_name(), "STATE_");
    match found.record.failure_kind() {
        FailureKind::Retryable => format!("{state} and may be tried again"),
        FailureKind::Final => format!("{state} for good"),
        FailureKind::Unspecified => state.to_owned(),
    }
}

/// What of the stated is not so on record.
fn differs(said: &Content, recorded: &Content) -> Option<&'static str> {
    let texts = [
        ("code", &said.code, &recorded.code),
        ("resource_id", &said.resource_id, &recorded.resource_id),
        (
            "provider_reference",
            &said.provider_reference,
            &recorded.provider_reference,
        ),
    ];
    for (name, said, recorded) in texts {
        if !said.is_empty() && said != recorded {
            return Some(name);
        }
    }
    let body = said.body.as_ref().map(measure);
    (body.is_some() && body != recorded.body.as_ref().map(measure)).then_some("body")
}

/// Size and digest, all that a lookup without bytes tells.
fn measure(body: &Body) -> (u64, Vec<u8>) {
    match body {
        Body::Data(data) => (data.len() as u64, Sha256::digest(data).to_vec()),
        Body::Omitted(omitted) => (omitted.size, omitted.sha256.to_vec()),
    }
}

/// What the audit calls a resolution.
pub(super) fn action(outcome: &Outcome) -> AuditAction {
    match outcome {
        Outcome::Applied(_) => AuditAction::ResolvedApplied,
        Outcome::NotApplied(_) => AuditAction::ResolvedNotApplied,
        Outcome::TakeOver(_) => AuditAction::ResolvedTakeOver,
        Outcome::Failed(_) => AuditAction::ResolvedFailed,
        Outcome::StillUnknown(_) => AuditAction::ResolvedStillUnknown,
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use bytes::Bytes;
    use reprise_client::Recorded;
    use reprise_client::proto::{
        Applied, NotApplied, OmittedBody, Pending, RecordName, RecordSummary, StartOver,
    };

    use super::*;

    fn found(reading: Reading, state: State, kind: FailureKind) -> Found {
        Found {
            name: RecordName::default(),
            record: RecordSummary {
                state: state.into(),
                failure_kind: kind.into(),
                ..RecordSummary::default()
            },
            start_over: StartOver::No,
            reading,
        }
    }

    fn completed() -> Found {
        let body = OmittedBody {
            size: 2,
            sha256: Bytes::copy_from_slice(&Sha256::digest("{}")),
        };
        let content = Content {
            code: "201".to_owned(),
            body: Some(Body::Omitted(body)),
            provider_reference: "ch_1".to_owned(),
            ..Content::default()
        };
        let recorded = Recorded {
            content,
            time: SystemTime::UNIX_EPOCH,
        };
        let reading = Reading::Completed(recorded);
        found(reading, State::Completed, FailureKind::Unspecified)
    }

    fn applied(code: &str, body: Option<&'static str>) -> Outcome {
        let body = body.map(|body| Body::Data(Bytes::from_static(body.as_bytes())));
        let result = Content {
            code: code.to_owned(),
            body,
            ..Content::default()
        };
        Outcome::Applied(Applied {
            result: Some(result),
        })
    }

    #[test]
    fn what_a_line_leaves_out_does_not_count() {
        for said in [
            applied("", None),
            applied("201", None),
            applied("201", Some("{}")),
        ] {
            assert_eq!(standing(&completed(), &said), Standing::Alike, "{said:?}");
        }
    }

    #[test]
    fn another_content_or_another_outcome_is_not_alike() {
        for (said, told) in [
            (
                applied("202", None),
                "the record is COMPLETED with another code",
            ),
            (
                applied("", Some("[]")),
                "the record is COMPLETED with another body",
            ),
            (
                Outcome::NotApplied(NotApplied {}),
                "the record is COMPLETED",
            ),
        ] {
            let other = Standing::Other(told.to_owned());
            assert_eq!(standing(&completed(), &said), other);
        }
    }

    #[test]
    fn what_is_pending_is_open_to_everything() {
        let reading = Reading::Pending(Pending::default());
        let found = found(reading, State::Pending, FailureKind::Unspecified);
        assert_eq!(standing(&found, &applied("", None)), Standing::Pending);
    }
}
