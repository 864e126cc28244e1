//! What a log line says of the call during which it was written: its method, and whose
//! records or policies it is about. Lines are rare and calls are not, so a call only keeps
//! this at hand.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use http::uri::PathAndQuery;
use reprise_domain::RecordName;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::config::LogFormat;

tokio::task_local! {
    static CALL: Arc<Call>;
}

struct Call {
    path: Option<PathAndQuery>,
    about: Mutex<Option<About>>,
}

#[derive(Clone)]
enum About {
    Record(RecordName),
    Scope { tenant: String, operation: String },
}

/// Runs what answers a call. Of a path that is not given, lines say `other`.
pub(crate) fn scope<F: Future>(
    path: Option<PathAndQuery>,
    answer: F,
) -> impl Future<Output = F::Output> {
    let about = Mutex::default();
    CALL.scope(Arc::new(Call { path, about }), answer)
}

/// Runs a part of the call that goes on in a task of its own.
pub(crate) fn part<F: Future>(part: F) -> impl Future<Output = F::Output> {
    let call = CALL.try_with(Arc::clone).ok();
    async move {
        match call {
            Some(call) => CALL.scope(call, part).await,
            None => part.await,
        }
    }
}

/// Notes which record the call is about.
pub(crate) fn note_record(name: &RecordName) {
    note(|| About::Record(name.clone()));
}

/// Notes whose records or policies the call is about.
pub(crate) fn note_scope(tenant: &str, operation: &str) {
    note(|| About::Scope {
        tenant: tenant.to_owned(),
        operation: operation.to_owned(),
    });
}

fn note(about: impl FnOnce() -> About) {
    // What is not part of a call has nobody to tell.
    let _ = CALL.try_with(|call| {
        *call.about.lock().unwrap_or_else(PoisonError::into_inner) = Some(about());
    });
}

/// What is known of the call, in the words of the log.
fn fields() -> Option<Vec<(&'static str, String)>> {
    let call = CALL.try_with(Arc::clone).ok()?;
    let method = call.path.as_ref().map_or("other", PathAndQuery::path);
    let mut fields = vec![("method", method.to_owned())];
    let about = call.about.lock().unwrap_or_else(PoisonError::into_inner);
    let (tenant, operation, record) = match about.clone() {
        Some(About::Record(name)) => {
            // Its id is a hash and shows nothing of the key.
            let mut id = name.id().to_string();
            id.truncate(16);
            let (tenant, operation) = (name.tenant().to_owned(), name.operation().to_owned());
            (tenant, operation, Some(id))
        }
        Some(About::Scope { tenant, operation }) => (tenant, operation, None),
        None => return Some(fields),
    };
    fields.extend([("tenant", tenant), ("operation", operation)]);
    fields.extend(record.map(|record| ("record", record)));
    Some(fields)
}

/// Adds the call to what `F` writes of an event: in front of the end of its line.
pub(super) struct WithCall<F> {
    pub(super) format: LogFormat,
    pub(super) event: F,
}

impl<S, N, F> FormatEvent<S, N> for WithCall<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(fields) = fields() else {
            return self.event.format_event(context, out, event);
        };
        let mut line = String::new();
        self.event
            .format_event(context, Writer::new(&mut line), event)?;
        let end = match self.format {
            LogFormat::Human => "\n",
            LogFormat::Json => "}\n",
        };
        line.truncate(line.trim_end_matches(end).len());
        for (name, value) in fields {
            match self.format {
                LogFormat::Human => write!(line, " {name}={value:?}")?,
                LogFormat::Json => {
                    let value = serde_json::to_string(&value).map_err(|_| fmt::Error)?;
                    write!(line, ",\"{name}\":{value}")?;
                }
            }
        }
        line.push_str(end);
        out.write_str(&line)
    }
}
