//! Ownership of data: what root creates in another user's directory is given to that user, whose server could
//! not open it otherwise.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{MetadataExt, chown, fchown, lchown},
    path::Path,
};

/// A user and group other than root's, while this process runs as root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// The owner of `path`; `None` for root or nobody, and if this process may not change ownership.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let data = fs::metadata(path).ok()?;
        let is_others = rustix::process::geteuid().is_root() && data.uid() != 0;
        is_others.then(|| Self { uid: data.uid(), gid: data.gid() })
    }

    /// Changes the owner of a file that this process has just created.
    pub(super) fn give(self, file: &File) -> io::Result<()> {
        fchown(file, Some(self.uid), Some(self.gid))
    }

    /// Takes ownership of a directory, so that its owner cannot write to it until [`Owner::give_all`].
    pub(crate) fn take(dir: &Path) -> io::Result<()> {
        chown(dir, Some(0), Some(0))
    }

    /// Changes the owner of a directory to which only root can write, and of its contents. A file with
    /// further hard links stays as it is: they may be anywhere.
    pub(crate) fn give_all(self, dir: &Path) -> io::Result<()> {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let data = entry.metadata()?;
            // `mkfs` leaves this in a mount point, owned by root.
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
        // Ownership is neither given to root nor changed by others than root.
        assert_eq!(Owner::of(dir.path()), None);
        if !rustix::process::geteuid().is_root() {
            println!("not checked: it takes root to give files away");
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
