//! What callers of the service see.

mod support;

mod connections;
mod drain;
mod hang_up;
mod limits;
mod lookup;
mod policy;
mod report;
mod reserve;
mod resolve;
mod start;
mod waiting;
