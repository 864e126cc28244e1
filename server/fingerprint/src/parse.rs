//! A strict JSON parser (RFC 8259 and the [crate's](crate#canonical-json) grounds for refusal).
//!
//! It keeps what a general parser loses: repeated names and the spelling of numbers. It must not
//! know of rules. One pass; recursion ends at [`DEPTH_MAX`], so the stack is bounded.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::error::{Fault, Flaw};
use crate::text::{plain_len, utf16_order, utf16_prefix, write_char};
use crate::{DEPTH_MAX, number};

/// Elements, members and bytes of forms that room is made for before it is known how many there
/// are: enough for most documents of some kB, and little beside a larger one.
const AT_FIRST_MAX: usize = 256;

/// A document whose parts are in canonical form, and whose members in canonical order.
///
/// What an array or an object holds lies side by side, so that no container is allocated alone.
pub(crate) struct Tree<'a> {
    pub(crate) root: Value,
    text: &'a str,
    elements: Vec<Value>,
    members: Vec<Member<'a>>,
    /// The canonical forms of what the document spells otherwise.
    forms: Vec<u8>,
}

/// A value: where in its [`Tree`] it is.
#[derive(Clone, Copy)]
pub(crate) enum Value {
    /// The canonical form of a value that the document itself has.
    Plain(Span),
    /// The canonical form of a number or string that the document may spell otherwise.
    Respelled(Span),
    Array(Span),
    Object(Span),
}

/// From the first one up to, and without, the last.
#[derive(Clone, Copy)]
pub(crate) struct Span(pub(crate) usize, pub(crate) usize);

pub(crate) struct Member<'a> {
    /// Unescaped; borrowed if the document has no escapes in it.
    pub(crate) name: Cow<'a, str>,
    pub(crate) value: Value,
    /// [`utf16_prefix`] of the name.
    prefix: u64,
    /// Bytes of the document before the name.
    offset: usize,
}

impl<'a> Tree<'a> {
    pub(crate) fn text(&self, Span(from, to): Span) -> &[u8] {
        &self.text.as_bytes()[from..to]
    }

    pub(crate) fn form(&self, Span(from, to): Span) -> &[u8] {
        &self.forms[from..to]
    }

    pub(crate) fn elements(&self, Span(from, to): Span) -> &[Value] {
        &self.elements[from..to]
    }

    pub(crate) fn members(&self, Span(from, to): Span) -> &[Member<'a>] {
        &self.members[from..to]
    }
}

/// Parses a whole document.
pub(crate) fn document(bytes: &[u8]) -> Result<Tree<'_>, Fault> {
    let text = str::from_utf8(bytes).map_err(|error| Fault {
        what: Flaw::NotUtf8,
        offset: error.valid_up_to(),
    })?;
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
        open_elements: Vec::with_capacity((bytes.len() / 16).min(AT_FIRST_MAX)),
        open_members: Vec::with_capacity((bytes.len() / 32).min(AT_FIRST_MAX)),
        tree: Tree {
            root: Value::Plain(Span(0, 0)),
            text,
            elements: Vec::new(),
            members: Vec::new(),
            forms: Vec::with_capacity((bytes.len() / 8).min(AT_FIRST_MAX)),
        },
    };
    if text.starts_with('\u{feff}') {
        return Err(parser.fault(Flaw::ByteOrderMark));
    }
    parser.skip_blanks();
    if parser.peek().is_none() {
        return Err(parser.fault(Flaw::Empty));
    }
    parser.tree.root = parser.value()?;
    parser.skip_blanks();
    match parser.peek() {
        None => Ok(parser.tree),
        Some(_) => Err(parser.fault(Flaw::TrailingData)),
    }
}

/// Moves the items of a container from `open`, where they begin at `first`, behind `closed`.
fn close<T>(open: &mut Vec<T>, first: usize, closed: &mut Vec<T>) -> Span {
    let from = closed.len();
    if first == 0 && from == 0 {
        // Many a document is one container, or has one of most items.
        std::mem::swap(open, closed);
    } else {
        closed.extend(open.drain(first..));
    }
    Span(from, closed.len())
}

