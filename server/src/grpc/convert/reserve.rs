//! ReserveRequest.

use std::sync::Arc;
use std::time::Duration;

use reprise_domain::command::{Command, Reserve};
use reprise_domain::text;
use reprise_domain::{Policy, RecordName, Request};
use reprise_proto::v1 as proto;

use super::fields::{attempt_id, instruction, lease, moment};
use super::fingerprint::fingerprints;
use super::lookup::wait;
use crate::grpc::status::Error;

/// The command, and how long the caller would wait. The record's name was taken out of
/// the message before.
pub(crate) async fn reserve(
    name: RecordName,
    policy: Arc<Policy>,
    message: proto::ReserveRequest,
) -> Result<(Request, Duration), Error> {
    let attempt_id = attempt_id("attempt_id", &message.attempt_id)?;
    let lease = lease("lease", message.lease)?;
    let wait = wait(message.wait)?;
    let owner = text::check("owner", message.owner)?;
    let correlation_id = text::check("correlation_id", message.correlation_id)?;
    let instruction = instruction(message.instruction)?;
    let intent_time = message
        .intent_time
        .map(|at| moment("intent_time", at))
        .transpose()?;
    let reserve = Reserve {
        attempt_id,
        fingerprints: fingerprints(message.fingerprint, &policy).await?,
        lease,
        owner,
        correlation_id,
        instruction,
        intent_time,
    };
    let request = Request {
        name,
        policy,
        command: Command::Reserve(reserve),
    };
    Ok((request, wait))
}
