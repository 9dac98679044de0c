//! Counts the entries of a zip archive before the archive is opened.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_counted_wherever_they_are() {
        let archive = b"PK\x03\x04 content PK\x01\x02 one PK\x01\x02PK\x01\x02 PK\x05\x06";
        assert!(zip_lists_at_most(archive, 3) && zip_lists_at_most(archive, usize::MAX));
        assert!(!zip_lists_at_most(archive, 2) && !zip_lists_at_most(archive, 0));
        assert!(zip_lists_at_most(b"", 0));
    }
}
