//! Peers that accept and say nothing. Callers err within their deadline, never read
//! silence as success, and find the truth when the peer is back.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use reprise_client::proto::{GrantReason, ReportDisposition, State};
use reprise_client::{AttemptId, Client, DEADLINE_DEFAULT, Error, Outcome};
use reprise_tests::poll::until_true;
use reprise_tests::postgres::{PostgresServer, Version};
use reprise_tests::proxy::Proxy;

use super::calls::*;
use super::site::{Backend, Site, client};

/// Room for a busy machine, beyond the deadline that the client promises.
const SLACK: Duration = Duration::from_secs(5);

/// The call errs within the client's default deadline, and its outcome counts as open.
async fn errs_in_time(client: &Client, key: &str) -> Result<Error> {
    let began = Instant::now();
    let error = match client.reserve_as(&reserve(key), AttemptId::random()).await {
        Ok(reserved) => bail!("silence was read as {reserved:?}"),
        Err(error) => error,
    };
    let took = began.elapsed();
    ensure!(took < DEADLINE_DEFAULT + SLACK, "{error} took {took:?}");
    ensure!(error.outcome_unknown() || error.never_sent(), "{error}");
    Ok(error)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_is_an_error_within_the_deadline_and_serves_when_thawed() -> Result<()> {
    let site = Site::new(Backend::Embedded)?;
    let server = site.serve()?;
    let client = client(server.addr())?;
    let mut stub = stub(server.addr())?;
    live(&mut stub, "before").await?;
    client.reserve(&reserve("warm")).await?;

    server.freeze()?;
    errs_in_time(&client, "during").await?;
    server.thaw()?;
    let reserved = client.reserve(&reserve("after")).await?;
    ensure!(matches!(reserved.outcome, Outcome::Acquired(_)));
    live(&mut stub, "also after").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_that_never_speaks_is_an_error_within_the_deadline() -> Result<()> {
    let site = Site::new(Backend::Embedded)?;
    let server = site.serve()?;
    let proxy = Proxy::start(server.addr()).await?;
    proxy.freeze();
    let client = client(proxy.addr())?;
    errs_in_time(&client, "during").await?;
    proxy.pass();
    let reserved = client.reserve(&reserve("after")).await?;
    ensure!(matches!(reserved.outcome, Outcome::Acquired(_)));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_does_not_resolve_or_refuses_was_never_sent_to() -> Result<()> {
    let nowhere = Client::builder("http://no-such-host.invalid:7077").build()?;
    let refusing: SocketAddr = ([127, 0, 0, 1], reprise_tests::ports::free()?).into();
    for client in [nowhere, client(refusing)?] {
        let error = errs_in_time(&client, "k").await?;
        ensure!(error.never_sent(), "{error}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_database_is_never_a_success_and_the_truth_is_found_when_thawed() -> Result<()> {
    let postgres = PostgresServer::start(Version::V15, &[])?;
    postgres.create_database("reprise")?;
    let site = Site::on(&postgres.database_url("reprise"));
    let server = site.serve()?;
    let client = client(server.addr())?;
    let mut holder = stub(server.addr())?;
    let acquired = acquire(&mut holder, "held").await?;
    let report = complete("held", &acquired.token, body("done"));

    postgres.freeze()?;
    let (request, attempt_id) = (reserve("asked"), AttemptId::random());
    let (reserved, completed, found) = tokio::join!(
        client.reserve_as(&request, attempt_id),
        client.complete(report.clone()),
        look(&client, "held"),
    );
    for error in [
        reserved.map(drop).err(),
        completed.map(drop).err(),
        found.map(drop).err(),
    ] {
        let Some(error) = error else {
            bail!("a frozen database was read as a success");
        };
        ensure!(error.outcome_unknown(), "{error}");
    }
    postgres.thaw()?;

    // The same calls again, until the truth is there.
    let mut reserved = None;
    until_true("the same attempt's answer", LIMIT, async || {
        reserved = client.reserve_as(&request, attempt_id).await.ok();
        reserved.is_some()
    })
    .await?;
    let Some(Outcome::Acquired(again)) = reserved.map(|reserved| reserved.outcome) else {
        bail!("the attempt was not granted");
    };
    ensure!(matches!(
        again.reason,
        GrantReason::First | GrantReason::Again
    ));
    let reported = client.complete(report).await?;
    ensure!(matches!(
        reported.disposition,
        ReportDisposition::Recorded | ReportDisposition::Repeated
    ));
    assert_eq!(result_of(&client, "held").await?, body("done"));
    live(&mut holder, "after").await
}

/// Between server and database the answer to a commit is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_the_server_lost_is_found_by_repeating() -> Result<()> {
    let postgres = PostgresServer::shared(Version::V15)?;
    let url = postgres.fresh_database()?;
    let proxy = Proxy::start(([127, 0, 0, 1], postgres.port()).into()).await?;
    let behind = url.replace(
        &postgres.port().to_string(),
        &proxy.addr().port().to_string(),
    );
    let direct = Site::on(&url);
    let (witness, direct) = (direct.serve()?, direct);
    let site = Site::on(&behind);
    let server = site.serve()?;
    let (sees, client) = (client(witness.addr())?, client(server.addr())?);
    let mut once = stub(server.addr())?;

    for round in 0..5 {
        // A new connection asks about a statement before it runs it for the first time.
        let key = format!("before{round}");
        let acquired = acquire(&mut once, &key).await?;
        once.complete(complete(&key, &acquired.token, body("done")))
            .await?;
        let key = format!("k{round}");
        let acquired = acquire(&mut once, &key).await?;
        let report = complete(&key, &acquired.token, body("done"));
        proxy.swallow_answers();
        let sent = {
            let (mut once, report) = (once.clone(), report.clone());
            tokio::spawn(async move { once.complete(within(LIMIT, report)).await })
        };
        until_true("the commit", LIMIT, async || {
            let found = look(&sees, &key).await;
            matches!(found, Ok(Some(found)) if found.record.state() == State::Completed)
        })
        .await?;
        proxy.cut().await;
        proxy.pass();
        match sent.await? {
            Ok(answer) => ensure!(matches!(
                answer.get_ref().disposition(),
                ReportDisposition::Recorded | ReportDisposition::Repeated
            )),
            Err(status) => ensure!(is_open(&status), "{status:?}"),
        }
        let reported = client.complete(report).await?;
        assert_eq!(reported.disposition, ReportDisposition::Repeated);
    }
    drop(witness);
    drop(direct);
    Ok(())
}
