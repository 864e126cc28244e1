//! The usual row. A store that settles a command in one round trip runs [`crate::decide()`]
//! on the row that it assumes, at moment zero: every moment in the decided record is then
//! an offset from the store's clock. Its statement checks that the row is that one, and
//! adds the clock.

use std::time::Duration;

use bytes::Bytes;
use reprise_fingerprint::{Fingerprint, RuleId, Scheme};

use crate::name::RecordName;
use crate::policy::OnLapse;
use crate::record::{Attempt, AttemptId, GrantReason, Record, State};
use crate::time::Timestamp;
use crate::token::Held;

/// Moment zero of a plan.
pub const NOW: Timestamp = Timestamp(0);

/// Stands for the attempt's own length of lease, which only the row knows: a lease end
/// that far from [`NOW`] in a plan is *now + the row's length*. No real lease is that long.
pub const OWN_LEASE: Duration = Duration::from_secs(1 << 32);

/// PROCESSING under this very token, the lease running, nothing unusual on record: not
/// unaccounted, not contradicted, no outcome or MarkPending reported, effect key unspent, no
/// reference or instruction that the plan replaces.
/// What the plan does not change is unknown here and stays as it is in the row.
#[must_use]
pub fn held(name: &RecordName, held: &Held) -> Record {
    Record {
        name: name.clone(),
        revision: 0,
        created_at: NOW,
        updated_at: NOW,
        fingerprint: Fingerprint {
            scheme: Scheme::Raw,
            rule: RuleId::none(),
            digest: [0; 32],
        },
        state: State::Processing,
        generation: 1,
        key_spent: false,
        unaccounted: false,
        contradicted: false,
        attempt: Attempt {
            number: held.attempt,
            id: AttemptId([0; 16]),
            earlier_ids: Vec::new(),
            fence: held.fence,
            granted_at: NOW,
            lease_end: Timestamp::FAR,
            lease: OWN_LEASE,
            on_lapse: OnLapse::Pending,
            repeat_until: None,
            why: GrantReason::First,
            owner: String::new(),
            sent: false,
            used: false,
            given_back: None,
            report: None,
            pending_digests: Vec::new(),
        },
        previous: None,
        correlation_id: String::new(),
        provider_reference: String::new(),
        resource_id: String::new(),
        instruction: Bytes::new(),
        pending: None,
        outcome: None,
        resolution: None,
        claim: None,
    }
}
