//! A server that answers by script, and remembers what it was asked and when.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use reprise_client::proto::policy_service_server::PolicyServiceServer;
use reprise_client::proto::reconciliation_service_server::ReconciliationServiceServer;
use reprise_client::proto::records_service_server::RecordsServiceServer;
use reprise_client::proto::reprise_service_server::RepriseServiceServer;
use reprise_client::proto::status_service_server::StatusServiceServer;
use reprise_client::proto::*;
use reprise_client::{Builder, Client};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};
use tonic::codegen::tokio_stream;
use tonic::transport::Server;
use tonic::{Code, Response, Status};
use tonic_types::{ErrorDetails, StatusExt};

mod services;

pub use crate::answers::*;

/// How one call is answered.
pub enum Step<T> {
    Answer(T),
    Refuse(Status),
    /// The answer takes this long.
    Late(Duration, Box<Step<T>>),
    /// No answer ever.
    Silence,
    /// The connection breaks.
    Cut,
}

pub fn late<T>(delay: Duration, answer: T) -> Step<T> {
    Step::Late(delay, Box::new(Step::Answer(answer)))
}

pub fn refuse<T>(code: Code, reason: ErrorReason) -> Step<T> {
    refuse_until(code, reason, None)
}

pub fn refuse_until<T>(code: Code, reason: ErrorReason, retry: Option<Duration>) -> Step<T> {
    refuse_saying(code, reason, retry, &[])
}

pub fn refuse_saying<T>(
    code: Code,
    reason: ErrorReason,
    retry: Option<Duration>,
    metadata: &[(&str, &str)],
) -> Step<T> {
    let name = reason.as_str_name().strip_prefix("ERROR_REASON_").unwrap();
    let metadata = metadata.iter().copied();
    let mut details = ErrorDetails::with_error_info(
        name,
        ERROR_DOMAIN,
        metadata
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect::<std::collections::HashMap<_, _>>(),
    );
    if let Some(delay) = retry {
        details.set_retry_info(Some(delay));
    }
    Step::Refuse(Status::with_error_details(code, "scripted", details))
}

/// What was asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    Reserve(ReserveRequest),
    MarkSending(MarkSendingRequest),
    Complete(CompleteRequest),
    Fail(FailRequest),
    MarkPending(MarkPendingRequest),
    Renew(RenewRequest),
    Lookup(LookupRequest),
    Resolve(ResolveRequest),
    GetPolicy(GetPolicyRequest),
    PutPolicy(PutPolicyRequest),
    ListPolicies(ListPoliciesRequest),
    ListPending(ListPendingRequest),
    CountPending(CountPendingRequest),
    ClaimPending(ClaimPendingRequest),
    ListRecords(ListRecordsRequest),
    GetHistory(GetHistoryRequest),
    ForgetRecord(ForgetRecordRequest),
    ListAudit(ListAuditRequest),
    GetStatus(GetStatusRequest),
}

#[derive(Default)]
struct Memory {
    asked: Vec<(Instant, Asked)>,
    reserve: VecDeque<Step<ReserveResponse>>,
    mark_sending: VecDeque<Step<MarkSendingResponse>>,
    complete: VecDeque<Step<CompleteResponse>>,
    fail: VecDeque<Step<FailResponse>>,
    mark_pending: VecDeque<Step<MarkPendingResponse>>,
    renew: VecDeque<Step<RenewResponse>>,
    lookup: VecDeque<Step<LookupResponse>>,
    resolve: VecDeque<Step<ResolveResponse>>,
    put_policy: VecDeque<Step<PutPolicyResponse>>,
    list_pending: VecDeque<Step<ListPendingResponse>>,
    count_pending: VecDeque<Step<CountPendingResponse>>,
    claim_pending: VecDeque<Step<ClaimPendingResponse>>,
    list_records: VecDeque<Step<ListRecordsResponse>>,
    get_history: VecDeque<Step<GetHistoryResponse>>,
    forget_record: VecDeque<Step<ForgetRecordResponse>>,
    list_audit: VecDeque<Step<ListAuditResponse>>,
    get_status: VecDeque<Step<GetStatusResponse>>,
    refused_connections: usize,
    silent_connections: usize,
    pipes: Vec<Pipe>,
}

