//! The answer to each rpc is lost after its commit. Repeating the call arrives at the
//! truth each time, on Postgres through another server than the one that committed.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use reprise_client::proto::*;
use reprise_client::{AttemptId, Client, Error, Found, Outcome, Reading, Reason};
use reprise_tests::poll::until_true;
use reprise_tests::proxy::Proxy;
use reprise_tests::reprise_bin::ServerProcess;

use super::calls::*;
use super::site::{Backend, Site, client};

on_both_stores! {
    a_lost_reserve_is_answered_again
    a_lost_mark_sending_is_answered_again
    a_lost_renew_is_answered_again
    a_lost_complete_is_repeated
    a_lost_fail_is_repeated
    a_lost_mark_pending_is_repeated
    a_lost_give_back_is_repeated
    a_lost_resolution_is_repeated
    a_lost_take_over_is_answered_again
    a_lost_put_policy_is_unknown_until_read
}

/// A client whose answers can be lost, and one whose answers never are.
struct Line {
    // Keeps the store after its servers.
    servers: Vec<ServerProcess>,
    proxy: Proxy,
    client: Client,
    direct: Client,
    _site: Site,
}

impl Line {
    async fn open(backend: Backend) -> Result<Self> {
        let site = Site::new(backend)?;
        let servers = site.serve_all()?;
        let proxy = Proxy::start(servers[0].addr()).await?;
        let line = Self {
            client: client(proxy.addr())?,
            direct: client(servers[0].addr())?,
            proxy,
            servers,
            _site: site,
        };
        // The connection is there before anything is lost on it.
        ensure!(look(&line.client, "warm").await?.is_none());
        Ok(line)
    }

    /// Where the next try goes: another server, if there is one.
    fn other(&self) -> SocketAddr {
        self.servers[self.servers.len() - 1].addr()
    }

    /// Makes `call`, loses its answer once `committed` holds, and returns what the call
    /// comes to.
    async fn lose<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
        committed: impl AsyncFnMut() -> bool,
    ) -> Result<Result<T, Error>> {
        let connections = self.proxy.accepted();
        self.proxy.swallow_answers();
        let losing = async {
            until_true("the commit", LIMIT, committed).await?;
            self.proxy.aim(self.other());
            self.proxy.cut().await;
            self.proxy.pass();
            anyhow::Ok(())
        };
        let (answer, lost) = tokio::join!(call, losing);
        lost?;
        if answer.is_ok() {
            ensure!(self.proxy.accepted() > connections, "nothing was repeated");
        }
        Ok(answer)
    }

    async fn found(&self, key: &str) -> Result<Found> {
        look(&self.direct, key).await?.context("no such record")
    }

    async fn has_state(&self, key: &str, state: State) -> bool {
        let found = look(&self.direct, key).await;
        matches!(found, Ok(Some(found)) if found.record.state() == state)
    }

    /// Whether the record was written since it was at `revision`.
    async fn changed(&self, key: &str, revision: u64) -> bool {
        let found = look(&self.direct, key).await;
        matches!(found, Ok(Some(found)) if found.record.revision > revision)
    }

    async fn acquire(&self, key: &str) -> Result<(Bytes, u64)> {
        let reserved = self.direct.reserve(&reserve(key)).await?;
        match reserved.outcome {
            Outcome::Acquired(acquired) => Ok((acquired.token, reserved.record.revision)),
            other => bail!("{key} was not acquired: {other:?}"),
        }
    }
}

async fn a_lost_reserve_is_answered_again(backend: Backend) -> Result<()> {
    let line = Line::open(backend).await?;
    let request = reserve("k");
    let committed = async || line.has_state("k", State::Processing).await;
    let reserved = line
        .lose(line.client.reserve(&request), committed)
        .await??;
    let Outcome::Acquired(acquired) = reserved.outcome else {
        bail!("{:?}", reserved.outcome);
    };
    // The grant itself or, where the server saw in time that it reached nobody and took
    // it back, the next one.
    let granted = (acquired.reason, reserved.record.attempt);
    assert!(
        [(GrantReason::Again, 1), (GrantReason::First, 2)].contains(&granted),
        "{granted:?}"
    );
    let report = complete("k", &acquired.token, body("done"));
    let reported = line.client.complete(report).await?;
    assert_eq!(reported.disposition, ReportDisposition::Recorded);
    Ok(())
}

