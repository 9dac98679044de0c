//! Converts errors of SQLite and the operating system into the store's errors.

use std::{
    io,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use flint_store::StoreError;
use rusqlite::{Connection, ErrorCode, ffi};

/// The error of a file operation on `path`.
pub(crate) fn file_fault(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::Full { what: operation.to_owned() }
        }
        _ => StoreError::Failed { operation, detail: format!("{}: {error}", path.display()) },
    }
}

/// The error of a statement on `connection`.
pub(crate) fn sql_fault(
    connection: &Connection,
    operation: &'static str,
) -> impl Fn(rusqlite::Error) -> StoreError {
    move |error| database_fault(Path::new(connection.path().unwrap_or("flint.db")), operation, &error)
}

/// The error of an operation on the database file at `path`.
pub(crate) fn database_fault(path: &Path, operation: &'static str, error: &rusqlite::Error) -> StoreError {
    let damaged = || StoreError::Damaged { path: path.to_owned(), detail: error.to_string() };
    match error.sqlite_error_code() {
        // SQLite reports a full disk as an I/O error when the WAL's shared-memory file has to grow.
        Some(ErrorCode::DiskFull) => StoreError::Full { what: operation.to_owned() },
        Some(ErrorCode::SystemIoFailure)
            if error.sqlite_error().is_some_and(|inner| inner.extended_code == ffi::SQLITE_IOERR_SHMSIZE) =>
        {
            StoreError::Full { what: operation.to_owned() }
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => damaged(),
        _ => StoreError::Failed { operation, detail: format!("{}: {error}", path.display()) },
    }
}

/// A value in the database that cannot be parsed.
pub(crate) fn unreadable(connection: &Connection, what: &str, error: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged {
        path: connection.path().unwrap_or("flint.db").into(),
        detail: format!("{what} cannot be read: {error}"),
    }
}

/// A request after [`crate::SqliteStore::close`].
pub(crate) fn closed(operation: &'static str) -> StoreError {
    StoreError::Failed { operation, detail: "the store is closed".to_owned() }
}

/// Copies an error for several callers.
pub(crate) fn same(error: &StoreError) -> StoreError {
    match error {
        StoreError::Conflict => StoreError::Conflict,
        StoreError::TooMany { allowed } => StoreError::TooMany { allowed: *allowed },
        StoreError::Full { what } => StoreError::Full { what: what.clone() },
        StoreError::Damaged { path, detail } => {
            StoreError::Damaged { path: path.clone(), detail: detail.clone() }
        }
        StoreError::InUse { path, pid } => StoreError::InUse { path: path.clone(), pid: *pid },
        StoreError::TooNew { found, known } => StoreError::TooNew { found: *found, known: *known },
        StoreError::Failed { operation, detail } => StoreError::Failed { operation, detail: detail.clone() },
        other => StoreError::Failed { operation: "writing", detail: other.to_string() },
    }
}

/// Locks a mutex even if poisoned: every guarded state here is valid between two statements.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
