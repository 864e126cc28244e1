//! Is this database one that keeps what it acknowledged? Asked at start; what a session can
//! turn off later, every statement that writes turns on again.

use std::time::{Duration, Instant};

use super::OpenError;
use super::database::Database;

/// The oldest supported version, as `server_version_num` counts.
const VERSION_MIN: i32 = 150_000;

/// In the session's own view, so that what a role or a database overrides is seen.
const SQL: &str = "select current_setting('server_version_num')::int4,
    current_setting('server_version'), current_setting('fsync'),
    current_setting('synchronous_commit'), current_setting('full_page_writes'),
    current_setting('default_transaction_isolation'), current_setting('server_encoding')";

/// Makes the commit of the statement around it wait for the disk, whatever the session has
/// by now; what waits for replicas too stays as it is. `instead` is the SQL of what `off`
/// becomes ([`Database::if_commit_is_off`]).
pub(super) fn durable_commit(instead: &str) -> String {
    format!(
        "set_config('synchronous_commit',
            coalesce(nullif(current_setting('synchronous_commit'), 'off'), {instead}), true)"
    )
}

/// Can every text be kept?
pub(super) fn check_encoding(found: String) -> Result<(), OpenError> {
    if found == "UTF8" {
        Ok(())
    } else {
        Err(OpenError::Encoding { found })
    }
}

pub(super) async fn check(database: &Database, allow_unsafe: bool) -> Result<(), OpenError> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let rows = database.run(SQL, &[], deadline).await?;
    let row = rows.first().ok_or(OpenError::NoAnswer)?;
    let (version, setting) = (row.try_get::<_, i32>(0)?, |at| row.try_get::<_, String>(at));
    if version < VERSION_MIN {
        return Err(OpenError::VersionTooOld { found: setting(1)? });
    }
    check_encoding(setting(6)?)?;
    for (name, at) in [("fsync", 2), ("synchronous_commit", 3)] {
        if setting(at)? != "off" {
            continue;
        }
        if !allow_unsafe {
            return Err(OpenError::Unsafe { setting: name });
        }
        tracing::warn!("{name} is off: a crash of the database loses acknowledged writes");
    }
    if setting(4)? == "off" {
        tracing::warn!("full_page_writes is off: a crash of the database may damage records");
    }
    let isolation = setting(5)?;
    if isolation != "read committed" {
        tracing::warn!(
            %isolation,
            "default_transaction_isolation is stricter than needed: statements that lose a \
             race are repeated, which costs time; `alter role ... set \
             default_transaction_isolation = 'read committed'` is better"
        );
    }
    Ok(())
}
