//! Atomic file writes: a file is there completely or not at all.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use crate::SyncMode;

/// Creates a directory accessible to this user only, with its parents; it may exist. If it is created, its name is
/// as durable as what is written into it.
pub(crate) fn make_dir(path: &Path, sync: SyncMode) -> io::Result<()> {
    let missing: Vec<_> = path.ancestors().take_while(|path| is_missing(path)).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    if sync == SyncMode::Durable {
        for made in missing {
            sync_dir(parent(made))?;
        }
    }
    Ok(())
}

fn is_missing(path: &Path) -> bool {
    !path.as_os_str().is_empty() && !path.exists()
}

/// The directory that has the entry of `path`, which may be relative.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_made_with_its_parents_or_is_there() {
        let base = tempfile::tempdir().unwrap();
        let deep = base.path().join("a/b/c");
        for sync in [SyncMode::Durable, SyncMode::ProcessOnly, SyncMode::Durable] {
            make_dir(&deep, sync).unwrap();
            assert!(deep.is_dir());
        }
        std::fs::write(base.path().join("file"), "").unwrap();
        assert!(make_dir(&base.path().join("file/below"), SyncMode::Durable).is_err());
    }

    #[test]
    fn the_entry_of_a_relative_path_is_in_the_current_directory() {
        for (path, expected) in [("data", "."), ("a/data", "a"), ("/data", "/")] {
            assert_eq!(parent(Path::new(path)), Path::new(expected));
        }
    }
}
