//! Rebuilds missing or unreadable indexes of finished segments from the segments: when the log is opened, and
//! later by the reader that encounters one.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, TryLockError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use flint_store::StoreError;

use super::{
    OPENING, READING, READS,
    sealed::{Sealed, index_path},
    segment::{Scanned, scan, segment_path, warn_of},
    view::View,
};
use crate::{
    SyncMode,
    fault::{file_fault, locked, same},
};

const MENDING: &str = "making an index of the activation log again";
/// Minimum interval between rebuilds of one index: each reads its segment, up to 256 MB, and the disk may be
/// failing.
const AGAIN: Duration = Duration::from_secs(60);
/// Readers that rebuild an index or wait for a rebuild. The other permits are for reads that need none.
const WAITING: usize = READS / 2;

/// An index that is unreadable or inconsistent.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) segment: Arc<Sealed>,
    pub(crate) error: io::Error,
}

impl Unreadable {
    /// Converts an error from reading the index of `segment`.
    pub(crate) fn of(segment: &Arc<Sealed>) -> impl FnOnce(io::Error) -> Self {
        move |error| Self { segment: Arc::clone(segment), error }
    }

    /// The error for an index that was rebuilt less than [`AGAIN`] ago.
    pub(crate) fn anew(&self) -> StoreError {
        let detail = format!(
            "{}, and this index was made again less than a minute ago: the disk may be failing, see the kernel's messages. Flint makes it again a minute later",
            self.error
        );
        StoreError::Failed { operation: READING, detail }
    }
}

/// Rebuilds indexes while the log is open, one at a time: each takes memory for all keys of its segment.
#[derive(Debug)]
pub(crate) struct Mender {
    dir: PathBuf,
    sync: SyncMode,
    /// Rebuilds within the last [`AGAIN`], by segment number. Locked during a rebuild instead of the view, so
    /// that only readers in need of a rebuilt index wait.
    tried: Mutex<HashMap<u64, Tried>>,
    waiting: AtomicUsize,
}

/// Why an index was not rebuilt.
#[derive(Debug)]
pub(crate) enum NotMended {
    /// Too many readers are waiting; a later attempt may succeed.
    Crowded(StoreError),
    /// The rebuild failed.
    Failed(StoreError),
}

impl NotMended {
    fn crowded(unreadable: &Unreadable) -> Self {
        let detail = format!(
            "{}: its index is being made again, and {WAITING} wait for that; try again shortly",
            unreadable.error
        );
        Self::Crowded(StoreError::Failed { operation: READING, detail })
    }
}

impl From<NotMended> for StoreError {
    fn from(reason: NotMended) -> Self {
        match reason {
            NotMended::Crowded(error) | NotMended::Failed(error) => error,
        }
    }
}

/// A guard that counts a waiting reader.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn among(waiting: &'a AtomicUsize) -> Option<Self> {
        let waits = Self(waiting);
        (waiting.fetch_add(1, Relaxed) < WAITING).then_some(waits)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[derive(Debug)]
struct Tried {
    at: Instant,
    /// The error, if the rebuild failed.
    failed: Option<StoreError>,
}

impl Mender {
    pub(crate) fn new(dir: PathBuf, sync: SyncMode) -> Self {
        Self { dir, sync, tried: Mutex::default(), waiting: AtomicUsize::new(0) }
    }

    /// After `Ok` the read can be repeated: the index was rebuilt, now or by another reader, or its segment
    /// is gone. Waits for a rebuild in progress.
    ///
    /// Each index is rebuilt at most once within [`AGAIN`]; until then the error of that attempt is returned
    /// again, and an index that is unreadable again after a successful rebuild is an error.
    pub(crate) fn mend(&self, view: &View, unreadable: &Unreadable) -> Result<(), NotMended> {
        let _waits = Waits::among(&self.waiting).ok_or_else(|| NotMended::crowded(unreadable))?;
        self.mend_one(&mut locked(&self.tried), view, unreadable).map_err(NotMended::Failed)
    }

