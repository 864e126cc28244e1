//! Every record command once on its ordinary way, with its exit code.

use std::time::Duration;

use anyhow::Result;
use reprise_tests::poll;

use super::Stage;

const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn an_effect_is_reserved_marked_completed_and_replayed() -> Result<()> {
    let stage = Stage::new()?;
    let token = stage.path("token");
    let body = stage.write("body", b"{\"charge\":\"ch_1\"}\n\xff\x00")?;
    let reserve = "--payload 42";

    let first = stage.record("reserve", "k", &format!("{reserve} --token-file {token}"))?;
    first
        .exits(0)
        .says("Acquired, attempt 1: nobody did before");
    stage
        .record("reserve", "k", reserve)?
        .exits(12)
        .says("is at it");
    stage.record("lookup", "k", "--exit-code")?.exits(12);

    let marked = stage.record("mark-sending", "k", &format!("--token-file {token}"))?;
    marked.exits(0).says("Send now");
    let complete = format!(
        "--token-file {token} --code 201 --body-file {body} --header location:/charges/ch_1 \
         --resource-id ch_1 --provider-reference p_1"
    );
    stage
        .record("complete", "k", &complete)?
        .exits(0)
        .says("Recorded. The record is COMPLETED");
    stage
        .record("complete", "k", &complete)?
        .exits(0)
        .says("Recorded before");

    let replay = stage.record(
        "reserve",
        "k",
        &format!("{reserve} --field completed.result.data"),
    )?;
    assert_eq!(replay.exits(10).stdout, b"{\"charge\":\"ch_1\"}\n\xff\x00");
    stage
        .record("reserve", "k", "--payload 43")?
        .exits(14)
        .says("another payload");
    let found = stage
        .record("lookup", "k", "--with-result --json --exit-code")?
        .exits(10)
        .json()?;
    assert_eq!(found["completed"]["result"]["code"], "201");
    assert_eq!(
        found["completed"]["result"]["headers"][0]["value_text"],
        "/charges/ch_1"
    );
    assert_eq!(found["record"]["provider_reference"], "p_1");
    Ok(())
}

#[test]
fn failures_are_told_apart() -> Result<()> {
    let stage = Stage::new()?;
    let token = stage.path("token");
    let reserve = format!("--payload 42 --token-file {token}");
    stage.record("reserve", "k", &reserve)?.exits(0);
    let fail = stage.record(
        "fail",
        "k",
        &format!("--token-file {token} --retryable --code busy"),
    )?;
    fail.exits(0).says("FAILED: the next caller may try again");
    stage.record("lookup", "k", "--exit-code")?.exits(16);

    let again = stage
        .record("reserve", "k", &format!("{reserve} --json"))?
        .exits(0)
        .json()?;
    assert_eq!(again["record"]["attempt"], 2);
    assert_eq!(again["acquired"]["reason"], "AFTER_RETRYABLE_FAILURE");
    assert_eq!(again["acquired"]["earlier"]["error"]["code"], "busy");
    stage
        .record(
            "fail",
            "k",
            &format!("--token-file {token} --final --code declined"),
        )?
        .exits(0);
    let over = stage
        .record("reserve", "k", "--payload 42 --json")?
        .exits(11)
        .json()?;
    assert_eq!(over["failed"]["error"]["code"], "declined");
    assert_eq!(over["start_over"], "YES");
    stage.record("lookup", "k", "--exit-code")?.exits(11);
    Ok(())
}

