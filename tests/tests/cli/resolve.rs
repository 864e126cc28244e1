//! An operator's resolutions.

use anyhow::{Context as _, Result};

use super::Stage;

/// A record that is pending, and its revision.
fn pending(stage: &Stage, key: &str) -> Result<u64> {
    let token = stage.path("token");
    stage
        .record(
            "reserve",
            key,
            &format!("--payload 42 --token-file {token}"),
        )?
        .exits(0);
    let marked = stage
        .record("mark-pending", key, &format!("--token-file {token} --json"))?
        .exits(0);
    marked.json()?["record"]["revision"]
        .as_u64()
        .context("a revision")
}

/// Ends the lease that the pending record's holder still has, so that all may be said.
fn lapsed(stage: &Stage, key: &str) -> Result<()> {
    let token = stage.path("token");
    stage
        .record(
            "reserve",
            key,
            &format!("--payload 42 --token-file {token}"),
        )?
        .exits(0);
    stage
        .record("renew", key, &format!("--token-file {token} --lease 0"))?
        .exits(0);
    Ok(())
}

#[test]
fn what_is_overridden_is_shown_first() -> Result<()> {
    let stage = Stage::new()?;
    let revision = pending(&stage, "k")?;
    let done = stage.record(
        "resolve",
        "k",
        "--applied --code paid --evidence seen --actor ops --json",
    )?;
    let done = done.exits(0);
    assert!(
        done.stderr
            .contains(&format!("The record at revision {revision}:\nPending:")),
        "{}",
        done.stderr
    );
    assert_eq!(done.json()?["disposition"], "RECORDED");
    Ok(())
}

#[test]
fn a_record_that_changed_meanwhile_is_left_alone() -> Result<()> {
    let stage = Stage::new()?;
    let revision = pending(&stage, "k")?;
    let resolve = format!("--applied --evidence seen --revision {}", revision + 1);
    stage
        .record("resolve", "k", &resolve)?
        .exits(3)
        .says("error: REVISION_CHANGED: ");
    stage.record("lookup", "k", "--exit-code")?.exits(13);
    stage
        .record("resolve", "none", "--applied --evidence seen")?
        .exits(5);
    Ok(())
}

#[test]
fn not_applied_frees_failed_ends_and_unknown_waits() -> Result<()> {
    let stage = Stage::new()?;
    lapsed(&stage, "k")?;
    let unknown = "--still-unknown --check-after 1h --provider-reference p_9 --evidence asked";
    stage
        .record("resolve", "k", unknown)?
        .exits(0)
        .says("PENDING");
    let free = stage
        .record("resolve", "k", "--not-applied --evidence asked")?
        .exits(0);
    free.says("FAILED: the next caller may try again");
    free.says("proves nothing");

    lapsed(&stage, "f")?;
    let failed = "--failed --code declined --evidence asked";
    stage
        .record("resolve", "f", failed)?
        .exits(0)
        .says("FAILED for good");
    // And put right: the provider had done it after all.
    let applied = stage
        .record("resolve", "f", "--applied --code paid --evidence found-it")?
        .exits(0);
    applied.says("warning: the record says that it failed for good");
    stage.record("reserve", "f", "--payload 42")?.exits(10);
    Ok(())
}

#[test]
fn who_takes_over_gets_the_token() -> Result<()> {
    let stage = Stage::new()?;
    lapsed(&stage, "k")?;
    let mine = stage.path("mine");
    let id = "000102030405060708090a0b0c0d0e0f";
    let read = stage
        .record("lookup", "k", "--field record.revision")?
        .exits(0)
        .text();
    let take_over = format!(
        "--take-over --attempt-id {id} --revision {} --evidence asked --lease 1m",
        read.trim()
    );
    let done = stage.record("resolve", "k", &format!("{take_over} --token-file {mine}"))?;
    let done = done.exits(0);
    done.says("The attempt is yours");
    let token = std::fs::read_to_string(&mine)?;
    assert!(
        !done.text().contains(token.trim()),
        "a table tells no token that is in a file"
    );
    // The same try again is the same grant.
    let again = stage
        .record("resolve", "k", &format!("{take_over} --json"))?
        .exits(0)
        .json()?;
    assert_eq!(again["acquired"]["token"], token.trim());
    stage
        .record("complete", "k", &format!("--token-file {mine} --code done"))?
        .exits(0);
    stage.record("lookup", "k", "--exit-code")?.exits(10);
    Ok(())
}

#[test]
fn evidence_may_come_from_standard_input() -> Result<()> {
    let stage = Stage::new()?;
    pending(&stage, "k")?;
    let resolve = "resolve --operation charge --key k --applied --evidence-file -";
    stage
        .with_input(resolve, b"")?
        .exits(2)
        .says("--evidence-file: must be 1 to 16384 bytes");
    stage.with_input(resolve, b"a long story\n")?.exits(0);
    Ok(())
}
