//! Payload fingerprints: does a repeat carry the same payload as the first call?
//!
//! Pure and synchronous, shared by the server and the Rust client. It must not know of records,
//! policies, messages or stores. This page is the whole recipe: whoever follows it in another
//! language gets the same digests, and `tests/vectors/fingerprint.jsonl` proves it.
//!
//! # Digest
//!
//! `part(b)` is the length of `b` in bytes as an unsigned 64-bit big-endian integer, followed by
//! `b`. The digest is SHA-256 over six parts, one after the other:
//!
//! 1. `part("reprise-fp-1")`
//! 2. `part(scheme)`: `raw` or `json`
//! 3. `part(rule id)`: empty for the rule that changes nothing, and always for `raw`
//! 4. `part(media type)`: `type/subtype` in lower case, without parameters; empty when absent
//! 5. `part(part(name_1) part(value_1) part(name_2) part(value_2) ...)`: the context, in the
//!    caller's order; names are UTF-8. It is one part, empty when there is no context
//! 6. `part(content)`: the payload as sent (`raw`), or its canonical JSON (`json`)
//!
//! # Rule id
//!
//! Sort the pointers of each list by the bytes of their RFC 6901 text and drop repeated ones. If
//! both lists are empty, the id is empty. Otherwise it is the first 8 bytes, in lower-case
//! hexadecimal (16 characters), of SHA-256 over
//! `part("reprise-rule-1") part(part(ignore_1) part(ignore_2) ...) part(part(unordered_1) ...)`.
//!
//! # Canonical JSON
//!
//! RFC 8785 for what is accepted, and nothing is folded. The whole document is checked, also
//! below ignored pointers; each [`Flaw`] is one ground for refusal. In particular:
//!
//! - A number is accepted if the decimal value written is exactly that of the ECMAScript form of
//!   its nearest double. `1000`, `1e3` and `1000.0` are equal, `-0` is `0`, and `0.1` is fine;
//!   `9223372036854775807`, `1e400` and `1e-400` are refused. Drop the sign, leading and trailing
//!   zeros and compare what is left, digits and power of ten, with the shortest form: no big
//!   number arithmetic is needed, and over 17 remaining digits are always refused.
//!   The shortest form has the fewest digits that read back as the same double; of several the
//!   nearest, and of two as near the one that ends evenly (ECMA-262, Number::toString, note 2).
//! - Repeated member names are compared after unescaping.
//! - Arrays and objects nest 128 deep at most, counted together; the outermost one is 1.
//!
//! Then the rule is applied. All its pointers address the document as sent, so array indexes
//! count the elements before any is removed or moved:
//!
//! - `ignore` removes the member, or the array element, that it addresses.
//! - `unordered` sorts the elements of the array that it addresses by the bytes of their
//!   canonical form, after the rule was applied inside them; equal elements stay, all of them.
//! - A pointer that addresses nothing, or an `unordered` pointer to something else than an array,
//!   changes nothing. `-` and indexes with leading zeros address no element.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod canonical;
mod digest;
mod error;
mod media_type;
mod number;
mod parse;
mod pointer;
mod rule;
mod text;

pub use canonical::canonicalize;
pub use digest::{Context, Fingerprint, Scheme, UnknownScheme, json, json_under_each, raw};
pub use error::{CanonicalError, Flaw, Place};
pub use media_type::{MediaType, MediaTypeError};
pub use pointer::{Pointer, PointerError};
pub use rule::{Rule, RuleError, RuleId, RuleIdError};

/// How deep arrays and objects may nest in a document, and how many tokens a pointer may have.
pub const DEPTH_MAX: usize = 128;
