//! The demo, as a newcomer sees it.

use anyhow::Result;
use reprise_tests::reprise_bin;

use super::{Done, Stage, finish, quiet};

fn is_as_promised(done: &Done) {
    let text = done.text();
    for line in [
        "1 caller        acquired the key and charged the card",
        "49 callers      waited and got the same receipt, byte for byte:",
        "was refused: DIFFERENT_PAYLOAD",
        "LEASE_EXPIRED_AFTER_SENDING, nobody may charge again",
        "is not let through",
        "asks the provider about",
        "resolves the record with that as evidence",
        "gets the receipt, byte for byte:",
        "COMPLETED, said it was sending",
        "RESOLVED_APPLIED by demo-worker (claim): the provider's ledger has ch_",
        "Two intents, two charges.",
    ] {
        assert!(text.contains(line), "{line:?} is not in:\n{text}");
    }
    let (_, ledger) = text.split_once("The provider's ledger").expect("a ledger");
    let (ledger, _) = ledger.split_once("\n\n").expect("an end");
    assert_eq!(ledger.matches("ch_").count(), 2, "{ledger}");
    assert!(
        !text.contains('\u{1b}'),
        "no colours where nobody looks:\n{text}"
    );
}

#[test]
fn the_demo_runs_by_itself_and_leaves_nothing_behind() -> Result<()> {
    let home = tempfile::tempdir()?;
    let mut command = quiet(reprise_bin::path()?.as_os_str());
    command
        .arg("demo")
        .env("TMPDIR", home.path())
        .current_dir(home.path());
    let done = finish(command, b"")?.exits(0);
    is_as_promised(&done);
    done.says("with a server of its own at http://127.0.0.1:");
    let left: Vec<_> = std::fs::read_dir(home.path())?.collect::<Result<_, _>>()?;
    assert!(left.is_empty(), "{left:?}");
    Ok(())
}

#[test]
fn the_demo_runs_again_and_again_against_a_running_server() -> Result<()> {
    let stage = Stage::new()?;
    for _ in 0..2 {
        is_as_promised(&stage.reprise("demo")?.exits(0));
    }
    Ok(())
}

#[test]
fn a_promise_that_does_not_hold_is_an_error() -> Result<()> {
    let stage = Stage::new()?;
    let put = "policy put --tenant demo --on-lapse take_over --repeat-within 1h --reason test";
    stage.reprise(put)?.exits(0);
    stage
        .reprise("demo")?
        .exits(1)
        .says("error: the demo's promise does not hold");
    Ok(())
}
