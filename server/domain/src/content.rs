//! Results and errors: what is replayed, how it is told apart, how it is adjusted.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::policy::Policy;
use crate::text::{self, Adjustment, AdjustmentKind};

/// Headers of one content.
pub const HEADERS_MAX: usize = 64;
/// Bytes of all header names and values together.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;
/// Most that a policy may allow for a body: a message of 4 MiB, which every client
/// receives by default, less room for all that goes beside it.
pub const BODY_BYTES_MAX: u64 = 4 * 1024 * 1024 - 64 * 1024;

/// A SHA-256 digest.
pub type Sha = [u8; 32];

/// What is replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The caller's own word for the outcome.
    pub code: String,
    /// Names and values in the order sent.
    pub headers: Vec<(String, Bytes)>,
    /// Absent and empty differ.
    pub body: Option<Body>,
    /// What the effect created.
    pub resource_id: String,
    /// What the provider calls it.
    pub provider_reference: String,
}

/// A body, or what is known of one that is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The bytes.
    Data(Bytes),
    /// Size in bytes and digest alone.
    Omitted {
        /// Bytes of the body.
        size: u64,
        /// Its SHA-256.
        sha256: Sha,
    },
}

impl Body {
    /// Size in bytes and digest.
    #[must_use]
    pub fn measure(&self) -> (u64, Sha) {
        match self {
            Self::Data(data) => (data.len() as u64, Sha256::digest(data).into()),
            Self::Omitted { size, sha256 } => (*size, *sha256),
        }
    }
}

impl Content {
    /// A content of only a code.
    #[must_use]
    pub fn of_code(code: &str) -> Self {
        Self {
            code: code.to_owned(),
            ..Self::default()
        }
    }

    /// Are there headers, or the bytes of a body?
    #[must_use]
    pub fn has_bytes(&self) -> bool {
        !self.headers.is_empty() || matches!(self.body, Some(Body::Data(_)))
    }

    /// What a tombstone keeps: no headers, and of the body its size and digest.
    #[must_use]
    pub fn stripped(mut self) -> Self {
        self.headers = Vec::new();
        self.body = self.body.map(|body| {
            let (size, sha256) = body.measure();
            Body::Omitted { size, sha256 }
        });
        self
    }

    /// Tells whether two contents are the same. A body and its omitted form are.
    #[must_use]
    pub fn digest(&self) -> Sha {
        self.digests().0
    }

    /// [`Content::digest`] and [`Content::core_digest`], which it is made from.
    #[must_use]
    pub fn digests(&self) -> (Sha, Sha) {
        let core = self.core_digest();
        let mut hash = Parts::new("reprise-content-1");
        hash.part(&core);
        self.headers_and_body(&mut hash);
        (hash.finish(), core)
    }

    /// As [`Content::digest`], without headers and body.
    #[must_use]
    pub fn core_digest(&self) -> Sha {
        let mut hash = Parts::new("reprise-content-core-1");
        hash.part(self.code.as_bytes());
        hash.part(self.resource_id.as_bytes());
        hash.part(self.provider_reference.as_bytes());
        hash.finish()
    }

    /// Guards what is stored: code, headers and body as they are kept.
    #[must_use]
    pub fn checksum(&self) -> Sha {
        let mut hash = Parts::new("reprise-stored-1");
        hash.part(self.code.as_bytes());
        self.headers_and_body(&mut hash);
        hash.finish()
    }

    fn headers_and_body(&self, hash: &mut Parts) {
        hash.part(&(self.headers.len() as u64).to_be_bytes());
        for (name, value) in &self.headers {
            hash.part(name.as_bytes());
            hash.part(value);
        }
        if let Some(body) = &self.body {
            let (size, sha256) = body.measure();
            hash.part(&size.to_be_bytes());
            hash.part(&sha256);
        }
    }

    /// Makes the content fit the limits and `policy`, and says what was done. `field`
    /// is where the content stands in its message, e.g. `result`.
    #[must_use]
    pub fn adjust(mut self, field: &str, policy: &Policy) -> (Self, Vec<Adjustment>) {
        let mut adjusted = Vec::new();
        let texts = [
            ("code", &mut self.code),
            ("resource_id", &mut self.resource_id),
            ("provider_reference", &mut self.provider_reference),
        ];
        for (name, value) in texts {
            if !text::fits(value) {
                let path = format!("{field}.{name}");
                *value = text::adjust(&path, std::mem::take(value), &mut adjusted);
            }
        }
        self.headers = keep_headers(self.headers, field, policy, &mut adjusted);
        if let Some(body @ Body::Data(data)) = &self.body
            && data.len() as u64 > policy.result_bytes_max
        {
            let (size, sha256) = body.measure();
            self.body = Some(Body::Omitted { size, sha256 });
            adjusted.push(Adjustment {
                field: format!("{field}.data"),
                kind: AdjustmentKind::Dropped,
                description: "the body is over the policy's result_bytes_max",
            });
        }
        (self, adjusted)
    }
}

