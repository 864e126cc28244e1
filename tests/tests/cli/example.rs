//! The guide's script, run as it stands there.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use anyhow::{Context as _, Result};
use reprise_tests::reprise_bin;

use super::{Done, Stage, block, finish, quiet, repository};

/// Notes each call in a file, prints a receipt and ends as that file's neighbour says.
const PROVIDER: &str = r#"#!/bin/sh
echo "$@" >>"$LEDGER"
echo "receipt for $1"
exit "$(cat "$LEDGER.code")"
"#;

struct Shop {
    stage: Stage,
    script: String,
    ledger: String,
}

impl Shop {
    fn new() -> Result<Self> {
        let stage = Stage::new()?;
        let guide = repository("docs/cli.md")?;
        let script = stage.write("pay.sh", block(&guide, "sh")?)?;
        let provider = stage.write("pay-provider", PROVIDER)?;
        std::fs::set_permissions(provider, PermissionsExt::from_mode(0o755))?;
        let ledger = stage.write("ledger", "")?;
        let shop = Self {
            stage,
            script,
            ledger,
        };
        shop.provider_ends_with(0)?;
        Ok(shop)
    }

    fn provider_ends_with(&self, code: i32) -> Result<()> {
        self.stage.write("ledger.code", code.to_string())?;
        Ok(())
    }

    fn command(&self, order: &str, cents: &str) -> Result<Command> {
        let program = reprise_bin::path()?;
        let beside = program.parent().context("a directory")?.display();
        let path = std::env::var("PATH")?;
        let mut command = quiet("sh".as_ref());
        command
            .args([&self.script, order, cents])
            .env(
                "PATH",
                format!("{}:{beside}:{path}", self.stage.home.path().display()),
            )
            .env("LEDGER", &self.ledger)
            .env(
                "REPRISE_SERVER",
                format!("http://{}", self.stage.server.addr()),
            );
        Ok(command)
    }

    fn pay(&self, order: &str, cents: &str) -> Result<Done> {
        finish(self.command(order, cents)?, b"")
    }

    fn calls(&self) -> Result<Vec<String>> {
        let ledger = std::fs::read_to_string(&self.ledger)?;
        Ok(ledger.lines().map(str::to_owned).collect())
    }

    fn lookup(&self, order: &str, flags: &str) -> Result<Done> {
        self.stage
            .reprise(&format!("lookup --operation pay --key {order} {flags}"))
    }
}

#[test]
fn the_script_pays_once_and_replays_its_receipt() -> Result<()> {
    let shop = Shop::new()?;
    let first = shop.pay("o1", "4200")?.exits(0);
    assert_eq!(first.text(), "receipt for o1\n");
    assert_eq!(shop.pay("o1", "4200")?.exits(0).text(), "receipt for o1\n");
    let calls = shop.calls()?;
    assert_eq!(calls.len(), 1, "{calls:?}");
    let effect_key = shop.lookup("o1", "--field record.effect_key")?.text();
    assert_eq!(calls[0], format!("o1 4200 {}", effect_key.trim()));
    // The same order with another amount is told in words and pays nothing.
    shop.pay("o1", "9900")?.exits(1);
    assert_eq!(shop.calls()?.len(), 1);
    Ok(())
}

#[test]
fn twenty_scripts_at_once_pay_once() -> Result<()> {
    let shop = Shop::new()?;
    let ended = std::thread::scope(|scope| {
        let started: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| shop.pay("o1", "4200")))
            .collect();
        let joined = started.into_iter().map(|it| it.join().expect("no panic"));
        joined.collect::<Result<Vec<_>>>()
    })?;
    for done in ended {
        assert_eq!(done.exits(0).text(), "receipt for o1\n");
    }
    assert_eq!(shop.calls()?.len(), 1);
    Ok(())
}

#[test]
fn a_refusal_ends_the_intent_and_an_unknown_end_is_pending() -> Result<()> {
    let shop = Shop::new()?;
    shop.provider_ends_with(3)?;
    shop.pay("refused", "1")?.exits(1);
    shop.pay("refused", "1")?
        .exits(1)
        .says("refused was refused");
    shop.provider_ends_with(17)?;
    shop.pay("unknown", "1")?.exits(1);
    shop.lookup("unknown", "--exit-code")?
        .exits(13)
        .says("pay-provider ended with 17");
    shop.provider_ends_with(0)?;
    shop.pay("unknown", "1")?
        .exits(1)
        .says("Do not carry it out");
    assert_eq!(shop.calls()?.len(), 2, "no order was tried twice");
    Ok(())
}

#[test]
fn without_a_server_nothing_is_paid() -> Result<()> {
    let shop = Shop::new()?;
    let mut command = shop.command("o1", "4200")?;
    command
        .env("REPRISE_SERVER", "http://127.0.0.1:1")
        .env("REPRISE_TIMEOUT", "300ms");
    finish(command, b"")?.exits(75);
    assert_eq!(shop.calls()?.len(), 0);
    Ok(())
}
