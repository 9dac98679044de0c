//! The index of a finished segment: a file beside it, written once.
//!
//! ```text
//! "FLINTIX1", length and checksum of the directory (u32 each, little-endian)
//! directory      JSON: which range of entries, and of the name lists, belongs to whom
//! entries        40 B each: key, offset, head, logs; by namespace, then key
//! name lists     entry numbers (u32); by namespace, then name, then key
//! ids            entry numbers (u32); by id
//! ```
//! Only the directory is kept in memory: it suffices for counts and for skipping whole segments. The rest is
//! read when needed and checked against the directory and for order, and a record found through it is checked
//! against its key. An index can always be rebuilt from its segment ([`mend`](super::mend)).

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Write},
    num::NonZeroU64,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Advice, fadvise},
    io::Errno,
};
use serde::{Deserialize, Serialize};

use super::{active::Active, frame::Location, key::Key, segment::segment_path, sorted::SortedKeys};
use crate::{SyncMode, files};

const MAGIC: &[u8; 8] = b"FLINTIX1";
const BEGIN: u64 = 16;
const ENTRY: usize = Key::BYTES + 16;

/// A run of sorted keys.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Span {
    /// Its first entry, or its first place in the name lists.
    first: u64,
    pub(crate) count: u64,
    pub(crate) least: Key,
    pub(crate) greatest: Key,
}

#[derive(Debug, Serialize, Deserialize)]
struct NamespaceSpans {
    all: Span,
    names: BTreeMap<String, Span>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Directory {
    /// The number and size of its segment; an index with others belongs to another segment.
    number: u64,
    segment_bytes: u64,
    records: u64,
    newest: u64,
    /// 32 hex digits each, since JSON has no such numbers.
    least_id: String,
    greatest_id: String,
    namespaces: BTreeMap<String, NamespaceSpans>,
}

/// A finished segment with its index.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) segment: PathBuf,
    index: PathBuf,
    ids: (u128, u128),
    /// Where the entries begin in the index file.
    entries: u64,
    directory: Directory,
}

/// The index file of segment `number`.
pub(crate) fn index_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:010}.idx"))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the index {what}"))
}

impl Sealed {
    /// Writes the index of a segment of that size.
    pub(crate) fn write(
        dir: &Path,
        number: u64,
        active: &Active,
        segment_bytes: u64,
        sync: SyncMode,
    ) -> io::Result<Self> {
        let records = active.len();
        let mut entries = Vec::with_capacity(records * ENTRY);
        let mut lists = Vec::with_capacity(records * 4);
        let mut ids = Vec::with_capacity(records);
        let mut entry_of = vec![0_u32; records];
        let mut namespaces = BTreeMap::new();
        let span = |keys: &SortedKeys, first: usize| {
            let (least, greatest) = (keys.get(0)?.0, keys.get(keys.len() - 1)?.0);
            Some(Span { first: first as u64, count: keys.len() as u64, least, greatest })
        };
        for (namespace, keys) in active.namespaces() {
            let Some(all) = span(&keys.all, ids.len()) else { continue };
            for (key, record) in keys.all.iter() {
                let at = active.location(record);
                entry_of[record as usize] = ids.len() as u32;
                ids.push((key.id(), ids.len() as u32));
                entries.extend_from_slice(&key.to_bytes());
                entries.extend_from_slice(&at.offset.to_le_bytes());
                entries.extend_from_slice(&at.head.to_le_bytes());
                entries.extend_from_slice(&at.logs.to_le_bytes());
            }
            let mut names = BTreeMap::new();
            for (name, keys) in &keys.names {
                if let Some(span) = span(keys, lists.len() / 4) {
                    names.insert(name.clone(), span);
                }
                for (_, record) in keys.iter() {
                    lists.extend_from_slice(&entry_of[record as usize].to_le_bytes());
                }
            }
            namespaces.insert(namespace.to_owned(), NamespaceSpans { all, names });
        }
        ids.sort_unstable();
        let id = |at: Option<&(u128, u32)>| format!("{:032x}", at.map_or(0, |(id, _)| *id));
        let directory = Directory {
            number,
            segment_bytes,
            records: records as u64,
            newest: active.newest(),
            least_id: id(ids.first()),
            greatest_id: id(ids.last()),
            namespaces,
        };
        let json = serde_json::to_vec(&directory)?;
        let path = index_path(dir, number);
        files::write_whole(&path.with_extension("tmp"), &path, sync, |file| {
            file.write_all(MAGIC)?;
            file.write_all(&(json.len() as u32).to_le_bytes())?;
            file.write_all(&crc32fast::hash(&json).to_le_bytes())?;
            file.write_all(&json)?;
            file.write_all(&entries)?;
            file.write_all(&lists)?;
            ids.chunks(1 << 16).try_for_each(|part| {
                let bytes: Vec<u8> = part.iter().flat_map(|(_, entry)| entry.to_le_bytes()).collect();
                file.write_all(&bytes)
            })
        })?;
        Self::of(dir, number, directory, json.len())
    }

