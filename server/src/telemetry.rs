//! Logs, on standard error: for people, or one JSON object a line. They hold tenants,
//! operations and short hashes of records; never a key, a payload, a body or a token.

use std::io::IsTerminal;

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// Starts logging for the whole process.
///
/// # Errors
/// When `level` is no filter, or logging was started before.
pub fn start(format: LogFormat, level: &str) -> anyhow::Result<()> {
    let filter = filter(level)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Human => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("logging was not started: {error}"))
}

/// Reads a level, or a list of `target=level`, as the setting `log_level` has it.
pub(crate) fn filter(level: &str) -> anyhow::Result<EnvFilter> {
    EnvFilter::builder()
        .parse(level)
        .with_context(|| "log_level: error, warn, info, debug, trace, or a list of target=level")
}
