//! How much a zip archive lists, before it is read.

/// What each entry of the list at the end of a zip archive begins with.
const ENTRY: [u8; 4] = *b"PK\x01\x02";

/// Whether a zip archive lists at most so many entries. Those of archives that are stored in it as they are count too.
///
/// To be asked before an archive of somebody else's is opened: what reads it keeps some hundred bytes for each entry, of which
/// each has 46 in the archive.
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
