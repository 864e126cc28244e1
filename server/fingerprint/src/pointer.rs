//! JSON pointers (RFC 6901): the names of places in a document.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::DEPTH_MAX;

/// A JSON pointer in its text form: empty for the whole document, else `/` before each token,
/// with `~0` for `~` and `~1` for `/`. At most [`DEPTH_MAX`] tokens, as no document is deeper.
///
/// Pointers compare by the bytes of this text, which is the only spelling of a pointer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pointer(String);

/// A text is not a JSON pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PointerError {
    /// The text is not empty and does not begin with `/`.
    #[error("a JSON pointer is empty or begins with '/'")]
    NoSlash,
    /// A `~` is not followed by `0` or `1`.
    #[error("'~' at byte {offset} of a JSON pointer is not part of '~0' or '~1'")]
    Escape {
        /// Bytes before the `~`.
        offset: usize,
    },
    /// The pointer has more tokens than a document may have levels.
    #[error("a JSON pointer has at most {DEPTH_MAX} tokens, not {tokens}")]
    TooDeep {
        /// The number of tokens.
        tokens: usize,
    },
}

impl Pointer {
    /// The text form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the empty pointer, which addresses the whole document.
    #[must_use]
    pub fn is_whole_document(&self) -> bool {
        self.0.is_empty()
    }

    /// The tokens, unescaped.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.0.split('/').skip(1).map(|token| {
            if token.contains('~') {
                // "~01" is "~1": the order of the replacements matters.
                Cow::Owned(token.replace("~1", "/").replace("~0", "~"))
            } else {
                Cow::Borrowed(token)
            }
        })
    }
}

/// The array index that a token is, if it is one: digits without a leading zero.
pub(crate) fn index(token: &str) -> Option<usize> {
    let is_index = token == "0"
        || (!token.starts_with('0') && token.bytes().all(|byte| byte.is_ascii_digit()));
    if is_index { token.parse().ok() } else { None }
}

impl FromStr for Pointer {
    type Err = PointerError;

    fn from_str(text: &str) -> Result<Self, PointerError> {
        if !text.is_empty() && !text.starts_with('/') {
            return Err(PointerError::NoSlash);
        }
        let bytes = text.as_bytes();
        let is_lone = |offset: usize| !matches!(bytes.get(offset + 1), Some(b'0' | b'1'));
        if let Some((offset, _)) = text.match_indices('~').find(|&(offset, _)| is_lone(offset)) {
            return Err(PointerError::Escape { offset });
        }
        let tokens = text.matches('/').count();
        if tokens > DEPTH_MAX {
            return Err(PointerError::TooDeep { tokens });
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        text.parse::<Pointer>()
            .unwrap()
            .tokens()
            .map(Cow::into_owned)
            .collect()
    }

    #[test]
    fn pointers_are_split_and_unescaped() {
        assert_eq!(tokens(""), [""; 0]);
        assert_eq!(tokens("/"), [""]);
        assert_eq!(tokens("/foo/0"), ["foo", "0"]);
        assert_eq!(tokens("/a~1b/m~0n/~01/~10"), ["a/b", "m~n", "~1", "/0"]);
        assert_eq!(tokens("//x/"), ["", "x", ""]);
        assert_eq!("/a~1b".parse::<Pointer>().unwrap().to_string(), "/a~1b");
    }

    #[test]
    fn bad_pointers_are_refused() {
        assert_eq!("foo".parse::<Pointer>(), Err(PointerError::NoSlash));
        assert_eq!("#/foo".parse::<Pointer>(), Err(PointerError::NoSlash));
        assert_eq!(
            "/a~".parse::<Pointer>(),
            Err(PointerError::Escape { offset: 2 })
        );
        assert_eq!(
            "/~2/~1".parse::<Pointer>(),
            Err(PointerError::Escape { offset: 1 })
        );
        assert!("/a".repeat(128).parse::<Pointer>().is_ok());
        let too_deep = "/a".repeat(129).parse::<Pointer>();
        assert_eq!(too_deep, Err(PointerError::TooDeep { tokens: 129 }));
    }

    #[test]
    fn only_plain_digits_are_an_index() {
        assert_eq!(index("0"), Some(0));
        assert_eq!(index("10"), Some(10));
        for token in [
            "",
            "-",
            "00",
            "01",
            "+1",
            "-1",
            "1e0",
            "1.0",
            " 1",
            "99999999999999999999999",
        ] {
            assert_eq!(index(token), None, "{token:?}");
        }
    }
}
