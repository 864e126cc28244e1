//! What a record is called: the identity, and the two texts computed from it.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::text::{self, FieldError};

/// Bytes of a tenant, an operation or a subject.
pub const PART_BYTES_MAX: usize = 128;
/// Bytes of a key.
pub const KEY_BYTES_MAX: usize = 255;

/// The identity of a record: four texts, each compared byte by byte. One that exists is
/// valid. Copies share the texts.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RecordName {
    /// Tenant, operation, subject and key, one after the other.
    texts: Arc<str>,
    /// Where the first three of them end; all of them together have less than 1 KiB.
    ends: [u16; 3],
    id: RecordId,
}

impl RecordName {
    /// Checks the parts. `subject` may be empty.
    ///
    /// # Errors
    /// Names the first field that is not allowed, as `record.<part>`.
    pub fn new(
        tenant: impl AsRef<str>,
        operation: impl AsRef<str>,
        subject: impl AsRef<str>,
        key: impl AsRef<str>,
    ) -> Result<Self, FieldError> {
        let (tenant, operation) = (tenant.as_ref(), operation.as_ref());
        let (subject, key) = (subject.as_ref(), key.as_ref());
        check_word("record.tenant", tenant)?;
        check_word("record.operation", operation)?;
        if !subject.is_empty() {
            check_free("record.subject", subject, 0, PART_BYTES_MAX)?;
        }
        check_free("record.key", key, 1, KEY_BYTES_MAX)?;
        let parts = [tenant, operation, subject, key];
        let mut texts = String::with_capacity(parts.iter().map(|part| part.len()).sum());
        let ends = parts.map(|part| {
            texts.push_str(part);
            texts.len() as u16
        });
        Ok(Self {
            texts: texts.into(),
            ends: [ends[0], ends[1], ends[2]],
            id: RecordId::of(parts),
        })
    }

    /// Who owns the record.
    #[must_use]
    pub fn tenant(&self) -> &str {
        self.part(0, self.ends[0])
    }

    /// What is to be done once.
    #[must_use]
    pub fn operation(&self) -> &str {
        self.part(self.ends[0], self.ends[1])
    }

    /// On whose behalf; empty when the tenant itself acts.
    #[must_use]
    pub fn subject(&self) -> &str {
        self.part(self.ends[1], self.ends[2])
    }

    /// The caller's key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.texts[usize::from(self.ends[2])..]
    }

    fn part(&self, from: u16, to: u16) -> &str {
        &self.texts[usize::from(from)..usize::from(to)]
    }

    /// Computed from the four parts.
    #[must_use]
    pub fn id(&self) -> RecordId {
        self.id
    }

    /// The provider's idempotency key for a generation of this record.
    #[must_use]
    pub fn effect_key(&self, generation: u32) -> EffectKey {
        self.id.effect_key(generation)
    }
}

impl fmt::Debug for RecordName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordName")
            .field("tenant", &self.tenant())
            .field("operation", &self.operation())
            .field("subject", &self.subject())
            .field("key", &self.key())
            .field("id", &self.id)
            .finish()
    }
}

/// Checks a tenant or an operation: 1 to 128 bytes of `A-Z a-z 0-9 . _ - : / %`.
///
/// # Errors
/// Names `field`.
pub fn check_word(field: &str, text: &str) -> Result<(), FieldError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-:/%".contains(&b);
    if text.is_empty() || text.len() > PART_BYTES_MAX || !text.bytes().all(allowed) {
        return Err(FieldError::new(
            field,
            "1 to 128 bytes of A-Z a-z 0-9 . _ - : / %",
        ));
    }
    Ok(())
}

fn check_free(field: &str, text: &str, least: usize, most: usize) -> Result<(), FieldError> {
    let blank = text.chars().all(char::is_whitespace);
    if text.len() > most || blank || text::has_control(text) {
        return Err(FieldError::new(
            field,
            format!(
                "{least} to {most} bytes of UTF-8 without control characters, not white space alone"
            ),
        ));
    }
    Ok(())
}

/// SHA-256 over the length-prefixed parts of a name. The primary key of a record, and
/// as 64 hexadecimal characters its public id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(pub [u8; 32]);

