//! The vectors that every client runs, too.
#![allow(clippy::unwrap_used)]

use reprise_fingerprint::{
    Context, Fingerprint, MediaType, Pointer, Rule, Scheme, canonicalize, json, json_under_each,
    raw,
};
use serde_json::Value;

const VECTORS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/vectors/fingerprint.jsonl"
);

#[test]
fn every_vector_has_its_digest_or_its_refusal() {
    let vectors = std::fs::read_to_string(VECTORS).unwrap();
    let rows: Vec<Value> = vectors
        .lines()
        .map(|row| serde_json::from_str(row).unwrap())
        .collect();
    assert!(rows.len() >= 60, "only {} rows", rows.len());
    let mut failures = Vec::new();
    for row in &rows {
        let expected = match row.get("refused") {
            Some(refused) => Err(refused.as_str().unwrap().to_owned()),
            None => Ok((
                text(&row["rule_id"]).to_owned(),
                text(&row["digest"]).to_owned(),
            )),
        };
        let found = answer(row).map(|found| (found.rule.to_string(), hex(&found.digest)));
        if found != expected {
            failures.push(format!(
                "{}: expected {expected:?}, found {found:?}",
                row["name"]
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn answer(row: &Value) -> Result<Fingerprint, String> {
    let media_type =
        MediaType::parse(text(&row["media_type"])).map_err(|_| "media_type".to_owned())?;
    let entry = |entry: &Value| (text(&entry["name"]).to_owned(), bytes(entry));
    let context = Context::from(list(&row["context"]).iter().map(entry).collect::<Vec<_>>());
    let content = bytes(&row["content"]);
    if text(&row["scheme"]).parse() == Ok(Scheme::Raw) {
        return Ok(raw(&media_type, &context, &content));
    }
    let ignore = pointers(&row["rule"]["ignore"])?;
    let unordered = pointers(&row["rule"]["unordered"])?;
    let rule = Rule::new(ignore, unordered).map_err(|_| "rule".to_owned())?;
    let flaw = |error: reprise_fingerprint::CanonicalError| error.what.as_str().to_owned();
    let fingerprint = json(&media_type, &context, &content, &rule).map_err(flaw)?;

    let canonical = canonicalize(&content, &rule).map_err(flaw)?;
    assert_eq!(
        str::from_utf8(&canonical),
        Ok(text(&row["canonical"])),
        "{}",
        row["name"]
    );
    let rules = [Rule::default(), rule];
    let each = json_under_each(&media_type, &context, &content, &rules).map_err(flaw)?;
    assert_eq!(each[1], fingerprint, "{}", row["name"]);
    assert_eq!(
        each[0],
        json(&media_type, &context, &content, &rules[0]).map_err(flaw)?
    );
    Ok(fingerprint)
}

fn pointers(texts: &Value) -> Result<Vec<Pointer>, String> {
    list(texts)
        .iter()
        .map(|pointer| text(pointer).parse().map_err(|_| "pointer".to_owned()))
        .collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// The bytes of an object with either `text` or `hex`.
fn bytes(value: &Value) -> Vec<u8> {
    match value.get("text") {
        Some(plain) => text(plain).as_bytes().to_vec(),
        None => {
            let digits = text(&value["hex"]).as_bytes();
            let byte = |pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
            digits.chunks(2).map(byte).collect()
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
