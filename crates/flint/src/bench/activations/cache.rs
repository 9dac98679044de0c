//! Taking files out of the kernel's page cache, so that a question is answered from the disk.

use std::{fs, io, path::Path, path::PathBuf};

use rustix::fs::{Advice, fadvise};

/// The files of a folder.
pub(super) struct Files(Vec<PathBuf>);

impl Files {
    /// Those of `folder`, all of them on disk: what is not cannot be taken out.
    pub(super) fn of(folder: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            fs::File::open(&path)?.sync_all()?;
            files.push(path);
        }
        Ok(Self(files))
    }

    /// Takes them out.
    pub(super) fn evict(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|path| Ok(fadvise(fs::File::open(path)?, 0, None, Advice::DontNeed)?))
    }
}