fn keep_headers(
    headers: Vec<(String, Bytes)>,
    field: &str,
    policy: &Policy,
    adjusted: &mut Vec<Adjustment>,
) -> Vec<(String, Bytes)> {
    let mut kept = Vec::with_capacity(headers.len().min(HEADERS_MAX));
    let mut bytes = 0;
    for (at, (name, value)) in headers.into_iter().enumerate() {
        let size = name.len() + value.len();
        let description = if !policy.keeps_header(&name) {
            "the header is not on the policy's allow-list"
        } else if kept.len() == HEADERS_MAX {
            "at most 64 headers are kept"
        } else if bytes + size > HEADER_BYTES_MAX {
            "at most 16 KiB of headers are kept"
        } else {
            bytes += size;
            kept.push((name, value));
            continue;
        };
        // The answer is bounded: past this the rest goes unnamed, and says so.
        match adjusted.len() {
            ..HEADERS_MAX => adjusted.push(Adjustment {
                field: format!("{field}.headers[{at}]"),
                kind: AdjustmentKind::Dropped,
                description,
            }),
            HEADERS_MAX => adjusted.push(Adjustment {
                field: format!("{field}.headers"),
                kind: AdjustmentKind::Dropped,
                description: "more headers were dropped than are named here",
            }),
            _ => {}
        }
    }
    kept
}

/// SHA-256 over length-prefixed parts.
pub(crate) struct Parts(Sha256);

impl Parts {
    pub(crate) fn new(purpose: &str) -> Self {
        let mut parts = Self(Sha256::new());
        parts.part(purpose.as_bytes());
        parts
    }

    pub(crate) fn part(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> Sha {
        self.0.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_headers(headers: Vec<(String, Bytes)>) -> Content {
        Content {
            headers,
            ..Content::of_code("done")
        }
    }

    fn header(name: &str, size: usize) -> (String, Bytes) {
        (name.to_owned(), vec![b'x'; size].into())
    }

    #[test]
    fn contents_that_differ_anywhere_have_different_digests() {
        let body = |bytes: &'static [u8]| Content {
            body: Some(Body::Data(bytes.into())),
            ..Content::default()
        };
        let contents = [
            Content::default(),
            Content::of_code("done"),
            body(b""),
            body(b"a"),
            with_headers(vec![header("etag", 1)]),
            with_headers(vec![header("etag", 1), header("etag", 1)]),
            with_headers(vec![header("etagx", 0)]),
            Content {
                resource_id: "done".to_owned(),
                ..Content::default()
            },
            Content {
                provider_reference: "done".to_owned(),
                ..Content::default()
            },
        ];
        for (at, one) in contents.iter().enumerate() {
            for other in &contents[at + 1..] {
                assert_ne!(one.digest(), other.digest(), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn headers_and_body_are_no_part_of_the_core() {
        let rich = Content {
            body: Some(Body::Data("receipt".into())),
            ..with_headers(vec![header("etag", 1)])
        };
        assert_eq!(rich.core_digest(), Content::of_code("done").core_digest());
        assert_ne!(rich.core_digest(), Content::of_code("other").core_digest());
    }

    #[test]
    fn body_over_the_limit_is_kept_by_size_and_digest_alone() {
        let policy = Policy {
            result_bytes_max: 4,
            ..Policy::default()
        };
        let sent = |body: &'static str| Content {
            body: Some(Body::Data(body.into())),
            ..Content::of_code("done")
        };
        let (kept, adjusted) = sent("four").adjust("result", &policy);
        assert_eq!((kept, adjusted), (sent("four"), vec![]));
        let (kept, adjusted) = sent("fiver").adjust("result", &policy);
        assert!(matches!(kept.body, Some(Body::Omitted { size: 5, .. })));
        assert_eq!(kept.digest(), sent("fiver").digest());
        assert_eq!(adjusted[0].field, "result.data");
        assert_eq!(adjusted[0].kind, AdjustmentKind::Dropped);
    }

    #[test]
    fn headers_that_are_not_listed_or_too_many_or_too_large_are_dropped_and_named() {
        let policy = Policy::default();
        let sent = vec![
            header("ETag", 1),
            header("Set-Cookie", 1),
            header("x-secret", 1),
            header("link", HEADER_BYTES_MAX),
            header("location", 9),
        ];
        let (kept, adjusted) = with_headers(sent).adjust("error", &policy);
        assert_eq!(kept.headers, [header("ETag", 1), header("location", 9)]);
        let fields: Vec<_> = adjusted.iter().map(|done| done.field.as_str()).collect();
        assert_eq!(
            fields,
            ["error.headers[1]", "error.headers[2]", "error.headers[3]"]
        );
        let many = vec![header("etag", 1); HEADERS_MAX * 3];
        let (kept, adjusted) = with_headers(many).adjust("result", &policy);
        assert_eq!(
            (kept.headers.len(), adjusted.len()),
            (HEADERS_MAX, HEADERS_MAX + 1)
        );
        let last = adjusted.last().map(|done| done.field.as_str());
        assert_eq!(last, Some("result.headers"), "not all of them are named");
    }

    #[test]
    fn checksum_guards_what_is_stored() {
        let stored = with_headers(vec![header("etag", 1)]);
        let mut damaged = stored.clone();
        damaged.headers[0].1 = "y".into();
        assert_ne!(stored.checksum(), damaged.checksum());
        assert_ne!(stored.checksum(), Content::of_code("done").checksum());
    }
}