async fn a_lost_mark_sending_is_answered_again(backend: Backend) -> Result<()> {
    let line = Line::open(backend).await?;
    let (token, revision) = line.acquire("k").await?;
    let request = MarkSendingRequest {
        record: Some(name("k")),
        token,
        provider_reference: "p-1".to_owned(),
        ..MarkSendingRequest::default()
    };
    let committed = async || line.changed("k", revision).await;
    let marked = line
        .lose(line.client.mark_sending(request), committed)
        .await??;
    assert_eq!(marked.record.provider_reference, "p-1");
    assert!(marked.lease.enough_to_begin());
    Ok(())
}

async fn a_lost_renew_is_answered_again(backend: Backend) -> Result<()> {
    let line = Line::open(backend).await?;
    let (token, revision) = line.acquire("k").await?;
    let request = RenewRequest {
        record: Some(name("k")),
        holder: Some(renew_request::Holder::Token(token)),
        lease: Some(LONG_LEASE.try_into()?),
    };
    let committed = async || line.changed("k", revision).await;
    let renewed = line.lose(line.client.renew(request), committed).await??;
    assert!(!renewed.closed && renewed.lease.enough_to_begin());
    Ok(())
}

async fn a_lost_complete_is_repeated(backend: Backend) -> Result<()> {
    let line = Line::open(backend).await?;
    let (token, _) = line.acquire("k").await?;
    let request = complete("k", &token, body("first"));
    let committed = async || line.has_state("k", State::Completed).await;
    let reported = line
        .lose(line.client.complete(request), committed)
        .await??;
    assert_eq!(reported.disposition, ReportDisposition::Repeated);
    // Other bytes, and a contrary outcome, are refused: the first stays.
    let contrary = fail("k", &token, FailureKind::Final, body("no"));
    for refused in [
        line.client
            .complete(complete("k", &token, body("second")))
            .await,
        line.client.fail(contrary).await,
    ] {
        let reason = refused.err().and_then(|error| error.reason());
        assert_eq!(reason, Some(Reason::OutcomeAlreadyRecorded));
    }
    assert_eq!(result_of(&line.direct, "k").await?, body("first"));
    Ok(())
}

async fn a_lost_fail_is_repeated(backend: Backend) -> Result<()> {
    let line = Line::open(backend).await?;
    for kind in [FailureKind::Retryable, FailureKind::Final] {
        let key = kind.as_str_name();
        let (token, _) = line.acquire(key).await?;
        let request = fail(key, &token, kind, body("declined"));
        let committed = async || line.has_state(key, State::Failed).await;
        let reported = line.lose(line.client.fail(request), committed).await??;
        assert_eq!(reported.disposition, ReportDisposition::Repeated);
        assert_eq!(reported.record.failure_kind(), kind);
    }
    Ok(())
}

async fn a_lost_mark_pending_is_repeated(backend: Backend) -> Result<()> {
    let line = Line::open(backend).await?;
    let (token, _) = line.acquire("k").await?;
    let request = mark_pending("k", &token, "no answer");
    let committed = async || line.has_state("k", State::Pending).await;
    let reported = line
        .lose(line.client.mark_pending(request), committed)
        .await??;
    assert_eq!(reported.disposition, ReportDisposition::Repeated);
    Ok(())
}

async fn a_lost_give_back_is_repeated(backend: Backend) -> Result<()> {
    let line = Line::open(backend).await?;
    let attempt_id = AttemptId::random();
    line.direct.reserve_as(&reserve("k"), attempt_id).await?;
    let committed = async || line.has_state("k", State::Failed).await;
    line.lose(line.client.give_back(name("k"), attempt_id), committed)
        .await??;
    let next = line.client.reserve(&reserve("k")).await?;
    let Outcome::Acquired(acquired) = next.outcome else {
        bail!("{:?}", next.outcome);
    };
    // The grant that reached nobody counts as none.
    assert_eq!(acquired.reason, GrantReason::First);
    Ok(())
}

fn resolve(key: &str, revision: u64, outcome: resolve_request::Outcome) -> ResolveRequest {
    let authority = OperatorOverride { revision };
    ResolveRequest {
        record: Some(name(key)),
        authority: Some(resolve_request::Authority::OperatorOverride(authority)),
        outcome: Some(outcome),
        effect_key_spent: false,
        evidence: "seen at the provider".to_owned(),
        actor: "operator".to_owned(),
    }
}

