//! Rules: which parts of a JSON document do not count for its fingerprint.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::Pointer;
use crate::digest::write_part;

/// What to leave out of account in a JSON document; the default is nothing.
///
/// See the [crate's page](crate#canonical-json) for what the pointers do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rule {
    ignore: Vec<Pointer>,
    unordered: Vec<Pointer>,
    /// Computed from the pointers.
    id: RuleId,
}

/// A rule cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The empty pointer among those to ignore would make all documents equal.
    #[error("a rule cannot ignore the whole document: an ignore pointer must not be empty")]
    IgnoresEverything,
}

impl Rule {
    /// A rule that removes what `ignore` addresses and takes the arrays that `unordered`
    /// addresses as multisets. Order and repetition within each list do not matter.
    ///
    /// # Errors
    /// [`RuleError::IgnoresEverything`] when `ignore` holds the empty pointer.
    pub fn new(mut ignore: Vec<Pointer>, mut unordered: Vec<Pointer>) -> Result<Self, RuleError> {
        if ignore.iter().any(Pointer::is_whole_document) {
            return Err(RuleError::IgnoresEverything);
        }
        for pointers in [&mut ignore, &mut unordered] {
            pointers.sort_unstable();
            pointers.dedup();
        }
        let id = id(&ignore, &unordered);
        Ok(Self {
            ignore,
            unordered,
            id,
        })
    }

    /// The pointers to what is removed, sorted.
    #[must_use]
    pub fn ignore(&self) -> &[Pointer] {
        &self.ignore
    }

    /// The pointers to arrays whose order does not matter, sorted.
    #[must_use]
    pub fn unordered(&self) -> &[Pointer] {
        &self.unordered
    }

    /// Whether this rule changes nothing in any document.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.ignore.is_empty() && self.unordered.is_empty()
    }

    /// The id: equal for equal rules, and stored beside each digest made under this one.
    #[must_use]
    pub fn id(&self) -> RuleId {
        self.id.clone()
    }
}

fn id(ignore: &[Pointer], unordered: &[Pointer]) -> RuleId {
    if ignore.is_empty() && unordered.is_empty() {
        return RuleId::none();
    }
    let mut normalised = Vec::new();
    write_part(b"reprise-rule-1", &mut normalised);
    for pointers in [ignore, unordered] {
        let mut list = Vec::new();
        for pointer in pointers {
            write_part(pointer.as_str().as_bytes(), &mut list);
        }
        write_part(&list, &mut normalised);
    }
    let digest = Sha256::digest(&normalised);
    RuleId(
        digest[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
    )
}

/// Names a [`Rule`]: at most 32 characters of `0-9a-f`, empty for the rule that changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(String);

/// A text is not a rule id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a rule id is at most {RULE_ID_LEN_MAX} characters of 0-9 and a-f")]
pub struct RuleIdError;

const RULE_ID_LEN_MAX: usize = 32;

impl RuleId {
    /// The id of the rule that changes nothing, and of every raw fingerprint.
    #[must_use]
    pub const fn none() -> Self {
        Self(String::new())
    }

    /// The text form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for RuleId {
    type Error = RuleIdError;

    fn try_from(text: String) -> Result<Self, RuleIdError> {
        let fits = text.len() <= RULE_ID_LEN_MAX
            && text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if fits {
            Ok(Self(text))
        } else {
            Err(RuleIdError)
        }
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointers(texts: &[&str]) -> Vec<Pointer> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn order_and_repetition_of_pointers_do_not_change_a_rule() {
        let one = Rule::new(pointers(&["/b", "/a", "/b"]), pointers(&["/c"])).unwrap();
        let other = Rule::new(pointers(&["/a", "/b"]), pointers(&["/c", "/c"])).unwrap();
        assert_eq!(one, other);
        assert_eq!(one.id(), other.id());
        assert_eq!(one.ignore(), pointers(&["/a", "/b"]));
    }

    #[test]
    fn rules_that_differ_have_ids_that_differ() {
        let lists: [(&[&str], &[&str]); 6] = [
            (&[], &[]),
            (&["/a"], &[]),
            (&[], &["/a"]),
            (&["/a", "/b"], &[]),
            (&["/a"], &["/b"]),
            (&["/a/b"], &[]),
        ];
        let mut ids: Vec<RuleId> = lists
            .iter()
            .map(|(ignore, unordered)| {
                Rule::new(pointers(ignore), pointers(unordered))
                    .unwrap()
                    .id()
            })
            .collect();
        assert_eq!(ids[0], RuleId::none());
        assert!(ids[1..].iter().all(|id| id.as_str().len() == 16));
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), lists.len());
    }

    #[test]
    fn the_whole_document_is_not_ignored_but_may_be_unordered() {
        assert_eq!(
            Rule::new(pointers(&["/a", ""]), vec![]),
            Err(RuleError::IgnoresEverything)
        );
        assert!(Rule::new(vec![], pointers(&[""])).is_ok());
    }

    #[test]
    fn rule_ids_are_short_lower_case_hex() {
        assert_eq!(RuleId::try_from(String::new()), Ok(RuleId::none()));
        assert!(RuleId::try_from("0123456789abcdef".repeat(2)).is_ok());
        for text in ["A", "g", " ", "0x1", &"0".repeat(33)] {
            assert_eq!(
                RuleId::try_from(text.to_owned()),
                Err(RuleIdError),
                "{text}"
            );
        }
    }
}
