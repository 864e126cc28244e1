//! How a token travels without others seeing it.

use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context as _, Result};

use super::{Stage, finish};

#[test]
fn a_token_file_is_its_owners_and_stays_until_there_is_a_new_token() -> Result<()> {
    let stage = Stage::new()?;
    let token = stage.write("token", "an earlier token\n")?;
    stage.record("reserve", "k", "--payload 42")?.exits(0);
    let flags = format!("--payload 42 --token-file {token}");
    stage.record("reserve", "k", &flags)?.exits(12);
    assert_eq!(std::fs::read_to_string(&token)?, "an earlier token\n");
    let other = stage
        .record("reserve", "other", &format!("{flags} --json"))?
        .exits(0)
        .json()?;
    let written = std::fs::read_to_string(&token)?;
    assert_eq!(
        written.trim_end(),
        other["acquired"]["token"].as_str().context("a token")?
    );
    assert_eq!(
        std::fs::metadata(&token)?.permissions().mode() & 0o777,
        0o600
    );
    let left: Vec<_> = std::fs::read_dir(stage.home.path())?.collect::<Result<_, _>>()?;
    assert_eq!(
        left.len(),
        2,
        "the data and the token, and nothing begun: {left:?}"
    );
    Ok(())
}

#[test]
fn a_token_that_cannot_be_written_reserves_nothing() -> Result<()> {
    let stage = Stage::new()?;
    let nowhere = stage.path("missing/token");
    let flags = format!("--payload 42 --token-file {nowhere}");
    stage
        .record("reserve", "k", &flags)?
        .exits(1)
        .says("missing/token");
    stage.record("lookup", "k", "")?.exits(5);
    let directory = stage.path("");
    stage
        .record(
            "reserve",
            "k",
            &format!("--payload 42 --token-file {directory}"),
        )?
        .exits(1);
    stage.record("lookup", "k", "")?.exits(0);
    stage
        .record("lookup", "k", "--exit-code")?
        .exits(16)
        .says("may try again");
    Ok(())
}

#[test]
fn a_token_comes_from_a_file_the_input_the_environment_or_the_line() -> Result<()> {
    let stage = Stage::new()?;
    let token = stage
        .record("reserve", "k", "--payload 42 --field acquired.token")?
        .exits(0)
        .text();
    let renew = "renew --operation charge --key k";
    let url_alphabet = token
        .trim()
        .trim_end_matches('=')
        .replace('+', "-")
        .replace('/', "_");
    stage
        .reprise(&format!("{renew} --token {url_alphabet}"))?
        .exits(0);
    stage
        .with_input(&format!("{renew} --token -"), token.as_bytes())?
        .exits(0);
    let file = stage.write("token", &token)?;
    stage
        .reprise(&format!("{renew} --token-file {file}"))?
        .exits(0);
    let mut command = stage.command()?;
    command
        .args(renew.split(' '))
        .env("REPRISE_TOKEN", token.trim());
    finish(command, b"")?.exits(0);
    stage
        .reprise(renew)?
        .exits(2)
        .says("no token: use --token-file, --token or");
    stage
        .reprise(&format!("{renew} --token ???"))?
        .exits(2)
        .says("--token: must be the base64");
    // One input cannot be two things.
    let both = "complete --operation charge --key k --token - --body-file -";
    stage
        .with_input(both, token.as_bytes())?
        .exits(2)
        .says("once only");
    Ok(())
}
