//! SIGTERM: no new calls, waiters answered, work in flight finished, exit code 0.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use reprise_client::proto::reserve_response::Outcome;
use reprise_client::proto::{ReportDisposition, State};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::Code;

use super::calls::*;
use super::site::{Backend, Site, client};

const WAITERS: usize = 20;
const REPORTERS: usize = 8;
const REPORTS: usize = 400;

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
    for at in 0..REPORTS {
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
    let (done, mut progress) = watch::channel(0);
    let mut reporters = JoinSet::new();
    for tokens in tokens.chunks(REPORTS / REPORTERS) {
        reporters.spawn(report(stub(addr)?, tokens.to_vec(), done.clone()));
    }
    // In the middle of their work.
    timeout(LIMIT, progress.wait_for(|done| *done > REPORTS / 4)).await??;
    let ended = tokio::task::spawn_blocking(move || (server.terminate(), server));

    let mut acknowledged = Vec::new();
    let mut refused = Vec::new();
    while let Some(reports) = reporters.join_next().await {
        for (key, recorded) in reports?? {
            if recorded {
                &mut acknowledged
            } else {
                &mut refused
            }
            .push(key);
        }
    }
    while let Some(answer) = waiters.join_next().await {
        let outcome = answer?.context("a waiter")?.into_inner().outcome;
        ensure!(
            matches!(outcome, Some(Outcome::Processing(_))),
            "{outcome:?}"
        );
    }
    let (code, server) = ended.await?;
    let log = server.stderr();
    assert_eq!(code?, 0, "{log}");
    assert!(!log.contains("cut off"), "{log}");
    println!(
        "{} reports finished, {} refused",
        acknowledged.len(),
        refused.len()
    );

    let late = stub(addr)?.lookup(lookup("held")).await;
    assert_eq!(
        late.err().map(|status| status.code()),
        Some(Code::Unavailable)
    );
    let next = site.serve()?;
    let client = client(next.addr())?;
    for key in acknowledged {
        let result = body(Bytes::from(key.clone()));
        assert_eq!(result_of(&client, &key).await?, result, "{key}");
    }
    // What was carried out was answered.
    for key in refused {
        let found = look(&client, &key).await?.context("no record")?;
        assert_eq!(found.record.state(), State::Processing, "{key}");
    }
    Ok(())
}

/// Completes one key after the other, and answers which of them it was told is recorded.
async fn report(
    mut stub: Stub,
    tokens: Vec<(Bytes, String)>,
    done: watch::Sender<usize>,
) -> Result<Vec<(String, bool)>> {
    let mut reports = Vec::new();
    for (token, key) in tokens {
        let request = complete(&key, &token, body(Bytes::from(key.clone())));
        let recorded = match stub.complete(within(LIMIT, request)).await {
            Ok(answer) => {
                ensure!(answer.get_ref().disposition() == ReportDisposition::Recorded);
                true
            }
            Err(status) => {
                ensure!(is_open(&status), "{key}: {status:?}");
                false
            }
        };
        done.send_modify(|done| *done += 1);
        reports.push((key, recorded));
    }
    Ok(reports)
}
