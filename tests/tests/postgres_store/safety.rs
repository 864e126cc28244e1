//! Databases that are refused, each with its reason and the way out, and what keeps writes
//! in those that change later.

use std::sync::Arc;

use anyhow::Result;
use reprise::store::postgres::{Config, OpenError, Options, Postgres, migrate};
use reprise::store::{PutPolicy, Store};
use reprise_domain::Policy;
use reprise_tests::postgres::{PostgresServer, Version};
use tokio_postgres::Client;

use super::caller::Caller;
use super::{count, database, open, session, soon};

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

/// Notes, at the end of each transaction that writes, the session's `synchronous_commit`
/// and the one of this transaction.
const NOTES: &str = "create table noted (session text, commit text);
    create function note() returns trigger language plpgsql as $$ begin
        insert into noted select reset_val, setting from pg_settings
            where name = 'synchronous_commit';
        return null;
    end $$;
    create constraint trigger note after insert or update on reprise.record
        deferrable initially deferred for each row execute function note();
    create constraint trigger note after insert or update on reprise.policy
        deferrable initially deferred for each row execute function note()";

/// Sets `synchronous_commit` for all sessions to come, ends the others, and forgets the notes.
async fn turn(admin: &Client, url: &str, commit: &str) -> Result<()> {
    let name = url.rsplit('/').next().unwrap_or_default();
    for statement in [
        format!("alter database {name} set synchronous_commit = {commit}"),
        "select pg_terminate_backend(pid, 10000) from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid()"
            .to_owned(),
        "delete from noted".to_owned(),
    ] {
        admin.batch_execute(&statement).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn synchronous_commit_turned_off_later_loses_no_write() -> Result<()> {
    for (allow_unsafe, turned, used) in [
        (false, "off", "on"),
        (false, "local", "local"),
        (false, "remote_apply", "remote_apply"),
        (true, "off", "off"),
    ] {
        for fast_path in [true, false] {
            let url = database(Version::V15).await?;
            let admin = session(&url).await?;
            admin.batch_execute(NOTES).await?;
            let mut config = Config::new(url.clone());
            config.fast_path = fast_path;
            config.allow_unsafe_durability = allow_unsafe;
            let store = Arc::new(open(config).await?);
            turn(&admin, &url, turned).await?;
            let caller = Caller::new(&store, "k1");
            caller.lifecycle_through_faults(soon()).await?;
            store
                .put_policy(PutPolicy {
                    tenant: "t1".to_owned(),
                    operation: "charge".to_owned(),
                    policy: Some(Policy::default()),
                    mode: reprise_domain::policy::Mode::Enforce,
                    etag: String::new(),
                    actor: String::new(),
                    reason: String::new(),
                })
                .await?;
            let all = "select count(*) from noted";
            // A grant, a result and a policy at least; a call may have been repeated.
            assert!(count(&admin, all).await? >= 3);
            let other = format!("{all} where (session, commit) <> ('{turned}', '{used}')");
            assert_eq!(count(&admin, &other).await?, 0, "{turned}, {fast_path}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_migration_is_kept_also_where_synchronous_commit_is_off() -> Result<()> {
    let url = PostgresServer::shared(Version::V15)?.fresh_database()?;
    let admin = session(&url).await?;
    admin
        .batch_execute(
            "create table noted (session text, commit text);
             create function note() returns event_trigger language plpgsql as $$ begin
                insert into public.noted select reset_val, setting from pg_settings
                    where name = 'synchronous_commit';
             end $$;
             create event trigger note on ddl_command_end execute function note()",
        )
        .await?;
    turn(&admin, &url, "off").await?;
    migrate(&url).await?;
    let all = "select count(*) from noted where session = 'off'";
    // Creating the ledger, and what the migrations create.
    assert!(count(&admin, all).await? >= 3);
    let hasty = format!("{all} and commit <> 'on'");
    assert_eq!(count(&admin, &hasty).await?, 0);
    Ok(())
}
