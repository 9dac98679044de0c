//! Reads a record that was found, alone or as part of a page with limited room for log lines and results.

use std::{
    fs::File,
    io,
    num::NonZeroU64,
    path::{Path, PathBuf},
    sync::Arc,
};

use flint_model::{Activation, LogLine, LogStream};
use flint_store::StoreError;
use rustix::fs::{Advice, fadvise};

use super::{
    READING,
    frame::Location,
    key::Key,
    mend::Unreadable,
    pending::Stored,
    sealed::Sealed,
    segment::{is_there, read_record},
};
use crate::fault::file_fault;

/// Why a read failed.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// A file no longer exists.
    Gone(StoreError),
    /// An index is unreadable.
    Index(Unreadable),
    /// A record is damaged, or not where an index says, in which case that index is `misleading`.
    Damaged { path: PathBuf, detail: String, misleading: Option<Unreadable> },
    /// Anything else.
    Store(StoreError),
}

impl From<Unreadable> for ReadError {
    fn from(unreadable: Unreadable) -> Self {
        Self::Index(unreadable)
    }
}

/// Classifies an error from reading the segment at `path`.
pub(crate) fn damage(path: &Path) -> impl FnOnce(io::Error) -> ReadError {
    move |error| match error.kind() {
        io::ErrorKind::NotFound => ReadError::Gone(file_fault(READING, path)(error)),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            ReadError::Damaged { path: path.to_owned(), detail: error.to_string(), misleading: None }
        }
        _ => ReadError::Store(file_fault(READING, path)(error)),
    }
}

/// A record's file and its location in it.
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<File>,
    pub(crate) at: Location,
    /// The finished segment whose index gave the location.
    pub(crate) sealed: Option<Arc<Sealed>>,
}

/// A record of a page.
pub(crate) enum Entry {
    Pending(Arc<Stored>),
    Written(Place),
}

/// Minimum read-ahead of the kernel: records closer than this are fetched together.
const NEAR: u64 = 64 << 10;

/// Bytes of stored log lines per page, and of results. Those of further records are left out: a page may have
/// a thousand records, and a record ten megabytes.
const LOGS_OF_A_PAGE: u64 = 8 << 20;
const RESULTS_OF_A_PAGE: u64 = 8 << 20;
/// A result up to this size is never left out.
const SMALL_RESULT: u64 = 8 << 10;
const LEFT_OUT: &str = "(left out here, where there are many: ask for this activation by its id)";

/// The remaining room of a page.
pub(crate) struct Room {
    logs: u64,
    results: u64,
}

impl Default for Room {
    fn default() -> Self {
        Self { logs: LOGS_OF_A_PAGE, results: RESULTS_OF_A_PAGE }
    }
}

/// Takes room for `size`, if it fits or is the first to be taken.
fn take(room: &mut u64, size: u64, whole: u64) -> bool {
    let fits = size <= *room || *room == whole;
    *room = room.saturating_sub(size);
    fits
}

impl Entry {
    /// The size of its log lines.
    fn logs(&self) -> u64 {
        match self {
            Self::Pending(stored) => stored.logs().iter().map(|line| line.text.len() as u64 + 1).sum(),
            Self::Written(place) => place.at.logs.into(),
        }
    }

    /// Reads it, and takes its size off the `room` of the page.
    pub(crate) fn read_into(
        self,
        key: Key,
        with_logs: bool,
        room: &mut Room,
    ) -> Result<Activation, ReadError> {
        let logs = if with_logs { self.logs() } else { 0 };
        let fits = take(&mut room.logs, logs, LOGS_OF_A_PAGE);
        let mut record = self.read(key, with_logs && fits)?;
        if !fits {
            let time_us = record.start.as_millis().saturating_mul(1000);
            let text = LEFT_OUT.to_owned();
            record.logs = vec![LogLine { time_us, stream: LogStream::Stderr, text }];
        }
        let result = record.response.result.as_ref().map_or(0, |result| result.get().len() as u64);
        if result > SMALL_RESULT && !take(&mut room.results, result, RESULTS_OF_A_PAGE) {
            // An object, as clients expect a result to be.
            record.response.result =
                serde_json::value::to_raw_value(&serde_json::json!({ "left_out": LEFT_OUT })).ok();
        }
        Ok(record)
    }

    fn read(self, key: Key, with_logs: bool) -> Result<Activation, ReadError> {
        match self {
            Self::Pending(stored) => Ok(stored.to_activation(with_logs)),
            Self::Written(place) => place.read(key, with_logs),
        }
    }
}

impl Place {
    /// A location in a finished segment.
    pub(crate) fn open(segment: &Arc<Sealed>, at: Location) -> Result<Self, ReadError> {
        let path = segment.segment.clone();
        let file = Arc::new(File::open(&path).map_err(damage(&path))?);
        Ok(Self { path, file, at, sealed: Some(Arc::clone(segment)) })
    }

    pub(crate) fn is_far_from(&self, other: &Self) -> bool {
        self.at.offset.abs_diff(other.at.offset) > NEAR
    }

    /// Asks the kernel to prefetch it while other records are looked up, so that a page of distant records
    /// takes about as long as one of them. Only a hint.
    pub(crate) fn announce(&self, with_logs: bool) {
        let length = u64::from(self.at.head) + if with_logs { u64::from(self.at.logs) } else { 0 };
        let _ = fadvise(&*self.file, self.at.offset, NonZeroU64::new(length), Advice::WillNeed);
    }

    pub(crate) fn read(&self, key: Key, with_logs: bool) -> Result<Activation, ReadError> {
        read_record(&self.file, key, self.at, with_logs).map_err(|error| {
            let mut fault = damage(&self.path)(error);
            if let (ReadError::Damaged { misleading, .. }, Some(segment)) = (&mut fault, &self.sealed)
                && !is_there(&self.file, key, self.at)
            {
                *misleading = Some(Unreadable::of(segment)(segment.misleads()));
            }
            fault
        })
    }
}
