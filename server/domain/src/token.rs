//! Tokens: proof that a caller holds an attempt.
//!
//! A token is computed from the grant, so nothing of it is stored: asking again gives
//! the same bytes, and a copied database row gives nobody a token without the key.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::name::RecordId;
use crate::text::FieldError;

/// Bytes of a token: form (1), attempt (4), fence (8), MAC (16).
pub const TOKEN_BYTES: usize = 29;
const FORM_ATTEMPT: u8 = 1;
const FORM_CLAIM: u8 = 2;

/// The secret that all servers of one database share, as the state of a MAC that has taken
/// it in: each token begins with a copy.
#[derive(Clone)]
pub struct TokenKey(Hmac<Sha256>);

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenKey(redacted)")
    }
}

impl TokenKey {
    /// Wraps 32 random bytes.
    #[must_use]
    pub fn new(secret: [u8; 32]) -> Self {
        Self(Hmac::new_from_slice(&secret).expect("HMAC takes keys of every length"))
    }

    /// The token of a grant.
    #[must_use]
    pub fn issue(&self, record: &RecordId, attempt: u32, fence: u64) -> [u8; TOKEN_BYTES] {
        self.make(FORM_ATTEMPT, record, attempt, fence)
    }

    /// The token of a claim on an attempt.
    #[must_use]
    pub fn issue_claim(&self, record: &RecordId, attempt: u32, fence: u64) -> [u8; TOKEN_BYTES] {
        self.make(FORM_CLAIM, record, attempt, fence)
    }

    fn make(&self, form: u8, record: &RecordId, attempt: u32, fence: u64) -> [u8; TOKEN_BYTES] {
        let mut token = [0; TOKEN_BYTES];
        token[0] = form;
        token[1..5].copy_from_slice(&attempt.to_be_bytes());
        token[5..13].copy_from_slice(&fence.to_be_bytes());
        let mac = self.mac(record, &token[..13]);
        token[13..].copy_from_slice(&mac);
        token
    }

    /// Reads a token that a caller presents for `record`.
    ///
    /// # Errors
    /// Names `token` when the bytes have not the form of a token.
    pub fn read(&self, record: &RecordId, token: &[u8]) -> Result<Held, FieldError> {
        let allowed = "the bytes of a token as Reserve answered them";
        self.held(FORM_ATTEMPT, record, token)
            .ok_or_else(|| FieldError::new("token", allowed))
    }

    /// Reads a claim that a caller presents for `record`.
    ///
    /// # Errors
    /// Names `claim` when the bytes have not the form of a claim.
    pub fn read_claim(&self, record: &RecordId, claim: &[u8]) -> Result<Held, FieldError> {
        let allowed = "the bytes of a claim as ClaimPending answered them";
        self.held(FORM_CLAIM, record, claim)
            .ok_or_else(|| FieldError::new("claim", allowed))
    }

    fn held(&self, form: u8, record: &RecordId, token: &[u8]) -> Option<Held> {
        let token = <&[u8; TOKEN_BYTES]>::try_from(token).ok()?;
        if token[0] != form {
            return None;
        }
        let (attempt, fence) = (&token[1..5], &token[5..13]);
        let expected = self.mac(record, &token[..13]);
        Some(Held {
            attempt: attempt.iter().fold(0, |n, b| n << 8 | u32::from(*b)),
            fence: fence.iter().fold(0, |n, b| n << 8 | u64::from(*b)),
            authentic: bool::from(expected.ct_eq(&token[13..])),
        })
    }

    fn mac(&self, record: &RecordId, head: &[u8]) -> [u8; 16] {
        let mut mac = self.0.clone();
        mac.update(b"reprise-token-1");
        mac.update(&record.0);
        mac.update(head);
        let mut short = [0; 16];
        short.copy_from_slice(&mac.finalize().into_bytes()[..16]);
        short
    }
}

/// What a presented token or claim says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// Number of the attempt that it was given out for, or that was to be found out about.
    pub attempt: u32,
    /// Fence of that grant or claim; tells grants of a forgotten and a newer record apart.
    pub fence: u64,
    /// It was really given out for this record. One that was not is stale, and leaves
    /// no evidence.
    pub authentic: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::RecordName;

    const FENCE: u64 = 1_800_000_000_000_000;

    fn id(key: &str) -> RecordId {
        let name = RecordName::new("shop", "charge", "customer-1", key);
        name.expect("a valid name").id()
    }

    fn key() -> TokenKey {
        TokenKey::new([7; 32])
    }

    #[test]
    fn token_says_what_it_was_issued_for_and_never_changes() {
        let id = id("order-1");
        let token = key().issue(&id, 3, FENCE);
        let hex: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "010000000300066517289880004365cb41101dd11ec719d8a717f55144"
        );
        let held = Held {
            attempt: 3,
            fence: FENCE,
            authentic: true,
        };
        assert_eq!(key().read(&id, &token), Ok(held));
    }

    #[test]
    fn token_of_another_record_or_key_or_with_a_changed_bit_is_not_authentic() {
        let token = key().issue(&id("order-1"), 3, FENCE);
        let authentic = |key: TokenKey, record: &RecordId, token: &[u8]| {
            key.read(record, token).map(|held| held.authentic)
        };
        assert_eq!(authentic(key(), &id("order-2"), &token), Ok(false));
        assert_eq!(
            authentic(TokenKey::new([8; 32]), &id("order-1"), &token),
            Ok(false)
        );
        for bit in 8..TOKEN_BYTES * 8 {
            let mut changed = token;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                authentic(key(), &id("order-1"), &changed),
                Ok(false),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn bytes_of_another_form_are_refused() {
        let mut token = key().issue(&id("order-1"), 3, FENCE).to_vec();
        token[0] = 3;
        for bytes in [&[], &token[1..], token.as_slice(), &[1; TOKEN_BYTES + 1]] {
            let refused = key().read(&id("order-1"), bytes).expect_err("malformed");
            assert_eq!(refused.field, "token");
            let refused = key()
                .read_claim(&id("order-1"), bytes)
                .expect_err("malformed");
            assert_eq!(refused.field, "claim");
        }
    }

    #[test]
    fn a_claim_is_no_token_and_a_token_no_claim() {
        let id = id("order-1");
        let (token, claim) = (key().issue(&id, 3, FENCE), key().issue_claim(&id, 3, FENCE));
        assert!(key().read(&id, &claim).is_err());
        assert!(key().read_claim(&id, &token).is_err());
        let mut forged = token;
        forged[0] = claim[0];
        let held = key().read_claim(&id, &forged).expect("the form of a claim");
        assert!(!held.authentic);
        let held = key().read_claim(&id, &claim).expect("a claim");
        assert_eq!((held.attempt, held.fence, held.authentic), (3, FENCE, true));
    }

    #[test]
    fn secret_is_not_shown() {
        assert_eq!(format!("{:?}", key()), "TokenKey(redacted)");
    }
}
