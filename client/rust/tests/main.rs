//! Drives the client against a scripted server, on paused time and in memory: what a
//! correct server cannot be made to do on demand.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod answers;
mod at_work;
mod scripted;

mod calls;
mod connection;
mod endings;
mod finding_out;
mod give_back;
mod leases;
mod marking;
mod observe;
mod outcomes;
mod take_over;
mod unexpected;
mod worker;
mod worker_pace;
