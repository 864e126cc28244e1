//! Why a document has no canonical form, and where.
//!
//! These messages reach logs and other people's screens: they hold a place and a ground, never a
//! byte of the payload.

use std::fmt;

/// A document has no canonical form under the strict reading of RFC 8785.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at {place}")]
pub struct CanonicalError {
    /// The ground for refusal.
    pub what: Flaw,
    /// Where the flaw was met.
    pub place: Place,
}

/// The grounds on which a document is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Flaw {
    /// The bytes are not UTF-8. Judged before all others.
    NotUtf8,
    /// The document begins with a byte order mark.
    ByteOrderMark,
    /// There is no value, only blanks or nothing.
    Empty,
    /// The bytes are not JSON (RFC 8259), or end too early.
    Syntax,
    /// Something follows the value.
    TrailingData,
    /// Arrays and objects nest deeper than [`DEPTH_MAX`](crate::DEPTH_MAX).
    TooDeep,
    /// A `\u` escape names half a surrogate pair.
    LoneSurrogate,
    /// An object has the same member name twice, as compared after unescaping.
    RepeatedName,
    /// A number's decimal value is not that of its ECMAScript form, or it has none.
    InexactNumber,
}

impl Flaw {
    /// The stable name of this ground, as used in the vector file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotUtf8 => "not_utf8",
            Self::ByteOrderMark => "byte_order_mark",
            Self::Empty => "empty",
            Self::Syntax => "syntax",
            Self::TrailingData => "trailing_data",
            Self::TooDeep => "too_deep",
            Self::LoneSurrogate => "lone_surrogate",
            Self::RepeatedName => "repeated_name",
            Self::InexactNumber => "inexact_number",
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotUtf8 => "invalid UTF-8",
            Self::ByteOrderMark => "a byte order mark",
            Self::Empty => "no JSON value",
            Self::Syntax => "invalid JSON",
            Self::TrailingData => "data after the JSON value",
            Self::TooDeep => "nesting over 128 deep",
            Self::LoneSurrogate => "an escape for half a surrogate pair",
            Self::RepeatedName => "a repeated member name",
            Self::InexactNumber => "a number that a double does not hold exactly",
        })
    }
}

/// A place in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Bytes before the flaw.
    pub offset: usize,
    /// Line, from 1; lines end with a line feed.
    pub line: usize,
    /// Byte within the line, from 1.
    pub column: usize,
}

impl Place {
    fn of(offset: usize, document: &[u8]) -> Self {
        let before = &document[..offset.min(document.len())];
        let line_start = before
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |at| at + 1);
        Self {
            offset,
            line: before.iter().filter(|&&byte| byte == b'\n').count() + 1,
            column: before.len() - line_start + 1,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "byte {} (line {}, column {})",
            self.offset, self.line, self.column
        )
    }
}

/// A flaw at an offset: cheap to make while parsing, becomes a [`CanonicalError`] at the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) what: Flaw,
    pub(crate) offset: usize,
}

impl Fault {
    pub(crate) fn in_document(self, document: &[u8]) -> CanonicalError {
        CanonicalError {
            what: self.what,
            place: Place::of(self.offset, document),
        }
    }
}
