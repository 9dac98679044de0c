//! Opens zip archives that are not to be trusted, within bounds.

use std::{
    io::{Cursor, Error, Read, Result, Seek, SeekFrom},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use zip::{ZipArchive, result::ZipError};

/// The signature of an entry in the central directory, at the end of a zip archive.
const ENTRY: [u8; 4] = *b"PK\x01\x02";
/// How much may be read of a small archive beyond twice its length.
const SPARE: u64 = 64 << 10;

/// An archive that was opened within bounds.
pub type UntrustedZip<'a> = ZipArchive<Bounded<'a>>;

/// Why an archive was not opened.
#[derive(Debug, thiserror::Error)]
pub enum ZipRefused {
    /// It lists more entries than are allowed, which are so many.
    #[error(
        "the archive has more than the {0} entries allowed, with those of archives that are stored in it as \
         they are"
    )]
    TooManyEntries(usize),
    /// It is damaged.
    #[error(transparent)]
    Damaged(#[from] ZipError),
}

/// Opens an archive with at most `entries`, those of archives that are stored in it uncompressed included.
///
/// A reader keeps some hundred bytes for each entry, which takes only 46 bytes in the archive: they are
/// counted before. And a reader that cannot read the list of entries goes on with an earlier end of the
/// archive, of which there can be millions that all name the same long list: not much more is read than a
/// correct archive takes.
pub fn open_untrusted_zip(
    archive: &[u8],
    entries: usize,
) -> std::result::Result<UntrustedZip<'_>, ZipRefused> {
    if !lists_at_most(archive, entries) {
        return Err(ZipRefused::TooManyEntries(entries));
    }
    // Once to find its end, and once to list its entries.
    let left = Arc::new(AtomicU64::new(2 * archive.len() as u64 + SPARE));
    let opened = ZipArchive::new(Bounded { archive: Cursor::new(archive), left: Arc::clone(&left) })?;
    left.store(u64::MAX, Relaxed);
    Ok(opened)
}

/// Whether an archive has at most `entries` signatures of entries.
fn lists_at_most(archive: &[u8], entries: usize) -> bool {
    let listed = archive.windows(ENTRY.len()).filter(|window| *window == ENTRY);
    listed.take(entries.saturating_add(1)).count() <= entries
}

/// An archive of which only so much can be read until it is open.
#[derive(Debug)]
pub struct Bounded<'a> {
    archive: Cursor<&'a [u8]>,
    left: Arc<AtomicU64>,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let read = self.archive.read(buffer)?;
        let left = self.left.load(Relaxed).checked_sub(read as u64);
        self.left.store(left.unwrap_or_default(), Relaxed);
        match left {
            Some(_) => Ok(read),
            None => Err(Error::other("its list of entries is damaged, and others before it are too")),
        }
    }
}

impl Seek for Bounded<'_> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.archive.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_than_allowed() {
        let content = vec![7; 1 << 20];
        let left = Arc::new(AtomicU64::new(2 << 20));
        let mut archive = Bounded { archive: Cursor::new(&content), left };
        let mut read = Vec::new();
        for again in [true, true, false] {
            archive.seek(SeekFrom::Start(0)).unwrap();
            read.clear();
            assert_eq!(archive.read_to_end(&mut read).is_ok(), again);
        }
        assert!(archive.read(&mut [0]).is_err());
    }

    #[test]
    fn an_archive_whose_ends_all_name_the_same_long_list_is_given_up() {
        let mut entry = [0; 47];
        entry[..4].copy_from_slice(&ENTRY);
        (entry[28], entry[46]) = (1, b'a');
        let mut end = [0; 22];
        end[..4].copy_from_slice(b"PK\x05\x06");
        // One entry more than there are, so that none of the lists can be read.
        end[8..10].copy_from_slice(&20_001_u16.to_le_bytes());
        end[10..12].copy_from_slice(&20_001_u16.to_le_bytes());
        let archive = [entry.repeat(20_000), end.repeat(100_000)].concat();
        let refused = open_untrusted_zip(&archive, usize::MAX).unwrap_err();
        assert!(matches!(refused, ZipRefused::Damaged(_)), "{refused}");
    }

    #[test]
    fn entries_are_counted_wherever_they_are() {
        let archive = b"PK\x03\x04 content PK\x01\x02 one PK\x01\x02PK\x01\x02 PK\x05\x06";
        assert!(lists_at_most(archive, 3) && lists_at_most(archive, usize::MAX));
        assert!(!lists_at_most(archive, 2) && !lists_at_most(archive, 0));
        assert!(lists_at_most(b"", 0));
        let refused = open_untrusted_zip(archive, 2).unwrap_err();
        assert!(matches!(refused, ZipRefused::TooManyEntries(2)), "{refused}");
    }
}