#[test]
fn what_nobody_knows_is_pending_until_it_is_resolved() -> Result<()> {
    let stage = Stage::new()?;
    let token = stage.path("token");
    stage
        .record(
            "reserve",
            "k",
            &format!("--payload 42 --token-file {token}"),
        )?
        .exits(0);
    let pending = "--reason time-out --provider-reference p_1 --check-after 5m";
    let marked = stage.record(
        "mark-pending",
        "k",
        &format!("--token-file {token} {pending}"),
    )?;
    marked.exits(0).says("PENDING");
    let asked = stage
        .record("reserve", "k", "--payload 42 --json")?
        .exits(13)
        .json()?;
    assert_eq!(asked["pending"]["reason"], "REPORTED");
    assert_eq!(asked["pending"]["detail"], "time-out");
    stage
        .record("lookup", "k", "--exit-code")?
        .exits(13)
        .says("Ask the provider");
    stage
        .record("mark-sending", "k", &format!("--token-file {token}"))?
        .exits(3)
        .says("RECORD_PENDING");

    let resolve = "--applied --code paid --evidence seen";
    stage
        .record("resolve", "k", resolve)?
        .exits(0)
        .says("The record is COMPLETED");
    stage.record("reserve", "k", "--payload 42")?.exits(10);
    Ok(())
}

#[test]
fn a_lease_is_renewed_ended_and_closed() -> Result<()> {
    let stage = Stage::new()?;
    let token = stage.path("token");
    stage
        .record(
            "reserve",
            "k",
            &format!("--payload 42 --token-file {token}"),
        )?
        .exits(0);
    let renew = format!("--token-file {token}");
    let longer = stage
        .record("renew", "k", &format!("{renew} --lease 10m --json"))?
        .exits(0);
    let left = longer.json()?["lease_remaining"].as_f64();
    assert!(
        left.is_some_and(|left| (500.0..=600.0).contains(&left)),
        "{left:?}"
    );
    stage
        .record("renew", "k", &format!("{renew} --lease 0"))?
        .exits(0);
    stage
        .record("reserve", "k", "--payload 42")?
        .exits(13)
        .says("fell silent");
    stage
        .record("renew", "k", &renew)?
        .exits(3)
        .says("error: LEASE_EXPIRED: ");
    stage
        .record("complete", "k", &format!("{renew} --code late"))?
        .exits(0);
    stage.record("renew", "k", &renew)?.exits(0).says("Closed");
    Ok(())
}

#[test]
fn a_caller_that_waits_gets_the_result() -> Result<()> {
    let stage = Stage::new()?;
    let token = stage.path("token");
    stage
        .record(
            "reserve",
            "k",
            &format!("--payload 42 --token-file {token}"),
        )?
        .exits(0);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| stage.record("reserve", "k", "--payload 42 --wait 20s"));
        let reader =
            scope.spawn(|| stage.record("lookup", "k", "--wait 20s --until final --exit-code"));
        stage
            .record(
                "complete",
                "k",
                &format!("--token-file {token} --code done"),
            )?
            .exits(0);
        waiter.join().expect("no panic")?.exits(10);
        reader.join().expect("no panic")?.exits(10);
        Ok(())
    })
}

#[test]
fn a_result_that_is_no_longer_kept_has_its_own_code() -> Result<()> {
    let stage = Stage::new()?;
    let token = stage.path("token");
    stage
        .reprise("policy put --result-retention 1s --reason test")?
        .exits(0);
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
            &format!("--token-file {token} --code done"),
        )?
        .exits(0);
    poll::until("the result to go", LIMIT, || {
        let done = stage.record("reserve", "k", "--payload 42 --json")?;
        Ok((done.code == 15).then_some(done))
    })?
    .says("\"code\":\"done\"");
    stage
        .record("lookup", "k", "--exit-code")?
        .exits(15)
        .says("no longer kept");
    Ok(())
}

