//! Digests: how scheme, rule, media type, context and content become one SHA-256.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::canonical::{Document, canonicalize};
use crate::{CanonicalError, MediaType, Rule, RuleId};

/// How the content of a fingerprint is made from the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// The bytes as sent.
    Raw,
    /// The canonical JSON of the bytes, under a rule.
    Json,
}

/// A text names no scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint scheme is 'raw' or 'json'")]
pub struct UnknownScheme;

impl Scheme {
    /// The name, as it is hashed and stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Json => "json",
        }
    }
}

impl FromStr for Scheme {
    type Err = UnknownScheme;

    fn from_str(text: &str) -> Result<Self, UnknownScheme> {
        match text {
            "raw" => Ok(Self::Raw),
            "json" => Ok(Self::Json),
            _ => Err(UnknownScheme),
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is compared: two payloads are the same if their fingerprints are equal, and can be
/// compared at all only if scheme and rule are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// How the content was made.
    pub scheme: Scheme,
    /// The rule under which it was made; none for raw content.
    pub rule: RuleId,
    /// SHA-256 as the [crate's page](crate#digest) describes it.
    pub digest: [u8; 32],
}

/// What else belongs to the payload's meaning, named and ordered by the caller: method, path
/// values, sorted query. Order counts, and so does every byte.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Context(Vec<(String, Vec<u8>)>);

impl Context {
    /// The names and values, in the caller's order.
    #[must_use]
    pub fn entries(&self) -> &[(String, Vec<u8>)] {
        &self.0
    }
}

impl From<Vec<(String, Vec<u8>)>> for Context {
    fn from(entries: Vec<(String, Vec<u8>)>) -> Self {
        Self(entries)
    }
}

/// The fingerprint of `content` as it is.
#[must_use]
pub fn raw(media_type: &MediaType, context: &Context, content: &[u8]) -> Fingerprint {
    fingerprint(Scheme::Raw, RuleId::none(), media_type, context, content)
}

/// The fingerprint of a JSON document under a rule.
///
/// # Errors
/// [`CanonicalError`] when the document has no canonical form.
pub fn json(
    media_type: &MediaType,
    context: &Context,
    document: &[u8],
    rule: &Rule,
) -> Result<Fingerprint, CanonicalError> {
    let content = canonicalize(document, rule)?;
    Ok(fingerprint(
        Scheme::Json,
        rule.id(),
        media_type,
        context,
        &content,
    ))
}

/// The fingerprints of a JSON document under each of `rules`, in their order. The document is
/// parsed once, and also when there are no rules.
///
/// # Errors
/// [`CanonicalError`] when the document has no canonical form, which no rule changes.
pub fn json_under_each(
    media_type: &MediaType,
    context: &Context,
    document: &[u8],
    rules: &[Rule],
) -> Result<Vec<Fingerprint>, CanonicalError> {
    let document = Document::parse(document)?;
    let mut content = Vec::new();
    let under = |rule: &Rule| {
        content.clear();
        document.write(rule, &mut content);
        fingerprint(Scheme::Json, rule.id(), media_type, context, &content)
    };
    Ok(rules.iter().map(under).collect())
}

fn fingerprint(
    scheme: Scheme,
    rule: RuleId,
    media_type: &MediaType,
    context: &Context,
    content: &[u8],
) -> Fingerprint {
    let mut pairs = Vec::new();
    for (name, value) in &context.0 {
        write_part(name.as_bytes(), &mut pairs);
        write_part(value, &mut pairs);
    }
    let mut head = Vec::with_capacity(128 + pairs.len());
    write_part(b"reprise-fp-1", &mut head);
    write_part(scheme.as_str().as_bytes(), &mut head);
    write_part(rule.as_str().as_bytes(), &mut head);
    write_part(media_type.as_str().as_bytes(), &mut head);
    write_part(&pairs, &mut head);
    head.extend_from_slice(&length(content));
    let digest = Sha256::new()
        .chain_update(&head)
        .chain_update(content)
        .finalize();
    Fingerprint {
        scheme,
        rule,
        digest: digest.into(),
    }
}

/// Appends a part: its length, then its bytes. Lengths keep parts from running into each other.
pub(crate) fn write_part(part: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&length(part));
    out.extend_from_slice(part);
}

fn length(part: &[u8]) -> [u8; 8] {
    (part.len() as u64).to_be_bytes()
}