    /// The same for the log's thread, which does not wait for readers; returns whether the read can be
    /// repeated.
    pub(crate) fn try_mend(&self, view: &View, unreadable: &Unreadable) -> bool {
        let mut tried = match self.tried.try_lock() {
            Ok(tried) => tried,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        self.mend_one(&mut tried, view, unreadable).is_ok()
    }

    fn mend_one(
        &self,
        tried: &mut HashMap<u64, Tried>,
        view: &View,
        unreadable: &Unreadable,
    ) -> Result<(), StoreError> {
        let Unreadable { segment, error } = unreadable;
        if !view.segments().has(segment) {
            return Ok(()); // somebody else has made it again, or retention has removed it
        }
        if error.kind() == io::ErrorKind::ResourceBusy {
            return Err(StoreError::Failed { operation: READING, detail: error.to_string() });
        }
        tried.retain(|_, tried| tried.at.elapsed() < AGAIN);
        if let Some(tried) = tried.get(&segment.number()) {
            return Err(tried.failed.as_ref().map_or_else(|| unreadable.anew(), same));
        }
        let [path, index] = segment.paths();
        tracing::warn!(%error, path = %index.display(), "an index of the activation log cannot be read: it is made again");
        let result = match index_anew(&self.dir, segment.number(), segment.segment_bytes(), self.sync) {
            Ok(anew) => {
                if !view.segments_mut().replace(segment, anew) {
                    // Retention removed the segment meanwhile: nothing else would remove this file.
                    let _ = fs::remove_file(index);
                }
                Ok(())
            }
            Err(_) if !view.segments().has(segment) => Ok(()), // that is why
            Err(error) => {
                tracing::error!(%error, path = %path.display(), "the index of a segment could not be made again: reads that need it fail");
                Err(error)
            }
        };
        let failed = result.as_ref().err().map(same);
        tried.insert(segment.number(), Tried { at: Instant::now(), failed });
        result
    }
}

/// Opens a finished segment; rebuilds its index if it is missing or belongs to another segment.
pub(crate) fn open_sealed(dir: &Path, number: u64, sync: SyncMode) -> Result<Sealed, StoreError> {
    let path = segment_path(dir, number);
    let bytes = fs::metadata(&path).map_err(file_fault(OPENING, &path))?.len();
    match Sealed::open(dir, number, bytes) {
        Ok(sealed) => Ok(sealed),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "making the index of a segment again");
            index_anew(dir, number, bytes, sync)
        }
    }
}

/// Builds the index of a finished segment. Damaged frames are skipped; a damaged end is an error, because
/// intact frames may have followed it.
fn index_anew(dir: &Path, number: u64, bytes: u64, sync: SyncMode) -> Result<Sealed, StoreError> {
    let path = segment_path(dir, number);
    let Scanned { active, end, damaged, .. } = scan(&path)?;
    warn_of(damaged, &path);
    if end < bytes {
        let detail = format!(
            "the record at byte {end} fails its checksum (without this file Flint starts, and lacks its {} records)",
            active.len()
        );
        return Err(StoreError::Damaged { path, detail });
    }
    let index = index_path(dir, number);
    Sealed::write(dir, number, &active, bytes, sync).map_err(file_fault(MENDING, &index))
}

#[cfg(test)]
mod tests {
    use flint_model::{Activation, Timestamp};
    use flint_store::{
        ActivationLog,
        conformance::sample::{activation, namespace_name},
    };

    use super::*;
    use crate::{Retention, StoreConfig, log::SegmentLog};

    /// A log that has some finished segments, and its first records.
    async fn filled(dir: &Path) -> (SegmentLog, Vec<Activation>) {
        let mut config = StoreConfig::new(dir);
        config.retention = Retention { max_age: None, max_bytes: None };
        config.log.segment_bytes = Some(flint_model::ByteSize::kib(4));
        let log = SegmentLog::open(dir.to_owned(), &config).unwrap();
        let records: Vec<_> = (0..50).map(|start| activation("guest", "guest/work", start, 2)).collect();
        records.iter().for_each(|record| log.append(record.clone()));
        log.flush().await.unwrap();
        (log, records)
    }