impl Member<'_> {
    /// Most names differ early, and then the names themselves need not be looked at.
    fn order(&self, other: &Self) -> Ordering {
        self.prefix
            .cmp(&other.prefix)
            .then_with(|| utf16_order(&self.name, &other.name))
    }

    fn is_named_as(&self, other: &Self) -> bool {
        self.prefix == other.prefix && self.name == other.name
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// Elements and members of the arrays and objects that are still open, innermost last: they
    /// move into the tree when their container closes.
    open_elements: Vec<Value>,
    open_members: Vec<Member<'a>>,
    tree: Tree<'a>,
}

impl<'a> Parser<'a> {
    fn fault(&self, what: Flaw) -> Fault {
        Fault {
            what,
            offset: self.at,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, expected: u8) -> bool {
        let found = self.peek() == Some(expected);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, expected: u8) -> Result<(), Fault> {
        if self.take(expected) {
            Ok(())
        } else {
            Err(self.fault(Flaw::Syntax))
        }
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Reads a value that begins here.
    fn value(&mut self) -> Result<Value, Fault> {
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => self.string_value(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            _ => Err(self.fault(Flaw::Syntax)),
        }
    }

    fn literal(&mut self, word: &str) -> Result<Value, Fault> {
        let found = &self.text.as_bytes()[self.at..];
        if !found.starts_with(word.as_bytes()) {
            return Err(self.fault(Flaw::Syntax));
        }
        let start = self.at;
        self.at += word.len();
        Ok(Value::Plain(Span(start, self.at)))
    }

    /// Steps into an array or object, whose bracket is here.
    fn enter(&mut self) -> Result<(), Fault> {
        if self.depth == DEPTH_MAX {
            return Err(self.fault(Flaw::TooDeep));
        }
        self.depth += 1;
        self.at += 1;
        self.skip_blanks();
        Ok(())
    }

    /// Whether another item follows in an array or object that ends with `bracket`.
    fn another(&mut self, bracket: u8) -> Result<bool, Fault> {
        self.skip_blanks();
        let another = self.take(b',');
        if another {
            self.skip_blanks();
        } else {
            self.expect(bracket)?;
        }
        Ok(another)
    }

    fn array(&mut self) -> Result<Value, Fault> {
        self.enter()?;
        let first = self.open_elements.len();
        let mut another = !self.take(b']');
        while another {
            let element = self.value()?;
            self.open_elements.push(element);
            another = self.another(b']')?;
        }
        self.depth -= 1;
        let elements = close(&mut self.open_elements, first, &mut self.tree.elements);
        Ok(Value::Array(elements))
    }

    fn object(&mut self) -> Result<Value, Fault> {
        self.enter()?;
        let first = self.open_members.len();
        let mut another = !self.take(b'}');
        while another {
            let member = self.member()?;
            self.open_members.push(member);
            another = self.another(b'}')?;
        }
        self.depth -= 1;
        let closed = &mut self.open_members[first..];
        // Stable, so that the later of two equal names is the one that is reported.
        closed.sort_by(Member::order);
        if let Some(pair) = closed.windows(2).find(|pair| pair[0].is_named_as(&pair[1])) {
            return Err(Fault {
                what: Flaw::RepeatedName,
                offset: pair[1].offset,
            });
        }
        let members = close(&mut self.open_members, first, &mut self.tree.members);
        Ok(Value::Object(members))
    }

    fn member(&mut self) -> Result<Member<'a>, Fault> {
        let offset = self.at;
        let name = self.name()?;
        self.skip_blanks();
        self.expect(b':')?;
        self.skip_blanks();
        let value = self.value()?;
        Ok(Member {
            prefix: utf16_prefix(&name),
            name,
            value,
            offset,
        })
    }

    fn string_value(&mut self) -> Result<Value, Fault> {
        let start = self.at;
        self.expect(b'"')?;
        self.unescaped_run();
        if self.take(b'"') {
            // Without escapes nothing in it needs one: the document's own bytes are canonical.
            return Ok(Value::Plain(Span(start, self.at)));
        }
        let from = self.tree.forms.len();
        let begun = &self.text.as_bytes()[start..self.at];
        self.tree.forms.extend_from_slice(begun);
        while !self.take(b'"') {
            write_char(self.escape()?, &mut self.tree.forms);
            let run = self.unescaped_run();
            self.tree.forms.extend_from_slice(run.as_bytes());
        }
        self.tree.forms.push(b'"');
        Ok(Value::Respelled(Span(from, self.tree.forms.len())))
    }

    /// Reads a string and unescapes it.
    fn name(&mut self) -> Result<Cow<'a, str>, Fault> {
        self.expect(b'"')?;
        let run = self.unescaped_run();
        if self.take(b'"') {
            return Ok(Cow::Borrowed(run));
        }
        let mut text = String::from(run);
        while !self.take(b'"') {
            text.push(self.escape()?);
            text.push_str(self.unescaped_run());
        }
        Ok(Cow::Owned(text))
    }

