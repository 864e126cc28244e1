//! What callers of the service see.

mod support;

mod audit;
mod claims;
mod connections;
mod drain;
mod hang_up;
mod history;
mod hold;
mod limits;
mod lookup;
mod pending;
mod policy;
mod records;
mod report;
mod reserve;
mod resolve;
mod start;
mod upkeep;
mod waiting;