    /// Opens the index of a segment of that size.
    pub(crate) fn open(dir: &Path, number: u64, segment_bytes: u64) -> io::Result<Self> {
        let path = index_path(dir, number);
        let file = File::open(&path)?;
        let mut begin = [0; BEGIN as usize];
        file.read_exact_at(&mut begin, 0)?;
        let field = |at: usize| u32::from_le_bytes([begin[at], begin[at + 1], begin[at + 2], begin[at + 3]]);
        let (length, sum) = (field(8) as usize, field(12));
        let size = file.metadata()?.len();
        if !begin.starts_with(MAGIC) || length as u64 > size {
            return Err(invalid("does not begin like one"));
        }
        let mut json = vec![0; length];
        file.read_exact_at(&mut json, BEGIN)?;
        if crc32fast::hash(&json) != sum {
            return Err(invalid("fails its checksum"));
        }
        let sealed = Self::of(dir, number, serde_json::from_slice(&json)?, length)?;
        let Directory { number: own, segment_bytes: bytes, .. } = sealed.directory;
        if (own, bytes) != (number, segment_bytes) || sealed.index_bytes() != size {
            return Err(invalid("belongs to another segment"));
        }
        Ok(sealed)
    }

    fn of(dir: &Path, number: u64, directory: Directory, json: usize) -> io::Result<Self> {
        let id = |text: &str| u128::from_str_radix(text, 16).map_err(|_| invalid("has no ids"));
        Ok(Self {
            segment: segment_path(dir, number),
            index: index_path(dir, number),
            ids: (id(&directory.least_id)?, id(&directory.greatest_id)?),
            entries: BEGIN + json as u64,
            directory,
        })
    }

    /// The number of its segment.
    pub(crate) fn number(&self) -> u64 {
        self.directory.number
    }

