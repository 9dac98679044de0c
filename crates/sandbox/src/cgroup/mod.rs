//! Control groups, v1, v2 or both at once (hybrid): limits, accounting, freezing.
//!
//! A *tree* is this server's own directory in each hierarchy in use; a *leaf* holds one sandbox.

mod counters;
mod detect;
mod leaf;
pub(crate) mod moves;
mod remove;
mod sockets;
mod tree;

pub(crate) use detect::{Controller, Layout, Version};
pub(crate) use leaf::Leaf;
pub(crate) use remove::remove_trees;
pub(crate) use tree::Tree;
use tree::processes;

use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// Writes a control file with a single `write`, as the kernel requires.
fn put(directory: &Path, file: &str, value: impl std::fmt::Display) -> io::Result<()> {
    let path = directory.join(file);
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|mut open| io::Write::write_all(&mut open, value.to_string().as_bytes()))
        .map_err(|error| annotate(error, &path))
}

/// Reads a control file with a single `read`. `fs::read_to_string` would ask for the size first and read in
/// pieces.
fn read(directory: &Path, file: &str) -> io::Result<String> {
    let mut bytes = [0u8; 4096];
    let length = fs::File::open(directory.join(file))?.read(&mut bytes)?;
    String::from_utf8(bytes[..length].to_vec()).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Reads a control file that holds one number; `max` reads as the largest.
fn number(directory: &Path, file: &str) -> io::Result<u64> {
    match read(directory, file)?.trim() {
        "max" => Ok(u64::MAX),
        text => text.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData)),
    }
}

/// Reads the number after `key` in a control file of `key value` lines.
fn field(directory: &Path, file: &str, key: &str) -> io::Result<u64> {
    read(directory, file)?
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
        .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

/// Names the file in the debug log and returns the error unchanged, so that its errno survives.
fn annotate(error: io::Error, path: &Path) -> io::Error {
    tracing::debug!(path = %path.display(), %error, "cgroup write failed");
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_fields_are_read_as_the_kernel_writes_them() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path();
        let say = |text: &str| fs::write(path.join("file"), text).unwrap();
        for (text, value) in [("max\n", u64::MAX), ("0\n", 0), ("18446744073709551615\n", u64::MAX), ("7", 7)]
        {
            say(text);
            assert_eq!(number(path, "file").unwrap(), value, "{text:?}");
        }
        for text in ["", "-1\n", "1 2\n", "maximum\n"] {
            say(text);
            assert_eq!(number(path, "file").unwrap_err().kind(), io::ErrorKind::InvalidData, "{text:?}");
        }
        say("oom 1\noom_kill 2\noom_group_kill 3\n");
        let fields = ["oom", "oom_kill", "oom_group_kill"].map(|key| field(path, "file", key).unwrap());
        assert_eq!(fields, [1, 2, 3]);
        for key in ["oom_", "kill", ""] {
            assert_eq!(field(path, "file", key).unwrap_err().kind(), io::ErrorKind::NotFound, "{key:?}");
        }
        assert_eq!(number(path, "none").unwrap_err().kind(), io::ErrorKind::NotFound);
        // A file that the kernel does not have is not made.
        assert_eq!(put(path, "none", 1).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!path.join("none").exists());
    }
}
