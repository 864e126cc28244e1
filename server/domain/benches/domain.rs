//! The steps of one lifecycle that touch no store: deciding, and the digests around it.
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use divan::{Bencher, black_box};
use reprise_domain::assume;
use reprise_domain::command::{Command, Complete, MarkSending, Reserve};
use reprise_domain::content::Body;
use reprise_domain::record::AttemptId;
use reprise_domain::token::{Held, TokenKey};
use reprise_domain::{Content, Policy, Record, RecordName, Request, Timestamp, decide};
use reprise_fingerprint::{Context, Fingerprint, MediaType, raw};

const NOW: Timestamp = Timestamp(1_800_000_000_000_000);
const LATER: Timestamp = Timestamp(NOW.0 + 1_000_000);

fn main() {
    divan::main();
}

fn name() -> RecordName {
    RecordName::new(
        "shop-eu",
        "charge",
        "customer-4711",
        "order-2f6c1a90-attempted",
    )
    .unwrap()
}

fn key() -> TokenKey {
    TokenKey::new([7; 32])
}

fn fingerprint(payload: &[u8]) -> Fingerprint {
    raw(&MediaType::default(), &Context::default(), payload)
}

fn request(command: Command) -> Request {
    Request {
        name: name(),
        policy: Arc::new(Policy::default()),
        command,
    }
}

fn reserve(attempt: u8, payload: &[u8]) -> Request {
    request(Command::Reserve(Reserve {
        attempt_id: AttemptId([attempt; 16]),
        fingerprints: vec![fingerprint(payload)],
        lease: Some(Duration::from_secs(30)),
        owner: "checkout-7f9c".to_owned(),
        correlation_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
        instruction: Bytes::new(),
        intent_time: None,
    }))
}

/// 70 bytes of body.
fn result() -> Content {
    let body = r#"{"charge":"ch_02ce97","order":"order-e42b1a15-1","amount":"42.00 EUR"}"#;
    Content {
        body: Some(Body::Data(Bytes::from_static(body.as_bytes()))),
        resource_id: "ch_02ce97".to_owned(),
        ..Content::of_code("charged")
    }
}

fn held(record: &Record) -> Held {
    let attempt = &record.attempt;
    let token = key().issue(&record.name.id(), attempt.number, attempt.fence);
    key().read(&record.name.id(), &token).unwrap()
}

fn complete(held: Held) -> Request {
    let result = result();
    request(Command::Complete(Complete {
        held,
        digest: result.digest(),
        core: result.core_digest(),
        result,
    }))
}

fn granted() -> Record {
    *decide(None, &reserve(1, b"42.00"), NOW).change.unwrap()
}

fn completed() -> Record {
    let granted = granted();
    let complete = complete(held(&granted));
    *decide(Some(&granted), &complete, LATER).change.unwrap()
}

fn decides(bencher: Bencher<'_, '_>, record: Option<Record>, request: &Request) {
    bencher.bench_local(|| decide(black_box(record.as_ref()), black_box(request), LATER));
}

#[divan::bench]
fn decide_first_reserve(bencher: Bencher<'_, '_>) {
    decides(bencher, None, &reserve(1, b"42.00"));
}

#[divan::bench]
fn decide_mark_sending(bencher: Bencher<'_, '_>) {
    let granted = granted();
    let mark = request(Command::MarkSending(MarkSending {
        held: held(&granted),
        provider_reference: String::new(),
        instruction: Bytes::new(),
        lease: None,
    }));
    decides(bencher, Some(granted), &mark);
}

#[divan::bench]
fn decide_complete(bencher: Bencher<'_, '_>) {
    let granted = granted();
    let complete = complete(held(&granted));
    decides(bencher, Some(granted), &complete);
}

#[divan::bench]
fn decide_replay(bencher: Bencher<'_, '_>) {
    decides(bencher, Some(completed()), &reserve(2, b"42.00"));
}

#[divan::bench]
fn decide_mismatch(bencher: Bencher<'_, '_>) {
    decides(bencher, Some(completed()), &reserve(2, b"420.00"));
}

/// The row that a store assumes in one round trip.
#[divan::bench]
fn assumed_row(bencher: Bencher<'_, '_>) {
    let granted = granted();
    let held = held(&granted);
    bencher.bench_local(|| assume::held(black_box(&granted.name), black_box(&held)));
}

#[divan::bench]
fn record_name_and_id(bencher: Bencher<'_, '_>) {
    let name = name();
    let parts = [name.tenant(), name.operation(), name.subject(), name.key()];
    let sent = || parts.map(str::to_owned);
    bencher
        .with_inputs(sent)
        .bench_local_values(|[tenant, operation, subject, key]| {
            RecordName::new(tenant, operation, subject, key).unwrap()
        });
}

#[divan::bench]
fn record_id_as_text(bencher: Bencher<'_, '_>) {
    let id = name().id();
    bencher.bench_local(|| black_box(&id).to_string());
}

#[divan::bench]
fn effect_key_as_text(bencher: Bencher<'_, '_>) {
    let effect_key = name().effect_key(1);
    bencher.bench_local(|| black_box(&effect_key).to_string());
}

#[divan::bench]
fn record_copy(bencher: Bencher<'_, '_>) {
    let record = completed();
    bencher.bench_local(|| black_box(&record).clone());
}

#[divan::bench]
fn token_issue(bencher: Bencher<'_, '_>) {
    let (key, id) = (key(), name().id());
    bencher.bench_local(|| key.issue(black_box(&id), 1, 1_800_000_000_000_000));
}

#[divan::bench]
fn token_read(bencher: Bencher<'_, '_>) {
    let (key, id) = (key(), name().id());
    let token = key.issue(&id, 1, 1_800_000_000_000_000);
    bencher.bench_local(|| key.read(black_box(&id), black_box(&token)).unwrap());
}

/// Both digests that a report is told apart by.
#[divan::bench]
fn content_digests(bencher: Bencher<'_, '_>) {
    let result = result();
    bencher.bench_local(|| black_box(&result).digests());
}

#[divan::bench]
fn content_checksum(bencher: Bencher<'_, '_>) {
    let result = result();
    bencher.bench_local(|| black_box(&result).checksum());
}

#[divan::bench]
fn content_adjust(bencher: Bencher<'_, '_>) {
    let policy = Policy::default();
    bencher
        .with_inputs(result)
        .bench_local_values(|result| result.adjust("result", &policy));
}
