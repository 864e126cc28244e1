//! Numbers as ECMAScript writes them (RFC 8785, 3.2.2.3), and only those that it writes exactly.

/// A double's shortest form has at most this many significant digits.
const DIGITS_MAX: usize = 17;

/// Every decimal of up to this many significant digits is the shortest form of its double, as
/// long as the double is a normal one (IEEE 754: `DBL_DIG`). So these need no arithmetic.
const DIGITS_ALWAYS_EXACT: usize = 15;

/// The number's decimal value is not that of its ECMAScript form.
#[derive(Debug)]
pub(crate) struct Inexact;

/// No double has a longer form than this, in bytes.
const FORM_LEN_MAX: usize = 32;

/// How many digits there are before the first byte that is none.
pub(crate) fn digits_len(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks();
    for (at, word) in words.iter().enumerate() {
        let others = others(u64::from_le_bytes(*word));
        if others != 0 {
            return 8 * at + others.trailing_zeros() as usize / 8;
        }
    }
    let len = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
    bytes.len() - tail.len() + len
}

/// Eight bytes at once: the highest bit of each byte that is no digit.
fn others(word: u64) -> u64 {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    let digits = word ^ (EACH * u64::from(b'0'));
    // 0 to 9 stay below the highest bit, 10 to 127 reach it, and none runs over.
    let sum = (digits & (EACH * 0x7f)) + EACH * (0x80 - 10);
    (sum | digits) & (EACH << 7)
}

/// The ECMAScript form of `text`, a number that follows the JSON grammar and has no exponent, if
/// that is what remains without the trailing zeros of its fraction.
///
/// Quick, and enough for most numbers that programs write; [`write`] judges all others.
pub(crate) fn quick_form(text: &str, has_fraction: bool) -> Option<&str> {
    let form = if has_fraction {
        let digits = text.bytes().rev().take_while(|&byte| byte == b'0').count();
        let form = &text[..text.len() - digits];
        form.strip_suffix('.').unwrap_or(form)
    } else {
        text
    };
    let magnitude = form.strip_prefix('-').unwrap_or(form);
    let is_form = if form.len() <= DIGITS_ALWAYS_EXACT {
        // ECMAScript writes smaller fractions with an exponent, and zero without a sign.
        !magnitude.starts_with("0.000000") && form != "-0"
    } else if has_fraction {
        // serde_json has fewer numbers without exponent than ECMAScript, in the same form but for
        // whole ones, which it writes with a fraction.
        form.len() <= FORM_LEN_MAX
            && form
                .parse()
                .is_ok_and(|double| shortest(double, &mut [0; _]) == form.as_bytes())
    } else {
        // Each whole number is a double of its own, and no shorter one is as near.
        magnitude.len() <= DIGITS_MAX && magnitude.parse().is_ok_and(|whole: u64| whole < 1 << 53)
    };
    is_form.then_some(form)
}

/// Appends the ECMAScript form of `text`, a number that follows the JSON grammar.
///
/// Linear in the length of `text`, however long its digits or large its exponent.
pub(crate) fn write(text: &str, out: &mut Vec<u8>) -> Result<(), Inexact> {
    let (negative, magnitude) = text
        .strip_prefix('-')
        .map_or((false, text), |rest| (true, rest));
    let decimal = Decimal::read(magnitude.as_bytes())?;
    if !decimal.is_form_of_a_double(magnitude) {
        return Err(Inexact);
    }
    if negative && decimal.len > 0 {
        out.push(b'-');
    }
    decimal.write(out);
    Ok(())
}

/// The shortest digits that read back as `double`, the nearest of several, and the even one of
/// two as near: what RFC 8785 asks for. The standard library's forms break such a tie otherwise.
fn shortest(double: f64, buffer: &mut [u8; FORM_LEN_MAX]) -> &[u8] {
    let mut rest = &mut buffer[..];
    serde_json::to_writer(&mut rest, &double).expect("the buffer takes any double");
    let len = FORM_LEN_MAX - rest.len();
    &buffer[..len]
}

/// The value 0.d₁d₂...dₙ × 10^point, with d₁ and dₙ not zero; no digits at all for zero.
#[derive(Debug, Default)]
struct Decimal {
    digits: [u8; DIGITS_MAX],
    len: usize,
    point: i64,
}

