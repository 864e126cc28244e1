//! What all callers of a run share: the plan, the connections, the payload, and the
//! records that were made before.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use http::Uri;
use reprise_client::proto::reserve_request::Fingerprint;
use reprise_client::proto::{
    Content, FingerprintDigest, FingerprintPayload, FingerprintScheme, content,
};
use sha2::{Digest as _, Sha256};

use super::hot::Round;
use super::plan::Plan;
use super::tally::Rpc;
use super::wire::{Connection, Endpoint};
use crate::cli::exit::Error;

/// What is recorded as the code of every result.
const CODE: &str = "ok";

/// The shared part of a run.
#[derive(Debug)]
pub(super) struct World {
    pub(super) plan: Plan,
    /// Random, and part of every key: keys are new to the server in every run.
    run: String,
    pub(super) connections: Vec<Rc<Connection>>,
    uris: [Uri; Rpc::ALL.len()],
    fresh: Cell<u64>,
    pub(super) payload: Fingerprint,
    /// Differs from `payload`.
    pub(super) other_payload: Fingerprint,
    /// What lifecycles complete with.
    pub(super) result: Content,
    /// Results of the completed records, by their number.
    pub(super) completed: Vec<Content>,
    /// How many records are held.
    pub(super) held: usize,
    pub(super) round: RefCell<Rc<Round>>,
}

/// A key of a run, by what it is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Key {
    /// Nobody used it before.
    Fresh(u64),
    /// One of the completed records.
    Completed(usize),
    /// One of the held records.
    Held(usize),
    /// The key of a round of hot-key.
    Hot(u64),
}

impl World {
    /// With no connection made yet, and no record.
    pub(super) fn new(plan: Plan, endpoint: Endpoint) -> Result<World, Error> {
        let uris = Rpc::ALL.map(|rpc| endpoint.uri(rpc.path()));
        let [reserve, complete, lookup] = uris;
        let unusable = |error: http::Error| Error::Usage(format!("--server: {error}"));
        let uris = [
            reserve.map_err(unusable)?,
            complete.map_err(unusable)?,
            lookup.map_err(unusable)?,
        ];
        let connect = || Rc::new(Connection::new(endpoint.clone()));
        let connections = (0..plan.connections).map(|_| connect()).collect();
        let run = format!("{:016x}", rand::random::<u64>());
        Ok(World {
            connections,
            uris,
            fresh: Cell::new(0),
            payload: fingerprint(b"payload ", plan.payload_bytes),
            other_payload: fingerprint(b"another ", plan.payload_bytes),
            result: result(&run, 0, plan.result_bytes),
            completed: Vec::new(),
            held: 0,
            round: RefCell::new(Rc::new(Round::new(1, result(&run, 1, plan.result_bytes)))),
            run,
            plan,
        })
    }

    /// Makes all connections. Says in words why one cannot be made.
    pub(super) async fn connect(&self) -> Result<(), String> {
        for connection in &self.connections {
            connection.open().await?;
        }
        Ok(())
    }

    pub(super) fn uri(&self, rpc: Rpc) -> &Uri {
        &self.uris[rpc as usize]
    }

    /// A key that nobody used.
    pub(super) fn fresh_key(&self) -> Key {
        let number = self.fresh.get();
        self.fresh.set(number + 1);
        Key::Fresh(number)
    }

    /// Writes a key's text in the place of what `text` holds.
    pub(super) fn write_key(&self, key: Key, text: &mut String) {
        use std::fmt::Write as _;
        text.clear();
        let run = &self.run;
        let written = match key {
            Key::Fresh(number) => write!(text, "{run}-{number}"),
            Key::Completed(number) => write!(text, "{run}-completed-{number}"),
            Key::Held(number) => write!(text, "{run}-held-{number}"),
            Key::Hot(number) => write!(text, "{run}-hot-{number}"),
        };
        written.expect("a text takes any text");
    }

    /// The result of the record of this number, unlike that of any other number where it
    /// has 8 bytes or more.
    pub(super) fn result_of(&self, number: u64) -> Content {
        result(&self.run, number, self.plan.result_bytes)
    }

    /// Ends a round of hot-key, unless it is over: who asks from now on asks for the next
    /// key.
    pub(super) fn end_round(&self, number: u64) {
        let mut round = self.round.borrow_mut();
        if round.number == number {
            let next = number + 1;
            *round = Rc::new(Round::new(next, self.result_of(next)));
        }
    }
}

fn fingerprint(words: &[u8], bytes: usize) -> Fingerprint {
    if bytes == 0 {
        return Fingerprint::Digest(FingerprintDigest {
            scheme: FingerprintScheme::Raw.into(),
            rule_id: String::new(),
            sha256: Bytes::copy_from_slice(&Sha256::digest(words)),
        });
    }
    Fingerprint::Payload(FingerprintPayload {
        scheme: FingerprintScheme::Raw.into(),
        media_type: String::new(),
        context: Vec::new(),
        content: words.iter().copied().cycle().take(bytes).collect(),
    })
}

fn result(run: &str, number: u64, bytes: usize) -> Content {
    let words = format!("{number:08x} of {run}; ");
    Content {
        code: CODE.to_owned(),
        body: Some(content::Body::Data(
            words.bytes().cycle().take(bytes).collect(),
        )),
        ..Content::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_differ_at_every_size_and_results_from_each_other() {
        for bytes in [0, 1, 100] {
            assert_ne!(
                fingerprint(b"payload ", bytes),
                fingerprint(b"another ", bytes)
            );
        }
        assert_ne!(result("run", 1, 8), result("run", 2, 8));
        let body = result("run", 1, 70).body;
        assert!(matches!(body, Some(content::Body::Data(data)) if data.len() == 70));
    }
}
