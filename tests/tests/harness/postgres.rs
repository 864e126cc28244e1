use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use reprise_tests::postgres::{PostgresServer, Version};

use super::connect;

const VERSIONS: [Version; 2] = [Version::V15, Version::V18];

async fn setting(url: &str, name: &str) -> Result<String> {
    let row = connect(url)
        .await?
        .query_one(&format!("show {name}"), &[])
        .await?;
    Ok(row.get(0))
}

#[tokio::test]
async fn a_server_of_each_version_is_durable_and_in_utf8_by_default() -> Result<()> {
    for (version, number) in VERSIONS.into_iter().zip(["15.", "18."]) {
        let server = PostgresServer::shared(version)?;
        let url = server.fresh_database()?;
        assert!(
            setting(&url, "server_version").await?.starts_with(number),
            "{version}"
        );
        for (name, value) in [
            ("fsync", "on"),
            ("synchronous_commit", "on"),
            ("full_page_writes", "on"),
            ("server_encoding", "UTF8"),
            ("max_connections", "300"),
        ] {
            assert_eq!(setting(&url, name).await?, value, "{version}: {name}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn databases_of_one_shared_server_are_separate() -> Result<()> {
    let server = PostgresServer::shared(Version::V15)?;
    let (one, other) = (server.fresh_database()?, server.fresh_database()?);
    assert_ne!(one, other);
    for url in [one, other] {
        connect(&url)
            .await?
            .batch_execute("create table once ()")
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn options_reach_the_server() -> Result<()> {
    let server = PostgresServer::start(Version::V18, &[("fsync", "off"), ("work_mem", "1MB")])?;
    assert_eq!(setting(&server.url(), "fsync").await?, "off");
    assert_eq!(setting(&server.url(), "work_mem").await?, "1MB");
    Ok(())
}

#[test]
fn an_option_that_the_server_refuses_is_an_error_with_its_words() {
    let error = PostgresServer::start(Version::V15, &[("no_such_setting", "1")])
        .map(|_| ())
        .expect_err("the setting does not exist");
    assert!(
        format!("{error:#}").contains("no_such_setting"),
        "{error:#}"
    );
}

#[tokio::test]
async fn what_was_committed_survives_kill_9_on_the_same_port() -> Result<()> {
    for version in VERSIONS {
        let mut server = PostgresServer::start(version, &[])?;
        server.create_database("kept")?;
        let url = server.database_url("kept");
        let client = connect(&url).await?;
        client
            .batch_execute("create table t (n int); insert into t values (7)")
            .await?;

        let (pid, port) = (server.pid()?, server.port());
        server.kill_9()?;
        assert!(
            !Path::new(&format!("/proc/{pid}")).exists(),
            "{version} is still there"
        );
        assert!(client.query_one("select n from t", &[]).await.is_err());
        assert!(connect(&url).await.is_err(), "{version} still answers");
        assert!(server.kill_9().is_err(), "it can be killed only once");

        server.restart()?;
        assert_eq!(server.port(), port);
        assert!(
            server.log()?.contains("not properly shut down"),
            "{version} crashed"
        );
        let row = connect(&url)
            .await?
            .query_one("select n from t", &[])
            .await?;
        assert_eq!(row.get::<_, i32>(0), 7);

        // A live server restarts too, and without recovery.
        let before = server.log()?.matches("not properly shut down").count();
        server.restart()?;
        assert_eq!(
            server.log()?.matches("not properly shut down").count(),
            before
        );
        connect(&url)
            .await?
            .query_one("select n from t", &[])
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_frozen_server_answers_nothing_and_everything_once_thawed() -> Result<()> {
    let server = PostgresServer::start(Version::V15, &[])?;
    let client = connect(&server.url()).await?;
    client.batch_execute("select 1").await?;

    server.freeze()?;
    let query = client.query_one("select 42", &[]);
    tokio::pin!(query);
    let early = tokio::time::timeout(Duration::from_millis(300), &mut query).await;
    assert!(early.is_err(), "a frozen server answered");
    let stalled = tokio::time::timeout(Duration::from_millis(300), connect(&server.url())).await;
    assert!(stalled.is_err(), "a frozen server took a session");

    server.thaw()?;
    let row = tokio::time::timeout(Duration::from_secs(30), query).await??;
    assert_eq!(row.get::<_, i32>(0), 42);
    Ok(())
}

#[test]
fn a_frozen_server_ends_with_its_owner_and_leaves_no_files() -> Result<()> {
    let server = PostgresServer::start(Version::V18, &[])?;
    let (pid, data) = (server.pid()?, server.data_dir());
    server.freeze()?;
    drop(server);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(!data.exists());
    Ok(())
}
