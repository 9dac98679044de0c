//! The activation log: append-only segments, each with a sorted index.
//!
//! `append` puts a record into a bounded queue ([`pending`]). One thread ([`appender`]) writes the queued
//! records as frames ([`frame`]) of a segment ([`segment`]), makes them durable and indexes them in memory
//! ([`active`]); a full segment gets an index file ([`sealed`]). Readers ([`view`]) merge all three
//! ([`select`]) and read the records they find ([`entry`]). An unreadable index is rebuilt ([`mend`]).

mod active;
mod appender;
mod body;
mod entry;
mod frame;
mod key;
mod lines;
mod mend;
mod pending;
mod retention;
mod sealed;
mod segment;
mod select;
mod sorted;
mod view;

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::Instant,
};

use async_trait::async_trait;
use flint_model::{Activation, ActivationId, ByteSize, NamespaceName};
use flint_store::{ActivationLog, ActivationLogStats, ActivationQuery, Page, StoreError};
use tokio::sync::{Semaphore, oneshot};

use self::{
    appender::{Appender, SEGMENTS},
    mend::{Mender, open_sealed},
    pending::{Full, Pending, Stored, Taken},
    sealed::index_path,
    segment::{Segment, segment_number},
    view::{Segments, View},
};
use crate::{
    StoreConfig,
    fault::{closed, file_fault, locked},
    files,
    off_thread::off_thread,
};

const OPENING: &str = "opening the activation log";
const READING: &str = "reading activations";
/// Concurrent reads. More would contend for the same cores and page cache.
const READS: usize = 16;

/// State shared by the log's thread and its callers.
struct Shared {
    view: View,
    /// Wakes the log's thread.
    wake: Condvar,
    counts: Counts,
    /// Number of reasons not to remove files now.
    holds: AtomicUsize,
}

#[derive(Default)]
struct Counts {
    appended: AtomicU64,
    shed_logs: AtomicU64,
    shed_records: AtomicU64,
    expired: AtomicU64,
}

/// The log.
pub(crate) struct SegmentLog {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    reads: Arc<Semaphore>,
}

impl SegmentLog {
    /// Opens the log in `dir`: truncates a torn end, rebuilds missing indexes, starts the thread.
    pub(crate) fn open(dir: PathBuf, config: &StoreConfig) -> Result<Self, StoreError> {
        Self::start(Self::recover(dir, config)?)
    }

    /// Opens everything but the thread.
    fn recover(dir: PathBuf, config: &StoreConfig) -> Result<Appender, StoreError> {
        files::make_dir(&dir, config.sync).map_err(file_fault(OPENING, &dir))?;
        remove_orphans(&dir).map_err(file_fault(OPENING, &dir))?;
        let mut numbers = segment_numbers(&dir).map_err(file_fault(OPENING, &dir))?;
        let (segment, active) = match numbers.pop() {
            None => (
                Segment::create(&dir, 1, config.sync).map_err(file_fault(OPENING, &dir))?,
                Default::default(),
            ),
            Some(last) => {
                // A crash may have come just after its index was written: the segment still grows, and gets
                // another.
                match fs::remove_file(index_path(&dir, last)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(file_fault(OPENING, &dir)(error));
                    }
                    _ => Segment::recover(&dir, last, config.sync)?,
                }
            }
        };
        let file = segment.reader().map_err(file_fault(OPENING, segment.path()))?;
        let path = segment.path().to_owned();
        let (end, begun) = (segment.len(), active.oldest());
        let mut segments =
            Segments { sealed: Vec::new(), greatest_id: 0, active, file: Arc::new(file), path, end };
        for number in numbers {
            segments.push(Arc::new(open_sealed(&dir, number, config.sync)?));
        }
        let shared = Arc::new(Shared {
            view: View::new(segments, Pending::new(&config.log), Mender::new(dir.clone(), config.sync)),
            wake: Condvar::new(),
            counts: Counts::default(),
            holds: AtomicUsize::new(0),
        });
        Ok(Appender {
            shared,
            dir,
            segment,
            segment_bytes: segment_bytes(config),
            retention: config.retention,
            sync: config.sync,
            gather: config.log.gather,
            buffer: Vec::new(),
            unsynced: Vec::new(),
            synced: Instant::now(),
            rested: Instant::now(),
            begun,
            unfinished: None,
            failing: false,
        })
    }

    /// The same with a file whose next `syncs` fail.
    #[cfg(test)]
    pub(crate) fn failing(dir: PathBuf, config: &StoreConfig, syncs: u32) -> Self {
        let mut appender = Self::recover(dir, config).unwrap();
        appender.segment.failing_syncs = syncs;
        Self::start(appender).unwrap()
    }

    fn start(appender: Appender) -> Result<Self, StoreError> {
        let shared = Arc::clone(&appender.shared);
        let thread = std::thread::Builder::new()
            .name("flint-log".to_owned())
            .spawn(move || {
                // Dropped when the thread ends, also by a panic.
                let _ended = Ended(Arc::clone(&appender.shared));
                appender.run();
            })
            .map_err(|error| StoreError::Failed { operation: OPENING, detail: error.to_string() })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)), reads: Arc::new(Semaphore::new(READS)) })
    }

    /// Writes the pending records and ends the thread. Later records are counted as shed.
    pub(crate) fn stop(&self) {
        let Some(thread) = locked(&self.thread).take() else { return };
        locked(&self.shared.view.pending).closed = true;
        self.shared.wake.notify_one();
        if thread.join().is_err() {
            tracing::error!("the thread of the activation log panicked");
        }
    }

    /// The log's files, each with the number of its bytes that are valid now; they are kept until the guard
    /// is dropped.
    pub(crate) fn files(&self) -> (Vec<(PathBuf, u64)>, Hold) {
        let hold = Hold(Arc::clone(&self.shared));
        self.shared.holds.fetch_add(1, Relaxed);
        let segments = self.shared.view.segments();
        let mut files = Vec::new();
        for segment in &segments.sealed {
            let [path, index] = segment.paths();
            files.push((path.to_owned(), fs::metadata(path).map_or(0, |data| data.len())));
            // A missing one is rebuilt when the copy is opened.
            files.extend(fs::metadata(index).ok().map(|data| (index.to_owned(), data.len())));
        }
        files.push((segments.path.clone(), segments.end));
        (files, hold)
    }

    fn push(&self, record: Activation, promised: bool) -> Result<(), Full> {
        let stored = Stored::new(record);
        let mut discarded = Vec::new(); // freed after the lock
        let taken = locked(&self.shared.view.pending).push(stored, &mut discarded, promised)?;
        let counts = &self.shared.counts;
        let wake = match taken {
            Taken::Stripped(wake) => {
                counts.shed_logs.fetch_add(1, Relaxed);
                wake
            }
            Taken::Whole(wake) => wake,
        };
        counts.appended.fetch_add(1, Relaxed);
        if wake {
            self.shared.wake.notify_one();
        }
        Ok(())
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&View) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = Arc::clone(&self.reads).acquire_owned().await.map_err(|_| closed(READING))?;
        let shared = Arc::clone(&self.shared);
        off_thread(READING, move || {
            let result = work(&shared.view);
            drop(permit);
            result
        })
        .await
    }
}

