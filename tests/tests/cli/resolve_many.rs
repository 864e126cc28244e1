//! Many resolutions from a file.

use anyhow::Result;

use super::Stage;
use super::pending::{due, settle_at_once};

const FILE: &str = "key,outcome,code,body,evidence\n\
                    a,applied,paid,\"{\"\"id\"\": 1}\",seen in the export\n\
                    b,not_applied,,,\n\
                    c,failed,declined,,\n\
                    d,still_unknown,,,\n";

const BY: &str = "--operation charge --reason export-7 --actor ops";

fn shop() -> Result<Stage> {
    let stage = Stage::new()?;
    settle_at_once(&stage)?;
    for key in ["a", "b", "c", "d"] {
        due(&stage, key)?;
    }
    Ok(stage)
}

fn revisions(stage: &Stage) -> Result<Vec<String>> {
    let mut revisions = Vec::new();
    for key in ["a", "b", "c", "d"] {
        let found = stage.record("lookup", key, "--field record.revision")?;
        revisions.push(found.exits(0).text());
    }
    Ok(revisions)
}

#[test]
fn a_file_resolves_each_record_and_twice_changes_nothing_more() -> Result<()> {
    let stage = shop()?;
    let file = stage.write("found.csv", FILE)?;
    let resolve = format!("pending resolve --from {file} {BY}");
    let before = revisions(&stage)?;
    let dry = stage
        .reprise(&format!("{resolve} --dry-run --json"))?
        .exits(0)
        .json()?;
    assert_eq!(
        (&dry["dry_run"], &dry["resolved"]),
        (&true.into(), &4.into())
    );
    assert_eq!(revisions(&stage)?, before, "a dry run writes nothing");

    let done = stage.reprise(&format!("{resolve} --yes"))?.exits(0);
    done.says("resolved           4");
    let after = revisions(&stage)?;
    stage.record("lookup", "a", "--exit-code")?.exits(10);
    stage.record("lookup", "b", "--exit-code")?.exits(16);
    stage.record("lookup", "c", "--exit-code")?.exits(11);
    stage.record("lookup", "d", "--exit-code")?.exits(13);
    let body = stage.record("lookup", "a", "--with-result --field completed.result.data")?;
    assert_eq!(body.exits(0).text(), "{\"id\": 1}");

    let again = stage
        .reprise(&format!("{resolve} --yes --json"))?
        .exits(0)
        .json()?;
    assert_eq!(again["repeated_before"], 4);
    assert_eq!(again["resolved"], 0);
    assert_eq!(revisions(&stage)?, after);
    // Lines of JSON say the same.
    let json = r#"{"key":"a","outcome":"applied","code":"paid"}"#;
    let json = stage.with_input(&format!("resolve --from - {BY} --yes"), json.as_bytes())?;
    json.exits(0).says("repeated before    1");
    Ok(())
}

#[test]
fn a_record_that_went_on_after_its_resolution_was_resolved_before() -> Result<()> {
    let stage = shop()?;
    let file = stage.write("found.csv", FILE)?;
    let resolve = format!("resolve --from {file} {BY} --yes");
    stage.reprise(&resolve)?.exits(0);
    let token = stage.path("token");
    let reserve = format!("--payload 42 --token-file {token}");
    stage.record("reserve", "b", &reserve)?.exits(0);
    stage
        .reprise(&resolve)?
        .exits(0)
        .says("repeated before    4");
    stage.record("lookup", "b", "--exit-code")?.exits(12);
    Ok(())
}

#[test]
fn a_line_is_not_told_of_an_attempt_that_came_after_it() -> Result<()> {
    let stage = shop()?;
    let file = stage.write("found.csv", FILE)?;
    let resolve = format!("resolve --from {file} {BY} --yes");
    stage.reprise(&resolve)?.exits(0);
    // Attempt 2 sends, and nobody knows how it ended.
    due(&stage, "b")?;
    let again = stage.reprise(&resolve)?.exits(3);
    again.says("OTHER_ATTEMPT");
    again.says("repeated before    3");
    stage.record("lookup", "b", "--exit-code")?.exits(13);

    for (attempt, code) in [(1, 3), (2, 0)] {
        let text = format!("key,attempt,outcome,evidence\nb,{attempt},not_applied,asked again\n");
        let file = stage.write("again.csv", &text)?;
        let resolve = format!("resolve --from {file} {BY} --yes");
        stage.reprise(&resolve)?.exits(code);
    }
    stage.record("lookup", "b", "--exit-code")?.exits(16);
    Ok(())
}

