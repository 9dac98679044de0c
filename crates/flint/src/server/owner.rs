//! Whose the data is: what root makes in a directory of another user's is given to that user, whose server could not open it otherwise.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{MetadataExt, chown, fchown, lchown},
    path::Path,
};

/// A user and a group other than root's, while this process is root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// Who has the file or directory at `path`; `None` where that is root or nobody, and where this process may not give files away.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let data = fs::metadata(path).ok()?;
        let is_others = rustix::process::geteuid().is_root() && data.uid() != 0;
        is_others.then(|| Self { uid: data.uid(), gid: data.gid() })
    }

    /// Gives away a file that this process has just made.
    pub(super) fn give(self, file: &File) -> io::Result<()> {
        fchown(file, Some(self.uid), Some(self.gid))
    }

    /// Takes a directory, so that its owner puts nothing into it until [`Owner::give_all`].
    pub(crate) fn take(dir: &Path) -> io::Result<()> {
        chown(dir, Some(0), Some(0))
    }

    /// Gives away a directory that root alone can write to, and what is in it. A file that has other names stays as it is: they may be anywhere.
    pub(crate) fn give_all(self, dir: &Path) -> io::Result<()> {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let data = entry.metadata()?;
            // What `mkfs` leaves in a mount point is root's.
            if entry.file_name() == "lost+found" {
                continue;
            }
            if data.is_dir() {
                self.give_all(&entry.path())?;
            } else if data.nlink() == 1 {
                lchown(entry.path(), Some(self.uid), Some(self.gid))?;
            }
        }
        chown(dir, Some(self.uid), Some(self.gid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_given_with_what_is_its_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (data, elsewhere) = (dir.path().join("data"), dir.path().join("elsewhere"));
        fs::create_dir_all(data.join("blobs/00")).unwrap();
        fs::write(data.join("blobs/00/code"), "x").unwrap();
        fs::write(&elsewhere, "root's").unwrap();
        fs::hard_link(&elsewhere, data.join("planted")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, data.join("link")).unwrap();
        // Nothing is given to root, nor by others than root.
        assert_eq!(Owner::of(dir.path()), None);
        if !rustix::process::geteuid().is_root() {
            return;
        }
        chown(&data, Some(65534), Some(65534)).unwrap();
        let owner = Owner::of(&data).unwrap();
        Owner::take(&data).unwrap();
        assert_eq!(Owner::of(&data), None);
        owner.give_all(&data).unwrap();
        for theirs in ["", "blobs", "blobs/00", "blobs/00/code"] {
            assert_eq!(Owner::of(&data.join(theirs)), Some(owner), "{theirs}");
        }
        assert_eq!(fs::metadata(&elsewhere).unwrap().uid(), 0);
    }
}
