//! The log's thread: writes what is pending, finishes segments, removes old ones.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use flint_model::Timestamp;
use flint_store::StoreError;

use super::{
    Shared, frame,
    pending::{Flush, Pending, Stored, Thread},
    retention::{self, Extent},
    sealed::Sealed,
    segment::{Segment, segment_path},
};
use crate::{
    Retention, SyncMode,
    fault::{file_fault, locked, same},
};

/// Most records, and about how many bytes, of one write.
const CHUNK_RECORDS: usize = 512;
const CHUNK_BYTES: usize = 4 << 20;
/// Under load the thread writes without a pause, and syncs this often.
const SYNC_EVERY: Duration = Duration::from_millis(50);
/// How often it looks after retention, and retries what failed.
const REST: Duration = Duration::from_secs(1);
/// A bound of retention is divided into so many segments.
pub(crate) const SEGMENTS: u32 = 64;

const WRITING: &str = "writing activations";

pub(crate) struct Appender {
    pub(crate) shared: Arc<Shared>,
    pub(crate) dir: PathBuf,
    pub(crate) segment: Segment,
    pub(crate) segment_bytes: u64,
    pub(crate) retention: Retention,
    pub(crate) sync: SyncMode,
    pub(crate) gather: Duration,
    /// Frames of one write.
    pub(crate) buffer: Vec<u8>,
    pub(crate) synced: Instant,
    /// When to look after retention again.
    pub(crate) rested: Instant,
    /// When the segment got its first record, in ms since the epoch.
    pub(crate) begun: Option<u64>,
    /// When it could not be finished.
    pub(crate) unfinished: Option<Instant>,
    /// The last write failed: wait before the next.
    pub(crate) failing: bool,
}

/// What the thread woke up for.
struct Work {
    records: usize,
    flushes: Vec<Flush>,
    closed: bool,
}

impl Appender {
    /// Runs until the log is closed.
    pub(crate) fn run(mut self) {
        loop {
            let work = self.wait();
            let result = self.write(work.records);
            self.report(&result);
            for flush in work.flushes {
                let _ = flush.send(result.as_ref().copied().map_err(same)); // who has gone needs no answer
            }
            if work.closed {
                let left = locked(&self.shared.view.pending).len();
                self.shared.counts.shed_records.fetch_add(left as u64, Relaxed);
                return;
            }
            if self.rested.elapsed() >= REST {
                self.rested = Instant::now();
                self.maintain();
            }
        }
    }

    /// Says once that writing fails, and once that it works again.
    fn report(&mut self, result: &Result<(), StoreError>) {
        match (result, self.failing) {
            (Err(error), false) => {
                tracing::error!(%error, "activation records are not written; the newest are kept in memory, the rest is shed")
            }
            (Ok(()), true) => tracing::info!("activation records are written again"),
            _ => {}
        }
        self.failing = result.is_err();
    }

    /// Sleeps until there is something to do.
    fn wait(&self) -> Work {
        let mut pending = locked(&self.shared.view.pending);
        let urgent = |pending: &Pending| pending.closed || !pending.flushes.is_empty();
        if !urgent(&pending) && self.failing {
            pending = self.rest(pending, Thread::Busy, REST); // woken by a flush or the end, not by records
        } else if !urgent(&pending) && pending.len() == 0 {
            pending = self.rest(pending, Thread::Asleep, REST);
        }
        if !urgent(&pending) && !self.failing && pending.len() > 0 && !pending.is_crowded() {
            pending = self.rest(pending, Thread::Gathering, self.gather);
        }
        Work { records: pending.len(), flushes: std::mem::take(&mut pending.flushes), closed: pending.closed }
    }