impl Decimal {
    /// Reads a JSON number without sign. Inexact when it has too many significant digits.
    fn read(text: &[u8]) -> Result<Self, Inexact> {
        let mantissa_len = text
            .iter()
            .take_while(|byte| !matches!(byte, b'e' | b'E'))
            .count();
        let mut decimal = Self::default();
        let mut zeros = 0;
        let mut in_fraction = false;
        for &byte in &text[..mantissa_len] {
            match byte {
                b'.' => {
                    in_fraction = true;
                    continue;
                }
                // Zeros count only once a digit other than zero follows them.
                b'0' if decimal.len > 0 => zeros += 1,
                b'0' => {}
                _ => {
                    let end = decimal.len + zeros + 1;
                    if end > DIGITS_MAX {
                        return Err(Inexact);
                    }
                    decimal.digits[decimal.len..end].fill(b'0');
                    decimal.digits[end - 1] = byte;
                    decimal.len = end;
                    zeros = 0;
                }
            }
            match (in_fraction, decimal.len > 0) {
                (false, true) => decimal.point += 1,
                (true, false) => decimal.point -= 1,
                _ => {}
            }
        }
        if decimal.len == 0 {
            return Ok(Self::default());
        }
        decimal.point = decimal
            .point
            .saturating_add(exponent(&text[mantissa_len..]));
        Ok(decimal)
    }

    fn digits(&self) -> &[u8] {
        &self.digits[..self.len]
    }

    /// Whether this value, as read from `text`, is exactly that of a double's ECMAScript form.
    fn is_form_of_a_double(&self, text: &str) -> bool {
        match self.point {
            _ if self.len == 0 => true,
            -306..=308 if self.len <= DIGITS_ALWAYS_EXACT => true,
            -324..=309 => self.is_form_of(text.parse().expect("JSON numbers are Rust numbers")),
            _ => false,
        }
    }

    fn is_form_of(&self, double: f64) -> bool {
        double.is_finite()
            && Self::read(shortest(double, &mut [0; _]))
                .is_ok_and(|form| form.digits() == self.digits() && form.point == self.point)
    }

    /// Appends Number::toString of ECMA-262, whose *k* is `len` and whose *n* is `point`.
    fn write(&self, out: &mut Vec<u8>) {
        let digits = self.digits();
        let add_zeros = |count: i64, out: &mut Vec<u8>| {
            out.resize(out.len() + usize::try_from(count).unwrap_or(0), b'0');
        };
        let point = usize::try_from(self.point).unwrap_or(0);
        match self.point {
            _ if digits.is_empty() => out.push(b'0'),
            1..=21 if point >= digits.len() => {
                out.extend_from_slice(digits);
                add_zeros(self.point - self.len as i64, out);
            }
            1..=21 => {
                out.extend_from_slice(&digits[..point]);
                out.push(b'.');
                out.extend_from_slice(&digits[point..]);
            }
            -5..=0 => {
                out.extend_from_slice(b"0.");
                add_zeros(-self.point, out);
                out.extend_from_slice(digits);
            }
            _ => {
                out.push(digits[0]);
                if digits.len() > 1 {
                    out.push(b'.');
                    out.extend_from_slice(&digits[1..]);
                }
                let exponent = self.point - 1;
                out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
                let exponent = exponent.unsigned_abs();
                // Doubles end at 308 above and at 324 below.
                for unit in [100, 10, 1].into_iter().filter(|unit| exponent >= *unit) {
                    out.push(b'0' + (exponent / unit % 10) as u8);
                }
            }
        }
    }
}

