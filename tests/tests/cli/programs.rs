//! The commands that are no clients: the service as a default, and `migrate`.

use anyhow::Result;
use reprise_tests::postgres::{PostgresServer, Version};
use reprise_tests::reprise_bin::{self, ServerProcess};

use super::{finish, quiet};

#[test]
fn without_a_subcommand_the_service_starts() -> Result<()> {
    let home = tempfile::tempdir()?;
    let data = home.path().display().to_string();
    let mut server = ServerProcess::start(&["--data-dir", &data], &[])?;
    assert_eq!(server.terminate()?, 0);
    Ok(())
}

#[test]
fn a_wrong_setting_is_named_before_anything_starts() -> Result<()> {
    for (line, told) in [
        ("--pool-size 1", "pool_size: 2 to 200"),
        ("serve --config missing.toml", "missing.toml cannot be read"),
        ("serve --lissen x", "--lissen"),
        (
            "migrate",
            "no database: use --database-url, REPRISE_DATABASE_URL or",
        ),
        ("migrate --database-url nowhere", "--database-url"),
    ] {
        let mut command = quiet(reprise_bin::path()?.as_os_str());
        command.args(line.split(' '));
        finish(command, b"")?.exits(2).says(told);
    }
    Ok(())
}

#[test]
fn a_database_is_migrated_once() -> Result<()> {
    let url = PostgresServer::shared(Version::V15)?.fresh_database()?;
    let migrate = || {
        let mut command = quiet(reprise_bin::path()?.as_os_str());
        command.arg("migrate").env("REPRISE_DATABASE_URL", &url);
        finish(command, b"")
    };
    let first = migrate()?.exits(0).text();
    assert!(first.starts_with("applied 0001_"), "{first}");
    assert!(first.contains("is at schema version 1\n"), "{first}");
    assert_eq!(
        first.lines().count(),
        migrate()?.exits(0).text().lines().count() + 1
    );
    Ok(())
}

#[test]
fn a_database_that_is_not_there_is_an_error_without_its_password() -> Result<()> {
    let mut command = quiet(reprise_bin::path()?.as_os_str());
    command.args([
        "migrate",
        "--database-url",
        "postgres://u:secret@127.0.0.1:1/db",
    ]);
    let done = finish(command, b"")?.exits(1);
    assert!(!done.stderr.contains("secret"), "{}", done.stderr);
    Ok(())
}
