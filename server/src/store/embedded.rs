//! The embedded store: one local file.
