//! The readers' view of the log: finished segments, the active one, and pending records.

use std::{
    cell::OnceCell,
    collections::HashSet,
    fs::File,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use flint_model::{Activation, ActivationId};
use flint_store::{ActivationQuery, Page, StoreError};

use super::{
    active::Active,
    entry::{Entry, Place, ReadError, Room, damage},
    frame::Meta,
    key::Key,
    mend::{Mender, NotMended, Unreadable},
    pending::{Pending, Stored},
    sealed::Sealed,
    select::{self, Found, Run, Window},
};
use crate::fault::locked;

/// The segments.
#[derive(Debug)]
pub(crate) struct Segments {
    /// Finished, oldest first.
    pub(crate) sealed: Vec<Arc<Sealed>>,
    /// Any greater id is certainly new.
    pub(crate) greatest_id: u128,
    /// The index of the active segment.
    pub(crate) active: Active,
    /// Its file.
    pub(crate) file: Arc<File>,
    pub(crate) path: PathBuf,
    /// The end of its indexed part.
    pub(crate) end: u64,
}

impl Segments {
    /// Adds a finished segment.
    pub(crate) fn push(&mut self, sealed: Arc<Sealed>) {
        self.greatest_id = self.greatest_id.max(sealed.greatest_id());
        self.sealed.push(sealed);
    }

    /// Whether that finished segment, with that index, is still listed.
    pub(crate) fn has(&self, sealed: &Arc<Sealed>) -> bool {
        self.sealed.iter().any(|one| Arc::ptr_eq(one, sealed))
    }

    /// Replaces a segment by the same one with another index; `false` if it is no longer listed.
    pub(crate) fn replace(&mut self, sealed: &Arc<Sealed>, anew: Sealed) -> bool {
        let place = self.sealed.iter_mut().find(|one| Arc::ptr_eq(one, sealed));
        let there = place.is_some();
        if let Some(place) = place {
            *place = Arc::new(anew);
        }
        there
    }

    /// Whether no written record has the id of a pending one. A duplicate will not be written: a list that
    /// showed it until then would shrink later, and a client reading page by page would miss another record.
    fn is_new(&self, meta: &Meta<'_>) -> bool {
        !self.contains(meta.namespace, meta.key.id(), &mut Vec::new())
    }

    /// Whether a written record of that namespace has that id. A segment whose index is unreadable counts as
    /// not having it, and is added to `unreadable`: a duplicate record does less harm than a log stopped by
    /// one old file.
    pub(crate) fn contains(&self, namespace: &str, id: u128, unreadable: &mut Vec<Unreadable>) -> bool {
        if self.active.find(namespace, id).is_some() {
            return true;
        }
        if id > self.greatest_id {
            return false;
        }
        self.sealed.iter().rev().any(|sealed| match sealed.find(namespace, id) {
            Ok(found) => found.is_some(),
            Err(error) => {
                if !unreadable.iter().any(|known| Arc::ptr_eq(&known.segment, sealed)) {
                    unreadable.push(Unreadable::of(sealed)(error));
                }
                false
            }
        })
    }
}

/// Everything that readers see. Lock order: the order of the fields, except for the mender's lock. A record
/// moves from `pending` to `segments` under both locks, so a reader that holds both sees it exactly once; of
/// a call that ran twice because of a crash it sees the first record only, which is the one that is kept.
#[derive(Debug)]
pub(crate) struct View {
    segments: RwLock<Segments>,
    pub(crate) pending: Mutex<Pending>,
    /// Its lock is taken before all others.
    pub(crate) mender: Mender,
    /// Number of damaged records left out of lists.
    pub(crate) damaged_reads: AtomicU64,
    /// Segments for which this was logged.
    said: Mutex<HashSet<PathBuf>>,
}

/// Retries of a read whose segment was removed by retention.
const ATTEMPTS: usize = 4;

impl View {
    pub(crate) fn new(segments: Segments, pending: Pending, mender: Mender) -> Self {
        Self {
            segments: RwLock::new(segments),
            pending: Mutex::new(pending),
            mender,
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
        self.repeated(|| {
            let segments = self.segments();
            let found = {
                let pending = locked(&self.pending);
                pending
                    .iter()
                    .find(|stored| stored.record().id == id && stored.meta().namespace == namespace)
                    .cloned()
            };
            if let Some(stored) = found.filter(|stored| segments.is_new(&stored.meta())) {
                return Ok(Some(stored.to_activation(true)));
            }
            let id = id.as_u128();
            if let Some((key, at)) = segments.active.find(namespace, id) {
                let (path, file) = (segments.path.clone(), Arc::clone(&segments.file));
                let place = Place { path, file, at, sealed: None };
                drop(segments);
                return place.read(key, true).map(Some);
            }
            let sealed = segments.sealed.clone();
            drop(segments);
            for segment in sealed.iter().rev() {
                if let Some((key, at)) = segment.find(namespace, id).map_err(Unreadable::of(segment))? {
                    return Place::open(segment, at)?.read(key, true).map(Some);
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
        self.repeated(|| {
            let segments = self.segments();
            let windows = self.windows(&segments, namespace, query)?;
            let found = select::page(windows, page.skip, page.limit)?;
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
                let (path, file, at, sealed) = match (found, location) {
                    (Found::Pending(stored), _) => {
                        entries.push((key, Entry::Pending(stored)));
                        continue;
                    }
                    (Found::Sealed(segment, at), _) => (segment.segment.clone(), None, at, Some(segment)),
                    (Found::Active(_), Some(at)) => (active.0.clone(), Some(Arc::clone(&active.1)), at, None),
                    (Found::Active(_), None) => {
                        unreachable!("every active record was given its location above")
                    }
                };
                let before = match entries.last() {
                    Some((_, Entry::Written(before))) if before.path == path => Some(before),
                    _ => None,
                };
                // Neighbours are mostly in one segment: its file stays open between them.
                let file = match before.map(|before| Arc::clone(&before.file)).or(file) {
                    Some(file) => file,
                    None => Arc::new(File::open(&path).map_err(damage(&path))?),
                };
                let place = Place { path, file, at, sealed };
                if before.is_none_or(|before| before.is_far_from(&place)) {
                    place.announce(with_logs);
                }
                entries.push((key, Entry::Written(place)));
            }
            let mut room = Room::default();
            let mut records = Vec::with_capacity(entries.len());
            for (key, entry) in entries {
                let read = entry.read_into(key, with_logs, &mut room);
                match read {
                    // A damaged record does not affect the others of the page.
                    Err(ReadError::Damaged { path, detail, misleading: None }) => {
                        self.pass_over(path, &detail)
                    }
                    Err(ReadError::Damaged { path, detail, misleading: Some(index) }) => {
                        if self.is_mended(&index).map_err(ReadError::Store)? {
                            return Err(ReadError::Damaged { path, detail, misleading: Some(index) });
                        }
                        self.pass_over(path, &detail);
                    }
                    read => records.push(read?),
                }
            }
            Ok(records)
        })
    }

    /// Leaves a damaged record out of a list; logged once per segment.
    fn pass_over(&self, path: PathBuf, detail: &str) {
        self.damaged_reads.fetch_add(1, Relaxed);
        let mut said = locked(&self.said);
        if !said.contains(&path) {
            tracing::error!(path = %path.display(), detail, "a damaged activation record is left out of lists, and so are others of this segment; the disk may be failing");
            said.insert(path);
        }
    }

    /// The number of records that match a query.
    pub(crate) fn count(&self, namespace: &str, query: &ActivationQuery) -> Result<usize, StoreError> {
        self.repeated(|| {
            let segments = self.segments();
            let windows = self.windows(&segments, namespace, query)?;
            Ok(windows.iter().map(Window::len).sum())
        })
    }

    /// The part of every list that a query covers.
    fn windows<'a>(
        &self,
        segments: &'a Segments,
        namespace: &str,
        query: &ActivationQuery,
    ) -> Result<Vec<Window<'a>>, Unreadable> {
        let name = query.name.as_deref();
        let least = query.since.map_or(Key::MIN, |since| Key::new(since.as_millis(), 0));
        let end = query.upto.and_then(|upto| Key::new(upto.as_millis(), u128::MAX).next());
        if end.is_some_and(|end| end <= least) {
            return Ok(Vec::new());
        }
        let matching: Vec<_> = {
            let pending = locked(&self.pending);
            let matches = |stored: &&Arc<Stored>| {
                let meta = stored.meta();
                meta.namespace == namespace && name.is_none_or(|name| meta.name == name)
            };
            pending.iter().filter(matches).cloned().collect()
        };
        // Without the lock that every finished call takes: this may read from the disk. None of them moves
        // meanwhile, as the segments are locked.
        let new = matching.into_iter().filter(|stored| segments.is_new(&stored.meta()));
        let mut pending: Vec<_> = new.map(|stored| (stored.meta().key, stored)).collect();
        pending.sort_by_key(|(key, _)| *key);
        let mut runs = vec![Run::Pending(pending)];
        runs.extend(segments.active.namespace(namespace).and_then(|keys| keys.of(name)).map(Run::Active));
        runs.extend(segments.sealed.iter().filter_map(|segment| {
            let span = segment.span(namespace, name)?;
            Some(Run::Sealed { segment, index: OnceCell::new(), span, named: name.is_some() })
        }));
        runs.into_iter().map(|run| Window::new(run, least, end)).collect()
    }

    /// Repeats a read if retention removed a file between the look at the view, which has changed since, and
    /// the read of the file, or if an index was rebuilt.
    fn repeated<T>(&self, mut work: impl FnMut() -> Result<T, ReadError>) -> Result<T, StoreError> {
        // Every index may have to be rebuilt.
        let (mut removals, mut mends) = (ATTEMPTS, ATTEMPTS + self.segments().sealed.len());
        loop {
            match work() {
                Ok(value) => return Ok(value),
                Err(ReadError::Gone(_)) if removals > 0 => removals -= 1,
                Err(ReadError::Index(unreadable)) => {
                    self.mender.mend(self, &unreadable)?;
                    mends = mends.checked_sub(1).ok_or_else(|| unreadable.anew())?;
                }
                Err(ReadError::Damaged { path, detail, misleading }) => {
                    let is_mended = match &misleading {
                        Some(index) if mends > 0 => self.is_mended(index)?,
                        _ => false,
                    };
                    if !is_mended {
                        return Err(StoreError::Damaged { path, detail });
                    }
                    mends -= 1;
                }
                Err(ReadError::Gone(error) | ReadError::Store(error)) => return Err(error),
            }
        }
    }

    /// Whether a misleading index was rebuilt and can be asked again; an error if that is not known yet.
    fn is_mended(&self, misleading: &Unreadable) -> Result<bool, StoreError> {
        match self.mender.mend(self, misleading) {
            Ok(()) => Ok(true),
            Err(NotMended::Failed(_)) => Ok(false),
            Err(NotMended::Crowded(error)) => Err(error),
        }
    }
}
