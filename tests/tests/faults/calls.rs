//! Calls in the words of the tests: one tenant, one operation, a key. Knows nothing of
//! what they should answer.

use std::error::Error as _;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use reprise_client::proto::content::Body;
use reprise_client::proto::fail_request::Holder;
use reprise_client::proto::reprise_service_client::RepriseServiceClient;
use reprise_client::proto::reserve_response::Outcome;
use reprise_client::proto::*;
use reprise_client::{AttemptId, Client, Error, Found, Reading, Reason, Reserve, record_name};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

/// Far longer than anything here takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
/// Longer than any test, so that no grant lapses in one.
pub(crate) const LONG_LEASE: Duration = Duration::from_secs(900);

/// The rpcs as they are, each sent once.
pub(crate) type Stub = RepriseServiceClient<Channel>;

/// A connection of its own, with the default settings of a plain gRPC client.
pub(crate) fn stub(addr: SocketAddr) -> Result<Stub> {
    let endpoint = Endpoint::from_shared(format!("http://{addr}"))?.tcp_nodelay(true);
    Ok(Stub::new(endpoint.connect_lazy()))
}

/// A request with a deadline, which the caller keeps too.
pub(crate) fn within<T>(deadline: Duration, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(deadline);
    request
}

pub(crate) fn name(key: impl Into<String>) -> RecordName {
    record_name("t1", "op", "", key)
}

/// A payload that is hashed by the server as it is.
pub(crate) fn payload(text: &str) -> FingerprintPayload {
    FingerprintPayload {
        scheme: FingerprintScheme::Raw.into(),
        media_type: "text/plain".to_owned(),
        context: Vec::new(),
        content: Bytes::copy_from_slice(text.as_bytes()),
    }
}

/// Asks for an attempt with a lease that no test outlives.
pub(crate) fn reserve(key: impl Into<String>) -> Reserve {
    Reserve::new(name(key), payload("the payload")).lease(LONG_LEASE)
}

/// The same as a raw request, under a new attempt id.
pub(crate) fn reserve_request(key: &str, content: &str) -> Result<ReserveRequest> {
    Ok(ReserveRequest {
        record: Some(name(key)),
        attempt_id: Bytes::copy_from_slice(AttemptId::random().as_bytes()),
        fingerprint: Some(reserve_request::Fingerprint::Payload(payload(content))),
        lease: Some(LONG_LEASE.try_into()?),
        ..ReserveRequest::default()
    })
}

pub(crate) fn body(bytes: impl Into<Bytes>) -> Content {
    reprise_client::content("200", bytes)
}

pub(crate) fn complete(key: &str, token: &Bytes, result: Content) -> CompleteRequest {
    CompleteRequest {
        record: Some(name(key)),
        token: token.clone(),
        result: Some(result),
    }
}

pub(crate) fn fail(key: &str, token: &Bytes, kind: FailureKind, error: Content) -> FailRequest {
    FailRequest {
        record: Some(name(key)),
        holder: Some(Holder::Token(token.clone())),
        kind: kind.into(),
        effect_key_spent: false,
        error: Some(error),
    }
}

pub(crate) fn mark_pending(key: &str, token: &Bytes, reason: &str) -> MarkPendingRequest {
    MarkPendingRequest {
        record: Some(name(key)),
        token: token.clone(),
        reason: reason.to_owned(),
        ..MarkPendingRequest::default()
    }
}

pub(crate) fn lookup(key: &str) -> LookupRequest {
    LookupRequest {
        target: Some(lookup_request::Target::Record(name(key))),
        with_result: true,
        ..LookupRequest::default()
    }
}

/// How a record reads; none when there is none.
pub(crate) async fn look(client: &Client, key: &str) -> Result<Option<Found>, Error> {
    match client.lookup(lookup(key)).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.reason() == Some(Reason::RecordNotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What is on record as the result.
pub(crate) async fn result_of(client: &Client, key: &str) -> Result<Content> {
    match look(client, key).await?.context("no such record")?.reading {
        Reading::Completed(recorded) => Ok(recorded.content),
        other => bail!("{key} is not completed: {other:?}"),
    }
}

/// Reserves a fresh key and returns the grant; any other answer is an error.
pub(crate) async fn acquire(stub: &mut Stub, key: &str) -> Result<Acquired> {
    let request = within(LIMIT, reserve_request(key, "the payload")?);
    match stub.reserve(request).await?.into_inner().outcome {
        Some(Outcome::Acquired(acquired)) => Ok(acquired),
        other => bail!("{key} was not acquired: {other:?}"),
    }
}

/// A whole ordinary life of a fresh key, each call sent once.
pub(crate) async fn live(stub: &mut Stub, key: &str) -> Result<()> {
    let acquired = acquire(stub, key).await?;
    let request = complete(key, &acquired.token, body(key.to_owned()));
    let answer = stub.complete(within(LIMIT, request)).await?.into_inner();
    anyhow::ensure!(
        answer.disposition() == ReportDisposition::Recorded,
        "{answer:?}"
    );
    Ok(())
}

/// The bytes of a body that is there.
pub(crate) fn data(content: &Content) -> Option<&Bytes> {
    match &content.body {
        Some(Body::Data(data)) => Some(data),
        Some(Body::Omitted(_)) | None => None,
    }
}

/// Whether a status says that the outcome is not known, or that nothing was begun. One
/// with a source was made by this side of a connection that ended, whatever its code is.
pub(crate) fn is_open(status: &Status) -> bool {
    let codes = [Code::Unavailable, Code::DeadlineExceeded, Code::Cancelled];
    status.source().is_some() || codes.contains(&status.code())
}