impl Drop for SegmentLog {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Marks the end of the log's thread: no more records are accepted, and waiting callers are told so.
struct Ended(Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        let mut pending = locked(&self.0.view.pending);
        pending.closed = true;
        pending.flushes.clear();
    }
}

/// A guard: while it lives, retention removes nothing.
pub(crate) struct Hold(Arc<Shared>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, Relaxed);
    }
}

/// The numbers of the segments in `dir`, in order.
fn segment_numbers(dir: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir)? {
        numbers.extend(segment_number(&entry?.path()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Removes what crashes left: indexes whose segments are gone, which no retention would find, and files half written.
fn remove_orphans(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let is_orphan = match path.extension().and_then(OsStr::to_str) {
            Some("idx") => !path.with_extension("seg").exists(),
            Some("tmp") => true,
            _ => false,
        };
        if !is_orphan {
            continue;
        }
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!(%error, path = %path.display(), "a file of the activation log that nothing uses could not be removed");
        }
    }
    Ok(())
}

fn segment_bytes(config: &StoreConfig) -> u64 {
    let share = config.retention.max_bytes.map_or(u64::MAX, |bytes| bytes.as_u64() / u64::from(SEGMENTS));
    let bounded = share.clamp(ByteSize::mib(1).as_u64(), ByteSize::mib(256).as_u64());
    config.log.segment_bytes.map_or(bounded, ByteSize::as_u64)
}

#[async_trait]
impl ActivationLog for SegmentLog {
    fn append(&self, record: Activation) {
        if self.push(record, false).is_err() {
            self.shared.counts.shed_records.fetch_add(1, Relaxed);
        }
    }

    fn offer(&self, record: Activation) -> Result<(), Box<Activation>> {
        self.push(record, true).map_err(|Full(stored)| Box::new(stored.into_record()))
    }

    async fn get(
        &self,
        namespace: &NamespaceName,
        id: ActivationId,
    ) -> Result<Option<Activation>, StoreError> {
        let namespace = namespace.clone();
        self.read(move |view| view.get(namespace.as_str(), id)).await
    }

    async fn list(
        &self,
        namespace: &NamespaceName,
        query: &ActivationQuery,
        page: Page,
        with_logs: bool,
    ) -> Result<Vec<Activation>, StoreError> {
        let (namespace, query) = (namespace.clone(), query.clone());
        self.read(move |view| view.list(namespace.as_str(), &query, page, with_logs)).await
    }

    async fn count(&self, namespace: &NamespaceName, query: &ActivationQuery) -> Result<usize, StoreError> {
        let (namespace, query) = (namespace.clone(), query.clone());
        self.read(move |view| view.count(namespace.as_str(), &query)).await
    }

    async fn flush(&self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        {
            let mut pending = locked(&self.shared.view.pending);
            if pending.closed {
                return Err(closed("flushing activations"));
            }
            pending.flushes.push(reply);
        }
        self.shared.wake.notify_one();
        answer.await.unwrap_or_else(|_| Err(closed("flushing activations")))
    }

    fn stats(&self) -> ActivationLogStats {
        let counts = &self.shared.counts;
        let (pending, closed) = {
            let pending = locked(&self.shared.view.pending);
            (pending.len() as u64, pending.closed)
        };
        ActivationLogStats {
            appended: counts.appended.load(Relaxed),
            shed_logs: counts.shed_logs.load(Relaxed),
            shed_records: counts.shed_records.load(Relaxed),
            pending,
            expired: counts.expired.load(Relaxed),
            damaged_reads: self.shared.view.damaged_reads.load(Relaxed),
            closed,
        }
    }
}

/// Parses a segment's bytes as recovery and readers do; for fuzz targets.
#[cfg(feature = "fuzzing")]
pub fn fuzz_segment(bytes: &[u8]) {
    let mut frames = frame::Frames::new(bytes, 0, 0);
    while let Ok(Some((meta, at))) = frames.next() {
        let (begin, head) = (at.offset as usize, at.head as usize);
        let (head, logs) = bytes[begin..begin + head + at.logs as usize].split_at(head);
        let _ = frame::decode_head(head, meta.key);
        let _ = frame::decode_logs(head, logs);
    }
    let _ = lines::decode(bytes);
}
