//! The stop button, and what shows it.

use anyhow::Result;

use super::Stage;

const WHY: &str = "--reason failover --actor ops";

fn holds(stage: &Stage) -> Result<usize> {
    let status = stage.reprise("status --json")?.exits(0).json()?;
    Ok(status["holds"].as_array().map_or(0, Vec::len))
}

#[test]
fn a_hold_stops_grants_and_nothing_else() -> Result<()> {
    let stage = Stage::new()?;
    let token = format!("--token-file {}", stage.path("token"));
    stage
        .record("reserve", "k", &format!("--payload 42 {token}"))?
        .exits(0);
    stage
        .reprise("status")?
        .exits(0)
        .says("Nothing is held: attempts are granted.");
    let hold = format!("hold --operation charge {WHY}");
    stage.reprise(&hold)?.exits(0).says("HELD: shop charge.");
    stage
        .reprise(&hold)?
        .exits(0)
        .says("Held before, nothing was written");
    let status = stage.reprise("status")?.exits(0).text();
    assert!(status.starts_with("HELD: shop charge, since "), "{status}");
    stage
        .record("complete", "k", &format!("--code paid {token}"))?
        .exits(0);
    stage.record("reserve", "k", "--payload 42")?.exits(10);
    stage
        .reprise("policy get --operation charge")?
        .exits(0)
        .says("HELD: nobody is granted an attempt.");
    stage
        .reprise(&format!("release --operation charge {WHY}"))?
        .exits(0)
        .says("Released: shop charge.");
    assert_eq!(holds(&stage)?, 0);
    stage.record("reserve", "new", "--payload 42")?.exits(0);
    Ok(())
}

#[test]
fn who_is_held_is_told_and_not_let_through() -> Result<()> {
    let stage = Stage::new()?;
    stage.reprise(&format!("hold {WHY}"))?.exits(0);
    stage
        .record("reserve", "k", "--payload 42")?
        .exits(12)
        .says("Held: an operator stopped this operation.");
    Ok(())
}

#[test]
fn a_hold_leaves_the_settings_as_they_are() -> Result<()> {
    let stage = Stage::new()?;
    stage
        .reprise("policy put --operation charge --lease 7s --reason test")?
        .exits(0);
    stage
        .reprise(&format!("hold --operation charge {WHY}"))?
        .exits(0);
    // One that had no policy of its own goes on to take the wider one's.
    stage
        .reprise(&format!("hold --operation refund {WHY}"))?
        .exits(0);
    let list = stage.reprise("policy list --json")?.exits(0).json()?;
    let policies = &list["policies"];
    assert_eq!(policies[0]["lease"], 7.0);
    assert_eq!(policies[0]["mode"], "HOLD");
    assert_eq!(policies[0]["inherits"], false);
    assert_eq!(policies[1]["operation"], "refund");
    assert_eq!(policies[1]["inherits"], true);
    assert_eq!(holds(&stage)?, 2);
    Ok(())
}

#[test]
fn a_wider_hold_outlives_a_narrower_release() -> Result<()> {
    let stage = Stage::new()?;
    stage
        .reprise(&format!("hold --all-tenants {WHY}"))?
        .exits(0)
        .says("HELD: all tenants.");
    stage.reprise(&format!("hold {WHY}"))?.exits(0);
    stage
        .reprise(&format!("release {WHY}"))?
        .exits(0)
        .says("warning: a wider scope is still held");
    let status = stage.reprise("status")?.exits(0).text();
    assert!(status.starts_with("HELD: ALL TENANTS, since "), "{status}");
    stage
        .reprise(&format!("release --all-tenants {WHY}"))?
        .exits(0);
    assert_eq!(holds(&stage)?, 0);
    let audit = stage.reprise("audit --all-tenants --json")?.exits(0).text();
    assert_eq!(audit.matches("failover").count(), 2, "{audit}");
    stage
        .reprise(&format!("hold --tenant other --all-tenants {WHY}"))?
        .exits(2)
        .says("exclude each other");
    Ok(())
}

#[test]
fn a_policy_that_says_nothing_of_the_mode_leaves_a_hold() -> Result<()> {
    let stage = Stage::new()?;
    stage
        .reprise(&format!("hold --operation pay {WHY}"))?
        .exits(0);
    let file = "tenant = \"shop\"\noperation = \"pay\"\nlease = \"9s\"\n";
    let file = stage.write("policy.toml", file)?;
    stage.reprise(&format!("policy apply {file}"))?.exits(0);
    stage
        .reprise("policy put --operation pay --wait-max 1s --reason test")?
        .exits(0);
    let got = stage
        .reprise("policy get --operation pay --json")?
        .exits(0)
        .json()?;
    assert_eq!(got["held"], true);
    assert_eq!(got["policy"]["lease"], 9.0);
    let put = "policy put --operation pay --mode enforce --reason test";
    stage
        .reprise(put)?
        .exits(0)
        .says("mode              HOLD -> ENFORCE");
    assert_eq!(holds(&stage)?, 0);
    Ok(())
}
