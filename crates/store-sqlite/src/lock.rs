//! The lock on a data directory: one server at a time.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

use flint_store::StoreError;

use crate::{SyncMode, fault::file_fault, files};

/// Number of attempts at the lock, and the delay between them: a command that checks for a running server
/// holds it for a moment.
const TRIES: usize = 25;
const PAUSE: Duration = Duration::from_millis(20);

const OPERATION: &str = "locking the data directory";

/// The exclusive right to use a data directory. It ends with its last copy; the kernel ends it with the process,
/// however that ends.
#[derive(Clone, Debug)]
pub struct DataDirLock {
    _file: Arc<File>,
}

impl DataDirLock {
    /// The locked file in the directory. It stays there as long as the directory does.
    pub const FILE: &str = "flint.lock";

    /// Locks the directory, which is created if missing, or says who holds it. Blocking.
    pub fn take(data_dir: &Path) -> Result<Self, StoreError> {
        let path = data_dir.join(Self::FILE);
        let fault = || file_fault(OPERATION, &path);
        let mut refused = StoreError::InUse { path: data_dir.to_owned(), pid: 0 };
        for _ in 0..TRIES {
            files::make_dir(data_dir, SyncMode::Durable)
                .map_err(file_fault("opening the data directory", data_dir))?;
            let mut file = match open(&path) {
                // The directory was moved or removed in between.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    refused = fault()(error);
                    continue;
                }
                opened => opened.map_err(fault())?,
            };
            match file.try_lock() {
                Ok(()) if is_at(&file, &path).map_err(fault())? => {
                    sign(&mut file, &path);
                    return Ok(Self { _file: Arc::new(file) });
                }
                // So it was in between: the lock is one on another place.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    refused = StoreError::InUse { path: data_dir.to_owned(), pid: pid_in(&mut file) };
                    thread::sleep(PAUSE);
                }
                Err(TryLockError::Error(error)) => return Err(fault()(error)),
            }
        }
        Err(refused)
    }

    /// Removes the directory that is locked, with everything in it. Whoever waits for the lock makes a new one.
    pub fn remove_dir(self, data_dir: &Path) -> io::Result<()> {
        let name = data_dir.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
        // Under another name first: what others begin to make there from now on is not removed with it.
        let going = data_dir.with_file_name(format!("{name}.removing-{}", std::process::id()));
        fs::rename(data_dir, &going)?;
        fs::remove_dir_all(going)
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        // Anybody who can read the file could lock it.
        .mode(0o600)
        .open(path)
}

/// Whether the open file is the one at `path`.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The process that holds the lock; 0 when unknown.
fn pid_in(file: &mut File) -> u32 {
    let mut text = String::new();
    file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok()).unwrap_or(0)
}

/// Writes this process into the file. That only serves the message: a disk too full for it must not keep the
/// server from starting.
fn sign(file: &mut File, path: &Path) {
    let written =
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    if let Err(error) = written {
        tracing::warn!(%error, path = %path.display(), "the lock file does not name this process");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_one_on_what_is_at_the_path_now() {
        let base = tempfile::tempdir().unwrap();
        let (data, aside) = (base.path().join("data"), base.path().join("aside"));
        let old = DataDirLock::take(&data).unwrap();
        fs::rename(&data, &aside).unwrap();
        let new = DataDirLock::take(&data).unwrap();
        assert!(matches!(DataDirLock::take(&data), Err(StoreError::InUse { .. })));
        assert!(matches!(DataDirLock::take(&aside), Err(StoreError::InUse { .. })));
        drop(old);
        drop(DataDirLock::take(&aside).unwrap());
        drop(new);
    }

    /// One that opened the file and gets its lock when the directory has gone has to start over.
    #[test]
    fn who_waits_while_the_directory_goes_has_the_next_one() {
        let base = tempfile::tempdir().unwrap();
        let data = base.path().join("data");
        for _ in 0..20 {
            let first = DataDirLock::take(&data).unwrap();
            fs::write(data.join("old"), "").unwrap();
            let waiting = thread::spawn({
                let data = data.clone();
                move || DataDirLock::take(&data)
            });
            first.remove_dir(&data).unwrap();
            let second = waiting.join().unwrap().unwrap();
            assert!(data.join(DataDirLock::FILE).exists() && !data.join("old").exists());
            second.remove_dir(&data).unwrap();
            assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_file_that_was_unlinked_or_replaced_is_not_the_one_at_the_path() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join(DataDirLock::FILE);
        let file = open(&path).unwrap();
        assert!(is_at(&file, &path).unwrap());
        fs::remove_file(&path).unwrap();
        assert!(!is_at(&file, &path).unwrap());
        let other = open(&path).unwrap();
        assert!(!is_at(&file, &path).unwrap() && is_at(&other, &path).unwrap());
    }
}
