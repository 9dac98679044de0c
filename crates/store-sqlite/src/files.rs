//! Atomic file writes: a file is there completely or not at all.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use crate::SyncMode;

/// Creates a directory accessible to this user only, with its parents; it may exist.
pub(crate) fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates a file readable by this user only, for a directory that others can read; it must not exist.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Syncs a directory, which makes its entries durable.
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Writes `path` through `temporary` (on the same file system): readers, and a restart after a crash, see all
/// of it or nothing.
pub(crate) fn write_whole(
    temporary: &Path,
    path: &Path,
    sync: SyncMode,
    content: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let written = File::create(temporary).and_then(|mut file| {
        content(&mut file)?;
        file.flush()?;
        if sync == SyncMode::Durable { file.sync_all() } else { Ok(()) }
    });
    let result =
        written.and_then(|()| fs::rename(temporary, path)).and_then(|()| match (sync, path.parent()) {
            (SyncMode::Durable, Some(parent)) => sync_dir(parent),
            _ => Ok(()),
        });
    if result.is_err() {
        let _ = fs::remove_file(temporary); // the first error is the one to tell
    }
    result
}

/// Whether a directory is missing or contains only what `mkfs` leaves in a mount point.
pub(crate) fn is_empty_dir(path: &Path) -> io::Result<bool> {
    match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
        Ok(entries) => {
            for entry in entries {
                if entry?.file_name() != "lost+found" {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}
