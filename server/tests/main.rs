//! The service through a real channel, on a real store in a file of its own.
#![allow(clippy::unwrap_used)]

mod service;
