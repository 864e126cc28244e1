//! Connections whose statement was given up. The statement runs on in the database, and is
//! not cancelled, so its connection is kept, unused, until it has ended: closed, the backend
//! would live on unseen, and new ones would pile up behind whatever it waits for.

use std::sync::Arc;

use deadpool_postgres::Object;
use tokio::sync::Semaphore;
use tokio_postgres::Client;

/// Room for as many of them, outside of the pool, as the pool has connections. With both
/// full, nothing new is sent until a statement has ended.
pub(super) struct GivenUp {
    room: Arc<Semaphore>,
}

impl GivenUp {
    pub(super) fn new(pool_size: usize) -> Self {
        Self {
            room: Arc::new(Semaphore::new(pool_size)),
        }
    }

    /// Keeps a connection until its statement has ended, then closes it. While there is
    /// room, its place in the pool is free at once, for a connection to another host.
    pub(super) fn keep(&self, client: Object) {
        let room = Arc::clone(&self.room).try_acquire_owned();
        tokio::spawn(async move {
            match room {
                Ok(place) => {
                    let client = Object::take(client);
                    ended(&client).await;
                    drop(client);
                    drop(place);
                }
                Err(_full) => {
                    ended(&client).await;
                    drop(Object::take(client));
                }
            }
        });
    }
}

/// Waits for the answer to a query behind the statement. A peer that died without a word is
/// noticed by keepalive.
async fn ended(client: &Client) {
    if let Err(error) = client.simple_query("").await {
        tracing::debug!(%error, "a connection ended with its statement");
    }
}
