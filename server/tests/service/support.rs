//! A server in this process, on a free port and a store in a directory of its own; and
//! short ways to say what tests say often.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reprise::config::Config;
use reprise::grpc::Rooms;
use reprise::serve::{self, Running};
use reprise::store::embedded::{Embedded, Options};
use reprise::store::{Store, TestClock};
use reprise_domain::Timestamp;
use reprise_proto::v1::policy_service_client::PolicyServiceClient;
use reprise_proto::v1::reconciliation_service_client::ReconciliationServiceClient;
use reprise_proto::v1::records_service_client::RecordsServiceClient;
use reprise_proto::v1::reprise_service_client::RepriseServiceClient;
use reprise_proto::v1::reserve_request::Fingerprint;
use reprise_proto::v1::reserve_response::Outcome;
use reprise_proto::v1::status_service_client::StatusServiceClient;
use reprise_proto::v1::*;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt;

pub(crate) const TENANT: &str = "t1";

pub(crate) struct Server {
    pub(crate) running: Running,
    pub(crate) channel: Channel,
    pub(crate) clock: TestClock,
    store: Arc<dyn Store>,
    directory: Arc<tempfile::TempDir>,
}

/// How a server differs from the default one.
pub(crate) struct Setup {
    pub(crate) config: Config,
    /// Tests move the time; else it passes.
    pub(crate) still: bool,
    /// The server hears of changes by looking alone, as of those by other servers.
    pub(crate) deaf: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            config: Config {
                listen: ([127, 0, 0, 1], 0).into(),
                // Else it may write down a lapse between two steps of a test.
                upkeep: false,
                ..Config::default()
            },
            still: false,
            deaf: false,
        }
    }
}

impl Setup {
    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        let mut setup = Self::default();
        change(&mut setup.config);
        setup
    }

    pub(crate) async fn start(self) -> Server {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        let rooms = Rooms::new(self.config.waiters);
        let clock = TestClock::at(Timestamp(1_800_000_000_000_000));
        let options = Options {
            clock: self.still.then(|| clock.clone()),
            on_change: (!self.deaf).then(|| rooms.on_change()),
            ..Options::default()
        };
        let store = Embedded::open(&directory.path().join("reprise.sqlite"), options).unwrap();
        self.serve(Arc::new(store), rooms, clock, directory).await
    }

    /// Another server on the store of `first`. It hears of changes by looking alone.
    pub(crate) async fn start_beside(self, first: &Server) -> Server {
        let rooms = Rooms::new(self.config.waiters);
        let store = Arc::clone(&first.store);
        let directory = Arc::clone(&first.directory);
        self.serve(store, rooms, first.clock.clone(), directory)
            .await
    }

    async fn serve(
        self,
        store: Arc<dyn Store>,
        rooms: Rooms,
        clock: TestClock,
        directory: Arc<tempfile::TempDir>,
    ) -> Server {
        let serving = serve::start_on(&self.config, Arc::clone(&store), rooms);
        let running = serving.await.unwrap();
        let url = format!("http://{}", running.addr());
        let channel = Channel::from_shared(url).unwrap().connect().await.unwrap();
        Server {
            running,
            channel,
            clock,
            store,
            directory,
        }
    }
}

/// A server with defaults.
pub(crate) async fn server() -> Server {
    Setup::default().start().await
}

/// A server whose time stands still until it is moved.
pub(crate) async fn still_server() -> Server {
    let setup = Setup {
        still: true,
        ..Setup::default()
    };
    setup.start().await
}

impl Server {
    pub(crate) fn reprise(&self) -> RepriseServiceClient<Channel> {
        RepriseServiceClient::new(self.channel.clone())
    }

    pub(crate) fn people(&self) -> ReconciliationServiceClient<Channel> {
        ReconciliationServiceClient::new(self.channel.clone())
    }

    pub(crate) fn policies(&self) -> PolicyServiceClient<Channel> {
        PolicyServiceClient::new(self.channel.clone())
    }

