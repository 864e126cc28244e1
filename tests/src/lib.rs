//! What the whole-system tests run against: real PostgreSQL servers, PgBouncer,
//! the real `reprise` program, and a network that can be made to fail.
//!
//! Everything is private to one test program: free ports, own directories, an
//! ordinary user even under root, and an end when the test program ends, however
//! that happens. This crate knows how to start, stop and hurt the pieces and
//! nothing of what Reprise promises. Linux only.

pub mod bulk;
pub mod lifecycle;
pub mod pgbouncer;
pub mod poll;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod reprise_bin;
