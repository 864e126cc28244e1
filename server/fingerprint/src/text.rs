//! Strings as RFC 8785 writes and orders them.

use std::cmp::Ordering;

/// Appends the canonical form of the unescaped `text`, quotes included (RFC 8785, 3.2.2.2).
pub(crate) fn write_quoted(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    out.push(b'"');
    loop {
        let len = plain_len(rest);
        out.extend_from_slice(&rest[..len]);
        let Some(byte) = rest.get(len) else {
            break;
        };
        write_escape(*byte, out);
        rest = &rest[len + 1..];
    }
    out.push(b'"');
}

/// Appends the canonical form of one character of a string.
pub(crate) fn write_char(char: char, out: &mut Vec<u8>) {
    match char {
        '"' | '\\' | '\0'..'\u{20}' => write_escape(char as u8, out),
        _ => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// Appends the escape for a quote, a backslash or a control character.
fn write_escape(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let letter = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        _ => {
            out.extend_from_slice(b"\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 0xf)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', letter]);
}

/// How many bytes there are before the first one that a string holds only escaped: a quote, a
/// backslash, a control character.
pub(crate) fn plain_len(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks();
    for (at, word) in words.iter().enumerate() {
        let stops = stops(u64::from_le_bytes(*word));
        if stops != 0 {
            return 8 * at + stops.trailing_zeros() as usize / 8;
        }
    }
    let stop = |byte: &u8| matches!(byte, b'"' | b'\\' | 0x00..0x20);
    let len = tail.iter().position(stop).unwrap_or(tail.len());
    bytes.len() - tail.len() + len
}

/// Eight bytes at once: the lowest bit set is the highest of the lowest byte that a string holds
/// only escaped; zero when there is none. Bits above that one may be set by its borrow.
fn stops(word: u64) -> u64 {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    let below = |word: u64, bound: u64| word.wrapping_sub(EACH * bound) & !word;
    let is = |byte: u8| below(word ^ (EACH * u64::from(byte)), 1);
    (below(word, 0x20) | is(b'"') | is(b'\\')) & (EACH << 7)
}

/// Compares by UTF-16 code units (RFC 8785, 3.2.3).
///
/// UTF-8 sorts by code point, and UTF-16 differs from that only where surrogates, which stand for
/// U+10000 and above (lead bytes F0 to F4), meet U+E000 to U+FFFF (lead bytes EE and EF). The
/// first differing bytes stand at the same position of a character, so weighing them is enough.
pub(crate) fn utf16_order(a: &str, b: &str) -> Ordering {
    let (a_words, _) = a.as_bytes().as_chunks::<8>();
    let (b_words, _) = b.as_bytes().as_chunks::<8>();
    let words = a_words.iter().zip(b_words);
    let same = 8 * words.take_while(|(x, y)| x == y).count();
    let (a, b) = (&a.as_bytes()[same..], &b.as_bytes()[same..]);
    match a.iter().zip(b).find(|(x, y)| x != y) {
        Some((x, y)) => weight(*x).cmp(&weight(*y)),
        None => a.len().cmp(&b.len()),
    }
}

/// The beginning of `text` as a number: where those of two texts differ, they order them as
/// [`utf16_order`] does.
pub(crate) fn utf16_prefix(text: &str) -> u64 {
    let mut first = [0; 8];
    let len = text.len().min(8);
    first[..len].copy_from_slice(&text.as_bytes()[..len]);
    u64::from_be_bytes(first.map(weight))
}

/// Puts a byte of UTF-8 where the order of UTF-16 has it.
fn weight(byte: u8) -> u8 {
    if matches!(byte, 0xee | 0xef) {
        byte + 0x10
    } else {
        byte
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_utf16_code_units() {
        let texts = [
            "",
            "\0",
            "a",
            "a\0",
            "aa",
            "b",
            "\u{7f}",
            "\u{80}",
            "\u{7ff}",
            "\u{800}",
            "\u{d7ff}",
            "\u{e000}",
            "\u{fb33}",
            "\u{ffff}",
            "\u{10000}",
            "\u{1f600}",
            "\u{10ffff}",
            "x\u{ffff}",
            "x\u{10000}",
            "x\u{10ffff}a",
            "x\u{ff5e}a",
        ];
        for a in texts {
            for b in texts {
                let expected = a.encode_utf16().cmp(b.encode_utf16());
                assert_eq!(utf16_order(a, b), expected, "{a:?} and {b:?}");
                let prefixes = utf16_prefix(a).cmp(&utf16_prefix(b));
                assert!(prefixes.is_eq() || prefixes == expected, "{a:?} and {b:?}");
                // What is the same in front, over a word's length or more, changes nothing.
                for front in ["1234567", "12345678", "123456789abcdef"] {
                    let (a, b) = (format!("{front}{a}"), format!("{front}{b}"));
                    assert_eq!(utf16_order(&a, &b), expected, "{a:?} and {b:?}");
                }
            }
        }
    }

    #[test]
    fn only_quotes_backslashes_and_controls_are_escaped() {
        let mut out = Vec::new();
        write_quoted(
            "\u{0}\u{8}\t\n\u{b}\u{c}\r\u{1f} /\"\\\u{7f}\u{2028}\u{20ac}",
            &mut out,
        );
        let expected = "\"\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f /\\\"\\\\\u{7f}\u{2028}\u{20ac}\"";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn every_byte_that_needs_an_escape_ends_a_run_wherever_it_stands() {
        for byte in 0..=u8::MAX {
            let is_plain = !matches!(byte, b'"' | b'\\' | 0x00..0x20);
            for len in 1..20 {
                for at in 0..len {
                    // Behind it stand others that would be taken for one of those after a borrow.
                    let mut bytes = vec![b'!'; len];
                    bytes[..at].fill(0xa0);
                    bytes[at] = byte;
                    let expected = if is_plain { len } else { at };
                    assert_eq!(plain_len(&bytes), expected, "{bytes:x?}");
                }
            }
        }
    }
}