impl RecordId {
    fn of(parts: [&str; 4]) -> Self {
        let mut hash = Sha256::new();
        for part in ["reprise-record-1"].iter().chain(&parts) {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        Self(hash.finalize().into())
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// Names `record_id.id`.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let wrong = || FieldError::new("record_id.id", "64 characters of 0-9 a-f");
        let bytes = text.as_bytes();
        if bytes.len() != 64 {
            return Err(wrong());
        }
        let mut id = [0; 32];
        for (byte, pair) in id.iter_mut().zip(bytes.chunks_exact(2)) {
            let [high, low] = [pair[0], pair[1]].map(hex_digit);
            *byte = high.zip(low).map(|(h, l)| h << 4 | l).ok_or_else(wrong)?;
        }
        Ok(Self(id))
    }

    /// The provider's idempotency key for a generation, from 1.
    #[must_use]
    pub fn effect_key(&self, generation: u32) -> EffectKey {
        let first = self.leading_bits();
        let low = (first + u128::from(generation.saturating_sub(1))) & EffectKey::GENERATION_BITS;
        EffectKey((first & !EffectKey::GENERATION_BITS) | low)
    }

    /// The first 122 bits.
    fn leading_bits(&self) -> u128 {
        let mut first = [0; 16];
        first.copy_from_slice(&self.0[..16]);
        u128::from_be_bytes(first) >> 6
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 64];
        write_hex(&self.0, &mut text);
        f.write_str(ascii(&text))
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes two digits for each byte; `out` has room for just these.
fn write_hex(bytes: &[u8], out: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (byte, pair) in bytes.iter().zip(out.chunks_exact_mut(2)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 0xf)];
    }
}

fn ascii(text: &[u8]) -> &str {
    str::from_utf8(text).expect("digits and hyphens are UTF-8")
}

fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// The text to hand on as the provider's own idempotency key: a UUID of version 8
/// (RFC 9562) whose 122 free bits are the first 122 bits of the record id, with
/// *generation - 1* added to the lowest 24 of them. It is the same for a lost, restored
/// or forgotten record, differs between generations, and leads back to its record by a
/// range of the primary key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct EffectKey(u128);

impl EffectKey {
    const GENERATION_BITS: u128 = (1 << 24) - 1;

    /// Reads the 36 characters in UUID form, lower or upper case.
    ///
    /// # Errors
    /// Names `effect_key.key`.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let wrong = || FieldError::new("effect_key.key", "36 characters in UUID form, version 8");
        let bytes = text.as_bytes();
        let mut uuid: u128 = 0;
        if bytes.len() != 36 {
            return Err(wrong());
        }
        for (at, byte) in bytes.iter().enumerate() {
            if matches!(at, 8 | 13 | 18 | 23) {
                if *byte != b'-' {
                    return Err(wrong());
                }
            } else {
                let digit = hex_digit(byte.to_ascii_lowercase()).ok_or_else(wrong)?;
                uuid = uuid << 4 | u128::from(digit);
            }
        }
        if uuid >> 76 & 0xf != 8 || uuid >> 62 & 0b11 != 0b10 {
            return Err(wrong());
        }
        let (high, middle, low) = (uuid >> 80, uuid >> 64 & 0xfff, uuid & ((1 << 62) - 1));
        Ok(Self(high << 74 | middle << 62 | low))
    }

    /// The record ids, first and last, between which its record is found. The range
    /// holds one record but for chance; [`EffectKey::belongs_to`] decides.
    #[must_use]
    pub fn range(&self) -> (RecordId, RecordId) {
        let first = (self.0 & !Self::GENERATION_BITS) << 6;
        let last = (self.0 | Self::GENERATION_BITS) << 6 | 0x3f;
        let (mut low, mut high) = ([0x00; 32], [0xff; 32]);
        low[..16].copy_from_slice(&first.to_be_bytes());
        high[..16].copy_from_slice(&last.to_be_bytes());
        (RecordId(low), RecordId(high))
    }

    /// Is this a key of one of the record's generations up to `newest`?
    #[must_use]
    pub fn belongs_to(&self, id: &RecordId, newest: u32) -> bool {
        let first = id.leading_bits();
        if first & !Self::GENERATION_BITS != self.0 & !Self::GENERATION_BITS {
            return false;
        }
        let steps = self.0.wrapping_sub(first) & Self::GENERATION_BITS;
        steps < u128::from(newest)
    }
}

impl fmt::Display for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (high, middle, low) = (self.0 >> 74, self.0 >> 62 & 0xfff, self.0 & ((1 << 62) - 1));
        let uuid = high << 80 | 8 << 76 | middle << 64 | 0b10 << 62 | low;
        let uuid = uuid.to_be_bytes();
        let mut text = [b'-'; 36];
        for (bytes, place) in [
            (&uuid[..4], 0..8),
            (&uuid[4..6], 9..13),
            (&uuid[6..8], 14..18),
            (&uuid[8..10], 19..23),
            (&uuid[10..], 24..36),
        ] {
            write_hex(bytes, &mut text[place]);
        }
        f.write_str(ascii(&text))
    }
}

