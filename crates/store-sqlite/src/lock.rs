//! The lock on a data directory: one server at a time.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    thread,
    time::Duration,
};

use flint_store::StoreError;

use crate::fault::file_fault;

/// Number of attempts at the lock, and the delay between them: a command that checks for a running server
/// holds it for a moment.
const TRIES: usize = 25;
const PAUSE: Duration = Duration::from_millis(20);

/// The exclusive right to use a data directory; the kernel releases it when the process ends, however it
/// ends.
#[derive(Debug)]
pub(crate) struct DataDirLock {
    _file: File,
}

impl DataDirLock {
    pub(crate) const FILE: &str = "flint.lock";

    /// Locks the directory, or says who holds it.
    pub(crate) fn take(data_dir: &Path) -> Result<Self, StoreError> {
        const OPERATION: &str = "locking the data directory";
        let path = data_dir.join(Self::FILE);
        let fault = || file_fault(OPERATION, &path);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            // Anybody who can read the file could lock it.
            .mode(0o600)
            .open(&path)
            .map_err(fault())?;
        let mut locked = file.try_lock();
        for _ in 1..TRIES {
            if !matches!(locked, Err(TryLockError::WouldBlock)) {
                break;
            }
            thread::sleep(PAUSE);
            locked = file.try_lock();
        }
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let pid =
                    file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok()).unwrap_or(0);
                return Err(StoreError::InUse { path: data_dir.to_owned(), pid });
            }
            Err(TryLockError::Error(error)) => return Err(fault()(error)),
        }
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        // The process id only serves the message: a disk too full for it must not keep the server from
        // starting.
        if let Err(error) = written {
            tracing::warn!(%error, path = %path.display(), "the lock file does not name this process");
        }
        Ok(Self { _file: file })
    }
}
