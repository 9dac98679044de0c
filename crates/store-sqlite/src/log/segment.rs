//! A segment: a file of frames in order of arrival.
//!
//! ```text
//! "FLINTSEG", format, salt, checksum of these (u32 each, little-endian), frames
//! ```
//! Format 1 has four zeros in place of salt and checksum: the salt of its frames is 0.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufReader, Seek, SeekFrom},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use flint_model::Activation;
use flint_store::StoreError;
use rustix::rand::GetRandomFlags;

use super::{
    active::Active,
    frame::{self, Frames, Location},
    key::Key,
};
use crate::{SyncMode, fault::file_fault, files};

const MAGIC: &[u8; 8] = b"FLINTSEG";
/// The format this build writes, and the newest it reads.
const FORMAT: u32 = 2;
/// The offset of the first frame, in this format and in format 1.
const BEGIN: usize = 20;
const BEGIN_1: usize = 16;

/// The file of segment `number`.
pub(crate) fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:010}.seg"))
}

/// The number in a segment's file name.
pub(crate) fn segment_number(path: &Path) -> Option<u64> {
    let stem = path.file_name()?.to_str()?.strip_suffix(".seg")?;
    stem.parse().ok()
}

/// The active segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    path: PathBuf,
    file: File,
    /// A random number known only to the server: data without it is no frame of this segment.
    salt: u32,
    /// The end of the last complete frame.
    end: u64,
    /// The end of the durable data, if syncing is enabled.
    durable: u64,
    /// Number of the next syncs that fail, as on a failing disk.
    #[cfg(test)]
    pub(crate) failing_syncs: u32,
}

impl Segment {
    fn new(number: u64, path: PathBuf, file: File, salt: u32, end: u64) -> Self {
        Self {
            number,
            path,
            file,
            salt,
            end,
            durable: end,
            #[cfg(test)]
            failing_syncs: 0,
        }
    }

    /// Creates an empty segment.
    pub(crate) fn create(dir: &Path, number: u64, sync: SyncMode) -> io::Result<Self> {
        let path = segment_path(dir, number);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
        let mut salt = [0; 4];
        rustix::rand::getrandom(&mut salt, GetRandomFlags::empty())?;
        let mut begin = [&MAGIC[..], &FORMAT.to_le_bytes(), &salt].concat();
        begin.extend_from_slice(&crc32fast::hash(&begin).to_le_bytes());
        file.write_all_at(&begin, 0)?;
        if sync == SyncMode::Durable {
            file.sync_all()?;
            files::sync_dir(dir)?;
        }
        Ok(Self::new(number, path, file, u32::from_le_bytes(salt), BEGIN as u64))
    }

    /// Opens the last segment after a restart: truncates it after the last intact frame, and indexes what is
    /// before.
    pub(crate) fn recover(dir: &Path, number: u64, sync: SyncMode) -> Result<(Self, Active), StoreError> {
        const OPERATION: &str = "recovering the activation log";
        let path = segment_path(dir, number);
        let fault = || file_fault(OPERATION, &path);
        let length = std::fs::metadata(&path).map_err(fault())?.len();
        if length <= BEGIN as u64 {
            // The crash came before its first bytes were durable, and nothing follows them.
            return Ok((Self::create(dir, number, sync).map_err(fault())?, Active::default()));
        }
        let Scanned { active, salt, end, damaged } = scan(&path)?;
        warn_of(damaged, &path);
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(fault())?;
        if end < length {
            tracing::warn!(path = %path.display(), bytes = length - end, records = active.len(), "cut the torn end off the activation log");
            file.set_len(end).map_err(fault())?;
        }
        if sync == SyncMode::Durable {
            // A killed process may not have synced this data, which counts as durable from now on.
            file.sync_all().map_err(fault())?;
        }
        Ok((Self::new(number, path, file, salt, end), active))
    }

    /// The salt of its frames.
    pub(crate) fn salt(&self) -> u32 {
        self.salt
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.end
    }

