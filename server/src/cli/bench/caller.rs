//! One caller: its requests, made once and filled anew for each call, and the clock of
//! each call. Knows nothing of what an answer should be.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message;
use reprise_client::proto::lookup_request::Target;
use reprise_client::proto::{
    CompleteRequest, CompleteResponse, Content, LookupRequest, LookupResponse, RecordName,
    ReserveRequest, ReserveResponse,
};

use super::tally::{Rpc, Tally};
use super::wire::{Connection, Deadline, Failure};
use super::world::{Key, World};
use crate::cli::wire_duration;

/// A caller with one operation at a time.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) world: Rc<World>,
    connection: Rc<Connection>,
    pub(super) tally: Rc<RefCell<Tally>>,
    clock: Deadline,
    name: RecordName,
    reserve: ReserveRequest,
    complete: CompleteRequest,
    /// When the operation was due.
    due: Instant,
    /// When its last call was answered, or failed; `due` before.
    answered: Instant,
    /// No call of the operation was sent yet.
    first: bool,
}

impl Caller {
    /// The caller of this number, which says on which connection it calls.
    pub(super) fn new(world: &Rc<World>, tally: &Rc<RefCell<Tally>>, number: usize) -> Caller {
        let name = RecordName {
            tenant: world.plan.tenant.clone(),
            operation: world.plan.operation.clone(),
            subject: String::new(),
            key: String::new(),
        };
        let now = Instant::now();
        Caller {
            world: Rc::clone(world),
            connection: Rc::clone(&world.connections[number % world.connections.len()]),
            tally: Rc::clone(tally),
            clock: Deadline::new(),
            reserve: ReserveRequest {
                record: Some(name.clone()),
                ..ReserveRequest::default()
            },
            complete: CompleteRequest {
                record: Some(name.clone()),
                ..CompleteRequest::default()
            },
            name,
            due: now,
            answered: now,
            first: true,
        }
    }

    /// Begins an operation that was due at `due`.
    pub(super) fn begin(&mut self, due: Instant) {
        self.due = due;
        self.answered = due;
        self.first = true;
    }

    /// When the last call of the operation was answered.
    pub(super) fn answered(&self) -> Instant {
        self.answered
    }

    /// Reserve, of `key` with the payload or the other one.
    pub(super) async fn reserve(
        &mut self,
        key: Key,
        other_payload: bool,
        wait: Duration,
        lease: Option<Duration>,
    ) -> Result<ReserveResponse, Failure> {
        let world = &self.world;
        let request = &mut self.reserve;
        world.write_key(key, &mut request.record.get_or_insert_default().key);
        request.attempt_id = Bytes::from_owner(rand::random::<[u8; 16]>());
        let payload = match other_payload {
            true => &world.other_payload,
            false => &world.payload,
        };
        request.fingerprint = Some(payload.clone());
        request.wait = (!wait.is_zero()).then(|| wire_duration(wait));
        request.lease = lease.map(wire_duration);
        let request = std::mem::take(&mut self.reserve);
        let answer = self.call(Rpc::Reserve, &request).await;
        self.reserve = request;
        answer
    }

    /// Complete of `key`.
    pub(super) async fn complete(
        &mut self,
        key: Key,
        token: Bytes,
        result: &Content,
    ) -> Result<CompleteResponse, Failure> {
        let request = &mut self.complete;
        let name = request.record.get_or_insert_default();
        self.world.write_key(key, &mut name.key);
        request.token = token;
        match &mut request.result {
            Some(last) if last == result => {}
            last => *last = Some(result.clone()),
        }
        let request = std::mem::take(&mut self.complete);
        let answer = self.call(Rpc::Complete, &request).await;
        self.complete = request;
        answer
    }

    /// Lookup of `key`, with its result.
    pub(super) async fn lookup(&mut self, key: Key) -> Result<LookupResponse, Failure> {
        self.world.write_key(key, &mut self.name.key);
        let request = LookupRequest {
            target: Some(Target::Record(self.name.clone())),
            with_result: true,
            ..LookupRequest::default()
        };
        self.call(Rpc::Lookup, &request).await
    }

    /// The first call of an operation is timed from when the operation was due: an open
    /// loop that lags behind shows in it.
    async fn call<A: Message + Default>(
        &mut self,
        rpc: Rpc,
        request: &impl Message,
    ) -> Result<A, Failure> {
        let sent = match std::mem::replace(&mut self.first, false) {
            true => self.due,
            false => Instant::now(),
        };
        let uri = self.world.uri(rpc);
        let answer = self.connection.call(uri, request, &mut self.clock).await;
        self.answered = Instant::now();
        if answer.is_ok() {
            let mut tally = self.tally.borrow_mut();
            tally.call(rpc, self.due, sent, self.answered);
        }
        answer
    }
}
