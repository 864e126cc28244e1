//! What is pending: listed, counted, claimed, resolved by its claim.

use std::io::Read as _;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::Stage;

/// Lets what is pending be found out at once.
pub(super) fn settle_at_once(stage: &Stage) -> Result<()> {
    stage
        .reprise("policy put --operation charge --settle-after 0 --reason test")?
        .exits(0);
    Ok(())
}

/// A record that is pending and due, its lease over.
pub(super) fn due(stage: &Stage, key: &str) -> Result<()> {
    let token = format!("--token-file {}", stage.path("token"));
    stage
        .record("reserve", key, &format!("--payload 42 {token}"))?
        .exits(0);
    stage
        .record(
            "mark-pending",
            key,
            &format!("--check-after 0 --provider-reference p_{key} {token}"),
        )?
        .exits(0);
    stage
        .record("renew", key, &format!("--lease 0 {token}"))?
        .exits(0);
    Ok(())
}

pub(super) fn lines(text: &str) -> Result<Vec<Value>> {
    let lines = text.lines().map(serde_json::from_str);
    Ok(lines.collect::<Result<_, _>>()?)
}

#[test]
fn what_is_pending_is_listed_and_counted_by_operation_and_reason() -> Result<()> {
    let stage = Stage::new()?;
    settle_at_once(&stage)?;
    stage
        .reprise("pending list")?
        .exits(0)
        .says("Nothing is due");
    stage
        .reprise("pending count")?
        .exits(0)
        .says("nothing is pending");
    for key in ["a", "b", "c"] {
        due(&stage, key)?;
    }
    let table = stage.reprise("pending list")?.exits(0).text();
    assert!(table.starts_with("SINCE "), "{table}");
    assert_eq!(table.matches("REPORTED").count(), 3, "{table}");
    let json = stage
        .reprise("pending list --operation charge --json")?
        .exits(0);
    let keys: Vec<_> = lines(&json.text())?
        .iter()
        .map(|it| it["name"]["key"].clone())
        .collect();
    assert_eq!(keys, ["a", "b", "c"], "a line for each, longest due first");
    let other = stage.reprise("pending list --operation refund --json")?;
    assert_eq!(other.exits(0).text(), "");

    let counts = stage.reprise("pending count --json")?.exits(0).json()?;
    assert_eq!((&counts["total"], &counts["due"]), (&3.into(), &3.into()));
    assert_eq!(counts["counts"][0]["operation"], "charge");
    assert_eq!(counts["counts"][0]["reason"], "REPORTED");
    Ok(())
}

#[test]
fn a_table_is_cut_with_a_note_and_an_export_is_not() -> Result<()> {
    let stage = Stage::new()?;
    for key in ["a", "b", "c"] {
        due(&stage, key)?;
    }
    let cut = stage.reprise("pending list --all --limit 2")?.exits(0);
    assert_eq!(cut.text().lines().count(), 3, "a head and two lines");
    cut.says("note: there may be more than these 2; --limit 0 shows all");
    let all = stage
        .reprise("pending list --all --field record.effect_key")?
        .exits(0);
    assert_eq!(all.text().lines().count(), 3);
    assert_eq!(all.stderr, "");
    Ok(())
}

#[test]
fn a_watch_prints_a_block_each_time_and_ends_after_its_count() -> Result<()> {
    let stage = Stage::new()?;
    due(&stage, "a")?;
    let watch = "--watch --every 100ms --count 3";
    let blocks = stage.reprise(&format!("pending count {watch}"))?.exits(0);
    assert_eq!(blocks.text().matches("  1 pending\n").count(), 3);
    assert!(!blocks.text().contains('\u{1b}'), "no terminal, no redraw");
    let json = stage
        .reprise(&format!("pending list {watch} --json"))?
        .exits(0);
    assert_eq!(lines(&json.text())?.len(), 3);
    stage
        .reprise("pending count --count 3")?
        .exits(2)
        .says("--watch");
    Ok(())
}

#[test]
fn a_watch_ends_well_when_nobody_reads_it_any_more() -> Result<()> {
    let stage = Stage::new()?;
    let mut command = stage.command()?;
    let mut watch = command
        .args(["pending", "count", "--watch", "--every", "100ms"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdout = watch.stdout.take().context("standard output")?;
    stdout.read_exact(&mut [0])?;
    drop(stdout);
    let ended = watch.wait_with_output()?;
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
    Ok(())
}

#[test]
fn a_claim_is_in_a_file_of_its_own_and_resolves_its_record() -> Result<()> {
    let stage = Stage::new()?;
    settle_at_once(&stage)?;
    stage
        .reprise("pending claim")?
        .exits(0)
        .says("Nothing is due.");
    due(&stage, "a")?;
    due(&stage, "b")?;
    let claims = stage.path("claims");
    let id = "000102030405060708090a0b0c0d0e0f";
    let claim = format!("pending claim --claim-id {id} --owner worker-1");
    let table = stage
        .reprise(&format!("{claim} --claims-file {claims}"))?
        .exits(0);
    let file = lines(&std::fs::read_to_string(&claims)?)?;
    assert_eq!(file.len(), 2);
    let token = file[0]["claim"].as_str().context("a claim")?;
    assert!(!table.text().contains(token), "a table tells no token");
    // The same call again is the same claims; a new one finds nothing.
    let again = stage.reprise(&format!("{claim} --json"))?.exits(0);
    let again = lines(&again.text())?;
    let tokens = |claims: &[Value]| -> Vec<_> {
        let mut tokens: Vec<_> = claims.iter().map(|it| it["claim"].to_string()).collect();
        tokens.sort();
        tokens
    };
    assert_eq!(tokens(&again), tokens(&file));
    let none = stage.reprise("pending claim --json")?.exits(0);
    assert_eq!(none.text(), "");
    stage
        .reprise("pending list --all")?
        .exits(0)
        .says("claimed by worker-1");

    stage
        .record("renew", "a", &format!("--claim-file {claims} --lease 2m"))?
        .exits(0)
        .says("The lease runs for ");
    stage
        .record("renew", "a", "--claim AA== --token AA==")?
        .exits(2)
        .says("exclude each other");
    let resolve = format!("--claim-file {claims} --evidence asked");
    let done = stage.record(
        "pending resolve",
        "a",
        &format!("{resolve} --applied --code paid"),
    )?;
    let done = done.exits(0);
    assert!(!done.stderr.contains("override"), "{}", done.stderr);
    stage.record("reserve", "a", "--payload 42")?.exits(10);
    let done = stage.record("resolve", "b", &format!("{resolve} --not-applied"))?;
    done.exits(0).says("the next caller may try again");
    stage
        .record("resolve", "other", &format!("{resolve} --applied"))?
        .exits(5);
    Ok(())
}

#[test]
fn a_claim_that_is_over_is_refused_with_the_state() -> Result<()> {
    let stage = Stage::new()?;
    settle_at_once(&stage)?;
    due(&stage, "a")?;
    let claim = stage.reprise("pending claim --field claim")?.exits(0);
    let claim = claim.text();
    let claim = claim.trim();
    stage
        .record("resolve", "a", "--failed --code no --evidence asked")?
        .exits(0);
    let late = format!("--claim {claim} --still-unknown --evidence asked");
    let done = stage.record("resolve", "a", &late)?.exits(3);
    done.says("error: CLAIM_OVER: ");
    done.says("the record is FAILED final");
    Ok(())
}