#[test]
fn a_record_is_put_off_again_once_it_is_due_again() -> Result<()> {
    let stage = shop()?;
    for (check_after, told) in [
        ("0", "resolved           1"),
        ("1h", "resolved           1"),
    ] {
        let text = format!("key,outcome,check_after\na,still_unknown,{check_after}\n");
        let file = stage.write("unknown.csv", &text)?;
        let resolve = format!("resolve --from {file} {BY} --yes");
        stage.reprise(&resolve)?.exits(0).says(told);
        if check_after == "1h" {
            let again = stage.reprise(&resolve)?.exits(0);
            again.says("repeated before    1");
        }
    }
    Ok(())
}

#[test]
fn what_is_refused_is_told_by_line_and_the_rest_is_resolved() -> Result<()> {
    let stage = shop()?;
    let found = "--applied --code other --evidence seen";
    stage.record("resolve", "a", found)?.exits(0);
    let file = format!("{FILE}nobody,applied,,,\n");
    let file = stage.write("found.csv", file)?;
    let done = stage
        .reprise(&format!("resolve --from {file} {BY} --yes --json"))?
        .exits(3)
        .json()?;
    assert_eq!(done["resolved"], 3);
    assert_eq!(done["refused"], 2);
    let refused = &done["refused_lines"];
    assert_eq!(refused[0]["line"], 2);
    assert_eq!(refused[0]["reason"], "NOT_PENDING");
    assert_eq!(
        refused[0]["why"],
        "the record is COMPLETED with another code"
    );
    assert_eq!(refused[1]["line"], 6);
    assert_eq!(refused[1]["reason"], "RECORD_NOT_FOUND");
    Ok(())
}

#[test]
fn what_is_no_longer_pending_is_overridden_only_where_it_is_asked_for() -> Result<()> {
    let stage = shop()?;
    let failed = "--failed --code no --evidence asked";
    stage.record("resolve", "a", failed)?.exits(0);
    let file = stage.write("found.csv", "key,outcome\na,applied\n")?;
    let resolve = format!("resolve --from {file} {BY} --yes");
    stage
        .reprise(&resolve)?
        .exits(3)
        .says("NOT_PENDING: the record is FAILED for good");
    stage.record("lookup", "a", "--exit-code")?.exits(11);
    stage
        .reprise(&format!("{resolve} --override-state"))?
        .exits(0);
    stage.record("lookup", "a", "--exit-code")?.exits(10);
    Ok(())
}

#[test]
fn a_wrong_line_stops_the_file_before_anything_is_written() -> Result<()> {
    let stage = shop()?;
    let before = revisions(&stage)?;
    let file = stage.write("found.csv", format!("{FILE}e,done,,,\n"))?;
    let done = stage
        .reprise(&format!("resolve --from {file} {BY} --yes"))?
        .exits(2);
    done.says("nothing was written");
    done.says("line 6, column 3 (outcome): must be applied, not_applied, failed");
    let file = stage.write("found.csv", FILE)?;
    stage
        .reprise(&format!("resolve --from {file} {BY}"))?
        .exits(2)
        .says("nobody can be asked here: look with --dry-run first, then add --yes");
    assert_eq!(revisions(&stage)?, before);
    Ok(())
}

#[test]
fn a_server_that_is_not_there_leaves_the_lines_unknown() -> Result<()> {
    let stage = Stage::new()?;
    let mut csv = "key,outcome\n".to_owned();
    for at in 0..100 {
        csv.push_str(&format!("k{at},applied\n"));
    }
    let file = stage.write("found.csv", csv)?;
    let away = "--server http://127.0.0.1:1 --timeout 100ms";
    let done = stage
        .reprise(&format!("resolve --from {file} {BY} --yes --json {away}"))?
        .exits(4)
        .json()?;
    assert_eq!(done["unknown"], 100);
    let reasons = done["unknown_lines"].to_string();
    assert!(reasons.contains("NOT_SENT"), "{reasons}");
    assert!(reasons.contains("NOT_TRIED"), "the rest waits for a server");
    Ok(())
}

#[test]
fn lines_may_bring_their_claims() -> Result<()> {
    let stage = shop()?;
    let claims = stage.reprise("pending claim --json")?.exits(0);
    let mut file = String::new();
    for claim in super::pending::lines(&claims.text())? {
        let line = serde_json::json!({
            "record_id": claim["record"]["record_id"],
            "claim": claim["claim"],
            "outcome": "applied",
        });
        file.push_str(&format!("{line}\n"));
    }
    let file = stage.write("found.jsonl", file)?;
    stage
        .reprise(&format!("resolve --from {file} {BY} --yes"))?
        .exits(0)
        .says("resolved           4");
    let audit = stage.reprise("audit --field authority")?.exits(0).text();
    assert_eq!(audit.matches("CLAIM").count(), 4, "{audit}");
    Ok(())
}
