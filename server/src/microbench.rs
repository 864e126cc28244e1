//! What the micro-benchmarks reach of the conversion; for nothing else. Messages are small
//! enough to be converted without waiting, and none where they are refused.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use reprise_domain::command::Answer;
use reprise_domain::token::TokenKey;
use reprise_domain::{Policy, RecordName, Request};
use reprise_proto::v1 as proto;

use crate::grpc::convert;

/// ReserveRequest to command.
pub fn reserve_request(
    mut message: proto::ReserveRequest,
    policy: &Arc<Policy>,
) -> Option<Request> {
    let name = convert::record_name(message.record.take()).ok()?;
    let (request, _wait) = now(convert::reserve(name, Arc::clone(policy), message))?.ok()?;
    Some(request)
}

/// CompleteRequest to command.
pub fn complete_request(
    mut message: proto::CompleteRequest,
    policy: &Arc<Policy>,
    key: &TokenKey,
) -> Option<Request> {
    let name = convert::record_name(message.record.take()).ok()?;
    let complete = convert::complete(name, Arc::clone(policy), key, message);
    let (request, _adjusted) = now(complete)?.ok()?;
    Some(request)
}

/// Answer to ReserveResponse.
pub fn reserve_response(
    answer: Answer,
    name: &RecordName,
    key: &TokenKey,
) -> Option<proto::ReserveResponse> {
    convert::reserve_response(answer, name, 1024 * 1024, key).ok()
}

/// Answer to CompleteResponse.
pub fn complete_response(answer: Answer) -> Option<proto::CompleteResponse> {
    convert::complete_response(answer, Vec::new()).ok()
}

fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}
