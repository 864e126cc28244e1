//! A strict JSON parser (RFC 8259 and the [crate's](crate#canonical-json) grounds for refusal).
//!
//! It keeps what a general parser loses: repeated names and the spelling of numbers. It must not
//! know of rules. One pass; recursion ends at [`DEPTH_MAX`], so the stack is bounded.

use std::borrow::Cow;

use crate::error::{Fault, Flaw};
use crate::text::{utf16_order, write_quoted};
use crate::{DEPTH_MAX, number};

/// A value whose parts are in canonical form, and whose members in canonical order.
pub(crate) enum Value<'a> {
    /// The canonical form of a value that the document itself has.
    Plain(&'a [u8]),
    /// The canonical form of a number or string that the document may spell otherwise.
    Respelled(Box<[u8]>),
    Array(Box<[Value<'a>]>),
    Object(Box<[Member<'a>]>),
}

pub(crate) struct Member<'a> {
    /// Unescaped; borrowed if the document has no escapes in it.
    pub(crate) name: Cow<'a, str>,
    pub(crate) value: Value<'a>,
    /// Bytes of the document before the name.
    offset: usize,
}

/// Parses a whole document.
pub(crate) fn document(bytes: &[u8]) -> Result<Value<'_>, Fault> {
    let text = str::from_utf8(bytes).map_err(|error| Fault {
        what: Flaw::NotUtf8,
        offset: error.valid_up_to(),
    })?;
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
        elements: Vec::new(),
        members: Vec::new(),
        scratch: Vec::new(),
    };
    if text.starts_with('\u{feff}') {
        return Err(parser.fault(Flaw::ByteOrderMark));
    }
    parser.skip_blanks();
    if parser.peek().is_none() {
        return Err(parser.fault(Flaw::Empty));
    }
    let value = parser.value()?;
    parser.skip_blanks();
    match parser.peek() {
        None => Ok(value),
        Some(_) => Err(parser.fault(Flaw::TrailingData)),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// Elements and members of the arrays and objects that are still open, innermost last: each
    /// container is allocated once, when its size is known.
    elements: Vec<Value<'a>>,
    members: Vec<Member<'a>>,
    scratch: Vec<u8>,
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
    fn value(&mut self) -> Result<Value<'a>, Fault> {
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

    fn literal(&mut self, word: &str) -> Result<Value<'a>, Fault> {
        let found = &self.text.as_bytes()[self.at..];
        if !found.starts_with(word.as_bytes()) {
            return Err(self.fault(Flaw::Syntax));
        }
        self.at += word.len();
        Ok(Value::Plain(&found[..word.len()]))
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

    fn array(&mut self) -> Result<Value<'a>, Fault> {
        self.enter()?;
        let first = self.elements.len();
        let mut another = !self.take(b']');
        while another {
            let element = self.value()?;
            self.elements.push(element);
            another = self.another(b']')?;
        }
        self.depth -= 1;
        Ok(Value::Array(self.elements.drain(first..).collect()))
    }

    fn object(&mut self) -> Result<Value<'a>, Fault> {
        self.enter()?;
        let first = self.members.len();
        let mut another = !self.take(b'}');
        while another {
            let member = self.member()?;
            self.members.push(member);
            another = self.another(b'}')?;
        }
        self.depth -= 1;
        let members = &mut self.members[first..];
        // Stable, so that the later of two equal names is the one that is reported.
        members.sort_by(|a, b| utf16_order(&a.name, &b.name));
        if let Some(pair) = members.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(Fault {
                what: Flaw::RepeatedName,
                offset: pair[1].offset,
            });
        }
        Ok(Value::Object(self.members.drain(first..).collect()))
    }

    fn member(&mut self) -> Result<Member<'a>, Fault> {
        let offset = self.at;
        let name = self.string()?;
        self.skip_blanks();
        self.expect(b':')?;
        self.skip_blanks();
        let value = self.value()?;
        Ok(Member {
            name,
            value,
            offset,
        })
    }

    fn string_value(&mut self) -> Result<Value<'a>, Fault> {
        let start = self.at;
        match self.string()? {
            // Without escapes nothing in it needs one: the document's own bytes are canonical.
            Cow::Borrowed(_) => Ok(Value::Plain(&self.text.as_bytes()[start..self.at])),
            Cow::Owned(text) => {
                self.scratch.clear();
                write_quoted(&text, &mut self.scratch);
                Ok(Value::Respelled(self.scratch.as_slice().into()))
            }
        }
    }

    /// Reads a string and unescapes it.
    fn string(&mut self) -> Result<Cow<'a, str>, Fault> {
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
        let rest = &self.text.as_bytes()[self.at..];
        let stop = |byte: &u8| matches!(byte, b'"' | b'\\' | 0x00..0x20);
        let len = rest.iter().position(stop).unwrap_or(rest.len());
        self.at += len;
        &self.text[self.at - len..self.at]
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

    fn number(&mut self) -> Result<Value<'a>, Fault> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        let mantissa = &self.text[start..self.at];
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        } else if let Some(form) = number::without_trailing_zeros(mantissa) {
            return Ok(Value::Plain(form.as_bytes()));
        }
        let text = &self.text[start..self.at];
        self.scratch.clear();
        number::write(text, &mut self.scratch).map_err(|number::Inexact| Fault {
            what: Flaw::InexactNumber,
            offset: start,
        })?;
        Ok(Value::Respelled(self.scratch.as_slice().into()))
    }

    /// Reads one digit or more.
    fn digits(&mut self) -> Result<(), Fault> {
        let rest = &self.text.as_bytes()[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count == 0 {
            Err(self.fault(Flaw::Syntax))
        } else {
            Ok(())
        }
    }
}
