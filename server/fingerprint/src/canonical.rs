//! Canonical JSON (RFC 8785) of a document under a rule.
//!
//! The parser has already judged the document: whatever arrives here is written.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use crate::parse::{self, Member, Span, Tree, Value};
use crate::pointer::index;
use crate::text::write_quoted;
use crate::{CanonicalError, Rule};

/// The canonical JSON of `document` with `rule` applied, as the
/// [crate's page](crate#canonical-json) describes it. Time and memory are linear in the size of
/// the document, but for sorting.
///
/// # Errors
/// [`CanonicalError`] when the document has no canonical form, whatever the rule.
pub fn canonicalize(document: &[u8], rule: &Rule) -> Result<Vec<u8>, CanonicalError> {
    let mut out = Vec::with_capacity(document.len());
    Document::parse(document)?.write(rule, &mut out);
    Ok(out)
}

/// A document that has a canonical form under every rule.
pub(crate) struct Document<'a>(Tree<'a>);

impl<'a> Document<'a> {
    pub(crate) fn parse(document: &'a [u8]) -> Result<Self, CanonicalError> {
        parse::document(document)
            .map(Self)
            .map_err(|fault| fault.in_document(document))
    }

    pub(crate) fn write(&self, rule: &Rule, out: &mut Vec<u8>) {
        let marks = (!rule.is_none()).then(|| Marks::of(rule));
        self.0.write(&self.0.root, marks.as_ref(), out);
    }
}

/// A rule as a tree of its pointers' tokens, walked beside the document.
#[derive(Default)]
struct Marks<'r> {
    ignore: bool,
    unordered: bool,
    below: BTreeMap<Cow<'r, str>, Marks<'r>>,
}

impl<'r> Marks<'r> {
    fn of(rule: &'r Rule) -> Self {
        let mut root = Self::default();
        for pointer in rule.ignore() {
            root.at(pointer.tokens()).ignore = true;
        }
        for pointer in rule.unordered() {
            root.at(pointer.tokens()).unordered = true;
        }
        root
    }

    fn at(&mut self, tokens: impl Iterator<Item = Cow<'r, str>>) -> &mut Self {
        tokens.fold(self, |marks, token| marks.below.entry(token).or_default())
    }
}

impl Tree<'_> {
    /// Writes `value`; `marks` are those at its place, and none where no pointer leads.
    fn write(&self, value: &Value, marks: Option<&Marks<'_>>, out: &mut Vec<u8>) {
        match *value {
            Value::Plain(form) => out.extend_from_slice(self.text(form)),
            Value::Respelled(form) => out.extend_from_slice(self.form(form)),
            Value::Array(elements) => match marks {
                None => self.write_unmarked_array(elements, out),
                Some(marks) => self.write_array(elements, marks, out),
            },
            Value::Object(members) => self.write_object(members, marks, out),
        }
    }

    fn write_object(&self, members: Span, marks: Option<&Marks<'_>>, out: &mut Vec<u8>) {
        out.push(b'{');
        let before = out.len();
        for Member { name, value, .. } in self.members(members) {
            let marks = marks.and_then(|marks| marks.below.get(name));
            if marks.is_some_and(|marks| marks.ignore) {
                continue;
            }
            match name {
                // What was written without escapes needs none.
                Cow::Borrowed(name) => {
                    out.push(b'"');
                    out.extend_from_slice(name.as_bytes());
                    out.push(b'"');
                }
                Cow::Owned(name) => write_quoted(name, out),
            }
            out.push(b':');
            self.write(value, marks, out);
            out.push(b',');
        }
        close(before, b'}', out);
    }

    /// Writes an array that no pointer leads into. Neighbours whose forms the document has side
    /// by side are copied at once.
    fn write_unmarked_array(&self, elements: Span, out: &mut Vec<u8>) {
        out.push(b'[');
        let before = out.len();
        let mut rest = self.elements(elements);
        while let [element, others @ ..] = rest {
            rest = others;
            if let Value::Plain(Span(from, mut to)) = *element {
                // A single byte between two elements is their comma.
                while let [Value::Plain(next), others @ ..] = rest
                    && next.0 == to + 1
                {
                    (to, rest) = (next.1, others);
                }
                out.extend_from_slice(self.text(Span(from, to)));
            } else {
                self.write(element, None, out);
            }
            out.push(b',');
        }
        close(before, b']', out);
    }

    fn write_array(&self, elements: Span, marks: &Marks<'_>, out: &mut Vec<u8>) {
        let below = marks.below.iter();
        let marks_at: BTreeMap<usize, &Marks<'_>> = below
            .filter_map(|(token, marks)| Some((index(token)?, marks)))
            .collect();
        let unordered = marks.unordered;
        let mut spans = Vec::new();
        out.push(b'[');
        let before = out.len();
        for (index, element) in self.elements(elements).iter().enumerate() {
            let marks = marks_at.get(&index).copied();
            if marks.is_some_and(|marks| marks.ignore) {
                continue;
            }
            let start = out.len();
            self.write(element, marks, out);
            if unordered {
                spans.push(start..out.len());
            }
            out.push(b',');
        }
        if unordered {
            sort_spans(spans, before, out);
        }
        close(before, b']', out);
    }
}

/// Puts `spans`, each followed by a comma and together all of `out` from `before`, in the order
/// of their bytes.
fn sort_spans(mut spans: Vec<Range<usize>>, before: usize, out: &mut Vec<u8>) {
    spans.sort_by(|a, b| out[a.clone()].cmp(&out[b.clone()]));
    let mut sorted = Vec::with_capacity(out.len() - before);
    for span in spans {
        sorted.extend_from_slice(&out[span]);
        sorted.push(b',');
    }
    out.truncate(before);
    out.append(&mut sorted);
}

/// Ends a list that began at `before`: its last comma, if it has any, gives way to the bracket.
fn close(before: usize, bracket: u8, out: &mut Vec<u8>) {
    if out.len() > before {
        out.pop();
    }
    out.push(bracket);
}
