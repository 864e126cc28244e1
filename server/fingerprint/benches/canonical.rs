//! The canonicaliser, beside a parser that only builds a tree: MB of document a second.
//!
//! `parse` is `serde_json::from_slice::<Value>` of the same document, `canonicalize` is ours.
#![allow(missing_docs, clippy::unwrap_used)]

mod documents;

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use reprise_fingerprint::{Context, MediaType, Rule, json};
use sha2::{Digest as _, Sha256};

use documents::{DOCUMENTS, Document};

fn main() {
    divan::main();
}

#[divan::bench(args = DOCUMENTS)]
fn parse(bencher: Bencher<'_, '_>, document: &Document) {
    let bytes = document.write();
    bencher
        .counter(BytesCount::of_slice(&bytes))
        .bench_local(|| serde_json::from_slice::<serde_json::Value>(black_box(&bytes)).unwrap());
}

#[divan::bench(args = DOCUMENTS)]
fn canonicalize(bencher: Bencher<'_, '_>, document: &Document) {
    let bytes = document.write();
    let rule = Rule::default();
    bencher
        .counter(BytesCount::of_slice(&bytes))
        .bench_local(|| reprise_fingerprint::canonicalize(black_box(&bytes), &rule).unwrap());
}

/// With the digest: what a Reserve with a JSON payload costs.
#[divan::bench(args = DOCUMENTS)]
fn fingerprint(bencher: Bencher<'_, '_>, document: &Document) {
    let bytes = document.write();
    let (media_type, context) = (MediaType::default(), Context::default());
    let rule = Rule::default();
    bencher
        .counter(BytesCount::of_slice(&bytes))
        .bench_local(|| json(&media_type, &context, black_box(&bytes), &rule).unwrap());
}

/// The digest alone, which no canonicaliser is faster than.
#[divan::bench(args = [64, 1024, 1024 * 1024])]
fn sha256(bencher: Bencher<'_, '_>, bytes: usize) {
    let bytes = vec![0x5a; bytes];
    bencher
        .counter(BytesCount::of_slice(&bytes))
        .bench_local(|| Sha256::digest(black_box(&bytes)));
}
