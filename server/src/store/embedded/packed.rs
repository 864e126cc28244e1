//! Cells that no statement asks for, packed into one column: SQLite pays for each column of
//! each row, and most of a record's parts are absent in the usual one.
//!
//! Each cell begins with a byte:
//!
//! | byte | cell |
//! | --- | --- |
//! | 0x00 | null |
//! | 0x10 + n | an integer, n bytes (0 to 8), big-endian, sign-extended |
//! | 0x20 | bytes or text: length (4 bytes, big-endian), then they |
//! | 0x80 + n | the same of n bytes (0 to 127), then they |
//!
//! New cells are added at the end: a later release reads none where the bytes end.

use std::time::Duration;

use reprise_domain::Timestamp;
use reprise_domain::content::Sha;
use reprise_domain::time::micros;

use super::words::Word;

const NULL: u8 = 0x00;
const INTEGER: u8 = 0x10;
const LONG: u8 = 0x20;
const SHORT: u8 = 0x80;

/// Cells in the making.
pub(super) struct Packer(Vec<u8>);

impl Packer {
    pub(super) fn new() -> Self {
        // A usual record's, so that it is not moved while it grows.
        Self(Vec::with_capacity(320))
    }

    pub(super) fn bytes(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        match u8::try_from(bytes.len()) {
            Ok(len) if len < SHORT => self.0.push(SHORT + len),
            _ => {
                let len = u32::try_from(bytes.len()).expect("parts of a record are 16 KiB at most");
                self.0.push(LONG);
                self.0.extend(len.to_be_bytes());
            }
        }
        self.0.extend(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text);
    }

    pub(super) fn word(&mut self, word: &impl Word) {
        self.bytes(word.word());
    }

    pub(super) fn flag(&mut self, flag: bool) {
        self.integer(i64::from(flag));
    }

    /// The bits stay.
    pub(super) fn count(&mut self, count: impl Into<u64>) {
        self.integer(count.into().cast_signed());
    }

    pub(super) fn time(&mut self, time: Timestamp) {
        self.integer(time.0);
    }

    pub(super) fn duration(&mut self, duration: Duration) {
        self.integer(micros(duration));
    }

    /// Null when there is no value.
    pub(super) fn maybe<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            Some(value) => write(self, value),
            None => self.null(),
        }
    }

    pub(super) fn null(&mut self) {
        self.0.push(NULL);
    }

    fn integer(&mut self, integer: i64) {
        let bytes = integer.to_be_bytes();
        // Leading bytes that only repeat the sign are left out, but one that tells it.
        let same = match integer {
            0 => 64,
            _ => (integer ^ (integer >> 63)).leading_zeros() - 1,
        };
        let skipped = (same / 8) as usize;
        self.0.push(INTEGER + (bytes.len() - skipped) as u8);
        self.0.extend(&bytes[skipped..]);
    }

    pub(super) fn packed(self) -> Vec<u8> {
        self.0
    }
}

/// Cells being read. Every method takes the next cell and answers none when it is not what
/// was written.
pub(super) struct Unpacker<'a>(pub(super) &'a [u8]);

