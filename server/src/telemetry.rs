//! Logs, on standard error: for people, or one JSON object a line. They hold tenants,
//! operations and short hashes of records; never a key, a payload, a body or a token.
//!
//! A call never waits for its log line, nor fails by it: see `telemetry::lines`.

pub(crate) mod call;
mod lines;
mod pace;

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Context;
use tracing::Subscriber;
use tracing_subscriber::filter::{EnvFilter, FilterExt as _};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::LogFormat;
use call::WithCall;
use lines::Lines;
use pace::Pace;

/// Time for the last lines to reach standard error when the process ends.
const FLUSH_TIME: Duration = Duration::from_secs(1);

/// Logging of a process; dropped, it writes the last lines.
#[derive(Debug)]
#[must_use = "lines are lost that are written after it was dropped"]
pub struct Logging(());

impl Drop for Logging {
    fn drop(&mut self) {
        lines::flush(FLUSH_TIME);
    }
}

/// Starts logging for the whole process.
///
/// # Errors
/// When `level` is no filter, or logging was started before.
pub fn start(format: LogFormat, level: &str) -> anyhow::Result<Logging> {
    let lines = Lines::start(format, std::io::stderr()).context("logging was not started")?;
    let filter = filter(level)?.and(Pace::new(lines.clone()));
    let layer = layer(format, std::io::stderr().is_terminal(), lines);
    tracing_subscriber::registry()
        .with(layer.with_filter(filter))
        .try_init()
        .context("logging was not started")?;
    Ok(Logging(()))
}

/// Writes events to `out`, a line each.
fn layer<S, W>(format: LogFormat, ansi: bool, out: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let layer = tracing_subscriber::fmt::layer()
        .with_ansi(ansi)
        .log_internal_errors(false)
        .with_writer(out);
    let event = tracing_subscriber::fmt::format().with_ansi(ansi);
    match format {
        LogFormat::Human => {
            let event = event.with_target(false);
            layer.event_format(WithCall { format, event }).boxed()
        }
        LogFormat::Json => {
            let event = event.json().flatten_event(true);
            let layer = layer.fmt_fields(JsonFields::new());
            layer.event_format(WithCall { format, event }).boxed()
        }
    }
}

/// Ends the process at once, for a fault after which it would be half dead: a supervisor
/// starts a new one, which is whole again. Nothing acknowledged is lost by that.
pub(crate) fn abort(why: &str) -> ! {
    tracing::error!("{why}; the process ends");
    lines::flush(FLUSH_TIME);
    std::process::abort()
}

/// Reads a level, or a list of `target=level`, as the setting `log_level` has it.
pub(crate) fn filter(level: &str) -> anyhow::Result<EnvFilter> {
    EnvFilter::builder()
        .parse(level)
        .with_context(|| "log_level: error, warn, info, debug, trace, or a list of target=level")
}