    /// Reads on to a quote, a backslash, a control character or the end.
    fn unescaped_run(&mut self) -> &'a str {
        let start = self.at;
        self.at += plain_len(&self.text.as_bytes()[start..]);
        &self.text[start..self.at]
    }

    fn escape(&mut self) -> Result<char, Fault> {
        let start = self.at;
        self.expect(b'\\')?;
        let letter = self.peek().ok_or(self.fault(Flaw::Syntax))?;
        let unescaped = match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(start),
            _ => return Err(self.fault(Flaw::Syntax)),
        };
        self.at += 1;
        Ok(unescaped)
    }

    /// Reads `u` and its digits, and the other half of a surrogate pair; `start` is the backslash.
    fn unicode_escape(&mut self, start: usize) -> Result<char, Fault> {
        let lone = Fault {
            what: Flaw::LoneSurrogate,
            offset: start,
        };
        let first = self.code_unit()?;
        if let Some(char) = char::from_u32(first.into()) {
            return Ok(char);
        }
        if !self.text[self.at..].starts_with("\\u") {
            return Err(lone);
        }
        self.at += 1;
        let second = self.code_unit()?;
        match char::decode_utf16([first, second]).next() {
            Some(Ok(char)) => Ok(char),
            _ => Err(lone),
        }
    }

    /// Reads `u` and four hexadecimal digits.
    fn code_unit(&mut self) -> Result<u16, Fault> {
        self.expect(b'u')?;
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let digit = digit.ok_or(self.fault(Flaw::Syntax))?;
            unit = unit << 4 | digit as u16;
            self.at += 1;
        }
        Ok(unit)
    }

    // Apart, so that all other values are read by short code.
    #[inline(never)]
    fn number(&mut self) -> Result<Value, Fault> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        let has_fraction = self.take(b'.');
        if has_fraction {
            self.digits()?;
        }
        let mantissa = &self.text[start..self.at];
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        } else if let Some(form) = number::quick_form(mantissa, has_fraction) {
            return Ok(Value::Plain(Span(start, start + form.len())));
        }
        let text = &self.text[start..self.at];
        let from = self.tree.forms.len();
        number::write(text, &mut self.tree.forms).map_err(|number::Inexact| Fault {
            what: Flaw::InexactNumber,
            offset: start,
        })?;
        Ok(Value::Respelled(Span(from, self.tree.forms.len())))
    }

    /// Reads one digit or more.
    fn digits(&mut self) -> Result<(), Fault> {
        let count = number::digits_len(&self.text.as_bytes()[self.at..]);
        self.at += count;
        if count == 0 {
            Err(self.fault(Flaw::Syntax))
        } else {
            Ok(())
        }
    }
}
