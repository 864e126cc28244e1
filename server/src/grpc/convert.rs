//! Messages to commands, and answers to messages. Validation is the conversion: a
//! command that exists is valid. Before the effect everything is checked; after it
//! nothing is refused but a record's name and a token, and what does not fit is adjusted.
//!
//! It knows no store and no rule about records.

mod answer;
mod audit;
mod content;
mod fields;
mod fingerprint;
mod history;
mod lookup;
mod overview;
mod page;
mod pending;
mod policy;
mod records;
mod report;
mod reserve;
mod resolve;

pub(crate) use answer::{
    complete_response, fail_response, forget_response, mark_pending_response,
    mark_sending_response, renew_response, reserve_response, resolve_response,
};
pub(crate) use audit::list_audit;
pub(crate) use fields::{record_name, tenant_and_operation};
pub(crate) use history::history;
pub(crate) use lookup::{Until, lookup_response, target, until, wait};
pub(crate) use overview::{RemovedHere, status};
pub(crate) use pending::{
    Claims, claim_pending, claimed_record, count_pending_response, list_pending,
    list_pending_response,
};
pub(crate) use policy::{
    list_start, page, policy, policy_as_stored, policy_in_force, policy_name, put_policy, source,
};
pub(crate) use records::{
    Forgetting, forget, found_records, history_target, list_records, list_records_response,
};
pub(crate) use report::{complete, fail, mark_pending, mark_sending, renew};
pub(crate) use reserve::reserve;
pub(crate) use resolve::resolve;

use super::status::Error;

/// Hashing more than this many bytes would hold up other calls of its thread.
const HASH_HERE_BYTES_MAX: usize = 64 * 1024;

/// Runs `hash`, which hashes about `bytes` bytes, where it holds nobody up.
async fn hashing<T: Send + 'static>(
    bytes: usize,
    hash: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    if bytes <= HASH_HERE_BYTES_MAX {
        return Ok(hash());
    }
    tokio::task::spawn_blocking(hash)
        .await
        .map_err(Error::internal)
}
