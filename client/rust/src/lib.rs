//! Client of Reprise.

mod calls;
mod connection;
mod error;
mod give_back;
mod lease;
mod outcome;
mod reserve;
mod retry;

pub use connection::{
    BACKGROUND_LIMIT_DEFAULT, Builder, CONNECT_TIMEOUT_DEFAULT, Client, DEADLINE_DEFAULT,
};
pub use error::{BoxError, Error, Fault, FieldFault, Reason};
pub use lease::Lease;
pub use outcome::{
    Acquired, Found, Marked, Outcome, Reading, Recorded, Renewed, Reported, Reserved, Resolved,
    omit_over,
};
pub use reprise_fingerprint as fingerprint;
pub use reprise_proto::v1 as proto;
pub use reserve::{AttemptId, Identity, Reserve, record_name};
