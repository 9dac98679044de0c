//! Opens connections to `flint.db`.

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

use flint_store::StoreError;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::{
    SyncMode,
    fault::{database_fault, file_fault},
    files, schema,
};

/// Time limit of the consistency check on open. A larger database is checked only in part.
const CHECK_TIME: Duration = Duration::from_secs(5);
/// SQLite virtual-machine steps between two checks of that limit.
const CHECK_STEPS: i32 = 100_000;

/// Opens the database for the writer: checked, migrated, in WAL mode.
pub(crate) fn open_writer(path: &Path, sync: SyncMode) -> Result<Connection, StoreError> {
    const OPERATION: &str = "opening the database";
    let fault = |error: rusqlite::Error| database_fault(path, OPERATION, &error);
    match files::create_new(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(file_fault(OPERATION, path)(error));
        }
        _ => {}
    }
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(fault)?;
    configure(&connection).map_err(fault)?;
    connection.pragma_update(None, "journal_mode", "WAL").map_err(fault)?;
    connection
        .pragma_update(None, "synchronous", if sync == SyncMode::Durable { "FULL" } else { "OFF" })
        .map_err(fault)?;
    // A backup or a long read lets the WAL grow; this returns the space afterwards.
    connection.pragma_update(None, "journal_size_limit", 64 << 20).map_err(fault)?;
    check(&mut connection, path)?;
    schema::migrate(&mut connection, path)?;
    Ok(connection)
}

/// Opens the database for reading, concurrently with the writer.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let fault = |error: rusqlite::Error| database_fault(path, "opening the database", &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(fault)?;
    configure(&connection).map_err(fault)?;
    Ok(connection)
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Refuses a corrupt database.
fn check(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    const OPERATION: &str = "checking the database";
    let end = Instant::now() + CHECK_TIME;
    let fault = |error: rusqlite::Error| database_fault(path, OPERATION, &error);
    connection.progress_handler(CHECK_STEPS, Some(move || Instant::now() > end)).map_err(fault)?;
    let answer: rusqlite::Result<String> =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0));
    connection.progress_handler(0, None::<fn() -> bool>).map_err(fault)?;
    match answer {
        Ok(text) if text == "ok" => Ok(()),
        Ok(text) => Err(StoreError::Damaged { path: path.to_owned(), detail: text.replace('\n', " ") }),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
            tracing::info!(path = %path.display(), "the database is large: checked in part, without a finding");
            Ok(())
        }
        Err(error) => Err(fault(error)),
    }
}
