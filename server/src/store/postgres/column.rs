//! Values of columns, and rows of them as arrays, one array a column, so that a statement
//! takes a whole batch. It does not know what the columns mean.

use bytes::{Bytes, BytesMut};
use reprise_domain::{RecordId, Timestamp};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

/// A parameter with its type: statements are typed by the caller, so that they need no
/// round trip to learn it.
pub(super) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

type Fault = Box<dyn std::error::Error + Sync + Send>;

/// A `bytea`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Blob(pub(super) Bytes);

impl Blob {
    pub(super) fn copy(bytes: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(bytes))
    }
}

impl ToSql for Blob {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Fault> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    accepts!(BYTEA);
    to_sql_checked!();
}

impl FromSql<'_> for Blob {
    fn from_sql(_: &Type, raw: &[u8]) -> Result<Self, Fault> {
        Ok(Self::copy(raw))
    }

    accepts!(BYTEA);
}

/// A `uuid`: 16 bytes, without a length in front of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Uuid(pub(super) [u8; 16]);

/// SQL of the place before all ids; no name has this one, but for a chance of 2^-128.
pub(super) const FIRST_ID: &str = "'00000000-0000-0000-0000-000000000000'::uuid";

impl Uuid {
    /// The first half of an id, by which its rows are found. That two records of one tenant
    /// share it takes whoever makes their names 2^64 tries, and harms nobody else: what is
    /// read is compared with the name that was meant.
    pub(super) fn of(id: &RecordId) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&id.0[..16]);
        Self(half)
    }

    /// The id that begins so and ends with zeros: a place in an order of ids, of no record.
    pub(super) fn place(self) -> RecordId {
        let mut id = [0; 32];
        id[..16].copy_from_slice(&self.0);
        RecordId(id)
    }
}

impl ToSql for Uuid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Fault> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    accepts!(UUID);
    to_sql_checked!();
}

impl FromSql<'_> for Uuid {
    fn from_sql(_: &Type, raw: &[u8]) -> Result<Self, Fault> {
        Ok(Self(raw.try_into()?))
    }

    accepts!(UUID);
}

/// A `timestamptz`. On the wire it is microseconds since the year 2000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment(pub(super) Timestamp);

const YEAR_2000: i64 = 946_684_800_000_000;

impl ToSql for Moment {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Fault> {
        let micros = self.0.0.saturating_sub(YEAR_2000);
        out.extend_from_slice(&micros.to_be_bytes());
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl FromSql<'_> for Moment {
    fn from_sql(_: &Type, raw: &[u8]) -> Result<Self, Fault> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        Ok(Self(Timestamp(micros.saturating_add(YEAR_2000))))
    }

    accepts!(TIMESTAMPTZ);
}

/// A value that a column of one fixed type holds.
pub(super) trait Cell: ToSql + Sync {
    /// Of many of them.
    const ARRAY: Type;
}

impl Cell for Blob {
    const ARRAY: Type = Type::BYTEA_ARRAY;
}
impl Cell for Uuid {
    const ARRAY: Type = Type::UUID_ARRAY;
}
impl Cell for Moment {
    const ARRAY: Type = Type::TIMESTAMPTZ_ARRAY;
}
impl Cell for String {
    const ARRAY: Type = Type::TEXT_ARRAY;
}
impl Cell for i16 {
    const ARRAY: Type = Type::INT2_ARRAY;
}
impl Cell for i32 {
    const ARRAY: Type = Type::INT4_ARRAY;
}
impl Cell for i64 {
    const ARRAY: Type = Type::INT8_ARRAY;
}
impl Cell for bool {
    const ARRAY: Type = Type::BOOL_ARRAY;
}
impl<T: Cell> Cell for Option<T> {
    const ARRAY: Type = T::ARRAY;
}

/// A word that a column holds as a number.
pub(super) trait Code: Sized {
    fn code(self) -> i16;
    fn of(code: i16) -> Option<Self>;
}

/// Numbers words, once for both ways.
macro_rules! codes {
    ($($word:ident { $($case:ident = $code:literal),+ $(,)? })+) => {$(
        impl super::column::Code for $word {
            fn code(self) -> i16 {
                match self { $(Self::$case => $code,)+ }
            }

            fn of(code: i16) -> Option<Self> {
                match code { $($code => Some(Self::$case),)+ _ => None }
            }
        }
    )+};
}

/// Declares a row and its batch form: names, reading and parameters come from one list.
macro_rules! columns {
    ($(#[$about:meta])* $row:ident, $arrays:ident { $($column:ident: $kind:ty),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Debug)]
        pub(super) struct $row {
            $(pub(super) $column: $kind,)+
        }

        /// Many of them, an array for each column.
        #[derive(Debug, Default)]
        pub(super) struct $arrays {
            $($column: Vec<$kind>,)+
        }

        impl $arrays {
            /// Names of the columns, in the order of [`Self::params`].
            pub(super) const NAMES: &[&str] = &[$(stringify!($column)),+];

            pub(super) fn push(&mut self, row: $row) {
                $(self.$column.push(row.$column);)+
            }

            pub(super) fn params(&self) -> Vec<super::column::Param<'_>> {
                use super::column::Cell;
                vec![$((&self.$column as _, <$kind>::ARRAY)),+]
            }
        }

        impl $row {
            /// Reads the columns that begin at `first`, in the order of their names.
            #[allow(dead_code, reason = "not every row is read back")]
            pub(super) fn read(
                row: &tokio_postgres::Row,
                first: usize,
            ) -> Result<Self, tokio_postgres::Error> {
                let mut at = first..;
                let mut next = || at.next().expect("a range without end");
                Ok(Self { $($column: row.try_get(next())?,)+ })
            }
        }
    };
}

pub(super) use {codes, columns};

/// `unnest($first, ...) as alias(names)`: the arrays as rows.
pub(super) fn unnest(first: usize, alias: &str, names: &[&str]) -> String {
    let params: Vec<String> = (first..first + names.len())
        .map(|n| format!("${n}"))
        .collect();
    let (params, names) = (params.join(", "), names.join(", "));
    format!("unnest({params}) as {alias}({names})")
}

/// As [`unnest`], of arrays of one element: the only row, much cheaper.
pub(super) fn only(first: usize, alias: &str, names: &[&str]) -> String {
    let columns: Vec<String> = (first..)
        .zip(names)
        .map(|(n, name)| format!("(${n})[1] as {name}"))
        .collect();
    format!("(select {}) {alias}", columns.join(", "))
}

/// [`unnest`] or [`only`].
pub(super) type Rows = fn(usize, &str, &[&str]) -> String;

/// Numbers the rows of [`unnest`], to keep their order.
pub(super) fn with_lines(unnest: &str) -> String {
    unnest
        .replacen(") as ", ") with ordinality as ", 1)
        .trim_end_matches(')')
        .to_owned()
        + ", line)"
}

/// The names under an alias: `r.a, r.b`.
pub(super) fn under(alias: &str, names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("{alias}.{name}")).collect();
    names.join(", ")
}
