//! Bounds what it takes to open an untrusted zip archive.

use std::io::{Cursor, Error, Read, Result, Seek, SeekFrom};

/// The signature of an entry in the central directory, at the end of a zip archive.
const ENTRY: [u8; 4] = *b"PK\x01\x02";

/// Whether a zip archive has at most `entries` signatures of central directory entries. Those of archives
/// that are stored in it uncompressed count too.
///
/// Call it before opening an untrusted archive: a reader keeps some hundred bytes for each entry, which takes
/// only 46 bytes in the archive.
pub fn zip_lists_at_most(archive: &[u8], entries: usize) -> bool {
    let listed = archive.windows(ENTRY.len()).filter(|window| *window == ENTRY);
    listed.take(entries.saturating_add(1)).count() <= entries
}

/// A zip archive to be opened by way of trial, after [`zip_lists_at_most`]: what opens this way can be opened
/// without it.
///
/// A reader that cannot read the list of entries goes on with an earlier end of the archive, of which there
/// can be millions that all name the same long list. Not much more is read here than a correct archive takes.
#[derive(Debug)]
pub struct ReadOnce<'a> {
    archive: Cursor<&'a [u8]>,
    left: u64,
}

impl<'a> ReadOnce<'a> {
    /// The archive, of which twice its length may be read: once to find its end, and once to list its entries.
    pub fn new(archive: &'a [u8]) -> Self {
        Self { archive: Cursor::new(archive), left: 2 * archive.len() as u64 + SPARE }
    }
}

/// For small archives.
const SPARE: u64 = 64 << 10;

impl Read for ReadOnce<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let read = self.archive.read(buffer)?;
        let left = self.left.checked_sub(read as u64);
        self.left = left.unwrap_or_default();
        match left {
            Some(_) => Ok(read),
            None => Err(Error::other("its list of entries is damaged, and others before it are too")),
        }
    }
}

impl Seek for ReadOnce<'_> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.archive.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_can_be_read_twice_and_no_more() {
        let archive = vec![7; 1 << 20];
        let mut once = ReadOnce::new(&archive);
        let mut read = Vec::new();
        for again in [true, true, false] {
            once.seek(SeekFrom::Start(0)).unwrap();
            read.clear();
            assert_eq!(once.read_to_end(&mut read).is_ok(), again);
        }
        assert!(once.read(&mut [0]).is_err());
    }

    #[test]
    fn entries_are_counted_wherever_they_are() {
        let archive = b"PK\x03\x04 content PK\x01\x02 one PK\x01\x02PK\x01\x02 PK\x05\x06";
        assert!(zip_lists_at_most(archive, 3) && zip_lists_at_most(archive, usize::MAX));
        assert!(!zip_lists_at_most(archive, 2) && !zip_lists_at_most(archive, 0));
        assert!(zip_lists_at_most(b"", 0));
    }
}