impl<'a> Unpacker<'a> {
    /// The next cell's bytes; none in it for null.
    pub(super) fn maybe_slice(&mut self) -> Option<Option<&'a [u8]>> {
        let (&kind, rest) = self.0.split_first()?;
        self.0 = rest;
        let len = match kind {
            NULL => return Some(None),
            LONG => {
                let (len, rest) = self.0.split_first_chunk()?;
                self.0 = rest;
                usize::try_from(u32::from_be_bytes(*len)).ok()?
            }
            SHORT.. => usize::from(kind - SHORT),
            _ => return None,
        };
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(Some(bytes))
    }

    pub(super) fn slice(&mut self) -> Option<&'a [u8]> {
        self.maybe_slice()?
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.slice()?.try_into().ok()
    }

    pub(super) fn maybe_sha(&mut self) -> Option<Option<Sha>> {
        match self.maybe_slice()? {
            Some(bytes) => Some(Some(bytes.try_into().ok()?)),
            None => Some(None),
        }
    }

    pub(super) fn str(&mut self) -> Option<&'a str> {
        self.maybe_str()?
    }

    pub(super) fn maybe_str(&mut self) -> Option<Option<&'a str>> {
        match self.maybe_slice()? {
            Some(bytes) => Some(Some(std::str::from_utf8(bytes).ok()?)),
            None => Some(None),
        }
    }

    pub(super) fn text(&mut self) -> Option<String> {
        self.str().map(str::to_owned)
    }

    pub(super) fn word<T: Word>(&mut self) -> Option<T> {
        self.maybe_word()?
    }

    pub(super) fn maybe_word<T: Word>(&mut self) -> Option<Option<T>> {
        match self.maybe_str()? {
            Some(word) => Some(Some(T::from_word(word)?)),
            None => Some(None),
        }
    }

    pub(super) fn maybe_integer(&mut self) -> Option<Option<i64>> {
        let (&kind, rest) = self.0.split_first()?;
        if kind == NULL {
            self.0 = rest;
            return Some(None);
        }
        let len = usize::from(kind.checked_sub(INTEGER)?);
        let (bytes, rest) = rest.split_at_checked(len)?;
        let sign = bytes.first().map_or(0, |first| first.cast_signed() >> 7);
        let mut whole = [sign.cast_unsigned(); 8];
        whole
            .get_mut(8_usize.checked_sub(len)?..)?
            .copy_from_slice(bytes);
        self.0 = rest;
        Some(Some(i64::from_be_bytes(whole)))
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        Some(self.maybe_integer()?? != 0)
    }

    pub(super) fn count(&mut self) -> Option<u64> {
        self.maybe_integer()?.map(i64::cast_unsigned)
    }

    pub(super) fn small_count(&mut self) -> Option<u32> {
        self.count()?.try_into().ok()
    }

    pub(super) fn time(&mut self) -> Option<Timestamp> {
        self.maybe_time()?
    }

    pub(super) fn maybe_time(&mut self) -> Option<Option<Timestamp>> {
        Some(self.maybe_integer()?.map(Timestamp))
    }

    pub(super) fn duration(&mut self) -> Option<Duration> {
        self.count().map(Duration::from_micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_length_come_back() {
        let edges = (0..63).flat_map(|bit| {
            let power = 1_i64 << bit;
            [power - 1, power, power + 1, -power, -power - 1]
        });
        for integer in edges.chain([i64::MAX, i64::MIN]) {
            let mut row = Packer::new();
            row.integer(integer);
            row.null();
            let packed = row.packed();
            let mut row = Unpacker(&packed);
            assert_eq!(row.maybe_integer(), Some(Some(integer)), "{packed:?}");
            assert_eq!(row.maybe_integer(), Some(None));
            assert_eq!(row.maybe_integer(), None, "the bytes end");
        }
    }

    #[test]
    fn bytes_of_every_length_come_back() {
        for len in [0, 1, 32, 127, 128, 255, 256, 70_000] {
            let bytes = vec![b'x'; len];
            let mut row = Packer::new();
            row.bytes(&bytes);
            row.flag(true);
            let packed = row.packed();
            let mut row = Unpacker(&packed);
            assert_eq!(row.slice(), Some(&bytes[..]));
            assert_eq!(row.flag(), Some(true));
            let cut = &packed[..packed.len() - 3];
            assert_eq!(Unpacker(cut).slice(), None, "cut off");
        }
    }

    #[test]
    fn what_was_not_written_is_not_read() {
        for damaged in [
            &[INTEGER + 9, 0, 0, 0, 0, 0, 0, 0, 0, 0][..],
            &[LONG, 0, 0, 0],
            &[SHORT + 1],
            &[0x19; 20],
            &[],
        ] {
            assert_eq!(Unpacker(damaged).maybe_integer(), None, "{damaged:?}");
            assert_eq!(Unpacker(damaged).maybe_slice(), None, "{damaged:?}");
        }
    }
}
