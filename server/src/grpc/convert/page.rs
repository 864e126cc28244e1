//! Pages of lists: how long they are, and the opaque tokens that say where one ended.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reprise_domain::Timestamp;
use reprise_domain::text::FieldError;
use sha2::{Digest, Sha256};

/// A page ends early rather than grow beyond what clients receive by default (4 MiB).
pub(super) const PAGE_BYTES_MAX: usize = 2 * 1024 * 1024;
const PAGE_DEFAULT: usize = 100;
const PAGE_MAX: u32 = 1000;
/// Bytes of a token that tell lists and filters apart. They guard against mistakes, not
/// against callers, who may make a token for any place that their filters show anyway.
const MARK_BYTES: usize = 8;

/// How long a page is at most.
pub(super) fn page_size(asked: u32) -> Result<usize, FieldError> {
    match asked {
        0 => Ok(PAGE_DEFAULT),
        size @ 1..=PAGE_MAX => Ok(size as usize),
        _ => Err(FieldError::new("page_size", "0 to 1,000")),
    }
}

/// Which list was asked for, and with what filters: a token is of these alone.
pub(super) struct Filters(Sha256);

impl Filters {
    /// Of the list with this name.
    pub(super) fn of(list: &str) -> Self {
        Self(Sha256::new()).with(list)
    }

    /// And with this filter. Each counts, in the order given, also when it is empty.
    pub(super) fn with(mut self, filter: impl AsRef<[u8]>) -> Self {
        let filter = filter.as_ref();
        self.0.update((filter.len() as u64).to_be_bytes());
        self.0.update(filter);
        self
    }

    /// As [`Filters::with`]; left out and empty differ.
    pub(super) fn with_optional(self, filter: Option<impl AsRef<[u8]>>) -> Self {
        match filter {
            None => self.with([0]),
            Some(filter) => self.with([1]).with(filter),
        }
    }

    /// As [`Filters::with_optional`].
    pub(super) fn with_moment(self, moment: Option<Timestamp>) -> Self {
        self.with_optional(moment.map(|moment| moment.0.to_be_bytes()))
    }

    fn mark(&self) -> [u8; MARK_BYTES] {
        let mut mark = [0; MARK_BYTES];
        mark.copy_from_slice(&self.0.clone().finalize()[..MARK_BYTES]);
        mark
    }

    /// The token of a page that ended at `place`; empty at the end of the list.
    pub(super) fn token<const N: usize>(&self, place: Option<(Timestamp, [u8; N])>) -> String {
        let Some((moment, rest)) = place else {
            return String::new();
        };
        let bytes = [&self.mark()[..], &moment.0.to_be_bytes(), &rest].concat();
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Where the page before ended; none for the first page.
    pub(super) fn read<const N: usize>(
        &self,
        token: &str,
    ) -> Result<Option<(Timestamp, [u8; N])>, FieldError> {
        if token.is_empty() {
            return Ok(None);
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).unwrap_or_default();
        let place = || {
            let rest = bytes.strip_prefix(&self.mark())?;
            let (moment, rest) = rest.split_first_chunk::<8>()?;
            let rest = <[u8; N]>::try_from(rest).ok()?;
            Some((Timestamp(i64::from_be_bytes(*moment)), rest))
        };
        let wrong = || FieldError::new("page_token", "as answered for these filters, or empty");
        place().map(Some).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_for_its_filters_and_for_no_others() {
        let filters = || Filters::of("records").with("t1").with_optional(Some(""));
        let place = (Timestamp(-7), [3; 16]);
        let token = filters().token(Some(place));
        assert_eq!(filters().read(&token), Ok(Some(place)));
        for other in [
            Filters::of("audit").with("t1").with_optional(Some("")),
            Filters::of("records").with("t2").with_optional(Some("")),
            Filters::of("records")
                .with("t1")
                .with_optional(None::<&str>),
            filters().with(""),
        ] {
            assert!(other.read::<16>(&token).is_err());
        }
        assert!(filters().read::<32>(&token).is_err(), "of another length");
    }

    #[test]
    fn the_first_page_has_no_token_and_the_last_one_gives_none() {
        let filters = Filters::of("records");
        assert_eq!(filters.read::<32>(""), Ok(None));
        assert_eq!(filters.token::<32>(None), "");
    }

    #[test]
    fn damaged_tokens_are_refused() {
        let filters = Filters::of("records");
        let token = filters.token(Some((Timestamp(1), [0; 32])));
        for wrong in ["x", "====", &token[1..], &format!("{token}AAAA")] {
            assert!(filters.read::<32>(wrong).is_err(), "{wrong}");
        }
    }
}
