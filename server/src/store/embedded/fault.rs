//! What a failed statement means to the caller.

use reprise_domain::RecordId;
use rusqlite::ErrorCode;

use crate::store::Error;

/// Of a statement about the file as a whole.
pub(super) fn general(cause: rusqlite::Error) -> Error {
    match cause.sqlite_error_code() {
        // All of these may pass: space returns, a disk comes back, somebody who looked
        // into the file with another program is done.
        Some(
            ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::OutOfMemory
            | ErrorCode::FileLockingProtocolFailed,
        ) => Error::unavailable(cause),
        _ => Error::internal(cause),
    }
}

/// Of a statement about one record.
pub(super) fn of_record(id: RecordId) -> impl Fn(rusqlite::Error) -> Error {
    move |cause| match cause {
        rusqlite::Error::FromSqlConversionFailure(..) | rusqlite::Error::Utf8Error(..) => {
            Error::Damaged(id)
        }
        _ if is_damage(&cause) => Error::Damaged(id),
        _ => general(cause),
    }
}

/// SQLite itself found the file inconsistent.
pub(super) fn is_damage(cause: &rusqlite::Error) -> bool {
    cause.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt)
}
