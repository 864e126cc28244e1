//! SIGTERM: no new calls, waiters answered, work in flight finished, exit code 0.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use reprise_client::proto::ReportDisposition;
use reprise_client::proto::reserve_response::Outcome;
use tokio::task::JoinSet;
use tonic::Code;

use super::calls::*;
use super::site::{Backend, Site, client};

const WAITERS: usize = 20;
const REPORTERS: usize = 200;

on_both_stores! {
    sigterm_answers_waiters_finishes_work_and_exits_0
}

async fn sigterm_answers_waiters_finishes_work_and_exits_0(backend: Backend) -> Result<()> {
    let site = Site::new(backend)?;
    let mut server = site.serve()?;
    let addr = server.addr();
    let mut holder = stub(addr)?;
    acquire(&mut holder, "held").await?;
    let mut tokens = Vec::new();
    for at in 0..REPORTERS {
        let key = format!("k{at}");
        tokens.push((acquire(&mut holder, &key).await?.token, key));
    }

    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let mut request = reserve_request("held", "the payload")?;
        // Longer than the server may take to end.
        request.wait = Some(Duration::from_secs(30).try_into()?);
        let mut stub = holder.clone();
        waiters.spawn(async move { stub.reserve(within(LIMIT * 2, request)).await });
    }
    // Calls of one connection are taken in order: after this one, all waiters were.
    for _ in 0..3 {
        holder.lookup(lookup("held")).await?;
    }
    let mut reports = JoinSet::new();
    for (token, key) in tokens {
        let mut stub = holder.clone();
        reports.spawn(async move {
            let request = complete(&key, &token, body(Bytes::from(key.clone())));
            (key, stub.complete(within(LIMIT, request)).await)
        });
    }
    // At least one report is through, so others are under way.
    let first = reports.join_next().await.context("no report")??;
    let ended = tokio::task::spawn_blocking(move || (server.terminate(), server));

    let mut acknowledged = Vec::new();
    let mut refused = 0;
    let mut next = Some(first);
    while let Some((key, answer)) = next {
        match answer {
            Ok(answer) => {
                ensure!(answer.get_ref().disposition() == ReportDisposition::Recorded);
                acknowledged.push(key);
            }
            Err(status) => {
                ensure!(status.code() == Code::Unavailable, "{status:?}");
                refused += 1;
            }
        }
        next = reports.join_next().await.transpose()?;
    }
    while let Some(answer) = waiters.join_next().await {
        let outcome = answer??.into_inner().outcome;
        ensure!(
            matches!(outcome, Some(Outcome::Processing(_))),
            "{outcome:?}"
        );
    }
    let (code, server) = ended.await?;
    assert_eq!(code?, 0, "{}", server.stderr());
    println!("{} reports finished, {refused} refused", acknowledged.len());

    let refused = stub(addr)?.lookup(lookup("held")).await;
    assert_eq!(
        refused.err().map(|status| status.code()),
        Some(Code::Unavailable)
    );
    let next = site.serve()?;
    let client = client(next.addr())?;
    for key in acknowledged {
        let result = body(Bytes::from(key.clone()));
        assert_eq!(result_of(&client, &key).await?, result, "{key}");
    }
    Ok(())
}
