//! What is asked of Reserve: the intent, its fingerprint, and the attempt's id.

use std::fmt;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rand::Rng;
use reprise_fingerprint::{Fingerprint, Scheme};
use reprise_proto::v1::{
    FingerprintDigest, FingerprintPayload, FingerprintScheme, RecordName, ReserveRequest,
    reserve_request,
};

/// 16 random bytes that stand for one try. Made in memory for that try; never stored,
/// never derived from a job id, a counter or the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttemptId([u8; 16]);

impl AttemptId {
    /// A new one, from the thread's cryptographic generator that the system seeds.
    pub fn random() -> AttemptId {
        let mut bytes = [0; 16];
        rand::rng().fill_bytes(&mut bytes);
        AttemptId(bytes)
    }

    /// The one that this process made earlier for the same try.
    pub fn from_bytes(bytes: [u8; 16]) -> AttemptId {
        AttemptId(bytes)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    pub(crate) fn to_bytes(self) -> Bytes {
        Bytes::copy_from_slice(&self.0)
    }
}

impl fmt::Debug for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AttemptId({:032x})", u128::from_be_bytes(self.0))
    }
}

/// What tells whether a repeat carries the same payload.
#[derive(Clone, Debug, PartialEq)]
pub enum Identity {
    /// A ready digest.
    Digest(FingerprintDigest),
    /// The payload, which the server canonicalises, hashes and does not keep. 4 MiB less
    /// overhead at most.
    Payload(FingerprintPayload),
}

impl Identity {
    /// A JSON document for the server to hash: member order and blanks do not count.
    pub fn json(document: impl Into<Bytes>) -> Identity {
        Identity::Payload(FingerprintPayload {
            scheme: FingerprintScheme::Json.into(),
            media_type: "application/json".to_owned(),
            context: Vec::new(),
            content: document.into(),
        })
    }

    /// Bytes for the server to hash as they are.
    pub fn raw(media_type: impl Into<String>, content: impl Into<Bytes>) -> Identity {
        Identity::Payload(FingerprintPayload {
            scheme: FingerprintScheme::Raw.into(),
            media_type: media_type.into(),
            context: Vec::new(),
            content: content.into(),
        })
    }
}

impl From<Fingerprint> for Identity {
    fn from(fingerprint: Fingerprint) -> Identity {
        let scheme = match fingerprint.scheme {
            Scheme::Raw => FingerprintScheme::Raw,
            Scheme::Json => FingerprintScheme::Json,
        };
        Identity::Digest(FingerprintDigest {
            scheme: scheme.into(),
            rule_id: fingerprint.rule.to_string(),
            sha256: Bytes::copy_from_slice(&fingerprint.digest),
        })
    }
}

impl From<FingerprintDigest> for Identity {
    fn from(digest: FingerprintDigest) -> Identity {
        Identity::Digest(digest)
    }
}

impl From<FingerprintPayload> for Identity {
    fn from(payload: FingerprintPayload) -> Identity {
        Identity::Payload(payload)
    }
}

/// Asks for an attempt. The attempt's id is not in here: each call makes its own.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Reserve {
    /// The intent.
    pub record: RecordName,
    /// What tells whether a repeat carries the same payload.
    pub identity: Identity,
    /// 100 ms to 15 min; none takes the policy's.
    pub lease: Option<Duration>,
    /// How long the server may hold the answer while somebody else is at it.
    pub wait: Duration,
    /// Who asks, for people. At most 255 bytes.
    pub owner: String,
    /// At most 255 bytes.
    pub correlation_id: String,
    /// The request that will be sent, kept for those who finish it. At most 16 KiB.
    pub instruction: Bytes,
    /// When the key was made.
    pub intent_time: Option<SystemTime>,
}

impl Reserve {
    /// Asks for `record` with the policy's lease, without a wait.
    pub fn new(record: RecordName, identity: impl Into<Identity>) -> Reserve {
        Reserve {
            record,
            identity: identity.into(),
            lease: None,
            wait: Duration::ZERO,
            owner: String::new(),
            correlation_id: String::new(),
            instruction: Bytes::new(),
            intent_time: None,
        }
    }

    /// Sets [`Reserve::lease`].
    pub fn lease(mut self, lease: Duration) -> Reserve {
        self.lease = Some(lease);
        self
    }

    /// Sets [`Reserve::wait`].
    pub fn wait(mut self, wait: Duration) -> Reserve {
        self.wait = wait;
        self
    }

    /// Sets [`Reserve::owner`].
    pub fn owner(mut self, owner: impl Into<String>) -> Reserve {
        self.owner = owner.into();
        self
    }

    /// Sets [`Reserve::correlation_id`].
    pub fn correlation_id(mut self, correlation_id: impl Into<String>) -> Reserve {
        self.correlation_id = correlation_id.into();
        self
    }

    /// Sets [`Reserve::instruction`].
    pub fn instruction(mut self, instruction: impl Into<Bytes>) -> Reserve {
        self.instruction = instruction.into();
        self
    }

    /// Sets [`Reserve::intent_time`].
    pub fn intent_time(mut self, time: SystemTime) -> Reserve {
        self.intent_time = Some(time);
        self
    }

    pub(crate) fn message(&self, attempt_id: AttemptId) -> ReserveRequest {
        let fingerprint = match &self.identity {
            Identity::Digest(digest) => reserve_request::Fingerprint::Digest(digest.clone()),
            Identity::Payload(payload) => reserve_request::Fingerprint::Payload(payload.clone()),
        };
        ReserveRequest {
            record: Some(self.record.clone()),
            attempt_id: attempt_id.to_bytes(),
            fingerprint: Some(fingerprint),
            lease: self.lease.map(wire_duration),
            wait: (!self.wait.is_zero()).then(|| wire_duration(self.wait)),
            owner: self.owner.clone(),
            correlation_id: self.correlation_id.clone(),
            instruction: self.instruction.clone(),
            intent_time: self.intent_time.map(prost_types::Timestamp::from),
        }
    }
}

/// A duration as sent. What is too long for the wire becomes the longest there is, which
/// the server refuses by name.
pub(crate) fn wire_duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(duration).unwrap_or(prost_types::Duration {
        seconds: i64::MAX,
        nanos: 0,
    })
}

/// Names a record. `subject` is empty where the tenant itself acts.
pub fn record_name(
    tenant: impl Into<String>,
    operation: impl Into<String>,
    subject: impl Into<String>,
    key: impl Into<String>,
) -> RecordName {
    RecordName {
        tenant: tenant.into(),
        operation: operation.into(),
        subject: subject.into(),
        key: key.into(),
    }
}
