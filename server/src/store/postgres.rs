//! The Postgres store.
