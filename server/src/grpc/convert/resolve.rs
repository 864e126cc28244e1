//! ResolveRequest: an operator has time to put things right, so everything but the
//! content is checked whole.

use std::sync::Arc;
use std::time::Duration;

use reprise_domain::command::{self, Command, Finding, Found, Resolve};
use reprise_domain::text::{self, FieldError, INSTRUCTION_BYTES_MAX};
use reprise_domain::token::TokenKey;
use reprise_domain::{Policy, RecordName, Request};
use reprise_proto::v1 as proto;
use reprise_proto::v1::resolve_request::{Authority, Outcome};

use super::fields::{CHECK_AFTER_MAX, attempt_id, duration, lease, prose, required_text};
use super::report::Report;
use super::{content, hashing};
use crate::grpc::status::Error;

/// The resolution, and what of its content was not kept as sent.
pub(crate) async fn resolve(
    name: RecordName,
    policy: Arc<Policy>,
    key: &TokenKey,
    message: proto::ResolveRequest,
) -> Result<Report, Error> {
    let authority = match message.authority {
        Some(Authority::OperatorOverride(operator)) => command::Authority::Operator {
            revision: operator.revision,
        },
        Some(Authority::Claim(claim)) => {
            command::Authority::Claim(key.read_claim(&name.id(), &claim)?)
        }
        None => {
            let allowed = "required: claim or operator_override";
            return Err(FieldError::new("authority", allowed).into());
        }
    };
    let evidence = prose("evidence", message.evidence, INSTRUCTION_BYTES_MAX)?;
    let actor = required_text("actor", message.actor)?;
    let spent = message.effect_key_spent;
    let mut adjusted = Vec::new();
    let finding = match message.outcome {
        None => return Err(FieldError::new("outcome", "required: what was found out").into()),
        Some(Outcome::Applied(found)) => {
            unspent(spent)?;
            let received = receive("applied.result", found.result, &policy).await?;
            adjusted = received.1;
            Finding::Applied(received.0)
        }
        Some(Outcome::NotApplied(proto::NotApplied {})) => Finding::NotApplied,
        Some(Outcome::TakeOver(asked)) => Finding::TakeOver {
            attempt_id: attempt_id("take_over.attempt_id", &asked.attempt_id)?,
            lease: lease("take_over.lease", asked.lease)?,
        },
        Some(Outcome::Failed(found)) => {
            let received = receive("failed.error", found.error, &policy).await?;
            adjusted = received.1;
            Finding::Failed(received.0)
        }
        Some(Outcome::StillUnknown(unknown)) => {
            unspent(spent)?;
            still_unknown(unknown)?
        }
    };
    let request = Request {
        name,
        policy,
        command: Command::Resolve(Resolve {
            authority,
            finding,
            effect_key_spent: spent,
            evidence,
            actor,
        }),
    };
    Ok((request, adjusted))
}

fn unspent(spent: bool) -> Result<(), FieldError> {
    if spent {
        let allowed = "unset with applied and still_unknown";
        return Err(FieldError::new("effect_key_spent", allowed));
    }
    Ok(())
}

fn still_unknown(message: proto::StillUnknown) -> Result<Finding, FieldError> {
    Ok(Finding::StillUnknown {
        check_after: duration(
            "still_unknown.check_after",
            message.check_after,
            &(Duration::ZERO..=CHECK_AFTER_MAX),
            "0 to 30 days",
        )?,
        provider_reference: text::check(
            "still_unknown.provider_reference",
            message.provider_reference,
        )?,
    })
}

async fn receive(
    field: &'static str,
    message: Option<proto::Content>,
    policy: &Arc<Policy>,
) -> Result<(Found, Vec<text::Adjustment>), Error> {
    let rules = Arc::clone(policy);
    let bytes = content::size(message.as_ref());
    let received = hashing(bytes, move || content::receive(field, message, &rules)).await?;
    let found = Found {
        content: received.kept,
        digest: received.digest,
        core: received.core,
    };
    Ok((found, received.adjusted))
}