struct Pipe {
    copying: Vec<AbortHandle>,
}

#[derive(Clone)]
pub struct Script {
    state: Arc<Mutex<Memory>>,
    up: Arc<std::sync::atomic::AtomicU64>,
    frozen: tokio::sync::watch::Sender<bool>,
}

macro_rules! queue {
    ($name:ident, $response:ty) => {
        pub fn $name(&self, step: Step<$response>) -> &Script {
            self.state.lock().unwrap().$name.push_back(step);
            self
        }
    };
}

/// The next calls are answered by these steps, in order; after them as a server without
/// trouble would.
impl Script {
    queue!(reserve, ReserveResponse);
    queue!(mark_sending, MarkSendingResponse);
    queue!(complete, CompleteResponse);
    queue!(fail, FailResponse);
    queue!(mark_pending, MarkPendingResponse);
    queue!(renew, RenewResponse);
    queue!(lookup, LookupResponse);
    queue!(resolve, ResolveResponse);
    queue!(put_policy, PutPolicyResponse);
    queue!(list_pending, ListPendingResponse);
    queue!(count_pending, CountPendingResponse);
    queue!(claim_pending, ClaimPendingResponse);
    queue!(list_records, ListRecordsResponse);
    queue!(get_history, GetHistoryResponse);
    queue!(forget_record, ForgetRecordResponse);
    queue!(list_audit, ListAuditResponse);
    queue!(get_status, GetStatusResponse);

    /// The next `count` connections are refused.
    pub fn refuse_connections(&self, count: usize) {
        self.state.lock().unwrap().refused_connections = count;
    }

    /// The next `count` connections are accepted and never spoken on.
    pub fn silent_connections(&self, count: usize) {
        self.state.lock().unwrap().silent_connections = count;
    }

    /// From now on, nothing passes through the connections that are open.
    pub fn freeze(&self) {
        self.frozen.send_replace(true);
    }

    pub fn connections(&self) -> usize {
        self.state.lock().unwrap().pipes.len()
    }

    /// Bytes that the client has sent, on all connections.
    pub fn bytes_up(&self) -> u64 {
        self.up.load(std::sync::atomic::Ordering::Relaxed)
    }

    pub fn asked(&self) -> Vec<Asked> {
        let state = self.state.lock().unwrap();
        state.asked.iter().map(|(_, asked)| asked.clone()).collect()
    }

    pub fn times(&self) -> Vec<Instant> {
        let state = self.state.lock().unwrap();
        state.asked.iter().map(|(at, _)| *at).collect()
    }

