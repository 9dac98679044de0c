//! The log's thread: writes pending records, finishes segments, removes expired ones.

use std::{
    fs::File,
    io,
    path::PathBuf,
    sync::{Arc, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use flint_model::Timestamp;
use flint_store::StoreError;

use super::{
    Shared,
    frame::{self, Location},
    mend::Unreadable,
    pending::{Flush, Pending, Stored, Thread},
    retention::{self, Extent},
    sealed::Sealed,
    segment::{Segment, segment_path},
};
use crate::{
    Retention, SyncMode,
    fault::{file_fault, locked, same},
};

/// Maximum number of records, and approximate bytes, per write.
const CHUNK_RECORDS: usize = 512;
const CHUNK_BYTES: usize = 4 << 20;
/// Interval of syncs under load, when the thread writes without a pause.
const SYNC_EVERY: Duration = Duration::from_millis(50);
/// Interval at which retention is applied and failed work retried.
const REST: Duration = Duration::from_secs(1);
/// Number of segments of a log at its retention bound, since segments are removed whole.
pub(crate) const SEGMENTS: u32 = 64;

const WRITING: &str = "writing activations";

/// A record and its location; `None` if it is not written, being a duplicate or too long for a frame.
pub(crate) type Placed = (Arc<Stored>, Option<Location>);

pub(crate) struct Appender {
    pub(crate) shared: Arc<Shared>,
    pub(crate) dir: PathBuf,
    pub(crate) segment: Segment,
    pub(crate) segment_bytes: u64,
    pub(crate) retention: Retention,
    pub(crate) sync: SyncMode,
    pub(crate) gather: Duration,
    /// The frames of one write.
    pub(crate) buffer: Vec<u8>,
    /// The first of the pending records: written to the file, but not yet durable.
    pub(crate) unsynced: Vec<Placed>,
    pub(crate) synced: Instant,
    /// When retention was last applied.
    pub(crate) rested: Instant,
    /// When the segment got its first record, in ms since the epoch.
    pub(crate) begun: Option<u64>,
    /// When finishing the segment last failed.
    pub(crate) unfinished: Option<Instant>,
    /// The last write failed: the next one is delayed.
    pub(crate) failing: bool,
}

/// The reasons to wake up.
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
                let _ = flush.send(result.as_ref().copied().map_err(same)); // a caller that has gone needs no answer
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

    /// Logs once that writing fails, and once that it works again.
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

    /// Sleeps until there is work.
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

    /// Sleeps until woken, as `state` determines.
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

    /// Writes the first `count` pending records and makes them durable. They stay pending until then, so that
    /// they are written again after a failure.
    fn write(&mut self, count: usize) -> Result<(), StoreError> {
        let mut left = count;
        while left > 0 {
            match self.write_chunk(left) {
                Ok(written) => left -= written,
                Err(error) => {
                    let error = file_fault(WRITING, self.segment.path())(error);
                    self.make_durable()?; // what was written before it
                    return Err(error);
                }
            }
            let full = self.segment.len() >= self.segment_bytes
                && self.unfinished.is_none_or(|since| since.elapsed() >= REST);
            if full || self.synced.elapsed() >= SYNC_EVERY {
                self.make_durable()?;
            }
            if full {
                self.finish_segment();
            }
        }
        self.make_durable()
    }

    /// Syncs the file, and removes durable records from the pending ones. After a failure they stay pending,
    /// to be written again: see [`Segment::sync`].
    fn make_durable(&mut self) -> Result<(), StoreError> {
        if self.unsynced.is_empty() {
            return Ok(());
        }
        if self.sync == SyncMode::Durable {
            self.synced = Instant::now();
            if let Err(error) = self.segment.sync() {
                self.unsynced.clear();
                return Err(file_fault(WRITING, self.segment.path())(error));
            }
        }
        self.begun.get_or_insert_with(|| Timestamp::now().as_millis());
        let view = &self.shared.view;
        let mut durable = self.unsynced.drain(..);
        loop {
            let chunk: Vec<_> = durable.by_ref().take(CHUNK_RECORDS).collect(); // freed after the locks
            if chunk.is_empty() {
                return Ok(());
            }
            let mut segments = view.segments_mut();
            for (stored, at) in &chunk {
                if let Some(at) = at {
                    segments.active.insert(stored.meta(), *at);
                }
            }
            segments.end = self.segment.len();
            locked(&view.pending).written(chunk.len());
        }
    }

    /// Writes up to `most` pending records in one append; returns how many.
    fn write_chunk(&mut self, most: usize) -> io::Result<usize> {
        let view = &self.shared.view;
        let most_bytes = CHUNK_BYTES.min(self.segment_bytes as usize);
        let mut bytes = 0;
        let chunk: Vec<Arc<Stored>> = locked(&view.pending)
            .iter()
            .skip(self.unsynced.len())
            .take(most.min(CHUNK_RECORDS))
            .take_while(|stored| {
                let first = bytes == 0;
                bytes += stored.bytes();
                first || bytes <= most_bytes
            })
            .cloned()
            .collect();
        let count = chunk.len();
        // Terminates, since each index is rebuilt at most once a minute.
        let written = loop {
            let (written, unreadable) = self.encode(&chunk);
            let view = &self.shared.view;
            let mended = unreadable.iter().filter(|one| view.mender.try_mend(view, one)).count();
            if mended == 0 {
                break written;
            }
        };
        let begin = self.segment.append(&self.buffer)?;
        self.buffer.shrink_to(2 * CHUNK_BYTES);
        self.unsynced.extend(
            written
                .into_iter()
                .map(|(stored, at)| (stored, at.map(|at| Location { offset: begin + at.offset, ..at }))),
        );
        Ok(count)
    }

    /// Encodes the frames of `chunk` into the buffer. Returns their locations in it, and the unreadable
    /// indexes that could not be searched for duplicates.
    fn encode(&mut self, chunk: &[Arc<Stored>]) -> (Vec<Placed>, Vec<Unreadable>) {
        let segments = self.shared.view.segments();
        self.buffer.clear();
        let mut written = Vec::with_capacity(chunk.len());
        let mut unreadable = Vec::new();
        for stored in chunk {
            let meta = stored.meta();
            // A call that ran twice because of a crash keeps its first record.
            let at = if segments.contains(meta.namespace, meta.key.id(), &mut unreadable) {
                None
            } else {
                let at = frame::encode(
                    stored.record(),
                    meta.name,
                    stored.logs(),
                    self.segment.salt(),
                    &mut self.buffer,
                );
                if at.is_none() {
                    self.shared.counts.shed_records.fetch_add(1, Relaxed);
                }
                at
            };
            written.push((Arc::clone(stored), at));
        }
        (written, unreadable)
    }

    /// Finishes the segment, whose records are all durable, and begins the next. On failure, records are
    /// still appended to this one.
    fn finish_segment(&mut self) {
        let view = &self.shared.view;
        let finish = || -> io::Result<(Sealed, Segment, File)> {
            self.segment.trim(self.sync)?;
            let sealed = Sealed::write(
                &self.dir,
                self.segment.number,
                &view.segments().active,
                self.segment.len(),
                self.sync,
            )?;
            let next = Segment::create(&self.dir, self.segment.number + 1, self.sync)?;
            let file = next.reader()?;
            Ok((sealed, next, file))
        };
        match finish() {
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
                // If the next segment exists, recovery would take it for the active one, and a torn end of
                // this one for damage.
                let _ = std::fs::remove_file(segment_path(&self.dir, self.segment.number + 1));
                let path = self.segment.path().display();
                tracing::warn!(%error, %path, "a segment of the activation log could not be finished; it grows on");
            }
        }
    }

    /// Finishes a segment that has been open for too long to expire in time, and applies retention.
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
            // Checked under the lock: a backup registers its hold before it lists the segments.
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
            // The index first: a segment that a crash leaves without one is found and gets another.
            for path in segment.paths().into_iter().rev() {
                if let Err(error) = std::fs::remove_file(path) {
                    tracing::warn!(%error, path = %path.display(), "an expired segment could not be removed");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