    /// Its file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A second file handle, for readers.
    pub(crate) fn reader(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Appends whole frames; returns their offset. After an error none of them is there.
    pub(crate) fn append(&mut self, frames: &[u8]) -> io::Result<u64> {
        let begin = self.end;
        if let Err(error) = self.file.write_all_at(frames, begin) {
            // Releases the space. If even that fails, the next append overwrites it, and a restart truncates
            // it.
            let _ = self.file.set_len(begin);
            return Err(error);
        }
        self.end += frames.len() as u64;
        Ok(begin)
    }

    /// Makes everything appended durable. After an error, everything since the last success is discarded and
    /// has to be appended again: the kernel marks pages that it could not write as clean, so a second sync
    /// would succeed without them.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        match self.sync_data() {
            Ok(()) => self.durable = self.end,
            Err(error) => {
                self.end = self.durable;
                // As after a failed append: if this fails too, the next append overwrites it.
                let _ = self.file.set_len(self.end);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Truncates what failed writes may have left after the end, once nothing more is appended. Otherwise a
    /// rebuilt index would contain those records, which are in the next segment too.
    pub(crate) fn trim(&self, sync: SyncMode) -> io::Result<()> {
        self.file.set_len(self.end)?;
        if sync == SyncMode::Durable { self.file.sync_all() } else { Ok(()) }
    }

    #[cfg(not(test))]
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// A failing sync discards what it should have made durable, as the kernel may.
    #[cfg(test)]
    fn sync_data(&mut self) -> io::Result<()> {
        let Some(left) = self.failing_syncs.checked_sub(1) else { return self.file.sync_data() };
        self.failing_syncs = left;
        self.file.write_all_at(&vec![0; (self.end - self.durable) as usize], self.durable)?;
        Err(io::Error::other("the disk fails, says the test"))
    }
}

/// Logs the findings of [`Frames::damaged`].
pub(crate) fn warn_of((places, bytes): (u64, u64), path: &Path) {
    if places > 0 {
        tracing::error!(path = %path.display(), places, bytes, "records in the activation log are damaged and lost; the disk may be failing");
    }
}

/// The contents of a scanned segment.
pub(crate) struct Scanned {
    pub(crate) active: Active,
    pub(crate) salt: u32,
    /// The end of the last intact frame.
    pub(crate) end: u64,
    /// See [`Frames::damaged`].
    pub(crate) damaged: (u64, u64),
}

/// Indexes the intact frames of a segment.
pub(crate) fn scan(path: &Path) -> Result<Scanned, StoreError> {
    let fault = || file_fault("reading the activation log", path);
    let mut file = File::open(path).map_err(fault())?;
    let (salt, begin) = read_begin(&file, path)?;
    file.seek(SeekFrom::Start(begin)).map_err(fault())?;
    let mut frames = Frames::new(BufReader::with_capacity(1 << 20, file), begin, salt);
    let mut active = Active::default();
    while let Some((meta, location)) = frames.next().map_err(fault())? {
        active.insert(meta, location);
    }
    Ok(Scanned { active, salt, end: frames.offset(), damaged: frames.damaged() })
}

/// The salt of a segment and the offset of its first frame. Refuses a file that is no segment, or one of a
/// newer format.
fn read_begin(file: &File, path: &Path) -> Result<(u32, u64), StoreError> {
    let fault = || file_fault("reading the activation log", path);
    let damaged = || {
        let detail = "it does not begin like a segment".to_owned();
        StoreError::Damaged { path: path.to_owned(), detail }
    };
    let mut begin = [0; BEGIN];
    file.read_exact_at(&mut begin[..BEGIN_1], 0).map_err(fault())?;
    let field = |begin: &[u8], at: usize| {
        u32::from_le_bytes([begin[at], begin[at + 1], begin[at + 2], begin[at + 3]])
    };
    match (begin.starts_with(MAGIC), field(&begin, 8)) {
        (true, 1) => Ok((0, BEGIN_1 as u64)),
        (true, FORMAT) => {
            file.read_exact_at(&mut begin, 0).map_err(fault())?;
            // With a wrong salt, no frame would be found, and all of them truncated.
            let whole = field(&begin, BEGIN_1) == crc32fast::hash(&begin[..BEGIN_1]);
            if whole { Ok((field(&begin, 12), BEGIN as u64)) } else { Err(damaged()) }
        }
        (true, found) if found > FORMAT => Err(StoreError::TooNew { found, known: FORMAT }),
        _ => Err(damaged()),
    }
}

/// Reads a record back.
pub(crate) fn read_record(file: &File, key: Key, at: Location, with_logs: bool) -> io::Result<Activation> {
    let damaged = |part: &str| {
        let detail =
            format!("the {part} of activation {:032x} at byte {} fails its checksum", key.id(), at.offset);
        io::Error::new(io::ErrorKind::InvalidData, detail)
    };
    let mut head = vec![0; at.head as usize];
    file.read_exact_at(&mut head, at.offset)?;
    let mut record = frame::decode_head(&head, key).ok_or_else(|| damaged("record"))?;
    if with_logs && at.logs > 0 {
        let mut logs = vec![0; at.logs as usize];
        file.read_exact_at(&mut logs, at.offset + u64::from(at.head))?;
        record.logs = frame::decode_logs(&head, &logs).ok_or_else(|| damaged("log"))?;
    }
    Ok(record)
}

/// Whether that record, intact or damaged, is at that location. If it is not, the index is at fault; if
/// nothing can be read, the segment is.
pub(crate) fn is_there(file: &File, key: Key, at: Location) -> bool {
    let mut begin = [0; frame::HEADER + Key::BYTES];
    file.read_exact_at(&mut begin, at.offset).is_err() || frame::is_begun(&begin, key, at)
}

#[cfg(test)]
mod tests {
    use flint_store::conformance::sample::activation;

    use super::*;

    fn frames(starts: std::ops::Range<u64>, salt: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        for start in starts {
            let record = activation("guest", "guest/work", start, 0);
            frame::encode(&record, "work", &[], salt, &mut bytes).unwrap();
        }
        bytes
    }

    fn recovered(dir: &Path) -> (Segment, Active) {
        Segment::recover(dir, 1, SyncMode::Durable).unwrap()
    }

    #[test]
    fn a_segment_of_the_first_format_is_read_and_grows_on() {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = b"FLINTSEG\x01\0\0\0\0\0\0\0".to_vec();
        bytes.extend(frames(0..3, 0));
        std::fs::write(segment_path(dir.path(), 1), &bytes).unwrap();
        let (mut segment, active) = recovered(dir.path());
        assert_eq!((active.len(), segment.len()), (3, bytes.len() as u64));
        segment.append(&frames(3..5, segment.salt())).unwrap();
        let (segment, active) = recovered(dir.path());
        assert_eq!((active.len(), segment.salt()), (5, 0));
    }

    #[test]
    fn every_segment_has_a_salt_of_its_own_and_a_wrong_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut segment = Segment::create(dir.path(), 1, SyncMode::Durable).unwrap();
        let other = Segment::create(dir.path(), 2, SyncMode::Durable).unwrap();
        assert_ne!(segment.salt(), other.salt());
        segment.append(&frames(0..3, segment.salt())).unwrap();
        assert_eq!(recovered(dir.path()).1.len(), 3);
        segment.file.write_all_at(&(segment.salt() ^ 1).to_le_bytes(), 12).unwrap();
        let refused = Segment::recover(dir.path(), 1, SyncMode::Durable).unwrap_err();
        assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
        assert_eq!(std::fs::metadata(segment.path()).unwrap().len(), segment.len(), "nothing is cut");
    }

    #[test]
    fn what_failed_writes_left_goes_before_the_segment_is_finished() {
        let dir = tempfile::tempdir().unwrap();
        let mut segment = Segment::create(dir.path(), 1, SyncMode::Durable).unwrap();
        segment.append(&frames(0..3, segment.salt())).unwrap();
        segment.file.write_all_at(&frames(3..5, segment.salt()), segment.len()).unwrap();
        segment.trim(SyncMode::Durable).unwrap();
        assert_eq!(scan(segment.path()).unwrap().active.len(), 3);
    }
}
