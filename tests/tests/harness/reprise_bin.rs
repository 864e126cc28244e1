use anyhow::Result;
use reprise_tests::reprise_bin::{ServerProcess, path};

#[test]
fn the_program_is_built_with_the_tests() -> Result<()> {
    assert!(path()?.is_file());
    Ok(())
}

#[test]
fn a_server_that_does_not_start_is_an_error_with_its_words() {
    let error = ServerProcess::start(&["serve", "--no-such-flag"], &[])
        .map(|_| ())
        .expect_err("the flag does not exist");
    assert!(format!("{error:#}").contains("no-such-flag"), "{error:#}");
}