    pub(crate) fn records(&self) -> RecordsServiceClient<Channel> {
        RecordsServiceClient::new(self.channel.clone())
    }

    pub(crate) fn status(&self) -> StatusServiceClient<Channel> {
        StatusServiceClient::new(self.channel.clone())
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.directory.path().join("reprise.sqlite")
    }

    /// Ends the server; its file is kept.
    pub(crate) async fn stop(self) -> File {
        let path = self.file();
        drop(self.channel);
        self.running.shutdown();
        self.running.stopped().await.unwrap();
        File {
            path,
            _directory: self.directory,
        }
    }

    /// Holds up every change of the store until dropped.
    pub(crate) fn hold_up(&self) -> HeldUp {
        let other = rusqlite::Connection::open(self.file()).unwrap();
        other.execute_batch("begin immediate").unwrap();
        HeldUp(other)
    }

    pub(crate) async fn reserve(&self, request: ReserveRequest) -> Result<Outcome, Status> {
        let answer = self.reprise().reserve(request).await?.into_inner();
        Ok(answer.outcome.unwrap())
    }

    pub(crate) async fn acquire(&self, request: ReserveRequest) -> Acquired {
        acquired(self.reserve(request).await.unwrap())
    }

    /// Sets what rules the operations of the tenant.
    pub(crate) async fn put_policy(&self, policy: Policy) -> Policy {
        let request = PutPolicyRequest {
            policy: Some(policy),
            actor: "tests".into(),
            reason: "a test needs it".into(),
        };
        let answer = self.policies().put_policy(request).await.unwrap();
        answer.into_inner().policy.unwrap()
    }

    pub(crate) async fn look(&self, key: &str) -> LookupResponse {
        let request = lookup(key);
        self.reprise().lookup(request).await.unwrap().into_inner()
    }

    pub(crate) async fn state(&self, key: &str) -> State {
        self.look(key).await.record.unwrap().state()
    }
}

/// The file that a server left.
pub(crate) struct File {
    pub(crate) path: PathBuf,
    _directory: Arc<tempfile::TempDir>,
}

pub(crate) struct HeldUp(rusqlite::Connection);

impl Drop for HeldUp {
    fn drop(&mut self) {
        self.0.execute_batch("rollback").unwrap();
    }
}

pub(crate) fn name(key: &str) -> Option<RecordName> {
    Some(RecordName {
        tenant: TENANT.into(),
        operation: "charge".into(),
        subject: String::new(),
        key: key.into(),
    })
}

pub(crate) fn id() -> Bytes {
    Bytes::copy_from_slice(&rand::random::<[u8; 16]>())
}

pub(crate) fn digest(byte: u8) -> Option<Fingerprint> {
    Some(Fingerprint::Digest(FingerprintDigest {
        scheme: FingerprintScheme::Raw.into(),
        rule_id: String::new(),
        sha256: vec![byte; 32].into(),
    }))
}

pub(crate) fn payload(scheme: FingerprintScheme, content: impl Into<Bytes>) -> Option<Fingerprint> {
    Some(Fingerprint::Payload(FingerprintPayload {
        scheme: scheme.into(),
        media_type: "application/json".into(),
        context: Vec::new(),
        content: content.into(),
    }))
}

/// A new attempt at the usual payload.
pub(crate) fn reserve(key: &str) -> ReserveRequest {
    ReserveRequest {
        record: name(key),
        attempt_id: id(),
        fingerprint: digest(1),
        owner: "worker-1".into(),
        ..ReserveRequest::default()
    }
}

pub(crate) fn waiting(key: &str, wait: Duration) -> ReserveRequest {
    ReserveRequest {
        wait: Some(wait.try_into().unwrap()),
        ..reserve(key)
    }
}

pub(crate) fn complete(key: &str, token: &Bytes, result: Content) -> CompleteRequest {
    CompleteRequest {
        record: name(key),
        token: token.clone(),
        result: Some(result),
    }
}

