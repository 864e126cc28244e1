//! Listener, lifetime, drain.
