//! Messages to commands, and answers to messages: what each call does before and after the
//! store. Decoding and encoding are included; the transport is not.
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::Arc;

use bytes::Bytes;
use divan::{Bencher, black_box};
use prost::Message as _;
use reprise::microbench;
use reprise_domain::command::Answer;
use reprise_domain::token::TokenKey;
use reprise_domain::{Policy, Record, Request, Timestamp, decide};
use reprise_proto::v1 as proto;

const NOW: Timestamp = Timestamp(1_800_000_000_000_000);

fn main() {
    divan::main();
}

fn key() -> TokenKey {
    TokenKey::new([7; 32])
}

fn record_name() -> proto::RecordName {
    proto::RecordName {
        tenant: "shop-eu".to_owned(),
        operation: "charge".to_owned(),
        subject: "customer-4711".to_owned(),
        key: "order-2f6c1a90-attempted".to_owned(),
    }
}

fn reserve() -> proto::ReserveRequest {
    use proto::reserve_request::Fingerprint;
    proto::ReserveRequest {
        record: Some(record_name()),
        attempt_id: Bytes::from_static(&[1; 16]),
        fingerprint: Some(Fingerprint::Payload(proto::FingerprintPayload {
            scheme: proto::FingerprintScheme::Raw.into(),
            content: Bytes::from_static(br#"{"order":"2f6c1a90","amount":"42.00 EUR"}"#),
            ..proto::FingerprintPayload::default()
        })),
        owner: "checkout-7f9c".to_owned(),
        correlation_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
        ..proto::ReserveRequest::default()
    }
}

/// With 70 bytes of body.
fn complete(token: Bytes) -> proto::CompleteRequest {
    let body = r#"{"charge":"ch_02ce97","order":"order-e42b1a15-1","amount":"42.00 EUR"}"#;
    proto::CompleteRequest {
        record: Some(record_name()),
        token,
        result: Some(proto::Content {
            code: "charged".to_owned(),
            body: Some(proto::content::Body::Data(Bytes::from_static(
                body.as_bytes(),
            ))),
            resource_id: "ch_02ce97".to_owned(),
            ..proto::Content::default()
        }),
    }
}

fn asked() -> Request {
    microbench::reserve_request(reserve(), &Arc::default()).unwrap()
}

fn granted() -> (Record, Answer) {
    let decision = decide(None, &asked(), NOW);
    (*decision.change.unwrap(), decision.answer.unwrap())
}

fn reported() -> Request {
    let (record, answer) = granted();
    let message = microbench::reserve_response(answer, &record.name, &key()).unwrap();
    let Some(proto::reserve_response::Outcome::Acquired(acquired)) = message.outcome else {
        panic!("a first Reserve is granted");
    };
    microbench::complete_request(complete(acquired.token), &Arc::default(), &key()).unwrap()
}

fn completed() -> (Record, Answer) {
    let decision = decide(Some(&granted().0), &reported(), NOW);
    (*decision.change.unwrap(), decision.answer.unwrap())
}

fn replayed() -> Answer {
    let again = proto::ReserveRequest {
        attempt_id: Bytes::from_static(&[2; 16]),
        ..reserve()
    };
    let again = microbench::reserve_request(again, &Arc::default()).unwrap();
    decide(Some(&completed().0), &again, NOW).answer.unwrap()
}

#[divan::bench]
fn reserve_request(bencher: Bencher<'_, '_>) {
    let wire = Bytes::from(reserve().encode_to_vec());
    let policy = Arc::new(Policy::default());
    bencher.bench_local(|| {
        let message = proto::ReserveRequest::decode(black_box(wire.clone())).unwrap();
        microbench::reserve_request(message, &policy).unwrap()
    });
}

#[divan::bench]
fn complete_request(bencher: Bencher<'_, '_>) {
    let (record, _) = granted();
    let token = key().issue(&record.name.id(), 1, record.attempt.fence);
    let wire = Bytes::from(complete(Bytes::copy_from_slice(&token)).encode_to_vec());
    let (policy, key) = (Arc::new(Policy::default()), key());
    bencher.bench_local(|| {
        let message = proto::CompleteRequest::decode(black_box(wire.clone())).unwrap();
        microbench::complete_request(message, &policy, &key).unwrap()
    });
}

fn answers_reserve(bencher: Bencher<'_, '_>, answer: &Answer) {
    let (name, key) = (asked().name, key());
    bencher
        .with_inputs(|| answer.clone())
        .bench_local_values(|answer| {
            let message = microbench::reserve_response(answer, &name, &key).unwrap();
            message.encode_to_vec()
        });
}

#[divan::bench]
fn reserve_response_acquired(bencher: Bencher<'_, '_>) {
    answers_reserve(bencher, &granted().1);
}

#[divan::bench]
fn reserve_response_replay(bencher: Bencher<'_, '_>) {
    answers_reserve(bencher, &replayed());
}

#[divan::bench]
fn complete_response(bencher: Bencher<'_, '_>) {
    let (_, answer) = completed();
    bencher
        .with_inputs(|| answer.clone())
        .bench_local_values(|answer| {
            let message = microbench::complete_response(answer).unwrap();
            message.encode_to_vec()
        });
}
