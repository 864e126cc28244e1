//! Rows as lists of cells: written in the order of a table's columns, read back in the
//! same order, and summed up so that a damaged one is noticed.

use reprise_domain::Timestamp;
use reprise_domain::content::Sha;
use rusqlite::Row;
use rusqlite::types::Value;
use sha2::{Digest, Sha256};

use super::words::Word;

/// A row in the making.
#[derive(Default)]
pub(super) struct Writer(Vec<Value>);

impl Writer {
    pub(super) fn bytes(&mut self, bytes: impl Into<Vec<u8>>) {
        self.0.push(Value::Blob(bytes.into()));
    }

    pub(super) fn text(&mut self, text: impl Into<String>) {
        self.0.push(Value::Text(text.into()));
    }

    pub(super) fn word(&mut self, word: &impl Word) {
        self.text(word.word());
    }

    /// SQLite has no unsigned integers; the bits stay.
    pub(super) fn count(&mut self, count: impl Into<u64>) {
        self.0.push(Value::Integer(count.into().cast_signed()));
    }

    pub(super) fn time(&mut self, time: Timestamp) {
        self.0.push(Value::Integer(time.0));
    }

    /// One cell, null when there is no value.
    pub(super) fn maybe<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            Some(value) => write(self, value),
            None => self.nulls(1),
        }
    }

    pub(super) fn nulls(&mut self, cells: usize) {
        let len = self.0.len() + cells;
        self.0.resize(len, Value::Null);
    }

    /// The row as it is.
    pub(super) fn plain(self) -> Vec<Value> {
        self.0
    }

    /// The row with its checksum as last cell.
    pub(super) fn summed(mut self) -> Vec<Value> {
        let sum = checksum(&self.0);
        self.bytes(sum);
        self.0
    }
}

/// A row being read. Every method takes the next cell and answers none when it is not
/// what was written, which means that the row is damaged.
pub(super) struct Reader(std::vec::IntoIter<Value>);

impl Reader {
    /// A row that has no checksum.
    pub(super) fn plain(cells: Vec<Value>) -> Self {
        Self(cells.into_iter())
    }

    /// Checks a row whose last cell is its checksum.
    pub(super) fn checked(mut cells: Vec<Value>) -> Option<Self> {
        let sum = cells.pop()?;
        (sum == Value::Blob(checksum(&cells).to_vec())).then(|| Self(cells.into_iter()))
    }

    pub(super) fn bytes(&mut self) -> Option<Vec<u8>> {
        self.maybe_bytes()?
    }

    pub(super) fn maybe_bytes(&mut self) -> Option<Option<Vec<u8>>> {
        match self.0.next()? {
            Value::Blob(bytes) => Some(Some(bytes)),
            Value::Null => Some(None),
            _ => None,
        }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes()?.try_into().ok()
    }

    pub(super) fn maybe_sha(&mut self) -> Option<Option<Sha>> {
        match self.maybe_bytes()? {
            Some(bytes) => Some(Some(bytes.try_into().ok()?)),
            None => Some(None),
        }
    }

    pub(super) fn text(&mut self) -> Option<String> {
        self.maybe_text()?
    }

    pub(super) fn maybe_text(&mut self) -> Option<Option<String>> {
        match self.0.next()? {
            Value::Text(text) => Some(Some(text)),
            Value::Null => Some(None),
            _ => None,
        }
    }

    pub(super) fn word<T: Word>(&mut self) -> Option<T> {
        T::from_word(&self.text()?)
    }

    pub(super) fn maybe_integer(&mut self) -> Option<Option<i64>> {
        match self.0.next()? {
            Value::Integer(integer) => Some(Some(integer)),
            Value::Null => Some(None),
            _ => None,
        }
    }

    pub(super) fn count(&mut self) -> Option<u64> {
        self.maybe_integer()?.map(i64::cast_unsigned)
    }

    pub(super) fn small_count(&mut self) -> Option<u32> {
        self.count()?.try_into().ok()
    }

    pub(super) fn time(&mut self) -> Option<Timestamp> {
        self.maybe_integer()?.map(Timestamp)
    }
}

/// All cells of a row that SQLite answers.
pub(super) fn cells(row: &Row<'_>) -> rusqlite::Result<Vec<Value>> {
    (0..row.as_ref().column_count())
        .map(|column| row.get(column))
        .collect()
}

/// First half of SHA-256 over all cells, each with its type and length.
pub(super) fn checksum(cells: &[Value]) -> [u8; 16] {
    let mut hash = Sha256::new();
    let mut part = |kind: u8, bytes: &[u8]| {
        hash.update([kind]);
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    for cell in cells {
        match cell {
            Value::Null => part(0, &[]),
            Value::Integer(integer) => part(1, &integer.to_be_bytes()),
            Value::Real(real) => part(2, &real.to_be_bytes()),
            Value::Text(text) => part(3, text.as_bytes()),
            Value::Blob(bytes) => part(4, bytes),
        }
    }
    let mut half = [0; 16];
    half.copy_from_slice(&hash.finalize()[..16]);
    half
}
