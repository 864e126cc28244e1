//! The contract's tables, cell by cell, and its sentences, one claim for each test.

mod calls;
mod claim;
mod claimed;
mod complete;
mod fail;
mod fixture;
mod forget;
mod give_back;
mod hold;
mod mark_pending;
mod mark_sending;
mod protection;
mod renew;
mod repeats;
mod reserve;
mod resolve;
mod resolve_by_claim;
mod retention;
mod sweep;
mod work;
