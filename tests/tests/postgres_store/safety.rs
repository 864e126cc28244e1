//! Databases that are refused, each with its reason and the way out.

use anyhow::Result;
use reprise::store::postgres::{Config, OpenError, Options, Postgres, migrate};
use reprise_tests::postgres::{PostgresServer, Version};

use super::{database, session};

async fn refusal(config: Config) -> OpenError {
    match Postgres::connect(config, Options::default()).await {
        Ok(_) => panic!("the database was accepted"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_server_without_fsync_is_refused_unless_owned_up_to() -> Result<()> {
    let server = PostgresServer::start(Version::V15, &[("fsync", "off")])?;
    let url = server.fresh_database()?;
    migrate(&url).await?;
    let mut config = Config::new(url);
    let error = refusal(config.clone()).await;
    assert!(matches!(error, OpenError::Unsafe { setting: "fsync" }));
    assert!(error.to_string().contains("allow_unsafe_durability"));
    config.allow_unsafe_durability = true;
    Postgres::connect(config, Options::default()).await?;
    Ok(())
}

#[tokio::test]
async fn synchronous_commit_off_is_refused_also_for_one_role_or_database() -> Result<()> {
    let url = database(Version::V15).await?;
    let name = url.rsplit('/').next().unwrap_or_default().to_owned();
    let admin = session(&url).await?;
    let is_refused = async |url: &str| {
        let error = refusal(Config::new(url)).await;
        let expected = matches!(
            error,
            OpenError::Unsafe {
                setting: "synchronous_commit"
            }
        );
        assert!(expected, "{error}");
    };
    let off = "set synchronous_commit = off";
    admin
        .batch_execute(&format!("alter database {name} {off}"))
        .await?;
    is_refused(&url).await;
    admin
        .batch_execute(&format!(
            "alter database {name} reset synchronous_commit;
             create role hasty login superuser; alter role hasty {off}"
        ))
        .await?;
    is_refused(&url.replace("postgres@", "hasty@")).await;
    Postgres::connect(Config::new(url), Options::default()).await?;
    Ok(())
}

#[tokio::test]
async fn a_database_that_is_not_there_is_named_as_such() -> Result<()> {
    let url = PostgresServer::shared(Version::V15)?.database_url("nowhere");
    let error = refusal(Config::new(url)).await;
    assert!(matches!(error, OpenError::Unreachable(_)), "{error}");
    Ok(())
}

#[tokio::test]
async fn settings_out_of_range_are_named() {
    let mut config = Config::new("postgres://localhost/x");
    config.pool_size = 1;
    let error = refusal(config).await.to_string();
    assert!(error.contains("pool_size: at least 2"), "{error}");
}
