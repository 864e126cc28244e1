//! The last step of a grant: it is delivered when the transport takes the answer's first
//! bytes. An answer that is dropped before that reached nobody, and its grant is given
//! back.
//!
//! It knows bodies and deliveries, nothing of what was granted.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::store::Delivery;

/// Goes with an answer, from its method to the layer around it. One that meets no such
/// layer counts as delivered: a grant that somebody received must never be given back.
#[derive(Clone)]
struct Handover(Arc<Unarmed>);

struct Unarmed(Mutex<Option<Delivery>>);

impl Unarmed {
    fn take(&self) -> Option<Delivery> {
        let mut delivery = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        delivery.take()
    }
}

impl Drop for Unarmed {
    fn drop(&mut self) {
        accept(self.take());
    }
}

/// The answer itself was taken before, and its message is with the caller.
fn accept(delivery: Option<Delivery>) {
    if let Some(delivery) = delivery {
        let _answer = delivery.accept();
    }
}

/// An answer whose grant is delivered with it.
pub(crate) fn with<T>(message: T, delivery: Delivery) -> tonic::Response<T> {
    let mut response = tonic::Response::new(message);
    let handover = Handover(Arc::new(Unarmed(Mutex::new(Some(delivery)))));
    response.extensions_mut().insert(handover);
    response
}

/// Ties a grant to the body that carries it. To be called with nothing between it and the
/// method that could be cancelled.
pub(crate) fn tied(mut response: Response) -> Response {
    let handover = response.extensions_mut().remove::<Handover>();
    let Some(delivery) = handover.and_then(|handover| handover.0.take()) else {
        return response;
    };
    response.map(|body| {
        Body::new(Carrying {
            body,
            delivery: Some(delivery),
        })
    })
}

/// A body that carries a grant.
struct Carrying {
    body: Body,
    delivery: Option<Delivery>,
}

impl http_body::Body for Carrying {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_ready() {
            accept(self.delivery.take());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::BodyExt;
    use prost::Message;
    use reprise_domain::command::{Command, Reserve};
    use reprise_domain::record::AttemptId;
    use reprise_fingerprint::{MediaType, raw};
    use reprise_proto::v1::reserve_response::Outcome;
    use reprise_proto::v1::{
        FingerprintDigest, FingerprintScheme, GrantReason, RecordName, ReserveRequest,
        ReserveResponse, reserve_request,
    };
    use tokio_util::sync::CancellationToken;
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::grpc::{Bounds, Calls, Front, Gate, Policies, Rooms, front};
    use crate::store::Store;
    use crate::store::embedded::{Embedded, Options};

    async fn service(directory: &tempfile::TempDir) -> Front {
        let rooms = Rooms::default();
        let options = Options {
            on_change: Some(rooms.on_change()),
            ..Options::default()
        };
        let path = directory.path().join("reprise.sqlite");
        let store: Arc<dyn Store> = Arc::new(Embedded::open(&path, options).unwrap());
        let policies = Policies::load(Arc::clone(&store), Arc::default()).await;
        let draining = CancellationToken::new();
        let calls = Arc::new(Calls {
            store,
            policies: Arc::new(policies.unwrap()),
            rooms,
            mismatches: Arc::default(),
            policy_changes: TaskTracker::new(),
            draining: draining.clone(),
        });
        let bounds = Bounds {
            calls_max: 10,
            deadline_default: Duration::from_secs(10),
            deadline_max: Duration::from_secs(10),
        };
        let gate = Arc::new(Gate::new(bounds, draining));
        front(&calls, &gate, &Arc::default()).await.unwrap().0
    }

    /// A Reserve of the same record by the attempt of that byte.
    async fn reserve(service: &Front, attempt: u8, wait: i64) -> Response {
        let message = ReserveRequest {
            record: Some(RecordName {
                tenant: "t".into(),
                operation: "o".into(),
                subject: String::new(),
                key: "k".into(),
            }),
            attempt_id: vec![attempt; 16].into(),
            fingerprint: Some(reserve_request::Fingerprint::Digest(FingerprintDigest {
                scheme: FingerprintScheme::Raw.into(),
                rule_id: String::new(),
                sha256: vec![1; 32].into(),
            })),
            wait: Some(prost_types::Duration {
                seconds: wait,
                nanos: 0,
            }),
            ..ReserveRequest::default()
        };
        let message = message.encode_to_vec();
        let mut frame = vec![0];
        frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        frame.extend(message);
        let request = http::Request::post("/reprise.v1.RepriseService/Reserve")
            .header("content-type", "application/grpc")
            .body(Body::from(frame))
            .unwrap();
        service.clone().answer(request).await.map(Body::new)
    }

    async fn outcome(response: Response) -> Outcome {
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let message = ReserveResponse::decode(bytes.slice(5..)).unwrap();
        message.outcome.unwrap()
    }

    #[tokio::test]
    async fn an_answer_that_the_transport_never_took_gives_its_grant_back() {
        let directory = tempfile::tempdir().unwrap();
        let service = service(&directory).await;
        drop(reserve(&service, 1, 0).await);
        match outcome(reserve(&service, 2, 8).await).await {
            Outcome::Acquired(grant) => assert_eq!(grant.reason(), GrantReason::First),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn an_answer_that_the_transport_took_keeps_its_grant() {
        let directory = tempfile::tempdir().unwrap();
        let service = service(&directory).await;
        let granted = outcome(reserve(&service, 1, 0).await).await;
        assert!(matches!(granted, Outcome::Acquired(_)), "{granted:?}");
        let other = outcome(reserve(&service, 2, 0).await).await;
        assert!(matches!(other, Outcome::Processing(_)), "{other:?}");
    }

    /// How often a record was written whose grant was answered and came to this end.
    async fn revision_after(end: impl FnOnce(Delivery)) -> u64 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("reprise.sqlite");
        let store = Embedded::open(&path, Options::default()).unwrap();
        let name = reprise_domain::RecordName::new("t", "o", "", "k").unwrap();
        let request = reprise_domain::Request {
            name: name.clone(),
            policy: Arc::default(),
            command: Command::Reserve(Reserve {
                attempt_id: AttemptId([1; 16]),
                fingerprints: vec![raw(
                    &MediaType::default(),
                    &reprise_fingerprint::Context::default(),
                    b"",
                )],
                lease: None,
                owner: String::new(),
                correlation_id: String::new(),
                instruction: Bytes::new(),
                intent_time: None,
            }),
        };
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        end(store.execute(request, deadline).await.unwrap());
        store.close().await.unwrap();
        drop(store);
        let store = Embedded::open(&path, Options::default()).unwrap();
        let target = crate::store::Target::Id(name.id());
        let (record, _) = store.find("t", target, deadline).await.unwrap().unwrap();
        record.revision
    }

    /// The answer of a method, as it comes to the layer.
    fn answered(delivery: Delivery) -> Response {
        let (_, _, extensions) = with((), delivery).into_parts();
        let mut response = Response::new(Body::empty());
        *response.extensions_mut() = extensions;
        response
    }

    #[tokio::test]
    async fn an_answer_that_meets_no_layer_counts_as_delivered() {
        let revision = revision_after(|delivery| drop(answered(delivery))).await;
        assert_eq!(revision, 1, "nothing was given back");
    }

    #[tokio::test]
    async fn an_answer_that_met_the_layer_and_was_dropped_gives_its_grant_back() {
        let revision = revision_after(|delivery| drop(tied(answered(delivery)))).await;
        assert_eq!(revision, 2);
    }
}
