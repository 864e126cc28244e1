//! The record and the one state machine that decides about it.
//!
//! Everything here is pure: no clock, no database, no network, no randomness. A store
//! finds or inserts a [`Record`], calls [`decide()`], and writes the answer's record back
//! only if the row is still the one that was decided on. That gives every store the
//! same behaviour, and lets the rules be tested as tables and by a model checker.
//!
//! ```text
//!            reserve                       complete
//!  (none) ------------> PROCESSING ------------------------> COMPLETED
//!                        |  ^  |  \       fail final
//!          mark_pending, |  |  |   `-----------------------> FAILED final
//!          lapse         |  |  | fail retryable, give-back
//!                        v  |  v
//!                  PENDING  '-- FAILED retryable
//!                     '----------^   resolve: not applied
//!                     (and to COMPLETED, FAILED final by late reports and resolve)
//! ```
//!
//! | module | job |
//! | --- | --- |
//! | [`name`] | what a record is called; record ids and effect keys |
//! | [`text`] | what texts are allowed, and how reports are adjusted instead of refused |
//! | [`content`] | results and errors, their digests |
//! | [`policy`] | settings of an operation |
//! | [`token`] | proof that a caller holds an attempt |
//! | [`record`] | what is remembered |
//! | [`reading`] | how a record reads at a moment: lapse and retention |
//! | [`command`] | what callers ask, and what they are answered |
//! | [`mod@decide`] | the contract's tables |
//! | [`assume`] | the usual row, for stores that settle it in one round trip |

pub mod assume;
pub mod command;
pub mod content;
pub mod decide;
pub mod name;
pub mod policy;
pub mod reading;
pub mod record;
pub mod text;
pub mod time;
pub mod token;

pub use command::{Answer, Command, Refusal, Request};
pub use content::Content;
pub use decide::{Decision, Trace, Work, decide};
pub use name::{EffectKey, RecordId, RecordName};
pub use policy::Policy;
pub use reading::{Reading, View};
pub use record::Record;
pub use time::Timestamp;
