//! Kills at any moment, under load: every acknowledged transition is there afterwards,
//! and the service goes on by itself within 30 s.

use anyhow::Result;
use reprise_tests::postgres::{PostgresServer, Version};
use reprise_tests::proxy::Proxy;

use super::calls::LIMIT;
use super::ledger::Load;
use super::site::{Backend, Site, client};

const KILLS: usize = 3;
const WORKERS: usize = 16;
/// Acknowledged transitions between two kills.
const BETWEEN: usize = 150;

on_both_stores! {
    kill_9_of_the_server_loses_nothing_acknowledged
}

async fn kill_9_of_the_server_loses_nothing_acknowledged(backend: Backend) -> Result<()> {
    let site = Site::new(backend)?;
    let mut server = site.serve()?;
    // Gives the service an address that outlives its servers.
    let proxy = Proxy::start(server.addr()).await?;
    let mut load = Load::start(&client(proxy.addr())?, WORKERS);
    for kill in 1..=KILLS {
        load.progress(BETWEEN).await?;
        server.kill_9()?;
        server = site.serve()?;
        proxy.aim(server.addr());
        let back = load.progress(1).await?;
        println!("kill {kill}: acknowledges again {back:?} after the new start");
    }
    load.progress(BETWEEN).await?;
    let ledger = load.stop().await?;
    println!("{} transitions were acknowledged", ledger.acknowledged());
    ledger.check(&client(server.addr())?).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_of_postgres_loses_nothing_acknowledged() -> Result<()> {
    let mut postgres = PostgresServer::start(Version::V18, &[])?;
    postgres.create_database("reprise")?;
    let site = Site::on(&postgres.database_url("reprise"));
    let mut server = site.serve()?;
    let mut load = Load::start(&client(server.addr())?, WORKERS);
    for kill in 1..=KILLS {
        load.progress(BETWEEN).await?;
        postgres.kill_9()?;
        postgres.restart()?;
        let back = load.progress(1).await?;
        assert!(back < LIMIT);
        println!("kill {kill}: acknowledges again {back:?} after the database is back");
    }
    load.progress(BETWEEN).await?;
    assert!(server.running(), "{}", server.stderr());
    let ledger = load.stop().await?;
    println!("{} transitions were acknowledged", ledger.acknowledged());
    ledger.check(&client(server.addr())?).await?;
    assert_eq!(server.terminate()?, 0);
    Ok(())
}