#[test]
fn a_record_is_found_by_its_id_and_its_effect_key() -> Result<()> {
    let stage = Stage::new()?;
    let made = stage
        .record("reserve", "k", "--payload 42 --subject u1 --json")?
        .exits(0)
        .json()?;
    for (flag, field) in [("--record-id", "record_id"), ("--effect-key", "effect_key")] {
        let value = made["record"][field].as_str().expect("a text");
        let found = stage
            .reprise(&format!("lookup {flag} {value} --json"))?
            .exits(0)
            .json()?;
        assert_eq!(found["name"]["key"], "k", "{flag}");
        assert_eq!(found["name"]["subject"], "u1", "{flag}");
    }
    let none = format!(
        "lookup --tenant other --record-id {}",
        made["record"]["record_id"].as_str().expect("a text")
    );
    stage
        .reprise(&none)?
        .exits(5)
        .says("error: RECORD_NOT_FOUND: ");
    stage.record("lookup", "other", "")?.exits(5);
    Ok(())
}

#[test]
fn the_same_attempt_id_is_the_same_attempt_or_is_given_back() -> Result<()> {
    let stage = Stage::new()?;
    let id = "000102030405060708090a0b0c0d0e0f";
    let reserve = format!("--payload 42 --attempt-id {id} --json");
    let first = stage.record("reserve", "k", &reserve)?.exits(0).json()?;
    let again = stage.record("reserve", "k", &reserve)?.exits(0).json()?;
    assert_eq!(first["attempt_id"], id);
    assert_eq!(again["acquired"]["reason"], "AGAIN");
    assert_eq!(again["acquired"]["token"], first["acquired"]["token"]);
    assert_eq!(again["acquired"]["fence"], first["acquired"]["fence"]);
    let fail = format!("--retryable --attempt-id {id}");
    stage
        .record("fail", "k", &fail)?
        .exits(0)
        .says("FAILED: the next caller may try again");
    stage
        .record("fail", "k", &fail)?
        .exits(0)
        .says("Recorded before");
    let next = stage
        .record("reserve", "k", "--payload 42 --json")?
        .exits(0)
        .json()?;
    assert_eq!(next["acquired"]["reason"], "FIRST");
    Ok(())
}

#[test]
fn json_payloads_are_compared_as_json() -> Result<()> {
    let stage = Stage::new()?;
    let one = stage.write("one", r#"{"a":1,"b":2}"#)?;
    let same = stage.write("same", r#"{ "b": 2, "a": 1.0 }"#)?;
    let flags = "--media-type application/json --context method=POST";
    stage
        .record("reserve", "k", &format!("--payload-file {one} {flags}"))?
        .exits(0);
    stage
        .record("reserve", "k", &format!("--payload-file {same} {flags}"))?
        .exits(12);
    stage
        .record(
            "reserve",
            "k",
            &format!("--payload-file {same} {flags} --raw"),
        )?
        .exits(14);
    stage
        .record(
            "reserve",
            "k",
            &format!("--payload-file {same} --json-payload"),
        )?
        .exits(14);
    let bad = stage.write("bad", r#"{"a":1,"a":2}"#)?;
    let refused = stage.record(
        "reserve",
        "j",
        &format!("--payload-file {bad} --json-payload"),
    )?;
    refused.exits(2).says("error: PAYLOAD_NOT_CANONICAL: ");
    let digest = "ab".repeat(32);
    stage
        .record("reserve", "d", &format!("--digest {digest}"))?
        .exits(0);
    stage
        .record("reserve", "d", &format!("--digest {digest}"))?
        .exits(12);
    stage
        .record("reserve", "d", &format!("--digest {}", "cd".repeat(32)))?
        .exits(14);
    Ok(())
}

#[test]
fn a_stale_token_is_refused_with_its_reason() -> Result<()> {
    let stage = Stage::new()?;
    let (old, new) = (stage.path("old"), stage.path("new"));
    stage
        .record("reserve", "k", &format!("--payload 42 --token-file {old}"))?
        .exits(0);
    stage
        .record("fail", "k", &format!("--retryable --token-file {old}"))?
        .exits(0);
    stage
        .record("reserve", "k", &format!("--payload 42 --token-file {new}"))?
        .exits(0);
    let stale = stage.record("complete", "k", &format!("--code done --token-file {old}"))?;
    stale.exits(3).says("error: STALE_TOKEN: ");
    Ok(())
}
