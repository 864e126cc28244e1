//! Policies by flags and by file.

use anyhow::Result;

use super::{Stage, block, repository};

#[test]
fn a_policy_is_put_shown_and_listed() -> Result<()> {
    let stage = Stage::new()?;
    stage
        .reprise("policy get --operation pay")?
        .exits(0)
        .says("The default that is built in.");
    stage
        .reprise("policy list")?
        .exits(0)
        .says("no policy of its own");
    let put = "policy put --operation pay --lease 10s --reason test";
    let done = stage.reprise(put)?.exits(0);
    done.says("shop pay: created");
    done.says("lease             30 s -> 10 s");
    stage
        .reprise(put)?
        .exits(0)
        .says("shop pay: equal, not written");
    // What no flag names stays.
    stage
        .reprise("policy put --operation pay --settle-after 0 --reason test")?
        .exits(0);
    let got = stage
        .reprise("policy get --operation pay --json")?
        .exits(0)
        .json()?;
    assert_eq!(got["source"], "OPERATION");
    assert_eq!(got["policy"]["lease"], 10.0);
    assert_eq!(got["policy"]["settle_after"], 0.0);
    assert_eq!(got["policy"]["on_lapse"], "PENDING");

    stage
        .reprise("policy put --wait-max 5s --reason test")?
        .exits(0)
        .says("shop (default): created");
    let list = stage.reprise("policy list")?.exits(0).text();
    assert!(list.starts_with("OPERATION  ON LAPSE"), "{list}");
    assert!(
        list.contains("\n(default)  PENDING") && list.contains("\npay        PENDING"),
        "{list}"
    );
    let list = stage.reprise("policy list --json")?.exits(0).json()?;
    assert_eq!(list["policies"][1]["operation"], "pay");
    Ok(())
}

#[test]
fn settings_that_do_not_fit_are_refused_by_their_flag() -> Result<()> {
    let stage = Stage::new()?;
    for (flags, told) in [
        (
            "--on-lapse take_over",
            "--repeat-within: required with TAKE_OVER",
        ),
        ("--lease 20m", "--lease: 100 ms to 15 min"),
        ("--header set-cookie", "--header: any header but set-cookie"),
        (
            "--result-retention 99d",
            "--result-retention: 1 s to memory_retention",
        ),
        (
            "--result-bytes-max 5000000",
            "--result-bytes-max: 0 to 4,128,768 bytes",
        ),
        ("--inherits --lease 1s", "--inherits: only beside mode"),
    ] {
        let done = stage.reprise(&format!("policy put --reason test {flags}"))?;
        done.exits(2).says(told);
    }
    stage
        .reprise("policy list")?
        .exits(0)
        .says("no policy of its own");
    Ok(())
}

#[test]
fn the_guides_file_is_applied_once() -> Result<()> {
    let stage = Stage::new()?;
    let guide = repository("docs/cli.md")?;
    let file = stage.write("policies.toml", block(&guide, "toml")?)?;
    let dry = stage
        .reprise(&format!("policy apply {file} --dry-run"))?
        .exits(0);
    dry.says("shop (default): would be created");
    dry.says("on_lapse          PENDING -> TAKE_OVER");
    stage
        .reprise("policy list")?
        .exits(0)
        .says("no policy of its own");
    stage
        .reprise(&format!("policy apply {file}"))?
        .exits(0)
        .says("shop pay: created");
    let before = stage.reprise("policy list --json")?.exits(0).json()?;
    let again = stage
        .reprise(&format!("policy apply {file}"))?
        .exits(0)
        .text();
    assert_eq!(
        again,
        "shop (default): equal, not written\nshop pay: equal, not written\n"
    );
    assert_eq!(
        stage.reprise("policy list --json")?.json()?,
        before,
        "nothing was written"
    );

    let policy = &before["policies"][1];
    assert_eq!(policy["on_lapse"], "TAKE_OVER");
    assert_eq!(policy["repeat_within"], 82_800.0);
    assert_eq!(policy["fingerprint_rules"][0]["ignore"][0], "/sent_at");
    // A change by hand is seen, shown and put back.
    stage
        .reprise("policy put --operation pay --lease 5s --reason test")?
        .exits(0);
    let back = stage
        .reprise(&format!("policy apply {file} --json"))?
        .exits(0)
        .json()?;
    assert_eq!(back["policies"][0]["change"], "equal");
    assert_eq!(back["policies"][1]["change"], "changed");
    assert_eq!(back["policies"][1]["differences"][0]["setting"], "lease");
    assert_eq!(back["policies"][1]["differences"][0]["from"], 5.0);
    Ok(())
}

#[test]
fn a_wrong_file_writes_nothing() -> Result<()> {
    let stage = Stage::new()?;
    for (text, told) in [
        (
            "[[policy]]\ntenant = \"shop\"\nlaese = \"1s\"\n",
            "unknown field `laese`",
        ),
        (
            "[[policy]]\ntenant = \"shop\"\nlaese = \"1s\"\n",
            "line 3, column 1",
        ),
        (
            "[[policy]]\ntenant = \"shop\"\n[[policy]]\ntenant = \"s\"\nlease = \"1h\"\n",
            "policy 2: lease: 100 ms to 15 min",
        ),
    ] {
        let file = stage.write("policies.toml", text)?;
        stage
            .reprise(&format!("policy apply {file}"))?
            .exits(2)
            .says(told);
    }
    stage
        .reprise("policy apply missing.toml")?
        .exits(1)
        .says("missing.toml: No such file");
    stage
        .reprise("policy list")?
        .exits(0)
        .says("no policy of its own");
    Ok(())
}
