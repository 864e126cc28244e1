//! Bad input: each names what is wrong and what is allowed, and reaches no server.

use anyhow::Result;

use super::{Stage, finish, quiet};
use reprise_tests::reprise_bin;

/// Words after `reprise`, and what standard error must say.
const BAD: &[(&str, &str)] = &[
    ("frobnicate", "unrecognized subcommand 'frobnicate'"),
    ("reserve --operation o --key k --payload x", "--tenant"),
    (
        "reserve --tenant a$b --operation o --key k --payload x",
        "for '--tenant <TENANT>': must be 1 to 128 bytes of A-Z",
    ),
    (
        "reserve --tenant t --operation o --key k",
        "--payload <TEXT>|--payload-file <FILE>|--digest <SHA256>",
    ),
    (
        "reserve --tenant t --operation o --key k --payload x --payload-file y",
        "cannot be used with",
    ),
    (
        "reserve --tenant t --operation o --key k --payload x --raw --json-payload",
        "cannot be used with",
    ),
    (
        "reserve --tenant t --operation o --key k --digest ab",
        "for '--digest <SHA256>': must be 64 hexadecimal digits",
    ),
    (
        "reserve --tenant t --operation o --key k --payload x --lease 16m",
        "for '--lease <DURATION>': must be 100ms to 15m",
    ),
    (
        "reserve --tenant t --operation o --key k --payload x --lease 30",
        "for '--lease <DURATION>': expected a whole number",
    ),
    (
        "reserve --tenant t --operation o --key k --payload x --wait 31s",
        "for '--wait <DURATION>': must be 0s to 30s",
    ),
    (
        "reserve --tenant t --operation o --key k --payload x --attempt-id 00",
        "for '--attempt-id <HEX>': must be 32 hexadecimal",
    ),
    (
        "reserve --tenant t --operation o --key k --payload x --intent-time now",
        "for '--intent-time <TIME>': must be a time as in RFC 3339",
    ),
    (
        "reserve --tenant t --operation o --key k --payload x --context a",
        "for '--context <NAME=VALUE>': must be name=value",
    ),
    (
        "reserve --tenant t --operation o --key k --payload x --server ftp://x",
        "--server: ",
    ),
    (
        "reserve --tenant t --operation o --key k --payload x --timeout 2h",
        "for '--timeout <DURATION>': must be 100ms to 1h",
    ),
    (
        "reserve --tenant t --operation o --key k --payload x --json --field a",
        "cannot be used with",
    ),
    (
        "complete --tenant t --operation o --key k --token a --token-file b",
        "cannot be used with",
    ),
    (
        "complete --tenant t --operation o --key k --token AA== --header x",
        "for '--header <HEADER>': must be `Name: value`",
    ),
    (
        "fail --tenant t --operation o --key k --token AA==",
        "--retryable|--final",
    ),
    (
        "fail --tenant t --operation o --key k --final --attempt-id 000102030405060708090a0b0c0d0e0f",
        "cannot be used with",
    ),
    (
        "mark-pending --tenant t --operation o --key k --token AA== --check-after 31d",
        "for '--check-after <DURATION>': must be 0s to 30d",
    ),
    (
        "renew --tenant t --operation o --key k --token AA== --lease 50ms",
        "for '--lease <DURATION>': must be 100ms to 15m, or 0",
    ),
    ("lookup --tenant t", "--operation"),
    ("lookup --tenant t --operation o", "--key"),
    (
        "lookup --tenant t --record-id xyz",
        "--record-id: must be 64 characters of 0-9 a-f",
    ),
    (
        "lookup --tenant t --effect-key xyz",
        "--effect-key: must be 36 characters in UUID form",
    ),
    (
        "resolve --tenant t --operation o --key k --evidence e",
        "--applied|--not-applied",
    ),
    (
        "resolve --tenant t --operation o --key k --applied",
        "--evidence <TEXT>|--evidence-file <FILE>",
    ),
    (
        "resolve --tenant t --operation o --key k --applied --effect-key-spent --evidence e",
        "cannot be used with",
    ),
    (
        "resolve --tenant t --operation o --key k --not-applied --code x --evidence e",
        "need --applied or --failed",
    ),
    (
        "resolve --tenant t --operation o --key k --applied --evidence e --lease 1s",
        "cannot be used with",
    ),
    (
        "resolve --tenant t --operation o --key k --from f --evidence e",
        "cannot be used with",
    ),
    (
        "resolve --tenant t --operation o --key k --applied --evidence e --dry-run",
        "--from",
    ),
    (
        "resolve --tenant t --operation o --key k --applied --evidence e --claim AA== --revision 1",
        "cannot be used with",
    ),
    ("pending list", "--tenant"),
    (
        "pending claim --tenant t --max 101",
        "101 is not in 1..=100",
    ),
    (
        "pending claim --tenant t --lease 1h",
        "must be 100ms to 15m",
    ),
    ("records show --tenant t", "--record-id or --effect-key"),
    (
        "records forget --tenant t --record-id x --reason r --yes",
        "--record-id: must be 64 characters",
    ),
    ("hold --tenant t", "--reason"),
    ("hold --reason r", "no tenant"),
    (
        "hold --all-tenants --operation o --reason r",
        "cannot be used with",
    ),
    ("policy put --tenant t --lease 1s", "--reason"),
    ("policy apply", "<FILE>"),
    ("demo --tenant a$b", "for '--tenant <TENANT>'"),
];