impl fmt::Debug for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> RecordName {
        RecordName::new("shop", "charge", "customer-1", "order-1").expect("a valid name")
    }

    #[test]
    fn record_id_and_effect_keys_never_change() {
        let name = order();
        assert_eq!(
            name.id().to_string(),
            "a5f4213fd4160c7db49465ff3a52712cd92d044f33f4bfd5d8e83ed0e3956a15"
        );
        assert_eq!(
            name.effect_key(1).to_string(),
            "a5f4213f-d416-80c7-b6d2-5197fce949c4"
        );
        assert_eq!(
            name.effect_key(2).to_string(),
            "a5f4213f-d416-80c7-b6d2-5197fce949c5"
        );
        assert_eq!(
            name.effect_key(1000).to_string(),
            "a5f4213f-d416-80c7-b6d2-5197fce94dab"
        );
    }

    #[test]
    fn names_whose_parts_run_together_alike_are_different_records() {
        let id = |operation, subject, key| {
            let name = RecordName::new("t", operation, subject, key);
            name.expect("a valid name").id()
        };
        let ids = [
            id("ab", "c", "d"),
            id("a", "bc", "d"),
            id("ab", "", "cd"),
            id("AB", "c", "d"),
        ];
        for (at, one) in ids.iter().enumerate() {
            assert!(!ids[at + 1..].contains(one));
        }
    }

    #[test]
    fn effect_key_leads_back_to_its_record() {
        let id = order().id();
        for generation in [1, 2, 1000, 1 << 23, 1 << 24] {
            let key = id.effect_key(generation);
            assert_eq!(EffectKey::parse(&key.to_string()), Ok(key));
            assert_eq!(EffectKey::parse(&key.to_string().to_uppercase()), Ok(key));
            let (first, last) = key.range();
            assert!(first <= id && id <= last);
            assert!(key.belongs_to(&id, generation));
            assert!(!key.belongs_to(&id, generation - 1));
        }
    }

    #[test]
    fn effect_key_of_another_record_does_not_belong() {
        let other = RecordName::new("shop", "charge", "customer-1", "order-2");
        let key = other.expect("a valid name").effect_key(1);
        assert!(!key.belongs_to(&order().id(), u32::MAX));
    }

    #[test]
    fn generations_wrap_within_the_range_of_their_record() {
        let id = RecordId([0xff; 32]);
        let key = id.effect_key(2);
        assert_ne!(key, id.effect_key(1));
        let (first, last) = key.range();
        assert!(first <= id && id <= last && key.belongs_to(&id, 2));
    }

    #[test]
    fn texts_that_are_no_ids_are_refused() {
        let id = order().id();
        assert_eq!(RecordId::parse(&id.to_string()), Ok(id));
        let upper = id.to_string().to_uppercase();
        for text in ["", "a5f4", upper.as_str(), &"é".repeat(32)] {
            assert!(RecordId::parse(text).is_err());
        }
        for text in [
            "",
            "a5f4213f-d416-40c7-b6d2-5197fce949c4",
            "a5f4213f-d416-80c7-36d2-5197fce949c4",
            "a5f4213f0d416-80c7-b6d2-5197fce949c4",
            "a5f4213f-d416-80c7-b6d2-5197fce949cg",
        ] {
            assert!(EffectKey::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn parts_are_refused_by_name() {
        let field = |tenant: &str, operation: &str, subject: &str, key: &str| {
            let refused = RecordName::new(tenant, operation, subject, key);
            refused.err().map(|error| error.field)
        };
        let long = "x".repeat(PART_BYTES_MAX + 1);
        let long_key = "k".repeat(KEY_BYTES_MAX + 1);
        for word in ["", "a b", "ü", "a\n", long.as_str()] {
            assert_eq!(field(word, "o", "", "k").as_deref(), Some("record.tenant"));
            assert_eq!(
                field("t", word, "", "k").as_deref(),
                Some("record.operation")
            );
        }
        for subject in [" ", "a\tb", "a\u{85}", long.as_str()] {
            assert_eq!(
                field("t", "o", subject, "k").as_deref(),
                Some("record.subject")
            );
        }
        for key in ["", " \u{a0}", "a\0", long_key.as_str()] {
            assert_eq!(field("t", "o", "", key).as_deref(), Some("record.key"));
        }
        let (long, long_key) = (&long[1..], &long_key[1..]);
        assert_eq!(field(long, "A-Z/a.z_0:9%", long, long_key), None);
        assert_eq!(field("t", "o", "", "Bestellung 7 ü"), None);
    }
}