/// Reads `e+12`, `E-3` or nothing, and stops counting where no double reaches.
fn exponent(text: &[u8]) -> i64 {
    let (negative, digits) = match text {
        [] => return 0,
        [_, b'-', digits @ ..] => (true, digits),
        [_, b'+', digits @ ..] | [_, digits @ ..] => (false, digits),
    };
    let magnitude = digits.iter().fold(0_i64, |sum, &digit| {
        sum.saturating_mul(10)
            .saturating_add(i64::from(digit - b'0'))
    });
    if negative { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_trailing_zeros(text: &str) -> Option<&str> {
        quick_form(text, text.contains('.'))
    }

    /// The form by the slow way, which the quick way must agree with where it has an answer.
    fn form(text: &str) -> Option<String> {
        let mut out = Vec::new();
        let slow = write(text, &mut out)
            .ok()
            .map(|()| str::from_utf8(&out).unwrap());
        if !text.contains(['e', 'E']) {
            let quick = without_trailing_zeros(text);
            assert!(
                quick.is_none() || quick == slow,
                "{text}: {quick:?} is not {slow:?}"
            );
        }
        slow.map(str::to_owned)
    }

    #[test]
    fn numbers_are_written_as_ecmascript_writes_them() {
        for (text, expected) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.00e-7", "0"),
            ("0e999999999999999999999", "0"),
            ("1000", "1000"),
            ("1000.000", "1000"),
            ("1e3", "1000"),
            ("0.001E+6", "1000"),
            ("-12.50", "-12.5"),
            ("0.1", "0.1"),
            ("100000000000000000000", "100000000000000000000"),
            ("1e21", "1e+21"),
            ("123e20", "1.23e+22"),
            ("0.000001", "0.000001"),
            ("-0.000001230", "-0.00000123"),
            ("-0.000000123", "-1.23e-7"),
            ("-0.0", "0"),
            ("1.000000000000000", "1"),
            ("100000000000000000000.00", "100000000000000000000"),
            ("12345678901234568.0", "12345678901234568"),
            ("0.0000001", "1e-7"),
            ("1.25e-7", "1.25e-7"),
            ("9007199254740991", "9007199254740991"),
            ("9007199254740992", "9007199254740992"),
            ("9223372036854776000", "9223372036854776000"),
            ("333333333.3333333", "333333333.3333333"),
            ("1964659879135362.2", "1964659879135362.2"),
            ("-210077110520573.12", "-210077110520573.12"),
            ("5.684341886080802e-14", "5.684341886080802e-14"),
            ("5e-324", "5e-324"),
            ("2.2250738585072014e-308", "2.2250738585072014e-308"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ] {
            assert_eq!(form(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn numbers_that_a_double_would_change_are_refused() {
        for text in [
            "9007199254740993",
            "9223372036854775807",
            "9223372036854775808",
            "-9223372036854775809",
            "1.000000000000000005",
            "0.1000000000000000055511151231257827",
            "333333333.33333329",
            "1964659879135362.3",
            "-210077110520573.13",
            "5.6843418860808015e-14",
            "4.9e-324",
            "4e-324",
            "2e-324",
            "1e-400",
            "1.7976931348623159e308",
            "1e309",
            "1e400",
            "-1e9999999999999999999999999",
            "1e-9999999999999999999999999",
        ] {
            assert_eq!(form(text), None, "{text}");
        }
    }

    #[test]
    fn short_decimals_never_need_their_double() {
        for point in -306..=308 {
            for digits in [
                "1",
                "5",
                "9",
                "123456789012345",
                "999999999999999",
                "100000000000001",
            ] {
                let text = format!("0.{digits}e{point}");
                let decimal = Decimal::read(text.as_bytes()).unwrap();
                assert!(decimal.is_form_of(text.parse().unwrap()), "{text}");
            }
        }
    }

    #[test]
    fn endless_digits_and_exponents_are_read_in_one_pass() {
        let zeros = "0".repeat(5_000_000);
        let nines = "9".repeat(5_000_000);
        assert_eq!(form(&format!("1{zeros}e-5000000")).as_deref(), Some("1"));
        assert_eq!(form(&format!("0.{zeros}1e5000001")).as_deref(), Some("1"));
        assert_eq!(form(&format!("1.{zeros}")).as_deref(), Some("1"));
        assert_eq!(form(&format!("1.{zeros}1")), None);
        assert_eq!(form(&nines), None);
        assert_eq!(form(&format!("1e{nines}")), None);
        assert_eq!(form(&format!("0e-{nines}")).as_deref(), Some("0"));
    }

    #[test]
    fn every_byte_that_is_no_digit_ends_the_digits_wherever_it_stands() {
        for byte in 0..=u8::MAX {
            for len in 1..20 {
                for at in 0..len {
                    let mut bytes = vec![b'9'; len];
                    bytes[at] = byte;
                    let expected = if byte.is_ascii_digit() { len } else { at };
                    assert_eq!(digits_len(&bytes), expected, "{bytes:x?}");
                }
            }
        }
    }
}