#[test]
fn bad_flags_are_named_with_what_is_allowed() -> Result<()> {
    for (line, told) in BAD {
        let mut command = quiet(reprise_bin::path()?.as_os_str());
        // Nobody listens there: what is wrong must be seen before anything is sent.
        command
            .env("REPRISE_SERVER", "http://127.0.0.1:1")
            .args(line.split(' '));
        let done = finish(command, b"")?;
        assert_eq!(done.code, 2, "{line}: {}", done.stderr);
        assert!(done.stderr.contains(told), "{line}: {}", done.stderr);
        assert!(done.stdout.is_empty(), "{line}: {}", done.text());
    }
    Ok(())
}

#[test]
fn a_server_that_is_not_there_has_its_own_code() -> Result<()> {
    let mut command = quiet(reprise_bin::path()?.as_os_str());
    let line =
        "lookup --tenant t --operation o --key k --server http://127.0.0.1:1 --timeout 300ms";
    command.args(line.split(' '));
    let done = finish(command, b"")?.exits(4);
    done.says("error: NOT_SENT: ");
    done.says("is a server running there?");
    Ok(())
}

#[test]
fn what_the_server_refuses_is_named_by_its_flag() -> Result<()> {
    let stage = Stage::new()?;
    let done = stage
        .record("complete", "k", "--token AA== --code x")?
        .exits(2);
    done.says("error: INVALID_FIELD: ");
    done.says("--token: ");
    let missing = stage.path("missing");
    stage
        .record("reserve", "k", &format!("--payload-file {missing}"))?
        .exits(1)
        .says("missing: No such file");
    let large = stage.write("large", vec![b'x'; 4_128_769])?;
    let done = stage.record("reserve", "k", &format!("--payload-file {large}"))?;
    done.exits(2).says("must have at most 4128768 bytes");
    Ok(())
}

#[test]
fn a_body_over_the_hard_limit_is_recorded_by_its_digest() -> Result<()> {
    let stage = Stage::new()?;
    let token = stage.path("token");
    let large = stage.write("large", vec![b'x'; 9_000_000])?;
    stage
        .record("reserve", "k", &format!("--payload 1 --token-file {token}"))?
        .exits(0);
    let complete = format!("--token-file {token} --code done --body-file {large}");
    stage.record("complete", "k", &complete)?.exits(0);
    let found = stage
        .record("lookup", "k", "--with-result --json")?
        .exits(0)
        .json()?;
    assert_eq!(found["completed"]["result"]["omitted"]["size"], 9_000_000);
    Ok(())
}
