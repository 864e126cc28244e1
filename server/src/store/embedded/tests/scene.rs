//! What the tests work with: a store in a directory of its own, a clock that they move by
//! hand, and a verb for each thing that is done.

use std::fs;

use anyhow::{Context, Result, bail};
use reprise_domain::command::{
    Authority, Complete, Fail, FailureKind, Finding, Forget, Holder, MarkPending, MarkSending,
    Refusal, Resolve,
};
use reprise_domain::content::Body;
use reprise_domain::token::Held;
use reprise_domain::{Command, Content};
use tempfile::TempDir;

use super::*;

pub(super) const NOON: Timestamp = Timestamp(1_780_000_000_000_000);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const TICK: Duration = Duration::from_micros(1);

pub(super) struct Scene {
    home: TempDir,
    pub(super) clock: TestClock,
    pub(super) policy: Policy,
    pub(super) store: Arc<Embedded>,
}

impl Scene {
    pub(super) fn new() -> Result<Self> {
        let (home, clock) = (tempfile::tempdir()?, TestClock::at(NOON));
        let store = open(&home.path().join("store"), &clock)?;
        Ok(Self {
            home,
            clock,
            policy: Policy::default(),
            store,
        })
    }

    /// The same file, served by the next process.
    pub(super) fn reopened(self, clock: TestClock) -> Result<Self> {
        let Self {
            home,
            policy,
            store,
            ..
        } = self;
        drop(store);
        let store = open(&home.path().join("store"), &clock)?;
        Ok(Self {
            home,
            clock,
            policy,
            store,
        })
    }

    pub(super) fn path(&self) -> std::path::PathBuf {
        self.home.path().join("store")
    }

    pub(super) fn name(&self, key: &str) -> RecordName {
        RecordName::new("t", "charge", "", key).expect("a valid name")
    }

    pub(super) async fn tell(
        &self,
        key: &str,
        command: Command,
    ) -> Result<Result<Answer, Refusal>> {
        let request = Request {
            name: self.name(key),
            policy: Arc::new(self.policy.clone()),
            command,
        };
        Ok(self.store.execute(request, soon()).await?.accept())
    }

    async fn done(&self, key: &str, command: Command) -> Result<()> {
        match self.tell(key, command).await? {
            Ok(_) => Ok(()),
            Err(refusal) => bail!("refused: {refusal:?}"),
        }
    }

    pub(super) async fn reserve(&self, key: &str) -> Result<()> {
        self.done(key, reserve(key)?.command).await
    }

    /// Reserves many keys at one moment.
    pub(super) async fn reserve_all(&self, keys: &[String]) -> Result<()> {
        let mut calls = tokio::task::JoinSet::new();
        for key in keys {
            let (store, request) = (Arc::clone(&self.store), reserve(key)?);
            calls.spawn(async move {
                store
                    .execute(request, soon())
                    .await?
                    .accept()
                    .map_err(anyhow::Error::msg)
            });
        }
        while let Some(call) = calls.join_next().await {
            call??;
        }
        Ok(())
    }

    pub(super) async fn complete(&self, key: &str, result: Content) -> Result<()> {
        let complete = Complete {
            held: self.held(key).await?,
            digest: result.digest(),
            core: result.core_digest(),
            result,
        };
        self.done(key, Command::Complete(complete)).await
    }

    /// Reserves and completes.
    pub(super) async fn completed(&self, key: &str) -> Result<()> {
        self.reserve(key).await?;
        self.complete(key, content(key)).await
    }

    pub(super) async fn fail(&self, key: &str, error: Content) -> Result<()> {
        let kind = FailureKind::Retryable;
        let fail = Fail {
            holder: Holder::Token(self.held(key).await?),
            kind,
            effect_key_spent: false,
            digest: Fail::digest_of(kind, false, &error),
            error,
        };
        self.done(key, Command::Fail(fail)).await
    }

    pub(super) async fn mark_sending(&self, key: &str, reference: &str, text: &str) -> Result<()> {
        let mark = MarkSending {
            held: self.held(key).await?,
            provider_reference: reference.to_owned(),
            instruction: Bytes::copy_from_slice(text.as_bytes()),
            lease: None,
        };
        self.done(key, Command::MarkSending(mark)).await
    }