pub(crate) fn fail(key: &str, token: &Bytes, kind: FailureKind) -> FailRequest {
    FailRequest {
        record: name(key),
        holder: Some(fail_request::Holder::Token(token.clone())),
        kind: kind.into(),
        error: Some(code("declined")),
        ..FailRequest::default()
    }
}

pub(crate) fn lookup(key: &str) -> LookupRequest {
    LookupRequest {
        target: name(key).map(lookup_request::Target::Record),
        ..LookupRequest::default()
    }
}

pub(crate) fn code(code: &str) -> Content {
    Content {
        code: code.into(),
        ..Content::default()
    }
}

pub(crate) fn body(data: impl Into<Bytes>) -> Content {
    Content {
        code: "200".into(),
        body: Some(content::Body::Data(data.into())),
        ..Content::default()
    }
}

pub(crate) fn seconds(count: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration {
        seconds: count,
        nanos: 0,
    })
}

pub(crate) fn millis(count: i32) -> Option<prost_types::Duration> {
    Some(prost_types::Duration {
        seconds: 0,
        nanos: count * 1_000_000,
    })
}

/// A policy of the tenant with all at its defaults.
pub(crate) fn policy() -> Policy {
    Policy {
        tenant: TENANT.into(),
        ..Policy::default()
    }
}

pub(crate) fn acquired(outcome: Outcome) -> Acquired {
    match outcome {
        Outcome::Acquired(acquired) => acquired,
        other => panic!("not acquired: {other:?}"),
    }
}

/// Code and reason of a refusal, which must have our form.
pub(crate) fn refusal(status: &Status) -> (Code, String) {
    assert!(status.message().len() < 1024, "{status:?}");
    let info = status.get_details_error_info();
    let info = info.unwrap_or_else(|| panic!("no ErrorInfo: {status:?}"));
    assert_eq!(info.domain, "reprise");
    assert!(
        ErrorReason::from_str_name(&format!("ERROR_REASON_{}", info.reason)).is_some(),
        "{info:?}"
    );
    (status.code(), info.reason)
}

#[track_caller]
pub(crate) fn assert_refused<T: std::fmt::Debug>(
    answer: Result<T, Status>,
    code: Code,
    reason: &str,
) {
    let refused = refusal(&answer.unwrap_err());
    assert_eq!(refused, (code, reason.to_owned()));
}

/// The field that a refusal names; it must say what is allowed.
#[track_caller]
pub(crate) fn refused_field<T: std::fmt::Debug>(answer: Result<T, Status>) -> String {
    let status = answer.unwrap_err();
    let refused = refusal(&status);
    assert_eq!(refused, (Code::InvalidArgument, "INVALID_FIELD".to_owned()));
    let bad = status.get_details_bad_request().unwrap();
    assert_eq!(bad.field_violations.len(), 1);
    assert!(!bad.field_violations[0].description.is_empty());
    bad.field_violations[0].field.clone()
}

/// A pending record, and the token of its attempt: its holder did not know.
pub(crate) async fn pending(server: &Server, key: &str) -> Bytes {
    let token = server.acquire(reserve(key)).await.token;
    let report = MarkPendingRequest {
        record: name(key),
        token: token.clone(),
        reason: "timed out".into(),
        provider_reference: format!("pr-{key}"),
        instruction: Bytes::from(format!("charge {key}")),
        check_after: None,
    };
    server.reprise().mark_pending(report).await.unwrap();
    token
}

/// What a reply says about what was not kept as sent.
pub(crate) fn adjusted(adjusted: &[Adjustment]) -> Vec<(&str, AdjustmentKind)> {
    adjusted
        .iter()
        .map(|entry| (entry.field.as_str(), entry.kind()))
        .collect()
}

/// Looks again until it is so. For what happens in the background.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    let limit = Duration::from_secs(20);
    if tokio::time::timeout(limit, looking).await.is_err() {
        panic!("waited {limit:?} in vain for {what}");
    }
}