    /// How many bytes its segment has.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.directory.segment_bytes
    }

    /// The paths of both files.
    pub(crate) fn paths(&self) -> [&Path; 2] {
        [&self.segment, &self.index]
    }

    /// The number of records.
    pub(crate) fn records(&self) -> u64 {
        self.directory.records
    }

    /// The greatest id.
    pub(crate) fn greatest_id(&self) -> u128 {
        self.ids.1
    }

    /// The latest start.
    pub(crate) fn newest(&self) -> u64 {
        self.directory.newest
    }

    /// The size of both files.
    pub(crate) fn bytes(&self) -> u64 {
        self.directory.segment_bytes + self.index_bytes()
    }

    fn index_bytes(&self) -> u64 {
        self.entries + self.directory.records * (ENTRY as u64 + 8)
    }

    /// A namespace's records, or those listed under `name`.
    pub(crate) fn span(&self, namespace: &str, name: Option<&str>) -> Option<Span> {
        let spans = self.directory.namespaces.get(namespace)?;
        match name {
            None => Some(spans.all),
            Some(name) => spans.names.get(name).copied(),
        }
    }

    /// Opens the index file to read lists from.
    pub(crate) fn open_index(&self) -> io::Result<File> {
        File::open(&self.index).map_err(|error| {
            match Errno::from_io_error(&error) {
                // A shortage of the process is no damage to the file.
                Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => {
                    io::Error::new(io::ErrorKind::ResourceBusy, self.named(error))
                }
                _ => self.named(error),
            }
        })
    }

    /// Adds the file's name to an error.
    fn named(&self, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.index.display()))
    }

    /// The entry at place `at` of a list; `named` selects the kind of list.
    pub(crate) fn entry(
        &self,
        index: &File,
        span: &Span,
        named: bool,
        at: u64,
    ) -> io::Result<(Key, Location)> {
        let place = span.first + at;
        let number = if named { self.number_at(index, place, false)? } else { place };
        let (key, at) = self.entry_at(index, number)?;
        if key < span.least || key > span.greatest {
            return Err(self.named(invalid("has an entry in a list that it does not belong to")));
        }
        Ok((key, at))
    }

    /// The error for entries out of order.
    pub(crate) fn unsorted(&self) -> io::Error {
        self.named(invalid("is not sorted"))
    }

    /// The error for an entry whose record is not at its location.
    pub(crate) fn misleads(&self) -> io::Error {
        self.named(invalid("leads to where its record is not"))
    }

    /// Asks the kernel to prefetch the places of a name's list; a hint, like the next one.
    pub(crate) fn announce_places(&self, index: &File, span: &Span, places: &Range<u64>) {
        let begin = self.lists() + (span.first + places.start) * 4;
        let _ = fadvise(index, begin, NonZeroU64::new((places.end - places.start) * 4), Advice::WillNeed);
    }

    /// Asks it to prefetch the entries at those places.
    pub(crate) fn announce_entries(&self, index: &File, span: &Span, places: &Range<u64>) -> io::Result<()> {
        let mut numbers = vec![0; (places.end - places.start) as usize * 4];
        let begin = self.lists() + (span.first + places.start) * 4;
        index.read_exact_at(&mut numbers, begin).map_err(|error| self.named(error))?;
        for number in numbers.as_chunks::<4>().0 {
            let begin = self.entries + u64::from(u32::from_le_bytes(*number)) * ENTRY as u64;
            let _ = fadvise(index, begin, NonZeroU64::new(ENTRY as u64), Advice::WillNeed);
        }
        Ok(())
    }

    /// The offset of the name lists in the index file.
    fn lists(&self) -> u64 {
        self.entries + self.directory.records * ENTRY as u64
    }

    fn number_at(&self, index: &File, place: u64, of_ids: bool) -> io::Result<u64> {
        let lists = self.lists();
        let section = if of_ids { lists + self.directory.records * 4 } else { lists };
        let mut bytes = [0; 4];
        index.read_exact_at(&mut bytes, section + place * 4).map_err(|error| self.named(error))?;
        Ok(u32::from_le_bytes(bytes).into())
    }

    fn entry_at(&self, index: &File, number: u64) -> io::Result<(Key, Location)> {
        if number >= self.directory.records {
            return Err(self.named(invalid("points beyond its entries")));
        }
        let mut bytes = [0; ENTRY];
        let begin = self.entries + number * ENTRY as u64;
        index.read_exact_at(&mut bytes, begin).map_err(|error| self.named(error))?;
        let mut key = [0; Key::BYTES];
        key.copy_from_slice(&bytes[..Key::BYTES]);
        let number = |range: std::ops::Range<usize>| {
            bytes[range].iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        let at =
            Location { offset: number(24..32), head: number(32..36) as u32, logs: number(36..40) as u32 };
        let key = Key::from_bytes(&key);
        let end = at.offset.checked_add(u64::from(at.head) + u64::from(at.logs));
        let is_inside = end.is_some_and(|end| end <= self.directory.segment_bytes);
        if !is_inside || key.id() < self.ids.0 || key.id() > self.ids.1 {
            return Err(self.named(invalid("has an entry that is not of its segment")));
        }
        Ok((key, at))
    }

    /// The record of that id.
    pub(crate) fn find(&self, namespace: &str, id: u128) -> io::Result<Option<(Key, Location)>> {
        if id < self.ids.0 || id > self.ids.1 {
            return Ok(None);
        }
        let Some(span) = self.span(namespace, None) else { return Ok(None) };
        let index = self.open_index()?;
        let (mut low, mut high) = (0, self.directory.records);
        // The entries before `low` and at `high`.
        let mut before: Option<(u128, u64)> = None;
        let mut behind = before;
        while low < high {
            let middle = low + (high - low) / 2;
            let number = self.number_at(&index, middle, true)?;
            let found = (self.entry_at(&index, number)?.0.id(), number);
            if before.is_some_and(|before| before >= found) || behind.is_some_and(|behind| behind <= found) {
                return Err(self.unsorted());
            }
            if found.0 < id {
                (low, before) = (middle + 1, Some(found));
            } else {
                (high, behind) = (middle, Some(found));
            }
        }
        // The range of ids says that one is not less, and which is the least.
        if low == self.directory.records || low == 0 && behind.is_some_and(|(first, _)| first != self.ids.0) {
            return Err(self.unsorted());
        }
        for place in low..self.directory.records {
            let number = self.number_at(&index, place, true)?;
            let (key, at) = self.entry_at(&index, number)?;
            if key.id() != id {
                break;
            }
            if (span.first..span.first + span.count).contains(&number) {
                return Ok(Some((key, at)));
            }
        }
        Ok(None)
    }
}
