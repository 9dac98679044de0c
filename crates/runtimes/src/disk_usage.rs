//! Disk usage of files and directories in whole blocks.

use std::{fs, io, os::unix::fs::MetadataExt, path::Path};

use flint_model::ByteSize;

/// The unit in which file systems allocate space. An empty file counts as one block, for its inode.
pub const BLOCK: u64 = 4096;
/// The unit of `st_blocks` (inode(7)).
const STAT_BLOCK: u64 = 512;

/// The disk usage of a file of this length.
pub fn of_file(length: u64) -> u64 {
    length.div_ceil(BLOCK).max(1).saturating_mul(BLOCK)
}

/// The disk usage of a directory tree, with the space that is reserved behind the ends of files. Entries that
/// are removed meanwhile are skipped.
///
/// # Errors
/// A directory or entry that cannot be read.
pub fn of_folder(folder: &Path) -> io::Result<ByteSize> {
    let (mut bytes, mut folders) = (BLOCK, vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let Some(entries) = if_there(fs::read_dir(folder))? else { continue };
        for entry in entries {
            let entry = entry?;
            let Some(found) = if_there(entry.metadata())? else { continue };
            bytes += if found.is_dir() {
                folders.push(entry.path());
                BLOCK
            } else {
                let allocated = found.blocks().saturating_mul(STAT_BLOCK);
                // Each hard link counts its share of the file.
                of_file(found.len()).max(allocated) / found.nlink().max(1)
            };
        }
    }
    Ok(ByteSize::bytes(bytes))
}

/// `None` for what no longer exists.
fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use rustix::{
        fs::{FallocateFlags, fallocate},
        io::Errno,
    };

    use super::*;

    #[test]
    fn a_folder_takes_whole_blocks() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(root.path().join("empty"), "").unwrap();
        fs::write(inner.join("long"), vec![0; 5000]).unwrap();
        assert_eq!(of_folder(root.path()).unwrap().as_u64(), 5 * BLOCK);
        fs::hard_link(inner.join("long"), inner.join("same")).unwrap();
        std::os::unix::fs::symlink("/", inner.join("link")).unwrap();
        assert_eq!(of_folder(root.path()).unwrap().as_u64(), 6 * BLOCK);
    }

    #[test]
    fn space_that_is_reserved_behind_a_files_end_counts() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("short");
        fs::write(&path, "x").unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        match fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 64 * BLOCK) {
            Err(Errno::OPNOTSUPP) => return println!("not checked: the file system reserves no space"),
            reserved => reserved.unwrap(),
        }
        assert_eq!(file.metadata().unwrap().len(), 1);
        let counted = of_folder(root.path()).unwrap().as_u64();
        assert!(counted >= 65 * BLOCK, "{counted}");
    }
}
