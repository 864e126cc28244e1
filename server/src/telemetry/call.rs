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

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use anyhow::Result;
    use serde_json::Value;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Out(Arc<Mutex<Vec<u8>>>);

    impl Write for Out {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines of a call that is about a record, from before that was known to after the
    /// call.
    async fn lines(format: LogFormat) -> Result<(String, Vec<String>)> {
        let out = Out::default();
        let writer = out.clone();
        let layer = crate::telemetry::layer(format, false, move || writer.clone());
        let subscriber = tracing_subscriber::registry().with(layer);
        let _logging = tracing::subscriber::set_default(subscriber);
        let name = RecordName::new("shop", "charge", "", "a-secret-key")?;
        let path = "/reprise.v1.RepriseService/Reserve".parse()?;
        scope(Some(path), async {
            tracing::warn!("begun");
            note_record(&name);
            tracing::warn!(cause = "some {} cause", "about");
            let apart = tokio::spawn(part(async { tracing::warn!("apart") }));
            apart.await
        })
        .await?;
        scope(None, async {
            note_scope("t", "");
            tracing::warn!("elsewhere");
        })
        .await;
        tracing::warn!("outside");
        let bytes = out.0.lock().unwrap().clone();
        let lines = String::from_utf8(bytes)?;
        assert!(
            lines.ends_with('\n') && !lines.contains("secret"),
            "{lines}"
        );
        let id = name.id().to_string()[..16].to_owned();
        Ok((id, lines.lines().map(str::to_owned).collect()))
    }

    #[tokio::test]
    async fn a_line_for_people_ends_with_its_call() -> Result<()> {
        let (id, lines) = lines(LogFormat::Human).await?;
        let method = " method=\"/reprise.v1.RepriseService/Reserve\"";
        let about = format!(" tenant=\"shop\" operation=\"charge\" record=\"{id}\"");
        for (line, end) in lines.iter().zip([
            format!("begun{method}"),
            format!("about cause=\"some {{}} cause\"{method}{about}"),
            format!("apart{method}{about}"),
            "elsewhere method=\"other\" tenant=\"t\" operation=\"\"".to_owned(),
            "outside".to_owned(),
        ]) {
            assert!(line.ends_with(&end), "{line}");
        }
        assert_eq!(lines.len(), 5);
        Ok(())
    }

    #[tokio::test]
    async fn a_line_for_programs_has_its_call_as_members() -> Result<()> {
        let (id, lines) = lines(LogFormat::Json).await?;
        let lines: Vec<Value> = lines
            .iter()
            .map(|line| serde_json::from_str(line))
            .collect::<serde_json::Result<_>>()?;
        let members = |line: &Value| {
            let of = |name: &str| line.get(name).and_then(Value::as_str).map(str::to_owned);
            ["message", "method", "tenant", "operation", "record"].map(of)
        };
        let method = "/reprise.v1.RepriseService/Reserve";
        let expected = [
            [Some("begun"), Some(method), None, None, None],
            [
                Some("about"),
                Some(method),
                Some("shop"),
                Some("charge"),
                Some(&id),
            ],
            [
                Some("apart"),
                Some(method),
                Some("shop"),
                Some("charge"),
                Some(&id),
            ],
            [Some("elsewhere"), Some("other"), Some("t"), Some(""), None],
            [Some("outside"), None, None, None, None],
        ];
        let found: Vec<_> = lines.iter().map(members).collect();
        assert_eq!(
            found,
            expected.map(|line| line.map(|it| it.map(str::to_owned)))
        );
        assert_eq!(lines[1]["cause"], "some {} cause");
        Ok(())
    }
}