    pub(super) async fn mark_pending(&self, key: &str, detail: &str) -> Result<()> {
        let mark = MarkPending {
            held: self.held(key).await?,
            detail: detail.to_owned(),
            provider_reference: String::new(),
            instruction: Bytes::new(),
            check_after: None,
            digest: MarkPending::digest_of(detail, "", b"", None),
        };
        self.done(key, Command::MarkPending(mark)).await
    }

    pub(super) async fn resolve(&self, key: &str, finding: Finding, why: &str) -> Result<()> {
        let revision = self.record(key).await?.revision;
        let resolve = Resolve {
            authority: Authority::Operator { revision },
            finding,
            effect_key_spent: false,
            evidence: why.to_owned(),
            actor: "operator".to_owned(),
        };
        self.done(key, Command::Resolve(resolve)).await
    }

    pub(super) async fn forget(&self, key: &str) -> Result<()> {
        let forget = Forget {
            revision: self.record(key).await?.revision,
            actor: "operator".to_owned(),
            reason: "she asked for it".to_owned(),
        };
        self.done(key, Command::Forget(forget)).await
    }

    /// Looks at what the worklist names, as the server does.
    pub(super) async fn sweep(&self) -> Result<Vec<String>> {
        let names = self.store.to_look_at(1000).await?;
        for name in &names {
            self.done(name.key(), Command::Sweep).await?;
        }
        Ok(names.iter().map(|name| name.key().to_owned()).collect())
    }

    /// Walks over all grants that are old enough.
    pub(super) async fn walk(&self) -> Result<u64> {
        let mut visited = 0;
        loop {
            let walked = self.store.walk().await?;
            visited += walked.visited;
            if !walked.more {
                return Ok(visited);
            }
        }
    }

    /// Removes all that is due; answers bodies and records.
    pub(super) async fn remove(&self) -> Result<(u64, u64)> {
        let mut removed = (0, 0);
        loop {
            let step = self.store.remove().await?;
            removed = (removed.0 + step.bodies, removed.1 + step.records);
            if !step.more {
                return Ok(removed);
            }
        }
    }

    pub(super) async fn find(&self, key: &str) -> Result<Option<Record>> {
        let target = Target::Id(self.name(key).id());
        let found = self.store.find("t", target, soon()).await?;
        Ok(found.map(|(record, _)| record))
    }

    pub(super) async fn record(&self, key: &str) -> Result<Record> {
        self.find(key).await?.context("the record is there")
    }

    /// What the newest token says.
    pub(super) async fn held(&self, key: &str) -> Result<Held> {
        let attempt = self.record(key).await?.attempt;
        Ok(Held {
            attempt: attempt.number,
            fence: attempt.fence,
            authentic: true,
        })
    }

    /// Rows of a table, or of what follows its name in a statement.
    pub(super) fn rows(&self, table: &str) -> Result<i64> {
        let count = format!("select count(*) from {table}");
        Ok(lock(&self.store.shared.reader).query_row(&count, [], |row| row.get(0))?)
    }

    /// In how many places of its files, and of whatever stands beside them, `text` is.
    pub(super) fn places_of(&self, text: &str) -> Result<usize> {
        let mut places = 0;
        for file in fs::read_dir(self.home.path())? {
            let bytes = fs::read(file?.path())?;
            let windows = bytes.windows(text.len());
            places += windows.filter(|window| *window == text.as_bytes()).count();
        }
        Ok(places)
    }
}

fn open(path: &Path, clock: &TestClock) -> Result<Arc<Embedded>> {
    let options = Options {
        clock: Some(clock.clone()),
        ..Options::default()
    };
    Ok(Arc::new(Embedded::open(path, options)?))
}

/// With a header and a body.
pub(super) fn content(text: &str) -> Content {
    Content {
        code: "PAID".to_owned(),
        headers: vec![("etag".to_owned(), Bytes::copy_from_slice(text.as_bytes()))],
        body: Some(Body::Data(Bytes::copy_from_slice(text.as_bytes()))),
        resource_id: format!("order-{}", text.len()),
        provider_reference: String::new(),
    }
}
