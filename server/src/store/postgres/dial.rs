//! Opens connections, reads their notices, and finds out whether a session is ours alone.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::Connect;
use tokio::task::JoinHandle;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::{AsyncMessage, Client, NoTls, SimpleQueryMessage};

use super::OpenError;

/// With keepalive, a primary that died without a word is noticed in ten seconds.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(4);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVE_RETRIES: u32 = 3;
const UNANSWERED_MAX: Duration = Duration::from_secs(10);
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How a session plans a statement once for all its uses: by keys, also while the table is
/// small or its size is not known, since the plan outlives that. A pooler that shares
/// sessions refuses such options, or leaves them out.
const PLAN_ONCE: &str = "-c plan_cache_mode=force_generic_plan -c jit=off \
    -c enable_seqscan=off -c enable_bitmapscan=off -c enable_mergejoin=off";
/// Tells whether it does.
const PLANS_ONCE: &str = "select current_setting('plan_cache_mode') = 'force_generic_plan'";

/// Are the sessions of a database ours alone, so that statements can be named and planned
/// once? Behind a pooler that shares them between transactions a name may be another's.
#[derive(Clone)]
pub(super) struct Session {
    found_out: bool,
    ours: Arc<AtomicBool>,
}

impl Session {
    /// As it is set, or, if it is not, as it is found out with each connection: once one is
    /// not ours, none is.
    pub(super) fn new(set: Option<bool>) -> Self {
        Self {
            found_out: set.is_none(),
            ours: Arc::new(AtomicBool::new(set.unwrap_or(true))),
        }
    }

    /// May statements be named? To be asked with a connection in hand.
    pub(super) fn is_ours(&self) -> bool {
        self.ours.load(Ordering::Relaxed)
    }

    fn is_not_ours(&self) {
        if self.found_out && self.ours.swap(false, Ordering::Relaxed) {
            tracing::info!("the database is behind a pooler; statements are not named");
        }
    }
}

/// Opens connections.
#[derive(Default)]
pub(super) struct Dial {
    session: Option<Session>,
}

type Dialled = Result<(Client, JoinHandle<()>), tokio_postgres::Error>;

impl Dial {
    /// For statements that are to be planned once.
    pub(super) fn to_plan_once(session: &Session) -> Self {
        Self {
            session: Some(session.clone()),
        }
    }

    async fn dial(&self, config: &tokio_postgres::Config) -> Dialled {
        let session = self.session.as_ref().filter(|session| session.is_ours());
        let Some(session) = session else {
            return open(config).await;
        };
        let options = [config.get_options(), Some(PLAN_ONCE)];
        let options: Vec<&str> = options.into_iter().flatten().collect();
        let opened = match open(config.clone().options(options.join(" "))).await {
            Err(error) if error.code() == Some(&SqlState::PROTOCOL_VIOLATION) => {
                session.is_not_ours();
                return open(config).await;
            }
            opened => opened?,
        };
        let told = opened.0.simple_query(PLANS_ONCE).await?;
        let planned_once = told.iter().any(
            |message| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("t")),
        );
        if !planned_once {
            session.is_not_ours();
        }
        Ok(opened)
    }
}

impl Connect for Dial {
    fn connect(
        &self,
        config: &tokio_postgres::Config,
    ) -> Pin<Box<dyn Future<Output = Dialled> + Send + '_>> {
        let config = config.clone();
        Box::pin(async move { self.dial(&config).await })
    }
}

/// Connects, and reads the connection's notices.
async fn open(config: &tokio_postgres::Config) -> Dialled {
    let (client, mut connection) = config.connect(NoTls).await?;
    let driver = tokio::spawn(async move {
        loop {
            match poll_fn(|context| connection.poll_message(context)).await {
                // Ending here closes the connection, which makes everything in flight on it
                // unknown.
                Some(Ok(AsyncMessage::Notice(notice))) if gave_up_replication(&notice) => {
                    tracing::warn!(%notice, "a commit may not have been replicated");
                    break;
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    tracing::debug!(%error, "a database connection ended");
                    break;
                }
                None => break,
            }
        }
    });
    Ok((client, driver))
}

/// "canceling wait for synchronous replication". The text is translated, the routine not.
fn gave_up_replication(notice: &DbError) -> bool {
    notice.routine() == Some("SyncRepWaitForLSN")
}

/// Where to connect, with what a primary's clients need.
pub(super) fn target(url: &str) -> Result<tokio_postgres::Config, OpenError> {
    let mut target: tokio_postgres::Config = url.parse().map_err(OpenError::Url)?;
    if target.get_ssl_mode() == SslMode::Require {
        return Err(OpenError::Tls);
    }
    target
        .target_session_attrs(TargetSessionAttrs::ReadWrite)
        .keepalives(true)
        .keepalives_idle(KEEPALIVE_IDLE)
        .keepalives_interval(KEEPALIVE_INTERVAL)
        .keepalives_retries(KEEPALIVE_RETRIES)
        .tcp_user_timeout(UNANSWERED_MAX);
    if target.get_connect_timeout().is_none() {
        target.connect_timeout(CONNECT_TIMEOUT);
    }
    if target.get_application_name().is_none() {
        target.application_name("reprise");
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encrypted_connection_is_not_promised_in_silence() {
        let error = target("postgres://u:secret@h/d?sslmode=require").expect_err("no TLS here");
        assert!(matches!(error, OpenError::Tls));
        assert!(error.to_string().contains("sslmode"), "{error}");
    }

    #[test]
    fn several_hosts_are_tried_for_the_one_that_can_be_written_to() {
        let target = target("postgres://u@one:1,two:2/d").expect("a list of hosts");
        assert_eq!(target.get_hosts().len(), 2);
        assert_eq!(
            target.get_target_session_attrs(),
            TargetSessionAttrs::ReadWrite
        );
        assert!(target.get_keepalives());
    }
}
