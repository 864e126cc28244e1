//! Client of Reprise: run an effect once under a key, and give everyone who repeats the
//! intent the first outcome.
//!
//! ```no_run
//! use reprise_client::{Client, Ending, Identity, Reserve, Verdict, content, record_name};
//!
//! # async fn charge_card(key: &str) -> Result<String, std::io::Error> { Ok(key.into()) }
//! # async fn example() -> Result<(), reprise_client::Error> {
//! let client = Client::builder("http://127.0.0.1:7077").build()?;
//! let order = record_name("shop", "charge", "customer-7", "order-1001");
//! let reserve = Reserve::new(order, Identity::json(r#"{"amount": 4200}"#));
//!
//! let ran = client
//!     .run(&reserve, |effect| async move {
//!         // The provider gets the effect key as its own idempotency key. An error that
//!         // leaves the outcome open is simply returned: the record becomes pending.
//!         let charge = charge_card(&effect.effect_key).await?;
//!         Ok::<_, std::io::Error>(Verdict::Done(content("201", charge)))
//!     })
//!     .await?;
//! match ran.ending {
//!     Ending::Completed(result) => println!("charged: {result:?}, replayed: {:?}", ran.replayed),
//!     other => println!("not charged by this call: {other:?}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The examples are the rest of the documentation: `charge` (verdicts and replays),
//! `mark_sending` (the last check before the effect, and a lost lease), `low_level` (the
//! calls one by one).
//!
//! # What is always so
//!
//! - Only an understood grant permits the effect. An outcome that this client does not know
//!   is an error, and nothing is executed.
//! - A call has a deadline (5 s; with a wait, the wait and 5 s) and is repeated until then
//!   with the same content and the same attempt id. [`Error`] tells what was *never sent*
//!   from what has an *unknown outcome*.
//! - A grant that nobody received is given back in the background, and a report that did
//!   not get through is repeated there for up to 10 min. [`Client::close`] waits for both
//!   at shutdown.
//! - A holder that pauses between its last answer from the server and the send may act after
//!   others began. Hand [`Effect::fence`] to a resource that refuses older fences, or
//!   [`Effect::effect_key`] to a provider that deduplicates by it.

mod calls;
mod connection;
mod effect;
mod ending;
mod error;
mod give_back;
mod holding;
mod lease;
mod observe;
mod outcome;
mod renewal;
mod report;
mod reserve;
mod retry;
mod run;
mod worker;

pub use connection::{
    BACKGROUND_LIMIT_DEFAULT, Builder, CONNECT_TIMEOUT_DEFAULT, Client, DEADLINE_DEFAULT,
};
pub use effect::{Effect, LeaseLost, Uncertainty, Verdict, content};
pub use ending::{Ending, Ran, Warning};
pub use error::{BoxError, ClaimOver, Error, Fault, FieldFault, Reason};
pub use lease::Lease;
pub use observe::{OBSERVE_SUFFIX, Observe, RESERVE_LIMIT_DEFAULT, Seen, Would};
pub use outcome::{
    Acquired, Found, Marked, Outcome, Reading, Recorded, Renewed, Reported, Reserved, Resolved,
    omit_over,
};
pub use reprise_fingerprint as fingerprint;
pub use reprise_proto::v1 as proto;
pub use reserve::{AttemptId, Identity, Reserve, record_name};
pub use run::Sending;
pub use worker::{Case, Event, Finding, Resolution, TakeOver, Why, Worker};
