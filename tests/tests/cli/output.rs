//! What is printed where.

use anyhow::Result;
use serde_json::Value;

use super::Stage;

fn names(value: &Value) -> Vec<&str> {
    let members = value.as_object().expect("an object");
    members.keys().map(String::as_str).collect()
}

#[test]
fn the_json_of_a_grant_has_the_names_of_the_protos() -> Result<()> {
    let stage = Stage::new()?;
    let instruction = stage.write("instruction", "POST /charges")?;
    let flags = format!(
        "--payload 42 --lease 1m --owner cron@web-1 --correlation-id c1 --intent-time 2999-01-01T00:00:00Z \
         --instruction-file {instruction} --json"
    );
    let answer = stage.record("reserve", "k", &flags)?.exits(0).json()?;
    let mut outer = names(&answer);
    outer.sort_unstable();
    assert_eq!(
        outer,
        ["acquired", "attempt_id", "outcome", "record", "start_over"]
    );
    let mut acquired = names(&answer["acquired"]);
    acquired.sort_unstable();
    assert_eq!(
        acquired,
        [
            "earlier",
            "effect_key",
            "fence",
            "lease_expire_time",
            "lease_remaining",
            "on_lapse",
            "reason",
            "result_bytes_max",
            "token",
        ]
    );
    let mut record = names(&answer["record"]);
    record.sort_unstable();
    assert_eq!(
        record,
        [
            "attempt",
            "correlation_id",
            "create_time",
            "effect_key",
            "failure_kind",
            "generation",
            "memory_expire_time",
            "provider_reference",
            "record_id",
            "resource_id",
            "result_expire_time",
            "revision",
            "state",
            "update_time",
        ]
    );
    assert_eq!(answer["outcome"], "acquired");
    assert_eq!(answer["record"]["state"], "PROCESSING");
    assert_eq!(answer["record"]["failure_kind"], Value::Null);
    assert_eq!(
        answer["acquired"]["effect_key"],
        answer["record"]["effect_key"]
    );
    let left = answer["acquired"]["lease_remaining"]
        .as_f64()
        .expect("seconds");
    assert!((30.0..=60.0).contains(&left), "{left}");
    let end = answer["acquired"]["lease_expire_time"]
        .as_str()
        .expect("a time");
    assert!(end.ends_with('Z') && end.contains('T'), "{end}");

    let other = stage
        .record("reserve", "k", "--payload 42 --json")?
        .exits(12)
        .json()?;
    assert_eq!(other["processing"]["owner"], "cron@web-1");
    Ok(())
}

#[test]
fn one_field_is_printed_as_it_is() -> Result<()> {
    let stage = Stage::new()?;
    let key = stage
        .record("reserve", "k", "--payload 42 --field record.effect_key")?
        .exits(0);
    assert_eq!(key.text().len(), 37);
    let absent = stage
        .record("lookup", "k", "--field completed.result.data")?
        .exits(0);
    assert_eq!(absent.stdout, b"");
    absent.says("note: the answer has no field completed.result.data");
    let part = stage.record("lookup", "k", "--field name")?.exits(0);
    assert_eq!(part.json()?["key"], "k");
    Ok(())
}

#[test]
fn tables_are_plain_text_and_keep_terminals_safe() -> Result<()> {
    let stage = Stage::new()?;
    let token = stage.path("token");
    let body = stage.write("body", "\u{1b}[2Jgone\n")?;
    stage
        .record(
            "reserve",
            "k",
            &format!("--payload 42 --token-file {token}"),
        )?
        .exits(0);
    stage
        .record(
            "complete",
            "k",
            &format!("--token-file {token} --code ok --body-file {body}"),
        )?
        .exits(0);
    let shown = stage
        .record("lookup", "k", "--with-result")?
        .exits(0)
        .text();
    assert!(
        shown.contains("[2Jgone") && !shown.contains('\u{1b}'),
        "{shown}"
    );
    assert!(shown.starts_with("Completed: it took place"), "{shown}");
    assert!(
        shown.contains("\n  state               COMPLETED\n"),
        "{shown}"
    );
    Ok(())
}

#[test]
fn what_was_not_kept_as_sent_is_said() -> Result<()> {
    let stage = Stage::new()?;
    let token = stage.path("token");
    stage
        .record(
            "reserve",
            "k",
            &format!("--payload 42 --token-file {token}"),
        )?
        .exits(0);
    let flags = format!(
        "--token-file {token} --code {} --header set-cookie:a=b",
        "x".repeat(300)
    );
    let done = stage.record("complete", "k", &flags)?.exits(0);
    assert!(
        done.stderr
            .contains("warning: result.code was not kept as sent"),
        "{}",
        done.stderr
    );
    assert!(
        done.stderr
            .contains("warning: result.headers[0] was not kept"),
        "{}",
        done.stderr
    );
    Ok(())
}

#[test]
fn the_guide_lists_the_exit_codes_as_the_program_does() -> Result<()> {
    let stage = Stage::new()?;
    let help = stage.reprise("--help")?.exits(0).text();
    let (_, codes) = help.split_once("Exit codes").expect("exit codes");
    assert!(
        super::repository("docs/cli.md")?.contains(codes.trim_end()),
        "{codes}"
    );
    let version = stage.reprise("--version")?.exits(0).text();
    assert_eq!(version, format!("reprise {}\n", env!("CARGO_PKG_VERSION")));
    Ok(())
}
