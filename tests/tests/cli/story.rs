//! Finding records, the story of one, the audit, erasure.

use anyhow::Result;

use super::Stage;
use super::pending::{due, lines, settle_at_once};

/// A record with a life: failed, tried again, not sure, found out.
fn life(stage: &Stage) -> Result<()> {
    settle_at_once(stage)?;
    let token = format!("--token-file {}", stage.path("token"));
    let reserve = format!("--payload 42 --owner first --correlation-id order-7 {token}");
    stage.record("reserve", "k", &reserve)?.exits(0);
    stage
        .record("fail", "k", &format!("--retryable --code busy {token}"))?
        .exits(0);
    due(stage, "k")?;
    let applied = "--applied --code paid --evidence dashboard --actor ops \
                   --header content-type:text/plain --body-file";
    let body = stage.write("body", "receipt 4711")?;
    stage
        .record("resolve", "k", &format!("{applied} {body}"))?
        .exits(0);
    Ok(())
}

#[test]
fn the_story_of_a_record_names_each_attempt_and_who_did_what_and_why() -> Result<()> {
    let stage = Stage::new()?;
    life(&stage)?;
    let story = stage.record("records show", "k", "")?.exits(0);
    for told in [
        "Completed: it took place",
        "failed, to be tried again",
        "busy",
        "COMPLETED",
        "RESOLVED_APPLIED by ops (operator): dashboard",
        "header            content-type: text/plain",
        "body              12 bytes, sha256 ",
        "replayed until",
        "remembered until",
    ] {
        story.says(told);
    }
    assert!(
        !story.text().contains("receipt 4711"),
        "bodies are not shown"
    );
    assert!(story.text().lines().count() < 40, "{}", story.text());

    let json = stage
        .record("records show", "k", "--json")?
        .exits(0)
        .json()?;
    assert_eq!(json["history"]["attempts"][0]["ending"], "FAILED_RETRYABLE");
    assert_eq!(json["history"]["attempts"][0]["owner"], "first");
    assert_eq!(json["history"]["newest"]["number"], 2);
    assert_eq!(json["completed"]["result"]["omitted"]["size"], 12);
    let id = json["record"]["record_id"].as_str().unwrap_or_default();
    let key = json["record"]["effect_key"].as_str().unwrap_or_default();
    for name in [format!("--record-id {id}"), format!("--effect-key {key}")] {
        let found = stage.reprise(&format!("records show {name} --field name.key"))?;
        assert_eq!(found.exits(0).text(), "k\n");
    }
    stage.record("records show", "none", "")?.exits(5);
    Ok(())
}

#[test]
fn a_pending_record_says_what_to_do_next() -> Result<()> {
    let stage = Stage::new()?;
    settle_at_once(&stage)?;
    due(&stage, "k")?;
    let story = stage.record("records show", "k", "")?.exits(0);
    story.says("Ask the provider about the effect key");
    stage.reprise("pending claim --owner worker-9")?.exits(0);
    let story = stage.record("records show", "k", "")?.exits(0);
    story.says("worker-9 is finding out");
    Ok(())
}

#[test]
fn records_are_found_by_what_people_know() -> Result<()> {
    let stage = Stage::new()?;
    life(&stage)?;
    due(&stage, "other")?;
    for (filter, expected) in [
        ("", 2),
        ("--operation charge", 2),
        ("--operation refund", 0),
        ("--state pending", 1),
        ("--state completed --key-prefix k", 1),
        ("--state failed_final", 0),
        ("--correlation-id order-7", 0),
        ("--since 1h", 2),
        ("--until 1h", 0),
        ("--key-prefix oth", 1),
    ] {
        let found = stage.reprise(&format!("records list {filter} --json"))?;
        let found = lines(&found.exits(0).text())?;
        assert_eq!(found.len(), expected, "{filter}: {found:?}");
    }
    stage
        .reprise("records list --state lost")?
        .exits(2)
        .says("failed_retryable");
    stage
        .reprise("records list --since yesterday")?
        .exits(2)
        .says("or how long ago, e.g. 2h");
    Ok(())
}

#[test]
fn the_audit_is_filtered_by_record_and_time() -> Result<()> {
    let stage = Stage::new()?;
    life(&stage)?;
    let id = stage.record("lookup", "k", "--field record.record_id")?;
    let id = id.exits(0).text();
    let of_record = format!("audit --record-id {} --json", id.trim());
    let entries = lines(&stage.reprise(&of_record)?.exits(0).text())?;
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(entries[0]["action"], "RESOLVED_APPLIED");
    assert_eq!(entries[0]["authority"], "OPERATOR");
    assert_eq!(entries[0]["reason"], "dashboard");
    let all = lines(&stage.reprise("audit --json")?.exits(0).text())?;
    assert_eq!(all.len(), 2, "the policy too, newest first: {all:?}");
    assert_eq!(all[1]["action"], "POLICY_WRITTEN");
    let before = stage.reprise("audit --until 1h")?.exits(0);
    before.says("Nothing was done.");
    Ok(())
}

#[test]
fn what_is_forgotten_is_gone_and_the_key_stays_protected() -> Result<()> {
    let stage = Stage::new()?;
    life(&stage)?;
    let forget = "--reason request-12 --actor dpo";
    stage
        .record("records forget", "k", "--yes")?
        .exits(2)
        .says("--reason");
    stage
        .record("records forget", "k", forget)?
        .exits(2)
        .says("then add --yes");
    let wrong = format!("{forget} --yes --revision 1");
    stage
        .record("records forget", "k", &wrong)?
        .exits(3)
        .says("REVISION_CHANGED");
    let forget = format!("{forget} --yes");
    let read = stage.record("lookup", "k", "--field record.revision")?;
    let read = read.exits(0).text();
    for told in ["Erased. ", "Erased before"] {
        let by_revision = format!("{forget} --revision {}", read.trim());
        stage
            .record("records forget", "k", &by_revision)?
            .exits(0)
            .says(told);
    }
    stage.record("reserve", "k", "--payload 42")?.exits(15);
    let story = stage.record("records show", "k", "")?.exits(0);
    story.says("FORGOTTEN by dpo (operator): request-12");
    assert!(!story.text().contains("dashboard"), "{}", story.text());

    due(&stage, "open")?;
    stage
        .record("records forget", "open", &forget)?
        .exits(3)
        .says("RECORD_PENDING");
    Ok(())
}
