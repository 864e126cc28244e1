//! Refusals: what is said about a flaw, where it is, and that the payload is not repeated.
#![allow(clippy::unwrap_used)]

use reprise_fingerprint::{
    CanonicalError, Context, MediaType, Rule, canonicalize, json_under_each,
};

fn refusal(document: &[u8]) -> CanonicalError {
    canonicalize(document, &Rule::default()).unwrap_err()
}

#[test]
fn a_refusal_says_what_is_wrong_and_where() {
    for (document, expected) in [
        (&b""[..], "no JSON value at byte 0 (line 1, column 1)"),
        (b" \n\n ", "no JSON value at byte 4 (line 3, column 2)"),
        (b"\"\xff\"", "invalid UTF-8 at byte 1 (line 1, column 2)"),
        (
            b"\xef\xbb\xbf{}",
            "a byte order mark at byte 0 (line 1, column 1)",
        ),
        (b"[1,\n2,]", "invalid JSON at byte 6 (line 2, column 3)"),
        (b"[1", "invalid JSON at byte 2 (line 1, column 3)"),
        (
            b"{}\n}",
            "data after the JSON value at byte 3 (line 2, column 1)",
        ),
        (
            b"{\"a\":1,\n \"\\u0061\":2}",
            "a repeated member name at byte 9 (line 2, column 2)",
        ),
        (
            b"[\"ok\\ud800\"]",
            "an escape for half a surrogate pair at byte 4 (line 1, column 5)",
        ),
        (
            b"[1, 9223372036854775807]",
            "a number that a double does not hold exactly at byte 4 (line 1, column 5)",
        ),
    ] {
        assert_eq!(refusal(document).to_string(), expected);
    }
}

#[test]
fn a_refusal_does_not_repeat_the_payload() {
    for document in [
        "{\"secret\":1,\"secret\":2}",
        "{\"a\":secret}",
        "[\"secret\\ud800\"]",
        "[\"secret\n\"]",
        "\"secret\" secret",
        "31415926535897932384",
    ] {
        let error = refusal(document.as_bytes());
        for shown in [error.to_string(), format!("{error:?}")] {
            assert!(
                !shown.contains("secret") && !shown.contains("314159"),
                "{shown}"
            );
        }
    }
}

#[test]
fn a_flawed_document_is_refused_also_when_there_are_no_rules() {
    let flawed = br#"{"a":1,"a":1}"#;
    let context = Context::default();
    assert!(json_under_each(&MediaType::default(), &context, flawed, &[]).is_err());
    assert_eq!(
        json_under_each(&MediaType::default(), &context, b"{}", &[]),
        Ok(vec![])
    );
}
