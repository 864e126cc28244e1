//! Waiting for a fact about another process: looks often, gives up at a deadline.
//! Knows nothing of what is waited for.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long it rests between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Calls `look` until it answers `Some`, and returns that.
///
/// # Errors
/// The error of `look` at once; else, after `limit`, one that names `what`.
pub fn until<T>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if Instant::now() >= deadline {
            bail!("waited {limit:?} in vain for {what}");
        }
        thread::sleep(PAUSE);
    }
}

/// Like [`until`], for a condition that is true or not yet, in async code.
///
/// # Errors
/// After `limit`, one that names `what`.
pub async fn until_true(
    what: &str,
    limit: Duration,
    mut holds: impl AsyncFnMut() -> bool,
) -> Result<()> {
    let deadline = Instant::now() + limit;
    while !holds().await {
        if Instant::now() >= deadline {
            bail!("waited {limit:?} in vain for {what}");
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