    fn lost(segment: Arc<Sealed>) -> Unreadable {
        fs::remove_file(segment.paths()[1]).unwrap();
        Unreadable { segment, error: io::ErrorKind::NotFound.into() }
    }

    #[tokio::test]
    async fn a_segment_that_retention_removed_is_not_mended() {
        let dir = tempfile::tempdir().unwrap();
        let (log, records) = filled(dir.path()).await;
        let view = &log.shared.view;
        let removed = lost(view.segments_mut().sealed.remove(0));
        // Its own file goes a little later.
        view.mender.mend(view, &removed).unwrap();
        fs::remove_file(&removed.segment.segment).unwrap();
        view.mender.mend(view, &removed).unwrap();
        assert!(!removed.segment.paths()[1].exists());
        assert!(log.get(&namespace_name("guest"), records[0].id).await.unwrap().is_none());
        assert!(log.get(&namespace_name("guest"), records[49].id).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn an_index_is_made_again_once_a_minute() {
        let dir = tempfile::tempdir().unwrap();
        let (log, _) = filled(dir.path()).await;
        let view = &log.shared.view;
        let first = || Arc::clone(&view.segments().sealed[0]);
        let before = lost(first());
        view.mender.mend(view, &before).unwrap();
        assert!(before.segment.paths()[1].exists());
        // Another reader of the same index only has to read again.
        view.mender.mend(view, &before).unwrap();
        let refused = StoreError::from(view.mender.mend(view, &lost(first())).unwrap_err());
        assert!(refused.to_string().contains("less than a minute ago"), "{refused}");
    }

    #[tokio::test]
    async fn readers_that_wait_for_an_index_leave_room_for_others() {
        let dir = tempfile::tempdir().unwrap();
        let (log, _) = filled(dir.path()).await;
        let view = &log.shared.view;
        let lost = lost(Arc::clone(&view.segments().sealed[0]));
        let waiting: Vec<_> = (0..WAITING).filter_map(|_| Waits::among(&view.mender.waiting)).collect();
        assert_eq!(waiting.len(), WAITING);
        assert!(matches!(view.mender.mend(view, &lost), Err(NotMended::Crowded(_))));
        assert!(!lost.segment.paths()[1].exists());
        drop(waiting);
        view.mender.mend(view, &lost).unwrap();
        assert!(lost.segment.paths()[1].exists());
    }

    #[tokio::test]
    async fn what_the_process_lacks_is_no_damage() {
        let dir = tempfile::tempdir().unwrap();
        let (log, _) = filled(dir.path()).await;
        let view = &log.shared.view;
        let segment = Arc::clone(&view.segments().sealed[0]);
        let error = io::Error::new(io::ErrorKind::ResourceBusy, "too many open files");
        let refused =
            view.mender.mend(view, &Unreadable { segment: Arc::clone(&segment), error }).unwrap_err();
        assert!(
            matches!(&refused, NotMended::Failed(error) if error.to_string().contains("too many open files"))
        );
        assert!(view.segments().has(&segment), "it is as it was");
    }

    /// The log's thread writes without knowing whether the record is there, rather than wait.
    #[test]
    fn a_reader_that_makes_an_index_again_delays_nothing_that_is_appended() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (log, records) = runtime.block_on(filled(dir.path()));
        let first = Arc::clone(&log.shared.view.segments().sealed[0]);
        let index = first.paths()[1].to_owned();
        fs::remove_file(&index).unwrap();
        let reader = locked(&log.shared.view.mender.tried);
        for start in [1000, 1001] {
            log.append(Activation { start: Timestamp::from_millis(start), ..records[0].clone() });
            runtime.block_on(log.flush()).unwrap();
        }
        assert!(!index.exists());
        drop(reader);
        assert!(runtime.block_on(log.get(&namespace_name("guest"), records[1].id)).unwrap().is_some());
        assert!(index.exists());
    }
}
