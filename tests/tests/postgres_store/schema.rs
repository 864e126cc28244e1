//! Migrations, and schemas that do not fit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use reprise::store::postgres::{Config, OpenError, Options, Postgres, migrate};
use reprise_tests::pgbouncer::PgBouncer;
use reprise_tests::postgres::{PostgresServer, Version};

use super::caller::Caller;
use super::{VERSIONS, count, database, open, session};

async fn refusal(url: &str) -> OpenError {
    match Postgres::connect(Config::new(url), Options::default()).await {
        Ok(_) => panic!("the schema was accepted"),
        Err(error) => error,
    }
}

async fn four_starters(url: &str) -> Result<usize> {
    let starters: Vec<_> = (0..4)
        .map(|_| {
            let url = url.to_owned();
            tokio::spawn(async move { migrate(&url).await })
        })
        .collect();
    let mut applied = 0;
    for starter in starters {
        applied += starter.await??.applied.len();
    }
    Ok(applied)
}

#[tokio::test(flavor = "multi_thread")]
async fn four_starters_at_once_migrate_once() -> Result<()> {
    for version in VERSIONS {
        let server = PostgresServer::shared(version)?;
        let url = server.fresh_database()?;
        assert_eq!(four_starters(&url).await?, 1, "{version}");
        assert_eq!(four_starters(&url).await?, 0, "{version}");
        let ledger = "select count(*) from reprise.migration";
        assert_eq!(count(&session(&url).await?, ledger).await?, 1);

        let pooler = PgBouncer::start(server, 2)?;
        let fresh = server.fresh_database()?;
        let name = fresh.rsplit('/').next().unwrap_or_default();
        assert_eq!(four_starters(&pooler.url(name)).await?, 1, "{version}");
    }
    Ok(())
}

#[tokio::test]
async fn a_database_without_a_schema_is_refused_with_the_way_out() -> Result<()> {
    let url = PostgresServer::shared(Version::V15)?.fresh_database()?;
    let error = refusal(&url).await;
    assert!(matches!(error, OpenError::SchemaMissing));
    assert!(error.to_string().contains("reprise migrate"));
    Ok(())
}

#[tokio::test]
async fn a_schema_that_is_too_old_is_refused_with_the_way_out() -> Result<()> {
    let url = database(Version::V15).await?;
    session(&url)
        .await?
        .batch_execute("delete from reprise.migration")
        .await?;
    let error = refusal(&url).await;
    assert!(matches!(error, OpenError::SchemaTooOld { found: 0, .. }));
    assert!(error.to_string().contains("reprise migrate"));
    Ok(())
}

#[tokio::test]
async fn a_schema_of_a_newer_release_is_refused() -> Result<()> {
    let url = database(Version::V15).await?;
    session(&url)
        .await?
        .batch_execute("insert into reprise.migration values (9999, '9999_later', '')")
        .await?;
    let too_new = |error| matches!(error, OpenError::SchemaTooNew { found: 9999, .. });
    assert!(too_new(refusal(&url).await));
    assert!(migrate(&url).await.is_err_and(too_new));
    Ok(())
}

#[tokio::test]
async fn a_migration_that_was_edited_is_refused() -> Result<()> {
    let url = database(Version::V15).await?;
    session(&url)
        .await?
        .batch_execute("update reprise.migration set checksum = '\\x00' where version = 1")
        .await?;
    let edited =
        |error| matches!(error, OpenError::MigrationEdited { name } if name == "0001_records");
    assert!(edited(refusal(&url).await));
    assert!(migrate(&url).await.is_err_and(edited));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_change_under_load_fails_no_call() -> Result<()> {
    for prepared in [false, true] {
        let url = database(Version::V15).await?;
        let mut config = Config::new(url.clone());
        config.prepared = Some(prepared);
        let store = Arc::new(open(config).await?);
        let over = Arc::new(AtomicBool::new(false));
        let load: Vec<_> = (0..16)
            .map(|worker| {
                let (store, over) = (Arc::clone(&store), Arc::clone(&over));
                tokio::spawn(async move {
                    let mut lives = 0;
                    while !over.load(Ordering::SeqCst) {
                        let key = format!("k{worker}-{lives}");
                        Caller::new(&store, &key).lifecycle().await?;
                        lives += 1;
                    }
                    anyhow::ensure!(lives > 0, "there was no load");
                    Ok(())
                })
            })
            .collect();
        let admin = session(&url).await?;
        for round in 0..5 {
            admin
                .batch_execute(&format!(
                    "alter table reprise.record add column later_{round} integer;
                     alter table reprise.record alter column state type integer;
                     drop index reprise.record_granted_at;
                     create index record_granted_at on reprise.record (granted_at);
                     alter table reprise.record alter column state type smallint"
                ))
                .await?;
        }
        over.store(true, Ordering::SeqCst);
        for worker in load {
            worker.await??;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_is_away_for_a_while_is_unavailable_and_comes_back() -> Result<()> {
    let url = database(Version::V15).await?;
    let admin = session(&url).await?;
    admin
        .batch_execute(
            "create role clerk login; grant usage on schema reprise to clerk;
             grant all on all tables in schema reprise to clerk",
        )
        .await?;
    let store = Arc::new(open(Config::new(url.replace("postgres@", "clerk@"))).await?);
    for (n, (away, back)) in [
        (
            "alter table reprise.record rename to away",
            "alter table reprise.away rename to record",
        ),
        (
            "alter schema reprise rename to away",
            "alter schema away rename to reprise",
        ),
        (
            "revoke usage on schema reprise from clerk",
            "grant usage on schema reprise to clerk",
        ),
        (
            "revoke insert on reprise.record from clerk",
            "grant insert on reprise.record to clerk",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let caller = Caller::new(&store, &format!("k{n}"));
        admin.batch_execute(away).await?;
        let answer = caller.reserve().await;
        let unavailable = matches!(answer, Err(reprise::store::Error::Unavailable(_)));
        assert!(unavailable, "{away}: {answer:?}");
        admin.batch_execute(back).await?;
        caller.lifecycle().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_database_that_cannot_keep_every_text_is_not_migrated() -> Result<()> {
    let server = PostgresServer::shared(Version::V15)?;
    let admin = session(&server.url()).await?;
    admin
        .batch_execute(
            "create database western encoding 'LATIN1' lc_collate 'C' lc_ctype 'C'
                template template0",
        )
        .await?;
    let url = server.database_url("western");
    let refused = migrate(&url).await;
    let named = matches!(&refused, Err(OpenError::Encoding { found }) if found == "LATIN1");
    assert!(named, "{refused:?}");
    let schemas = "select count(*) from pg_namespace where nspname = 'reprise'";
    assert_eq!(count(&session(&url).await?, schemas).await?, 0);
    Ok(())
}