    /// Sleeps, to be woken as `state` says.
    fn rest<'a>(
        &self,
        mut pending: MutexGuard<'a, Pending>,
        state: Thread,
        time: Duration,
    ) -> MutexGuard<'a, Pending> {
        pending.thread = state;
        let woken = self.shared.wake.wait_timeout(pending, time);
        let (mut pending, _) = woken.unwrap_or_else(PoisonError::into_inner);
        pending.thread = Thread::Busy;
        pending
    }

    /// Writes the first `count` pending records and makes them durable.
    fn write(&mut self, count: usize) -> Result<(), StoreError> {
        let mut left = count;
        while left > 0 {
            left -= self.write_chunk(left).map_err(file_fault(WRITING, self.segment.path()))?;
            if self.synced.elapsed() >= SYNC_EVERY {
                self.make_durable()?;
            }
            if self.segment.len() >= self.segment_bytes
                && self.unfinished.is_none_or(|since| since.elapsed() >= REST)
            {
                self.finish_segment();
            }
        }
        if count > 0 { self.make_durable() } else { Ok(()) }
    }

    fn make_durable(&mut self) -> Result<(), StoreError> {
        self.synced = Instant::now();
        match self.sync {
            SyncMode::Durable => self.segment.sync().map_err(file_fault(WRITING, self.segment.path())),
            SyncMode::ProcessOnly => Ok(()),
        }
    }

    /// Writes up to `most` pending records in one go and shows them to readers; gives how many.
    fn write_chunk(&mut self, most: usize) -> io::Result<usize> {
        let view = &self.shared.view;
        let most_bytes = CHUNK_BYTES.min(self.segment_bytes as usize);
        let mut bytes = 0;
        let chunk: Vec<Arc<Stored>> = locked(&view.pending)
            .iter()
            .take(most.min(CHUNK_RECORDS))
            .take_while(|stored| {
                let first = bytes == 0;
                bytes += stored.bytes();
                first || bytes <= most_bytes
            })
            .cloned()
            .collect();
        self.buffer.clear();
        let mut written = Vec::with_capacity(chunk.len());
        {
            let segments = view.segments();
            for stored in &chunk {
                let meta = stored.meta();
                // A call that ran twice after a crash keeps its first record.
                if segments.contains(meta.namespace, meta.key.id())? {
                    continue;
                }
                match frame::encode(stored.record(), meta.name, stored.logs(), &mut self.buffer) {
                    Some(at) => written.push((stored, at)),
                    None => drop(self.shared.counts.shed_records.fetch_add(1, Relaxed)),
                }
            }
        }
        let begin = self.segment.append(&self.buffer)?;
        self.begun.get_or_insert_with(|| Timestamp::now().as_millis());
        self.buffer.shrink_to(2 * CHUNK_BYTES);
        let mut segments = view.segments_mut();
        for (stored, mut at) in written {
            at.offset += begin;
            segments.active.insert(stored.meta(), at);
        }
        segments.end = self.segment.len();
        locked(&view.pending).written(chunk.len());
        drop(segments);
        Ok(chunk.len())
    }

    /// Finishes the segment and begins the next. When that fails, the segment simply grows on.
    fn finish_segment(&mut self) {
        let view = &self.shared.view;
        let finish = || -> io::Result<(Sealed, Segment)> {
            if self.sync == SyncMode::Durable {
                self.segment.sync()?;
            }
            let sealed = Sealed::write(
                &self.dir,
                self.segment.number,
                &view.segments().active,
                self.segment.len(),
                self.sync,
            )?;
            let next = Segment::create(&self.dir, self.segment.number + 1, self.sync)?;
            Ok((sealed, next))
        };
        match finish().and_then(|(sealed, next)| next.reader().map(|file| (sealed, next, file))) {
            Ok((sealed, next, file)) => {
                let mut segments = view.segments_mut();
                segments.push(Arc::new(sealed));
                segments.active = Default::default();
                segments.file = Arc::new(file);
                segments.path = next.path().to_owned();
                segments.end = next.len();
                self.segment = next;
                self.begun = None;
                self.unfinished = None;
            }
            Err(error) => {
                self.unfinished = Some(Instant::now());
                // The next one may have been begun: as the last one it would be taken for the one that is written, and this one's torn end for damage.
                let _ = std::fs::remove_file(segment_path(&self.dir, self.segment.number + 1));
                let path = self.segment.path().display();
                tracing::warn!(%error, %path, "a segment of the activation log could not be finished; it grows on");
            }
        }
    }

    /// Finishes a segment that has been open for long, and applies retention.
    fn maintain(&mut self) {
        let now = Timestamp::now();
        if let Some(age) = self.retention.max_age {
            let share = (age / SEGMENTS).max(Duration::from_secs(1)).as_millis() as u64;
            if self.begun.is_some_and(|begun| now.as_millis().saturating_sub(begun) > share) {
                self.finish_segment();
            }
        }
        let gone: Vec<Arc<Sealed>> = {
            let mut segments = self.shared.view.segments_mut();
            // Asked with the lock in hand: whoever holds the files back looks at them after that.
            if self.shared.holds.load(Relaxed) > 0 {
                return; // a backup reads the files
            }
            let extents: Vec<_> = segments
                .sealed
                .iter()
                .map(|segment| Extent { newest: segment.newest(), bytes: segment.bytes() })
                .collect();
            let mut expired =
                retention::expired(&extents, self.segment.len(), now, &self.retention).into_iter();
            segments.sealed.extract_if(.., |_| expired.next().unwrap_or(false)).collect()
        };
        for segment in gone {
            self.shared.counts.expired.fetch_add(segment.records(), Relaxed);
            for path in segment.paths() {
                if let Err(error) = std::fs::remove_file(path) {
                    tracing::warn!(%error, path = %path.display(), "an expired segment could not be removed");
                }
            }
        }
    }
}
