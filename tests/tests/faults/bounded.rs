//! What callers can cause is bounded: a hundred thousand mismatches and stale reports leave
//! a handful of rows.

use anyhow::{Result, ensure};
use bytes::Bytes;
use reprise_client::Client;
use reprise_client::proto::get_history_request::Target;
use reprise_client::proto::reserve_response::Outcome;
use reprise_client::proto::{FailureKind, GetHistoryRequest, GetHistoryResponse};
use reprise_tests::poll::until_true;
use tonic::Code;

use super::calls::{
    LIMIT, Stub, acquire, body, complete, fail, name, reserve_request, stub, within,
};
use super::site::{Backend, Site, client};

const KEYS: usize = 10;
const MISMATCHES: usize = 50_000;
const STALE: usize = 50_000;
const CALLERS: usize = 50;

/// As the contract bounds them, for each record.
const MISMATCHES_MAX: usize = 8;
const EVIDENCE_MAX: usize = 16;

on_both_stores! {
    a_hundred_thousand_mismatches_and_stale_reports_leave_few_rows
}

async fn a_hundred_thousand_mismatches_and_stale_reports_leave_few_rows(
    backend: Backend,
) -> Result<()> {
    let site = Site::new(backend)?;
    let server = site.serve()?;
    let mut first = stub(server.addr())?;
    let mut stale = Vec::new();
    for key in 0..KEYS {
        stale.push(twice_granted(&mut first, &key.to_string()).await?);
    }

    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let (mut stub, stale) = (stub(server.addr())?, stale.clone());
        callers.spawn(async move {
            for number in (caller..MISMATCHES).step_by(CALLERS) {
                mismatch(&mut stub, number).await?;
            }
            for number in (caller..STALE).step_by(CALLERS) {
                stale_report(&mut stub, number, &stale[number % KEYS]).await?;
            }
            Ok::<_, anyhow::Error>(())
        });
    }
    while let Some(done) = callers.join_next().await {
        done??;
    }

    let client = client(server.addr())?;
    for key in 0..KEYS {
        // Mismatches are counted in the background.
        until_true("the mismatches to be counted", LIMIT, async || {
            history(&client, key)
                .await
                .is_ok_and(|seen| seen.mismatches.len() == MISMATCHES_MAX)
        })
        .await?;
        let seen = history(&client, key).await?;
        assert_eq!(seen.refused.len(), EVIDENCE_MAX);
        assert!(seen.mismatches.iter().all(|it| it.count > 0));
        assert!(seen.newest.is_some_and(|newest| newest.contradicted));
    }
    if backend == Backend::Postgres {
        let session = site.session().await?;
        for (table, most) in [("mismatch", MISMATCHES_MAX), ("evidence", EVIDENCE_MAX)] {
            let count = format!("select count(*) from reprise.{table}");
            let rows: i64 = session.query_one(&count, &[]).await?.get(0);
            assert_eq!(usize::try_from(rows)?, KEYS * most, "{table}");
        }
        let audited = "select count(*) from reprise.audit";
        let rows: i64 = session.query_one(audited, &[]).await?.get(0);
        assert!(rows <= 2 * i64::try_from(KEYS)?, "{rows} audit rows");
    }
    Ok(())
}

/// Answers the token of an attempt that another two followed.
async fn twice_granted(stub: &mut Stub, key: &str) -> Result<Bytes> {
    let first = acquire(stub, key).await?;
    let mut token = first.token.clone();
    for _ in 0..2 {
        let failed = fail(key, &token, FailureKind::Retryable, body("again"));
        stub.fail(within(LIMIT, failed)).await?;
        token = acquire(stub, key).await?.token;
    }
    Ok(first.token)
}

async fn mismatch(stub: &mut Stub, number: usize) -> Result<()> {
    let request = reserve_request(&(number % KEYS).to_string(), &format!("other {number}"))?;
    let answer = stub.reserve(within(LIMIT, request)).await?.into_inner();
    ensure!(
        matches!(answer.outcome, Some(Outcome::Mismatch(_))),
        "{answer:?}"
    );
    Ok(())
}

async fn stale_report(stub: &mut Stub, number: usize, token: &Bytes) -> Result<()> {
    let key = (number % KEYS).to_string();
    let request = complete(&key, token, body(format!("second effect {number}")));
    match stub.complete(within(LIMIT, request)).await {
        Err(status) if status.code() == Code::Aborted => Ok(()),
        told => anyhow::bail!("{told:?}"),
    }
}

async fn history(client: &Client, key: usize) -> Result<GetHistoryResponse> {
    let request = GetHistoryRequest {
        target: Some(Target::Record(name(key.to_string()))),
    };
    Ok(client.get_history(request).await?)
}