async fn a_lost_resolution_is_repeated(backend: Backend) -> Result<()> {
    use resolve_request::Outcome::{Applied as A, Failed as F, NotApplied as N, StillUnknown as S};
    let line = Line::open(backend).await?;
    let applied = Applied {
        result: Some(body("charged")),
    };
    let failed = ResolvedFailed {
        error: Some(body("refused")),
    };
    for (key, outcome, state) in [
        ("applied", A(applied), State::Completed),
        ("not-applied", N(NotApplied {}), State::Failed),
        ("failed", F(failed), State::Failed),
        ("unknown", S(StillUnknown::default()), State::Pending),
    ] {
        let revision = pending(&line, key).await?;
        let request = resolve(key, revision, outcome);
        let committed = async || line.changed(key, revision).await;
        let resolved = line.lose(line.client.resolve(request), committed).await?;
        let resolved = resolved.with_context(|| key.to_owned())?;
        assert_eq!(resolved.disposition, ReportDisposition::Repeated, "{key}");
        assert_eq!(resolved.record.state(), state, "{key}");
    }
    Ok(())
}

/// A record that is pending, its holder's lease over; answers its revision.
async fn pending(line: &Line, key: &str) -> Result<u64> {
    let (token, _) = line.acquire(key).await?;
    line.direct
        .mark_pending(mark_pending(key, &token, "who knows"))
        .await?;
    let end = RenewRequest {
        record: Some(name(key)),
        holder: Some(renew_request::Holder::Token(token)),
        lease: Some(Duration::ZERO.try_into()?),
    };
    line.direct.renew(end).await?;
    Ok(line.found(key).await?.record.revision)
}

async fn a_lost_take_over_is_answered_again(backend: Backend) -> Result<()> {
    let line = Line::open(backend).await?;
    let revision = pending(&line, "k").await?;
    let take_over = TakeOver {
        attempt_id: Bytes::copy_from_slice(AttemptId::random().as_bytes()),
        lease: Some(LONG_LEASE.try_into()?),
    };
    let request = resolve("k", revision, resolve_request::Outcome::TakeOver(take_over));
    let committed = async || line.changed("k", revision).await;
    let resolved = line.lose(line.client.resolve(request), committed).await??;
    let acquired = resolved.acquired.context("no grant")?;
    // As for Reserve: the grant itself, or the next one.
    assert!(
        [2, 3].contains(&resolved.record.attempt),
        "{:?}",
        resolved.record
    );
    let report = complete("k", &acquired.token, body("by the operator"));
    line.client.complete(report).await?;
    let found = line.found("k").await?;
    assert!(matches!(found.reading, Reading::Completed(_)), "{found:?}");
    Ok(())
}

async fn a_lost_put_policy_is_unknown_until_read(backend: Backend) -> Result<()> {
    let line = Line::open(backend).await?;
    let lease = Duration::from_secs(7).try_into()?;
    let put = |etag: &str| PutPolicyRequest {
        policy: Some(Policy {
            tenant: "t1".to_owned(),
            operation: "op".to_owned(),
            lease: Some(lease),
            etag: etag.to_owned(),
            ..Policy::default()
        }),
        actor: "operator".to_owned(),
        reason: "shorter leases".to_owned(),
    };
    let get = GetPolicyRequest {
        tenant: "t1".to_owned(),
        operation: "op".to_owned(),
    };
    let committed = async || {
        let read = line.direct.get_policy(get.clone()).await;
        read.is_ok_and(|read| read.source() == PolicySource::Operation)
    };
    let answer = line
        .lose(line.client.put_policy(put("")), committed)
        .await?;
    let error = answer.err().context("an answer came through")?;
    assert!(error.outcome_unknown(), "{error}");

    let blind = line.client.put_policy(put("")).await;
    let reason = blind.err().and_then(|error| error.reason());
    assert_eq!(reason, Some(Reason::RevisionChanged));
    // Read through the server that has not committed it: policies spread within 5 s.
    let mut etag = String::new();
    until_true("the policy", LIMIT, async || {
        let Ok(read) = line.client.get_policy(get.clone()).await else {
            return false;
        };
        etag = read.policy.map(|policy| policy.etag).unwrap_or_default();
        !etag.is_empty()
    })
    .await?;
    line.client.put_policy(put(&etag)).await?;
    Ok(())
}
