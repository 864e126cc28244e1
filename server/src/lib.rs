//! Reprise: run a side effect once. The service, and the command line around it.
//!
//! | module | job |
//! | --- | --- |
//! | [`config`] | every setting, with unit, default and range |
//! | [`store`] | what keeps records; the embedded file and Postgres |
//! | [`grpc`] | the rpcs: convert, call, convert back, map the error |
//! | [`serve`] | listener, lifetime, drain |
//! | `tasks` | what goes on behind the calls: filing what is open, removing what is old |
//! | [`telemetry`] | logs |
//! | [`cli`] | subcommands that speak gRPC to a server, and the demo |
//!
//! The rules about records are in the crate `reprise-domain` and nowhere else.

// A closed standard output or error must not end the process.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod cli;
pub mod config;
pub mod grpc;
#[doc(hidden)]
pub mod microbench;
pub mod serve;
pub mod store;
mod tasks;
pub mod telemetry;
