//! What holds of the domain as a whole: properties over random lives of a record, and an
//! exhaustive small model of callers, provider, operator and service.

// At the root so that `calls` finds them by the paths it has inside the crate.
use reprise_domain::{command, content, decide, name, policy, reading, record, time, token};

#[path = "../../src/decide/tests/calls.rs"]
mod calls;
mod model;
mod properties;
