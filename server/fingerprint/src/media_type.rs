//! Media types, reduced to what a fingerprint compares.

use std::fmt;
use std::str::FromStr;

/// `type/subtype` in lower case, or empty when the payload has no media type.
///
/// Parameters are dropped: `application/json; charset=utf-8` is `application/json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MediaType(String);

/// A text is not a media type (RFC 9110, 8.3.1; name lengths from RFC 6838, 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MediaTypeError {
    /// There is no `/` between a type and a subtype.
    #[error("a media type is type/subtype, or empty when there is none")]
    NoSlash,
    /// Type or subtype is empty or holds something else than token characters.
    #[error("type and subtype of a media type are tokens: letters, digits and !#$%&'*+-.^_`|~")]
    NotAToken,
    /// Type or subtype is too long.
    #[error("type and subtype of a media type are at most {NAME_LEN_MAX} characters each")]
    TooLong,
}

const NAME_LEN_MAX: usize = 127;

impl MediaType {
    /// Reads a media type as a `Content-Type` header has it; empty or blank means that there is
    /// none. What follows the first `;` is not looked at.
    ///
    /// # Errors
    /// [`MediaTypeError`] when type or subtype is missing, too long, or not a token.
    pub fn parse(text: &str) -> Result<Self, MediaTypeError> {
        let blank = [' ', '\t'];
        if text.trim_matches(blank).is_empty() {
            return Ok(Self::default());
        }
        let essence = text
            .split(';')
            .next()
            .unwrap_or_default()
            .trim_matches(blank);
        let (kind, subtype) = essence.split_once('/').ok_or(MediaTypeError::NoSlash)?;
        for name in [kind, subtype] {
            if name.is_empty() || !name.bytes().all(is_token) {
                return Err(MediaTypeError::NotAToken);
            }
            if name.len() > NAME_LEN_MAX {
                return Err(MediaTypeError::TooLong);
            }
        }
        Ok(Self(essence.to_ascii_lowercase()))
    }

    /// The text form; empty when there is no media type.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

impl FromStr for MediaType {
    type Err = MediaTypeError;

    fn from_str(text: &str) -> Result<Self, MediaTypeError> {
        Self::parse(text)
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_blanks_and_parameters_do_not_matter() {
        for (text, expected) in [
            ("", ""),
            (" \t", ""),
            ("application/json", "application/json"),
            ("Application/JSON", "application/json"),
            (" application/json ;charset=utf-8", "application/json"),
            ("application/json;charset=\"a/b;c\"", "application/json"),
            ("application/vnd.x+json;", "application/vnd.x+json"),
        ] {
            assert_eq!(
                MediaType::parse(text).unwrap().as_str(),
                expected,
                "{text:?}"
            );
        }
    }

    #[test]
    fn what_is_no_media_type_is_refused() {
        for (text, expected) in [
            ("json", MediaTypeError::NoSlash),
            (";charset=utf-8", MediaTypeError::NoSlash),
            ("/json", MediaTypeError::NotAToken),
            ("application/", MediaTypeError::NotAToken),
            ("a/b/c", MediaTypeError::NotAToken),
            ("text/pl ain", MediaTypeError::NotAToken),
            ("text/plain, text/html", MediaTypeError::NotAToken),
            ("text/pl\u{e4}in", MediaTypeError::NotAToken),
            (&format!("a/{}", "b".repeat(128)), MediaTypeError::TooLong),
        ] {
            assert_eq!(MediaType::parse(text), Err(expected), "{text:?}");
        }
    }
}
