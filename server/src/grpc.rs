//! The rpcs.
