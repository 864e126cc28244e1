//! The Rust client's examples are its documentation: they run as they stand, and a second
//! run replays the first one's result.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use reprise_tests::reprise_bin::{self, ServerProcess};

/// Runs an example twice with one key, and answers what each run printed.
fn twice(example: &str) -> Result<(String, String)> {
    let data = tempfile::tempdir()?;
    let server = ServerProcess::start(&["--data-dir", &data.path().display().to_string()], &[])?;
    let program = reprise_bin::path()?
        .with_file_name("examples")
        .join(example);
    let run = || -> Result<String> {
        let endpoint = format!("http://{}", server.addr());
        let output = Command::new(&program)
            .args([&endpoint, "order-1"])
            .output()
            .with_context(|| format!("{}: use `make test`", program.display()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{example}: {said}");
        Ok(String::from_utf8(output.stdout)?)
    };
    Ok((run()?, run()?))
}

#[test]
fn charge_replays_its_receipt() -> Result<()> {
    let (first, second) = twice("charge")?;
    let receipt = first.lines().next().context("nothing was printed")?;
    assert!(receipt.starts_with("charged: "), "{first}");
    assert!(second.starts_with(receipt), "{second}");
    assert!(second.contains("a replay"), "{second}");
    Ok(())
}

#[test]
fn mark_sending_replays_its_result() -> Result<()> {
    let (first, second) = twice("mark_sending")?;
    assert!(first.starts_with("Completed"), "{first}");
    assert_eq!(first, second);
    Ok(())
}

#[test]
fn worker_finds_out_about_a_charge_and_empties_an_outbox() -> Result<()> {
    let (first, second) = twice("worker")?;
    for worked_on in ["worked on: charge", "worked on: mail"] {
        assert!(first.contains(worked_on), "{first}");
        assert!(!second.contains(worked_on), "{second}");
    }
    for result in ["charge: ", "mail: "] {
        let found = second.lines().find(|line| line.starts_with(result));
        let found = found.with_context(|| format!("no {result}in {second}"))?;
        assert!(first.contains(found), "{first}\n{second}");
    }
    Ok(())
}

#[test]
fn observe_charges_twice_and_says_what_enforcing_would_do() -> Result<()> {
    let (first, second) = twice("observe")?;
    for said in [&first, &second] {
        assert!(said.contains("charging as before"), "{said}");
    }
    assert!(second.contains("enforcing would: replay"), "{second}");
    Ok(())
}

#[test]
fn low_level_acts_once() -> Result<()> {
    let (first, second) = twice("low_level")?;
    assert!(first.starts_with("sending under "), "{first}");
    assert!(
        second.starts_with("nothing to do here: Completed"),
        "{second}"
    );
    Ok(())
}
