//! Strings as RFC 8785 writes and orders them.

use std::cmp::Ordering;

/// Appends the canonical form of the unescaped `text`, quotes included (RFC 8785, 3.2.2.2).
pub(crate) fn write_quoted(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0x00..0x20 => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 0xf)]);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// Compares by UTF-16 code units (RFC 8785, 3.2.3).
///
/// UTF-8 sorts by code point, and UTF-16 differs from that only where surrogates, which stand for
/// U+10000 and above (lead bytes F0 to F4), meet U+E000 to U+FFFF (lead bytes EE and EF). The
/// first differing bytes stand at the same position of a character, so weighing them is enough.
pub(crate) fn utf16_order(a: &str, b: &str) -> Ordering {
    let weight = |byte: u8| {
        if matches!(byte, 0xee | 0xef) {
            byte + 0x10
        } else {
            byte
        }
    };
    match a.bytes().zip(b.bytes()).find(|(x, y)| x != y) {
        Some((x, y)) => weight(x).cmp(&weight(y)),
        None => a.len().cmp(&b.len()),
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
}
