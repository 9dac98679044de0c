//! Writes a package's assets while watching the free disk space.

use std::{
    fs::{self, File, Permissions},
    io::{self, Read, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use flint_executor::PrepareError;
use flint_runtimes::disk_usage::{self, BLOCK};

use super::{PackageBounds, PackageError, bad};

/// How many bytes are written between two checks of the free space.
const BYTES_A_LOOK: u64 = 16 << 20;
/// How many files and directories.
const INODES_A_LOOK: usize = 4096;

/// The disk that assets are written to.
pub trait Disk {
    /// Claims `bytes` more before they are written.
    fn take(&self, bytes: u64) -> Result<(), PrepareError>;

    /// Whether the disk has room for more.
    fn go_on(&self) -> Result<(), PrepareError>;
}

/// The files and directories that are being made.
pub(super) struct Tree<'a> {
    bounds: PackageBounds,
    disk: &'a dyn Disk,
    inodes: usize,
    /// Total size of all files.
    bytes: u64,
}

impl<'a> Tree<'a> {
    /// In an existing empty directory.
    pub(super) fn new(bounds: PackageBounds, disk: &'a dyn Disk) -> Result<Self, PackageError> {
        disk.take(BLOCK)?;
        Ok(Self { bounds, disk, inodes: 0, bytes: 0 })
    }

    /// Writes one file.
    pub(super) fn file(
        &mut self,
        entry: &mut impl Read,
        path: &Path,
        name: &str,
    ) -> Result<(), PackageError> {
        let cannot = |cause| not_written(path, name, cause);
        if let Some(parent) = path.parent() {
            self.folder(parent, name)?;
        }
        self.inode()?;
        let mut file = File::create_new(path).map_err(cannot)?;
        file.set_permissions(Permissions::from_mode(0o644)).map_err(cannot)?;
        let most = self.bounds.assets.as_u64();
        let mut entry = entry.take(most - self.bytes + 1);
        let mut buffer = vec![0; 64 << 10];
        let mut size = 0_u64;
        loop {
            let read = entry
                .read(&mut buffer)
                .map_err(|error| bad(format!("the archive is damaged at '{name}': {error}")))?;
            if read == 0 {
                break;
            }
            let (before, read_bytes) = (self.bytes, read as u64);
            self.bytes += read_bytes;
            size += read_bytes;
            if self.bytes > most {
                return Err(bad(format!(
                    "the archive's assets unpack to more than the {} allowed",
                    self.bounds.assets
                )));
            }
            self.disk.take(read_bytes)?;
            if before / BYTES_A_LOOK != self.bytes / BYTES_A_LOOK {
                self.disk.go_on()?;
            }
            file.write_all(&buffer[..read]).map_err(cannot)?;
        }
        // Files occupy whole blocks.
        self.disk.take(disk_usage::of_file(size) - size)?;
        Ok(())
    }

    /// Makes a directory and its parents with a mode independent of the umask, since initialisers read assets
    /// under another uid.
    fn folder(&mut self, path: &Path, name: &str) -> Result<(), PackageError> {
        if path.is_dir() {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.folder(parent, name)?;
        }
        self.inode()?;
        self.disk.take(BLOCK)?;
        let made =
            fs::create_dir(path).and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o755)));
        made.map_err(|cause| not_written(path, name, cause))
    }

    /// Counts a file or directory.
    fn inode(&mut self) -> Result<(), PackageError> {
        if self.inodes == self.bounds.entries {
            return Err(bad(format!(
                "the archive's assets are more than the {} files and folders allowed",
                self.bounds.entries
            )));
        }
        if self.inodes.is_multiple_of(INODES_A_LOOK) {
            self.disk.go_on()?;
        }
        self.inodes += 1;
        Ok(())
    }
}

/// A path that is both a file and a directory, or that exists twice, is the archive's fault.
fn not_written(path: &Path, name: &str, cause: io::Error) -> PackageError {
    match cause.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => {
            bad(format!("the archive's entry '{name}' is there twice"))
        }
        _ => PackageError::Host { path: path.to_owned(), cause },
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A disk that permits a number of checks and counts the bytes claimed.
    struct Counted {
        looks: Cell<usize>,
        taken: Cell<u64>,
    }

    impl Counted {
        fn new(looks: usize) -> Self {
            Self { looks: Cell::new(looks), taken: Cell::new(0) }
        }
    }

    impl Disk for Counted {
        fn take(&self, bytes: u64) -> Result<(), PrepareError> {
            self.taken.set(self.taken.get() + bytes);
            Ok(())
        }

        fn go_on(&self) -> Result<(), PrepareError> {
            let left = self.looks.get().checked_sub(1);
            self.looks.set(left.ok_or_else(|| PrepareError::NoRoom("the disk is full".to_owned()))?);
            Ok(())
        }
    }

    #[test]
    fn what_is_taken_of_the_disk_is_what_is_there() {
        let (folder, disk) = (tempfile::tempdir().unwrap(), Counted::new(1));
        let mut tree = Tree::new(PackageBounds::default(), &disk).unwrap();
        for (name, size) in [("in/deep/long", 2 * BLOCK + 1), ("in/whole", BLOCK), ("in/empty", 0)] {
            tree.file(&mut io::repeat(0).take(size), &folder.path().join(name), name).unwrap();
        }
        assert_eq!(disk.taken.get(), disk_usage::of_folder(folder.path()).unwrap().as_u64());
        assert_eq!(disk.taken.get(), 8 * BLOCK);
    }

    #[test]
    fn the_disk_is_looked_at_again_and_again() {
        let write = |files: usize, size: u64, looks: usize| {
            let (folder, disk) = (tempfile::tempdir().unwrap(), Counted::new(looks));
            let mut tree = Tree::new(PackageBounds::default(), &disk).unwrap();
            let written = (0..files).try_for_each(|n| {
                tree.file(&mut io::repeat(0).take(size), &folder.path().join(format!("in/{n}")), "a")
            });
            match written {
                Err(PackageError::Disk(PrepareError::NoRoom(_))) => false,
                other => other.is_ok(),
            }
        };
        for (looks, goes_on) in [(0, false), (2, false), (3, true)] {
            assert_eq!(write(2, BYTES_A_LOOK, looks), goes_on, "{looks}");
        }
        for (looks, goes_on) in [(1, false), (2, true)] {
            assert_eq!(write(INODES_A_LOOK, 0, looks), goes_on, "{looks}: their folder is one more");
        }
    }
}
