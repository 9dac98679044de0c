//! Evicts files from the kernel's page cache, so that a query is answered from disk.

use std::{fs, io, path::Path, path::PathBuf};

use rustix::fs::{Advice, fadvise};

/// The files of a folder.
pub(super) struct Files(Vec<PathBuf>);

impl Files {
    /// The files of `folder`, synced: dirty pages cannot be evicted.
    pub(super) fn of(folder: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            fs::File::open(&path)?.sync_all()?;
            files.push(path);
        }
        Ok(Self(files))
    }

    /// Evicts them.
    pub(super) fn evict(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|path| Ok(fadvise(fs::File::open(path)?, 0, None, Advice::DontNeed)?))
    }
}
