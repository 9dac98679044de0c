//! The log's thread: writes what is pending, finishes segments, removes old ones.

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

/// A record, and its place; `None` for one that has none.
pub(crate) type Placed = (Arc<Stored>, Option<Location>);

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
    /// The first of the pending records: they are in the file and not yet durable. `None` for one that has no place there.
    pub(crate) unsynced: Vec<Placed>,
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

    /// Writes the first `count` pending records and makes them durable. They are pending until they are, so that a failure leaves them to the
    /// next attempt.
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

    /// Makes what was written durable; only then is it no longer pending. When that fails, it has to be written again.
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

    /// Writes up to `most` pending records in one go; gives how many.
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
        // Every index is made again at most once a minute, so this comes to an end.
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

    /// Fills the buffer with the frames of `chunk`; gives where they are in it, and which indexes could not be asked whether a record is there already.
    fn encode(&mut self, chunk: &[Arc<Stored>]) -> (Vec<Placed>, Vec<Unreadable>) {
        let segments = self.shared.view.segments();
        self.buffer.clear();
        let mut written = Vec::with_capacity(chunk.len());
        let mut unreadable = Vec::new();
        for stored in chunk {
            let meta = stored.meta();
            // A call that ran twice after a crash keeps its first record.
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

    /// Finishes the segment, all of which is durable, and begins the next. When that fails, the segment simply grows on.
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

#[cfg(test)]
mod tests {
    use flint_model::{Activation, ByteSize};
    use flint_store::{
        ActivationLog, ActivationQuery, Page,
        conformance::sample::{activation, namespace_name},
    };

    use super::*;
    use crate::{StoreConfig, log::SegmentLog};

    /// A log whose next syncs fail.
    fn open(dir: &std::path::Path, segment_bytes: u64, failing_syncs: u32) -> SegmentLog {
        let mut config = StoreConfig::new(dir);
        config.retention = Retention { max_age: None, max_bytes: None };
        config.log.segment_bytes = Some(ByteSize::bytes(segment_bytes));
        let mut appender = SegmentLog::recover(dir.to_owned(), &config).unwrap();
        appender.segment.failing_syncs = failing_syncs;
        SegmentLog::start(appender).unwrap()
    }

    /// The starts of all records, each of which is read whole.
    async fn starts(log: &SegmentLog) -> Vec<u64> {
        let all = Page { skip: 0, limit: usize::MAX };
        let query = ActivationQuery::default();
        let listed = log.list(&namespace_name("guest"), &query, all, true).await.unwrap();
        assert!(listed.iter().all(|record| record.logs.len() == 2));
        assert_eq!(log.count(&namespace_name("guest"), &query).await.unwrap(), listed.len());
        listed.iter().rev().map(|record| record.start.as_millis()).collect()
    }

    async fn a_sync_fails(segment_bytes: u64) {
        let dir = tempfile::tempdir().unwrap();
        let log = open(dir.path(), segment_bytes, 0);
        (0..50).for_each(|start| log.append(activation("guest", "guest/work", start, 2)));
        log.flush().await.unwrap();
        log.stop();

        let log = open(dir.path(), segment_bytes, 3);
        (50..80).for_each(|start| log.append(activation("guest", "guest/work", start, 2)));
        let mut refused = 0;
        while log.flush().await.is_err() {
            refused += 1;
            assert!(starts(&log).await.into_iter().eq(0..80), "each is seen once");
        }
        // The log's thread tries by itself, too.
        assert!(refused <= 3, "{refused}");
        assert!(starts(&log).await.into_iter().eq(0..80));
        assert_eq!((log.stats().pending, log.stats().shed_records), (0, 0));
        log.append(activation("guest", "guest/work", 80, 2));
        log.flush().await.unwrap();
        log.stop();
        // What was flushed is in the files, and once: also when the indexes are made again.
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "idx") {
                std::fs::remove_file(path).unwrap();
            }
        }
        assert!(starts(&open(dir.path(), segment_bytes, 0)).await.into_iter().eq(0..81));
    }

    #[tokio::test]
    async fn a_flush_after_a_failed_sync_writes_again_what_was_not_synced() {
        a_sync_fails(1 << 20).await;
    }

    #[tokio::test]
    async fn also_where_segments_are_finished_meanwhile() {
        a_sync_fails(4 << 10).await;
    }

    #[tokio::test]
    async fn a_log_that_ends_while_syncs_fail_keeps_what_was_durable() {
        let dir = tempfile::tempdir().unwrap();
        let log = open(dir.path(), 1 << 20, 0);
        log.append(activation("guest", "guest/work", 0, 2));
        log.flush().await.unwrap();
        log.stop();
        let log = open(dir.path(), 1 << 20, u32::MAX);
        log.append(activation("guest", "guest/work", 1, 2));
        log.flush().await.unwrap_err();
        log.flush().await.unwrap_err();
        log.stop();
        assert_eq!(log.stats().shed_records, 1, "it is said that one is lost");
        assert_eq!(starts(&open(dir.path(), 1 << 20, 0)).await, [0]);
    }

    /// It will not be written: a reader that saw it would count it, and pass over another on the next page.
    #[tokio::test]
    async fn the_second_record_of_a_call_that_ran_twice_is_not_seen_while_it_is_pending() {
        for segment_bytes in [1 << 20, 4 << 10] {
            let dir = tempfile::tempdir().unwrap();
            let log = open(dir.path(), segment_bytes, 0);
            let records: Vec<_> = (0..60).map(|start| activation("guest", "guest/work", start, 2)).collect();
            for record in &records {
                log.append(record.clone());
                log.flush().await.unwrap();
            }
            log.stop();
            let log = open(dir.path(), segment_bytes, u32::MAX);
            for record in &records {
                log.append(Activation { start: Timestamp::from_millis(1000), ..record.clone() });
            }
            assert_eq!(log.stats().pending, 60);
            assert!(starts(&log).await.into_iter().eq(0..60));
            let found = log.get(&namespace_name("guest"), records[7].id).await.unwrap();
            assert_eq!(found.unwrap().start.as_millis(), 7);
        }
    }

    /// Whatever makes the thread end, nobody waits for it in vain.
    #[tokio::test]
    async fn a_log_whose_thread_is_gone_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = StoreConfig::new(dir.path());
        config.retention = Retention { max_age: None, max_bytes: None };
        let mut appender = SegmentLog::recover(dir.path().to_owned(), &config).unwrap();
        // It cannot be: one that is written and was never pending. The thread panics over it.
        appender.unsynced.push((Arc::new(Stored::new(activation("guest", "guest/work", 0, 0))), None));
        let log = SegmentLog::start(appender).unwrap();
        for _ in 0..2 {
            assert!(log.flush().await.unwrap_err().to_string().contains("the store is closed"));
        }
        log.offer(activation("guest", "guest/work", 1, 0)).unwrap_err();
        assert!(log.stats().closed);
        log.stop();
    }

    /// Also a record whose id may be in a segment whose index cannot be read is written, and that index is made again.
    #[tokio::test]
    async fn an_index_that_is_gone_or_cut_off_stops_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let log = open(dir.path(), 4 << 10, 0);
        let records: Vec<_> = (0..100).map(|start| activation("guest", "guest/work", start, 2)).collect();
        for record in &records {
            log.append(record.clone());
            log.flush().await.unwrap();
        }
        let indexes = |log: &SegmentLog| -> Vec<PathBuf> {
            log.shared.view.segments().sealed.iter().map(|sealed| sealed.paths()[1].to_owned()).collect()
        };
        let [removed, cut] = [0, 1].map(|at| indexes(&log)[at].clone());
        std::fs::remove_file(&removed).unwrap();
        let file = File::options().write(true).open(&cut).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
        // A call that ran twice: of the first records, whose indexes those are.
        for at in 0..40_u64 {
            log.append(Activation {
                start: Timestamp::from_millis(1000 + at),
                ..records[at as usize].clone()
            });
            log.flush().await.unwrap();
        }
        let found = log.get(&namespace_name("guest"), records[0].id).await.unwrap();
        assert!(found.is_some());
        assert!(removed.exists(), "it is made again");
        log.append(activation("guest", "guest/work", 2000, 2));
        log.flush().await.unwrap();
        // And every record is there once.
        assert!(starts(&log).await.into_iter().eq((0..100).chain([2000])));
        assert_eq!(log.stats().shed_records, 0);
    }
}
