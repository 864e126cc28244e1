//! What holders of tokens say. MarkSending and Renew come before the effect and are
//! checked whole; Complete, Fail and MarkPending come after it: only name and token (and
//! the kind of a failure, which nobody may guess) are refused.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reprise_domain::command::{
    Command, Complete, Fail, FailureKind, Holder, Lessee, MarkPending, MarkSending, Renew,
};
use reprise_domain::text::{self, Adjustment, AdjustmentKind, FieldError, INSTRUCTION_BYTES_MAX};
use reprise_domain::token::TokenKey;
use reprise_domain::{Policy, RecordName, Request, policy};
use reprise_proto::v1 as proto;
use reprise_proto::v1::fail_request::Holder as SentHolder;
use reprise_proto::v1::renew_request::Holder as Lease;

use super::fields::{CHECK_AFTER_MAX, attempt_id, duration, exact, instruction, lease, nearest};
use super::{content, hashing};
use crate::grpc::status::Error;

/// A report, and what of it was not kept as sent.
pub(crate) type Report = (Request, Vec<Adjustment>);

/// MarkSendingRequest.
pub(crate) fn mark_sending(
    name: RecordName,
    policy: Arc<Policy>,
    key: &TokenKey,
    message: proto::MarkSendingRequest,
) -> Result<Request, FieldError> {
    let command = Command::MarkSending(MarkSending {
        held: key.read(&name.id(), &message.token)?,
        provider_reference: text::check("provider_reference", message.provider_reference)?,
        instruction: instruction(message.instruction)?,
        lease: lease("lease", message.lease)?,
    });
    Ok(Request {
        name,
        policy,
        command,
    })
}

/// RenewRequest.
pub(crate) fn renew(
    name: RecordName,
    policy: Arc<Policy>,
    key: &TokenKey,
    message: &proto::RenewRequest,
) -> Result<Request, FieldError> {
    let lessee = match &message.holder {
        Some(Lease::Token(token)) => Lessee::Attempt(key.read(&name.id(), token)?),
        Some(Lease::Claim(claim)) => Lessee::Claim(key.read_claim(&name.id(), claim)?),
        None => return Err(FieldError::new("holder", "required: token or claim")),
    };
    let asked = duration(
        "lease",
        message.lease,
        &(Duration::ZERO..=*policy::LEASE.end()),
        LEASE_OR_ZERO,
    )?;
    if asked.is_some_and(|lease| !lease.is_zero() && lease < *policy::LEASE.start()) {
        return Err(FieldError::new("lease", LEASE_OR_ZERO));
    }
    let command = Command::Renew(Renew {
        lessee,
        lease: asked,
    });
    Ok(Request {
        name,
        policy,
        command,
    })
}

const LEASE_OR_ZERO: &str = "0, or 100 ms to 15 min";

/// CompleteRequest.
pub(crate) async fn complete(
    name: RecordName,
    policy: Arc<Policy>,
    key: &TokenKey,
    message: proto::CompleteRequest,
) -> Result<Report, Error> {
    let held = key.read(&name.id(), &message.token)?;
    let bytes = content::size(message.result.as_ref());
    let rules = Arc::clone(&policy);
    let receive = move || content::receive("result", message.result, &rules);
    let received = hashing(bytes, receive).await?;
    let request = Request {
        name,
        policy,
        command: Command::Complete(Complete {
            held,
            result: received.kept,
            digest: received.digest,
            core: received.core,
        }),
    };
    Ok((request, received.adjusted))
}

/// FailRequest.
pub(crate) async fn fail(
    name: RecordName,
    policy: Arc<Policy>,
    key: &TokenKey,
    message: proto::FailRequest,
) -> Result<Report, Error> {
    let kind = match proto::FailureKind::try_from(message.kind) {
        Ok(proto::FailureKind::Retryable) => FailureKind::Retryable,
        Ok(proto::FailureKind::Final) => FailureKind::Final,
        Ok(proto::FailureKind::Unspecified) | Err(_) => {
            return Err(FieldError::new("kind", "RETRYABLE or FINAL").into());
        }
    };
    let holder = match &message.holder {
        Some(SentHolder::Token(token)) => Holder::Token(key.read(&name.id(), token)?),
        Some(SentHolder::AttemptId(id)) => {
            check_give_back(kind, &message)?;
            Holder::AttemptId(attempt_id("attempt_id", id)?)
        }
        None => return Err(FieldError::new("holder", "required: token or attempt_id").into()),
    };
    let bytes = content::size(message.error.as_ref());
    let rules = Arc::clone(&policy);
    let receive = move || content::receive("error", message.error, &rules);
    let received = hashing(bytes, receive).await?;
    let spent = message.effect_key_spent;
    let request = Request {
        name,
        policy,
        command: Command::Fail(Fail {
            holder,
            kind,
            effect_key_spent: spent,
            error: received.kept,
            digest: Fail::digest_of_content(kind, spent, received.digest),
        }),
    };
    Ok((request, received.adjusted))
}

fn check_give_back(kind: FailureKind, message: &proto::FailRequest) -> Result<(), FieldError> {
    if kind != FailureKind::Retryable {
        return Err(FieldError::new("kind", "RETRYABLE with attempt_id"));
    }
    if message.effect_key_spent {
        return Err(FieldError::new("effect_key_spent", "unset with attempt_id"));
    }
    let is_empty = |error: &proto::Content| *error == proto::Content::default();
    if !message.error.as_ref().is_none_or(is_empty) {
        return Err(FieldError::new("error", "unset with attempt_id"));
    }
    Ok(())
}

/// MarkPendingRequest.
pub(crate) fn mark_pending(
    name: RecordName,
    policy: Arc<Policy>,
    key: &TokenKey,
    message: proto::MarkPendingRequest,
) -> Result<Report, FieldError> {
    let held = key.read(&name.id(), &message.token)?;
    let as_sent = message.check_after.map(nearest);
    let digest = MarkPending::digest_of(
        &message.reason,
        &message.provider_reference,
        &message.instruction,
        as_sent,
    );
    let mut adjusted = Vec::new();
    let mut tidy = |field: &str, sent| text::adjust(field, sent, &mut adjusted);
    let command = Command::MarkPending(MarkPending {
        held,
        detail: tidy("reason", message.reason),
        provider_reference: tidy("provider_reference", message.provider_reference),
        instruction: fitting_instruction(message.instruction, &mut adjusted),
        check_after: fitting_check(message.check_after, &mut adjusted),
        digest,
    });
    let request = Request {
        name,
        policy,
        command,
    };
    Ok((request, adjusted))
}

/// Half a request is worse than none: whoever finishes it would send something else.
fn fitting_instruction(sent: Bytes, adjusted: &mut Vec<Adjustment>) -> Bytes {
    if sent.len() <= INSTRUCTION_BYTES_MAX {
        return sent;
    }
    adjusted.push(Adjustment {
        field: "instruction".to_owned(),
        kind: AdjustmentKind::Dropped,
        description: "at most 16 KiB are kept",
    });
    Bytes::new()
}

fn fitting_check(
    sent: Option<prost_types::Duration>,
    adjusted: &mut Vec<Adjustment>,
) -> Option<Duration> {
    let sent = sent?;
    let kept = nearest(sent).min(CHECK_AFTER_MAX);
    if exact(sent) == Some(kept) {
        return Some(kept);
    }
    adjusted.push(Adjustment {
        field: "check_after".to_owned(),
        kind: AdjustmentKind::Cut,
        description: "0 to 30 days",
    });
    Some(kept)
}