    pub fn names(&self) -> Vec<&'static str> {
        self.asked().iter().map(name).collect()
    }

    fn cut(&self) {
        for pipe in &self.state.lock().unwrap().pipes {
            pipe.copying.iter().for_each(AbortHandle::abort);
        }
    }

    async fn play<T>(
        &self,
        asked: Asked,
        queue: impl Fn(&mut Memory) -> Option<Step<T>>,
        usual: impl FnOnce() -> T,
    ) -> Result<Response<T>, Status> {
        let mut step = {
            let mut state = self.state.lock().unwrap();
            state.asked.push((Instant::now(), asked));
            queue(&mut state)
        };
        if let Some(Step::Late(delay, then)) = step {
            sleep(delay).await;
            step = Some(*then);
        }
        match step {
            None => Ok(Response::new(usual())),
            Some(Step::Answer(answer)) => Ok(Response::new(answer)),
            Some(Step::Refuse(status)) => Err(status),
            Some(Step::Cut) => {
                self.cut();
                pending().await
            }
            Some(Step::Silence | Step::Late(..)) => pending().await,
        }
    }

    fn connect(&self) -> io::Result<DuplexStream> {
        let mut state = self.state.lock().unwrap();
        if state.refused_connections > 0 {
            state.refused_connections -= 1;
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (client, outer) = duplex(1 << 16);
        if state.silent_connections > 0 {
            state.silent_connections -= 1;
            let held = tokio::spawn(async move {
                let _held = outer;
                pending::<()>().await;
            });
            state.pipes.push(Pipe {
                copying: vec![held.abort_handle()],
            });
            return Ok(client);
        }
        let (inner, server) = duplex(1 << 16);
        let (outer_read, outer_write) = tokio::io::split(outer);
        let (inner_read, inner_write) = tokio::io::split(inner);
        let up = self.clone().copy(outer_read, inner_write, true);
        let down = self.clone().copy(inner_read, outer_write, false);
        let copying = [tokio::spawn(up), tokio::spawn(down)];
        state.pipes.push(Pipe {
            copying: copying.iter().map(|task| task.abort_handle()).collect(),
        });
        let script = self.clone();
        tokio::spawn(async move {
            Server::builder()
                .add_service(
                    RepriseServiceServer::new(script.clone())
                        .max_decoding_message_size(16 << 20)
                        .max_encoding_message_size(16 << 20),
                )
                .add_service(ReconciliationServiceServer::new(script.clone()))
                .add_service(RecordsServiceServer::new(script.clone()))
                .add_service(StatusServiceServer::new(script.clone()))
                .add_service(PolicyServiceServer::new(script))
                .serve_with_incoming(tokio_stream::once(Ok::<_, io::Error>(server)))
                .await
        });
        Ok(client)
    }

    async fn copy(
        self,
        mut from: impl AsyncReadExt + Unpin,
        mut to: impl AsyncWriteExt + Unpin,
        upward: bool,
    ) {
        let mut frozen = self.frozen.subscribe();
        let mut buffer = vec![0; 1 << 14];
        loop {
            let read = tokio::select! {
                biased;
                _ = frozen.changed() => return pending().await,
                read = from.read(&mut buffer) => read,
            };
            let Ok(count @ 1..) = read else { return };
            if upward {
                self.up
                    .fetch_add(count as u64, std::sync::atomic::Ordering::Relaxed);
            }
            if to.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    }
}

pub fn name(asked: &Asked) -> &'static str {
    match asked {
        Asked::Reserve(_) => "Reserve",
        Asked::MarkSending(_) => "MarkSending",
        Asked::Complete(_) => "Complete",
        Asked::Fail(_) => "Fail",
        Asked::MarkPending(_) => "MarkPending",
        Asked::Renew(_) => "Renew",
        Asked::Lookup(_) => "Lookup",
        Asked::Resolve(_) => "Resolve",
        Asked::GetPolicy(_) => "GetPolicy",
        Asked::PutPolicy(_) => "PutPolicy",
        Asked::ListPolicies(_) => "ListPolicies",
        Asked::ListPending(_) => "ListPending",
        Asked::CountPending(_) => "CountPending",
        Asked::ClaimPending(_) => "ClaimPending",
        Asked::ListRecords(_) => "ListRecords",
        Asked::GetHistory(_) => "GetHistory",
        Asked::ForgetRecord(_) => "ForgetRecord",
        Asked::ListAudit(_) => "ListAudit",
        Asked::GetStatus(_) => "GetStatus",
    }
}

/// A client of a scripted server.
pub fn start() -> (Client, Script) {
    start_with(|builder| builder)
}

pub fn start_with(settings: impl FnOnce(Builder) -> Builder) -> (Client, Script) {
    let script = Script {
        state: Arc::default(),
        up: Arc::default(),
        frozen: tokio::sync::watch::channel(false).0,
    };
    let server = script.clone();
    let builder = Client::builder("http://scripted.test:1").channels(move |endpoint| {
        let server = server.clone();
        endpoint.connect_with_connector_lazy(tower::service_fn(move |_| {
            let connected = server.connect().map(TokioIo::new);
            async move { connected }
        }))
    });
    (settings(builder).build().unwrap(), script)
}
