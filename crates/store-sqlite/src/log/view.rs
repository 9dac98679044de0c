//! What readers see: the finished segments, the one that is being written, and what is not yet written.

use std::{
    cell::OnceCell,
    collections::HashSet,
    fs::File,
    io,
    num::NonZeroU64,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use flint_model::{Activation, ActivationId, LogLine, LogStream};
use flint_store::{ActivationQuery, Page, StoreError};
use rustix::fs::{Advice, fadvise};

use super::{
    active::Active,
    frame::Location,
    key::Key,
    pending::{Pending, Stored},
    sealed::Sealed,
    segment::read_record,
    select::{self, Found, Run, Window},
};
use crate::fault::{file_fault, locked};

/// The segments.
#[derive(Debug)]
pub(crate) struct Segments {
    /// Finished, oldest first.
    pub(crate) sealed: Vec<Arc<Sealed>>,
    /// Greater than every id in them is certainly new.
    pub(crate) greatest_id: u128,
    /// The index of the one that is being written.
    pub(crate) active: Active,
    /// Its file.
    pub(crate) file: Arc<File>,
    pub(crate) path: PathBuf,
    /// The end of what is indexed of it.
    pub(crate) end: u64,
}

impl Segments {
    /// Where all of them are.
    fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Adds a finished segment.
    pub(crate) fn push(&mut self, sealed: Arc<Sealed>) {
        self.greatest_id = self.greatest_id.max(sealed.greatest_id());
        self.sealed.push(sealed);
    }

    /// Whether a written record of that namespace has that id. A finished segment whose index cannot be read has it not, and is among `unreadable`:
    /// a record that is there twice harms less than a log that ends with one old file.
    pub(crate) fn contains(
        &self,
        namespace: &str,
        id: u128,
        unreadable: &mut Vec<(Arc<Sealed>, io::Error)>,
    ) -> bool {
        if self.active.find(namespace, id).is_some() {
            return true;
        }
        if id > self.greatest_id {
            return false;
        }
        self.sealed.iter().rev().any(|sealed| match sealed.find(namespace, id) {
            Ok(found) => found.is_some(),
            Err(error) => {
                if !unreadable.iter().any(|(known, _)| Arc::ptr_eq(known, sealed)) {
                    unreadable.push((Arc::clone(sealed), error));
                }
                false
            }
        })
    }
}

/// Everything that readers see. Locks are taken in the order of the fields. A record moves from `pending` to `segments` under
/// both, so whoever holds both sees it exactly once.
#[derive(Debug)]
pub(crate) struct View {
    segments: RwLock<Segments>,
    pub(crate) pending: Mutex<Pending>,
    /// How often a damaged record was left out of a list.
    pub(crate) damaged_reads: AtomicU64,
    /// The segments of which that was said.
    said: Mutex<HashSet<PathBuf>>,
}

/// A record's file and place in it.
struct Place {
    path: PathBuf,
    file: Arc<File>,
    at: Location,
}

/// A record of a page.
enum Entry {
    Pending(Arc<Stored>),
    Written(Place),
}

/// What the kernel reads ahead of a reader, at the least: records that are closer than this come in one go.
const NEAR: u64 = 64 << 10;

/// Log lines of one page, as they are stored, and results. Those of the records after that are left out: a page may have a thousand records, and a record
/// ten megabytes.
const LOGS_OF_A_PAGE: u64 = 8 << 20;
const RESULTS_OF_A_PAGE: u64 = 8 << 20;
/// A result of this size, or a smaller one, is never left out.
const SMALL_RESULT: u64 = 8 << 10;
const LEFT_OUT: &str = "(left out here, where there are many: ask for this activation by its id)";

/// What is left of a page's.
struct Room {
    logs: u64,
    results: u64,
}

/// Whether what has that size is taken: what fits, and the first of all.
fn take(room: &mut u64, size: u64, whole: u64) -> bool {
    let fits = size <= *room || *room == whole;
    *room = room.saturating_sub(size);
    fits
}

impl Entry {
    /// What its log lines take.
    fn logs(&self) -> u64 {
        match self {
            Self::Pending(stored) => stored.logs().iter().map(|line| line.text.len() as u64 + 1).sum(),
            Self::Written(place) => place.at.logs.into(),
        }
    }

    /// Reads it, and takes what it has from the `room` that is left for all of a page.
    fn read_into(self, key: Key, with_logs: bool, room: &mut Room) -> Result<Activation, ReadError> {
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
            // An object, as clients expect of a result.
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
    fn open(path: &Path, at: Location) -> Result<Self, ReadError> {
        let file = Arc::new(File::open(path).map_err(damage(path))?);
        Ok(Self { path: path.to_owned(), file, at })
    }

    fn is_far_from(&self, other: &Self) -> bool {
        self.at.offset.abs_diff(other.at.offset) > NEAR
    }

    /// Has the kernel fetch it, if it is not in memory, while other records are looked for: a page of records that lie far apart then takes
    /// about as long as one of them. It is only a hint.
    fn announce(&self, with_logs: bool) {
        let length = u64::from(self.at.head) + if with_logs { u64::from(self.at.logs) } else { 0 };
        let _ = fadvise(&*self.file, self.at.offset, NonZeroU64::new(length), Advice::WillNeed);
    }

    fn read(&self, key: Key, with_logs: bool) -> Result<Activation, ReadError> {
        read_record(&self.file, key, self.at, with_logs).map_err(damage(&self.path))
    }
}

/// How often a read begins anew because retention removed a segment under it.
const ATTEMPTS: usize = 5;

impl View {
    pub(crate) fn new(segments: Segments, pending: Pending) -> Self {
        Self {
            segments: RwLock::new(segments),
            pending: Mutex::new(pending),
            damaged_reads: AtomicU64::new(0),
            said: Mutex::default(),
        }
    }

    pub(crate) fn segments(&self) -> RwLockReadGuard<'_, Segments> {
        self.segments.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn segments_mut(&self) -> RwLockWriteGuard<'_, Segments> {
        self.segments.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record of that id.
    pub(crate) fn get(&self, namespace: &str, id: ActivationId) -> Result<Option<Activation>, StoreError> {
        repeated(|| {
            let segments = self.segments();
            let found = {
                let pending = locked(&self.pending);
                pending
                    .iter()
                    .find(|stored| stored.record().id == id && stored.meta().namespace == namespace)
                    .cloned()
            };
            if let Some(stored) = found {
                return Ok(Some(stored.to_activation(true)));
            }
            let id = id.as_u128();
            if let Some((key, at)) = segments.active.find(namespace, id) {
                let place = Place { path: segments.path.clone(), file: Arc::clone(&segments.file), at };
                drop(segments);
                return place.read(key, true).map(Some);
            }
            let sealed = segments.sealed.clone();
            drop(segments);
            for segment in sealed.iter().rev() {
                if let Some((key, at)) = segment.find(namespace, id).map_err(damage(&segment.segment))? {
                    return Place::open(&segment.segment, at)?.read(key, true).map(Some);
                }
            }
            Ok(None)
        })
    }

    /// A page of a namespace's records.
    pub(crate) fn list(
        &self,
        namespace: &str,
        query: &ActivationQuery,
        page: Page,
        with_logs: bool,
    ) -> Result<Vec<Activation>, StoreError> {
        repeated(|| {
            let segments = self.segments();
            // What is read here are indexes; the error says which.
            let windows = self.windows(&segments, namespace, query).map_err(damage(segments.dir()))?;
            let found = select::page(windows, page.skip, page.limit).map_err(damage(segments.dir()))?;
            let active = (segments.path.clone(), Arc::clone(&segments.file));
            let found: Vec<_> = found
                .into_iter()
                .map(|(key, found)| match found {
                    Found::Active(record) => (key, found, Some(segments.active.location(record))),
                    Found::Pending(_) | Found::Sealed(..) => (key, found, None),
                })
                .collect();
            drop(segments);
            let mut entries: Vec<(Key, Entry)> = Vec::with_capacity(found.len());
            for (key, found, location) in found {
                let (path, file, at) = match (found, location) {
                    (Found::Pending(stored), _) => {
                        entries.push((key, Entry::Pending(stored)));
                        continue;
                    }
                    (Found::Sealed(segment, at), _) => (segment.segment.clone(), None, at),
                    (Found::Active(_), Some(at)) => (active.0.clone(), Some(Arc::clone(&active.1)), at),
                    (Found::Active(_), None) => {
                        unreachable!("every active record was given its location above")
                    }
                };
                let before = match entries.last() {
                    Some((_, Entry::Written(before))) if before.path == path => Some(before),
                    _ => None,
                };
                // Neighbours are mostly in one segment: its file stays open from one to the next.
                let file = match before.map(|before| Arc::clone(&before.file)).or(file) {
                    Some(file) => file,
                    None => Arc::new(File::open(&path).map_err(damage(&path))?),
                };
                let place = Place { path, file, at };
                if before.is_none_or(|before| before.is_far_from(&place)) {
                    place.announce(with_logs);
                }
                entries.push((key, Entry::Written(place)));
            }
            let mut room = Room { logs: LOGS_OF_A_PAGE, results: RESULTS_OF_A_PAGE };
            let mut records = Vec::with_capacity(entries.len());
            for (key, entry) in entries {
                match entry.read_into(key, with_logs, &mut room) {
                    // One that is damaged takes the others with it no more than it would if it were asked for alone.
                    Err(ReadError::Store(StoreError::Damaged { path, detail })) => {
                        self.pass_over(path, &detail)
                    }
                    read => records.push(read?),
                }
            }
            Ok(records)
        })
    }

    /// A list leaves a damaged record out; that is said once of a segment.
    fn pass_over(&self, path: PathBuf, detail: &str) {
        self.damaged_reads.fetch_add(1, Relaxed);
        let mut said = locked(&self.said);
        if !said.contains(&path) {
            tracing::error!(path = %path.display(), detail, "a damaged activation record is left out of lists, and so are others of this segment; the disk may be failing");
            said.insert(path);
        }
    }

    /// How many records a query has.
    pub(crate) fn count(&self, namespace: &str, query: &ActivationQuery) -> Result<usize, StoreError> {
        repeated(|| {
            let segments = self.segments();
            let windows = self.windows(&segments, namespace, query).map_err(damage(segments.dir()))?;
            Ok(windows.iter().map(Window::len).sum())
        })
    }

    /// The part of every list that a query is about.
    fn windows<'a>(
        &self,
        segments: &'a Segments,
        namespace: &str,
        query: &ActivationQuery,
    ) -> io::Result<Vec<Window<'a>>> {
        let name = query.name.as_deref();
        let least = query.since.map_or(Key::MIN, |since| Key::new(since.as_millis(), 0));
        let end = query.upto.and_then(|upto| Key::new(upto.as_millis(), u128::MAX).next());
        if end.is_some_and(|end| end <= least) {
            return Ok(Vec::new());
        }
        let mut pending: Vec<_> = locked(&self.pending)
            .iter()
            .map(|stored| (stored.meta(), stored))
            .filter(|(meta, _)| meta.namespace == namespace && name.is_none_or(|name| meta.name == name))
            .map(|(meta, stored)| (meta.key, Arc::clone(stored)))
            .collect();
        pending.sort_by_key(|(key, _)| *key);
        let mut runs = vec![Run::Pending(pending)];
        runs.extend(segments.active.namespace(namespace).and_then(|keys| keys.of(name)).map(Run::Active));
        runs.extend(segments.sealed.iter().filter_map(|segment| {
            let span = segment.span(namespace, name)?;
            Some(Run::Sealed { segment, index: OnceCell::new(), span, named: name.is_some() })
        }));
        runs.into_iter().map(|run| Window::new(run, least, end)).collect()
    }
}

/// Retention may remove a file between the look into the view and the look into the file: then the view has changed.
fn repeated<T>(mut work: impl FnMut() -> Result<T, ReadError>) -> Result<T, StoreError> {
    let mut attempts = 1;
    loop {
        match work() {
            Ok(value) => return Ok(value),
            Err(ReadError::Gone(_)) if attempts < ATTEMPTS => attempts += 1,
            Err(ReadError::Gone(error) | ReadError::Store(error)) => return Err(error),
        }
    }
}

enum ReadError {
    /// A file is not there any more.
    Gone(StoreError),
    Store(StoreError),
}

fn damage(path: &Path) -> impl FnOnce(io::Error) -> ReadError {
    move |error| match error.kind() {
        io::ErrorKind::NotFound => ReadError::Gone(file_fault("reading activations", path)(error)),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => ReadError::Store(StoreError::Damaged {
            path: path.to_owned(),
            detail: format!(
                "{error} (if its .idx file is at fault: remove that, the next start makes it again)"
            ),
        }),
        _ => ReadError::Store(file_fault("reading activations", path)(error)),
    }
}
