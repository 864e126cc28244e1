//! Client of Reprise.

mod calls;
mod connection;
mod effect;
mod ending;
mod error;
mod give_back;
mod holding;
mod lease;
mod outcome;
mod renewal;
mod report;
mod reserve;
mod retry;
mod run;

pub use connection::{
    BACKGROUND_LIMIT_DEFAULT, Builder, CONNECT_TIMEOUT_DEFAULT, Client, DEADLINE_DEFAULT,
};
pub use effect::{Effect, LeaseLost, Uncertainty, Verdict, content};
pub use ending::{Ending, Ran, Warning};
pub use error::{BoxError, Error, Fault, FieldFault, Reason};
pub use lease::Lease;
pub use outcome::{
    Acquired, Found, Marked, Outcome, Reading, Recorded, Renewed, Reported, Reserved, Resolved,
    omit_over,
};
pub use reprise_fingerprint as fingerprint;
pub use reprise_proto::v1 as proto;
pub use reserve::{AttemptId, Identity, Reserve, record_name};
pub use run::Sending;
