//! The contract's tables, cell by cell, and its sentences, one claim for each test.
//! Cells that need a claim are not here: claims do not exist yet.

mod calls;
mod complete;
mod fail;
mod fixture;
mod give_back;
mod mark_pending;
mod mark_sending;
mod protection;
mod renew;
mod repeats;
mod reserve;
mod resolve;
mod retention;
