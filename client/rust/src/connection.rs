//! How to reach the server: settings, and the one channel that all calls share. Knows
//! nothing of what is sent.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::task::TaskTracker;
use tonic::transport::{Channel, Endpoint};

use crate::error::Error;

/// Default of [`Builder::deadline`].
pub const DEADLINE_DEFAULT: Duration = Duration::from_secs(5);
/// Default of [`Builder::connect_timeout`].
pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(2);
/// Default of [`Builder::background_limit`].
pub const BACKGROUND_LIMIT_DEFAULT: Duration = Duration::from_secs(600);

/// Pings go out only while calls are in flight. Common servers count a ping as abuse
/// when it comes within five minutes of the one before and nothing was answered in
/// between, and hang up at the third: no call is held long enough for three.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// An idle connection is kept by TCP alone, which no server counts.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

type MakeChannel = dyn Fn(Endpoint) -> Channel + Send + Sync;

/// Settings of a [`Client`].
pub struct Builder {
    endpoint: String,
    connect_timeout: Duration,
    deadline: Duration,
    background_limit: Duration,
    channels: Arc<MakeChannel>,
}

impl Builder {
    fn new(endpoint: String) -> Builder {
        Builder {
            endpoint,
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
            deadline: DEADLINE_DEFAULT,
            background_limit: BACKGROUND_LIMIT_DEFAULT,
            channels: Arc::new(|endpoint| endpoint.connect_lazy()),
        }
    }

    /// How long one attempt to connect may take: at most two fifths of the deadline.
    /// Default 2 s.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Builder {
        self.connect_timeout = limit;
        self
    }

    /// How long a call may take with all its tries. A call with a wait gets this on top
    /// of its wait. Default 5 s.
    #[must_use]
    pub fn deadline(mut self, limit: Duration) -> Builder {
        self.deadline = limit;
        self
    }

    /// How long a report that did not get through within its deadline is repeated in
    /// the background. Default 10 min.
    #[must_use]
    pub fn background_limit(mut self, limit: Duration) -> Builder {
        self.background_limit = limit;
        self
    }

    /// Makes channels in another way than over TCP, e.g. through a proxy or a Unix
    /// socket, from the endpoint with all other settings applied. Called again when a
    /// connection fell silent, so it must connect anew and lazily.
    #[must_use]
    pub fn channels(
        mut self,
        make: impl Fn(Endpoint) -> Channel + Send + Sync + 'static,
    ) -> Builder {
        self.channels = Arc::new(make);
        self
    }

    /// Checks the settings. Connects nowhere: the first call does.
    ///
    /// # Errors
    /// [`Error::Endpoint`] when the endpoint is not an `http://host:port`.
    pub fn build(self) -> Result<Client, Error> {
        let refused = |cause: String| Error::Endpoint {
            endpoint: self.endpoint.clone(),
            cause,
        };
        let endpoint = Endpoint::from_shared(self.endpoint.clone())
            .map_err(|error| refused(error.to_string()))?;
        match endpoint.uri().scheme_str() {
            Some("http") => {}
            _ => return Err(refused("must be http://host:port".to_owned())),
        }
        let endpoint = endpoint
            // Below what one try gets, so that a host that does not answer is known as
            // never sent to.
            .connect_timeout(self.connect_timeout.min(self.deadline * 2 / 5))
            .tcp_nodelay(true)
            .tcp_keepalive(Some(TCP_KEEPALIVE))
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(false);
        Ok(Client {
            shared: Arc::new(Shared {
                connection: Connection {
                    endpoint,
                    make: self.channels,
                    current: Mutex::new((0, None)),
                },
                background: TaskTracker::new(),
                background_limit: self.background_limit,
            }),
            deadline: self.deadline,
        })
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("endpoint", &self.endpoint)
            .field("connect_timeout", &self.connect_timeout)
            .field("deadline", &self.deadline)
            .field("background_limit", &self.background_limit)
            .finish_non_exhaustive()
    }
}

/// A client of one Reprise service. Cheap to clone; clones share one connection, made
/// by the first call and made again when it breaks.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    pub(crate) deadline: Duration,
}

struct Shared {
    connection: Connection,
    background: TaskTracker,
    background_limit: Duration,
}

impl Client {
    /// Begins a client for `endpoint`, e.g. `http://127.0.0.1:7900`.
    pub fn builder(endpoint: impl Into<String>) -> Builder {
        Builder::new(endpoint.into())
    }

    /// The same client with another deadline for its calls.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Client {
        Client {
            shared: Arc::clone(&self.shared),
            deadline,
        }
    }

    /// Waits, at most for `limit`, until what runs in the background is done: grants
    /// being given back, and reports that did not get through yet. Answers whether all
    /// is done. To be called before the runtime ends; calls may still be made after it.
    pub async fn close(&self, limit: Duration) -> bool {
        self.shared.background.close();
        tokio::time::timeout(limit, self.shared.background.wait())
            .await
            .is_ok()
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.shared.connection
    }

    pub(crate) fn background(&self) -> &TaskTracker {
        &self.shared.background
    }

    pub(crate) fn background_limit(&self) -> Duration {
        self.shared.background_limit
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("endpoint", self.shared.connection.endpoint.uri())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// The channel in use, and how to make the next one.
pub(crate) struct Connection {
    endpoint: Endpoint,
    make: Arc<MakeChannel>,
    current: Mutex<(u64, Option<Channel>)>,
}

/// A channel with its number, so that only the one that fell silent is given up.
pub(crate) struct Line {
    pub(crate) channel: Channel,
    pub(crate) number: u64,
}

impl Connection {
    /// The channel for the next try.
    pub(crate) fn line(&self) -> Line {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, channel) = &mut *current;
        Line {
            channel: channel
                .get_or_insert_with(|| (self.make)(self.endpoint.clone()))
                .clone(),
            number: *number,
        }
    }

    /// Gives up the channel `number`, on which a try stayed without an answer: the peer
    /// may have vanished. Calls that are still in flight on it end there undisturbed.
    pub(crate) fn abandon(&self, number: u64) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.0 == number {
            *current = (number + 1, None);
        }
    }
}
