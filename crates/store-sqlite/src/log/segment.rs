//! A segment: a file of frames in order of arrival.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufReader, Seek, SeekFrom},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use flint_model::Activation;
use flint_store::StoreError;

use super::{
    active::Active,
    frame::{self, Frames, Location},
    key::Key,
};
use crate::{SyncMode, fault::file_fault, files};

/// The first bytes of a segment: these, its format, four zeros.
const MAGIC: &[u8; 8] = b"FLINTSEG";
/// The format this build writes, and the newest it reads.
const FORMAT: u32 = 1;
/// Where the frames begin.
pub(crate) const BEGIN: u64 = 16;

/// The file of segment `number`.
pub(crate) fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:010}.seg"))
}

/// The number in a segment's file name.
pub(crate) fn segment_number(path: &Path) -> Option<u64> {
    let stem = path.file_name()?.to_str()?.strip_suffix(".seg")?;
    stem.parse().ok()
}

/// The segment that is being written.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    path: PathBuf,
    file: File,
    /// The end of the last whole frame.
    end: u64,
    /// The end of what is durable, where anything is made durable.
    durable: u64,
    /// So many of the next syncs fail, as they do on a failing disk.
    #[cfg(test)]
    pub(crate) failing_syncs: u32,
}

impl Segment {
    fn new(number: u64, path: PathBuf, file: File, end: u64) -> Self {
        Self {
            number,
            path,
            file,
            end,
            durable: end,
            #[cfg(test)]
            failing_syncs: 0,
        }
    }

    /// Makes an empty one.
    pub(crate) fn create(dir: &Path, number: u64, sync: SyncMode) -> io::Result<Self> {
        let path = segment_path(dir, number);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
        let mut begin = [0; BEGIN as usize];
        begin[..8].copy_from_slice(MAGIC);
        begin[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        file.write_all_at(&begin, 0)?;
        if sync == SyncMode::Durable {
            file.sync_all()?;
            files::sync_dir(dir)?;
        }
        Ok(Self::new(number, path, file, BEGIN))
    }

    /// Opens the last one after a restart: a torn end is cut off, what is before it is indexed.
    pub(crate) fn recover(dir: &Path, number: u64, sync: SyncMode) -> Result<(Self, Active), StoreError> {
        const OPERATION: &str = "recovering the activation log";
        let path = segment_path(dir, number);
        let fault = || file_fault(OPERATION, &path);
        let length = std::fs::metadata(&path).map_err(fault())?.len();
        if length <= BEGIN {
            // The crash may have come before its first bytes were durable, and there is nothing after them.
            return Ok((Self::create(dir, number, sync).map_err(fault())?, Active::default()));
        }
        let Scanned { active, end, damaged } = scan(&path)?;
        warn_of(damaged, &path);
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(fault())?;
        if end < length {
            tracing::warn!(path = %path.display(), bytes = length - end, records = active.len(), "cut the torn end off the activation log");
            file.set_len(end).map_err(fault())?;
        }
        if sync == SyncMode::Durable {
            // Who was killed may not have synced what is found here, and it counts as durable from now on.
            file.sync_all().map_err(fault())?;
        }
        Ok((Self::new(number, path, file, end), active))
    }

    /// How many bytes it has.
    pub(crate) fn len(&self) -> u64 {
        self.end
    }

    /// Its file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A second handle, for readers.
    pub(crate) fn reader(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Appends whole frames; gives where they begin. After an error nothing of them is there.
    pub(crate) fn append(&mut self, frames: &[u8]) -> io::Result<u64> {
        let begin = self.end;
        if let Err(error) = self.file.write_all_at(frames, begin) {
            // Gives the space back. Should even that fail, the next append writes over it, and a restart cuts it off.
            let _ = self.file.set_len(begin);
            return Err(error);
        }
        self.end += frames.len() as u64;
        Ok(begin)
    }

    /// Makes everything appended durable. After an error nothing of what came after the last success is there, and it has to be appended
    /// again: the kernel takes pages that it could not write for clean ones, so that a second sync would succeed without them.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        match self.sync_data() {
            Ok(()) => self.durable = self.end,
            Err(error) => {
                self.end = self.durable;
                // As after a failed append: should this fail too, what is appended next is written over it.
                let _ = self.file.set_len(self.end);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes what failed writes may have left behind the end; nothing is appended any more. It would be found when the index has to be made
    /// again, and its records are in the next segment.
    pub(crate) fn trim(&self, sync: SyncMode) -> io::Result<()> {
        self.file.set_len(self.end)?;
        if sync == SyncMode::Durable { self.file.sync_all() } else { Ok(()) }
    }

    #[cfg(not(test))]
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// A failing one loses what it should have made durable, as the kernel may.
    #[cfg(test)]
    fn sync_data(&mut self) -> io::Result<()> {
        let Some(left) = self.failing_syncs.checked_sub(1) else { return self.file.sync_data() };
        self.failing_syncs = left;
        self.file.write_all_at(&vec![0; (self.end - self.durable) as usize], self.durable)?;
        Err(io::Error::other("the disk fails, says the test"))
    }
}

/// Says that so many records are lost.
pub(crate) fn warn_of(damaged: u64, path: &Path) {
    if damaged > 0 {
        tracing::error!(path = %path.display(), damaged, "records in the activation log are damaged and lost; the disk may be failing");
    }
}

/// What is in a segment.
pub(crate) struct Scanned {
    pub(crate) active: Active,
    /// The end of the last whole frame.
    pub(crate) end: u64,
    /// Frames before that which are not whole.
    pub(crate) damaged: u64,
}

/// Indexes the whole frames of a segment.
pub(crate) fn scan(path: &Path) -> Result<Scanned, StoreError> {
    let fault = || file_fault("reading the activation log", path);
    let mut file = File::open(path).map_err(fault())?;
    check_begin(&file, path)?;
    file.seek(SeekFrom::Start(BEGIN)).map_err(fault())?;
    let mut frames = Frames::new(BufReader::with_capacity(1 << 20, file), BEGIN);
    let mut active = Active::default();
    while let Some((meta, location)) = frames.next().map_err(fault())? {
        active.insert(meta, location);
    }
    Ok(Scanned { active, end: frames.offset(), damaged: frames.damaged() })
}

/// Refuses a file that is no segment, or a newer one.
pub(crate) fn check_begin(file: &File, path: &Path) -> Result<(), StoreError> {
    let mut begin = [0; BEGIN as usize];
    file.read_exact_at(&mut begin, 0).map_err(file_fault("reading the activation log", path))?;
    let (magic, rest) = begin.split_at(MAGIC.len());
    let found = rest.first_chunk().map_or(0, |format| u32::from_le_bytes(*format));
    match (magic == MAGIC, found) {
        (true, 1..=FORMAT) => Ok(()),
        (true, 1..) => Err(StoreError::TooNew { found, known: FORMAT }),
        _ => Err(StoreError::Damaged {
            path: path.to_owned(),
            detail: "it does not begin like a segment".to_owned(),
        }),
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
