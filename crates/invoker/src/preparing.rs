//! Functions prepared for a start, each prepared once.

use std::{
    collections::{HashMap, HashSet},
    future::ready,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use flint_executor::{Anticipation, FunctionSource, PrepareError, Prepared, Progress};
use flint_model::{Function, FunctionPath};
use tokio::sync::OnceCell;

/// Prepared functions by path and revision. Concurrent requests wait for the one preparation.
#[derive(Default)]
pub(crate) struct Preparing {
    cells: Mutex<HashMap<(FunctionPath, u64), Arc<Cell>>>,
}

struct Cell {
    function: Arc<Function>,
    prepared: OnceCell<Arc<Prepared>>,
    /// It was missing from the functions of the last [`Preparing::keep_only`].
    is_gone: AtomicBool,
}

impl Cell {
    fn new(function: &Arc<Function>) -> Arc<Self> {
        Arc::new(Self {
            function: Arc::clone(function),
            prepared: OnceCell::new(),
            is_gone: AtomicBool::new(false),
        })
    }
}

impl Preparing {
    /// The prepared function, prepared by `prepare` if need be. If that fails or is dropped halfway, the next
    /// waiting request tries again.
    pub(crate) async fn get<P, F>(
        &self,
        function: &Arc<Function>,
        prepare: P,
    ) -> Result<Arc<Prepared>, PrepareError>
    where
        P: FnOnce() -> F,
        F: Future<Output = Result<Arc<Prepared>, PrepareError>>,
    {
        let cell = self.cell(function);
        cell.prepared.get_or_try_init(prepare).await.cloned()
    }

    pub(crate) fn is_ready(&self, function: &Function) -> bool {
        self.ready(function).is_some()
    }

    /// The prepared function, without waiting for a preparation in progress.
    fn ready(&self, function: &Function) -> Option<Arc<Prepared>> {
        let key = (function.path.clone(), function.revision);
        self.cells().get(&key)?.prepared.get().cloned()
    }

    /// Registers an artefact that was prepared before the function got this revision. A preparation in
    /// progress is not disturbed.
    fn adopt(&self, function: &Arc<Function>, prepared: &Arc<Prepared>) {
        let _ = self.cell(function).prepared.set(Arc::clone(prepared));
    }

    pub(crate) fn forget(&self, path: &FunctionPath, revision: u64, keep: &[u64]) {
        self.cells().retain(|(cell_path, cell_revision), _| {
            cell_path != path || *cell_revision > revision || keep.contains(cell_revision)
        });
    }

    /// Forgets functions other than these, once they are missing for the second time in a row: calls that
    /// waited while their function was deleted prepare it once more, and a deploy prepares a function before
    /// it is listed.
    pub(crate) fn keep_only(&self, functions: &[Arc<Function>]) {
        let there: HashSet<_> =
            functions.iter().map(|function| (&function.path, function.revision)).collect();
        self.cells().retain(|(path, revision), cell| {
            let is_gone = !there.contains(&(path, *revision));
            !(cell.is_gone.swap(is_gone, Ordering::Relaxed) && is_gone)
        });
    }

    /// Forgets the preparation of exactly this function, which was not written.
    fn discard(&self, function: &Arc<Function>) {
        let key = (function.path.clone(), function.revision);
        let mut cells = self.cells();
        if cells.get(&key).is_some_and(|cell| Arc::ptr_eq(&cell.function, function)) {
            cells.remove(&key);
        }
    }

    fn cell(&self, function: &Arc<Function>) -> Arc<Cell> {
        let mut cells = self.cells();
        let cell =
            cells.entry((function.path.clone(), function.revision)).or_insert_with(|| Cell::new(function));
        // A deploy prepares before it writes, and may lose to another deploy of the same revision.
        if !Arc::ptr_eq(&cell.function, function) && *cell.function != **function {
            *cell = Cell::new(function);
        }
        Arc::clone(cell)
    }

    fn cells(&self) -> MutexGuard<'_, HashMap<(FunctionPath, u64), Arc<Cell>>> {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl crate::Invoker {
    /// Whether the function may be deployed.
    ///
    /// # Errors
    /// The reason its executor refuses it, such as a disk that is nearly full.
    pub fn admits(&self, function: &Function) -> Result<(), PrepareError> {
        self.executor_for(function)?.admits(function)
    }

    /// Prepares a function at deploy, so that the first call need not wait for it. A function not prepared
    /// since Flint started is prepared at its first call.
    pub async fn prepare(
        &self,
        source: FunctionSource,
        progress: Progress<'_>,
    ) -> Result<Arc<Prepared>, PrepareError> {
        let executor = Arc::clone(self.executor_for(&source.function)?);
        let function = Arc::clone(&source.function);
        self.preparing.get(&function, || async move { executor.prepare(source, progress).await }).await
    }

    /// To be called when the store has assigned a revision to a function prepared under another one, so that
    /// it is not prepared twice.
    pub fn adopt(&self, function: &Arc<Function>, prepared: &Arc<Prepared>) {
        self.preparing.adopt(function, prepared);
    }

    /// To be called when calls of a prepared function are expected, so that the first ones start as fast as
    /// later ones. That goes on whether or not the result is awaited. Does nothing while memory is short.
    pub fn anticipate(&self, prepared: &Prepared) -> Anticipation {
        match self.executor_for(&prepared.function) {
            Ok(executor) if !self.shared.pool().is_pressed() => executor.anticipate(prepared),
            _ => Box::pin(ready(())),
        }
    }

    /// To be called when a prepared function is not written after all, since nothing will ask for it.
    pub fn discard(&self, function: &Arc<Function>) {
        self.preparing.discard(function);
    }

    /// The prepared function, prepared now with its code from the store if need be.
    pub async fn prepared(&self, function: &Arc<Function>) -> Result<Arc<Prepared>, PrepareError> {
        let executor = self.executor_for(function)?;
        let prepare = || async {
            let failed = |detail| PrepareError::Failed {
                operation: format!("reading the code of {}", function.path),
                detail,
            };
            let digest = function.code.digest;
            let code = self.blobs.get(digest).await.map_err(|error| failed(error.to_string()))?;
            // This host lacks nothing that a wait would bring.
            let lost = || failed(format!("the blob {digest} is missing from the store: deploy it again"));
            let code = code.ok_or_else(lost)?;
            executor.prepare(FunctionSource { function: Arc::clone(function), code }, &|_| {}).await
        };
        self.preparing.get(function, prepare).await
    }

    /// The prepared function, if there is one.
    pub fn prepared_already(&self, function: &Function) -> Option<Arc<Prepared>> {
        self.preparing.ready(function)
    }

    /// Whether a start of `function` need not wait for its preparation.
    pub fn is_prepared(&self, function: &Function) -> bool {
        self.preparing.is_ready(function)
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use super::*;
    use crate::testing::function;

    async fn prepare(
        function: &Arc<Function>,
        runs: &AtomicUsize,
        fails: bool,
    ) -> Result<Arc<Prepared>, PrepareError> {
        runs.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(1)).await;
        if fails {
            return Err(PrepareError::Code("no".to_owned()));
        }
        let (function, took) = (Arc::clone(function), Duration::ZERO);
        Ok(Arc::new(Prepared::plain(function, Vec::new(), took, Box::new(()))))
    }

    #[tokio::test(start_paused = true)]
    async fn a_herd_prepares_once_and_a_failure_is_tried_again() {
        let (preparing, runs) = (Preparing::default(), AtomicUsize::new(0));
        let f = Arc::new(function("guest/f"));
        let (f_ref, runs_ref) = (&f, &runs);
        let get = |fails| preparing.get(f_ref, move || prepare(f_ref, runs_ref, fails));
        assert!(get(true).await.is_err() && !preparing.is_ready(&f));
        let (a, b, c) = tokio::join!(get(false), get(false), get(false));
        assert!(a.is_ok() && b.is_ok() && c.is_ok());
        assert_eq!(runs.load(Ordering::Relaxed), 2);
        preparing.forget(&f.path, 0, &[]);
        assert!(preparing.is_ready(&f), "an older revision was forgotten");
        preparing.forget(&f.path, 2, &[1]);
        assert!(preparing.is_ready(&f), "it is to be kept");
        preparing.forget(&f.path, 1, &[]);
        assert!(!preparing.is_ready(&f));
    }

    #[tokio::test(start_paused = true)]
    async fn what_waiting_calls_had_prepared_of_a_deleted_function_goes() {
        let (preparing, runs) = (Preparing::default(), AtomicUsize::new(0));
        let (kept, gone) = (Arc::new(function("guest/kept")), Arc::new(function("guest/gone")));
        for one in [&kept, &gone] {
            preparing.get(one, || prepare(one, &runs, false)).await.unwrap();
        }
        preparing.keep_only(&[Arc::clone(&kept)]);
        assert!(preparing.is_ready(&gone), "a deploy may be about to write it");
        preparing.keep_only(&[Arc::clone(&kept), Arc::clone(&gone)]);
        preparing.keep_only(&[Arc::clone(&kept)]);
        assert!(preparing.is_ready(&gone), "it was there in between");
        preparing.keep_only(&[Arc::clone(&kept)]);
        assert!(preparing.is_ready(&kept) && !preparing.is_ready(&gone));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deploy_that_lost_against_another_one_leaves_none_of_its_code() {
        let (preparing, runs) = (Preparing::default(), AtomicUsize::new(0));
        let lost = Arc::new(function("guest/f"));
        let mut won = function("guest/f");
        won.main = Some("other".to_owned());
        let won = Arc::new(won);
        preparing.get(&lost, || prepare(&lost, &runs, false)).await.unwrap();
        let prepared = preparing.get(&won, || prepare(&won, &runs, false)).await.unwrap();
        assert_eq!(prepared.function.main.as_deref(), Some("other"));
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_deploy_that_came_to_nothing_nothing_is_kept() {
        let (preparing, runs) = (Preparing::default(), AtomicUsize::new(0));
        let (one, same) = (Arc::new(function("guest/f")), Arc::new(function("guest/f")));
        preparing.get(&one, || prepare(&one, &runs, false)).await.unwrap();
        preparing.discard(&same);
        assert!(preparing.is_ready(&one), "another deploy's is its own");
        preparing.discard(&one);
        assert!(preparing.cells().is_empty());
        // What is prepared later is what was deployed later, also when nothing tells the two apart.
        preparing.get(&same, || prepare(&same, &runs, false)).await.unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 2);
        let broken = Arc::new(function("guest/broken"));
        assert!(preparing.get(&broken, || prepare(&broken, &runs, true)).await.is_err());
        preparing.discard(&broken);
        assert_eq!(preparing.cells().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_prepared_before_the_store_gave_a_revision_is_not_prepared_again() {
        let (preparing, runs) = (Preparing::default(), AtomicUsize::new(0));
        let guessed = Arc::new(function("guest/f"));
        let prepared = preparing.get(&guessed, || prepare(&guessed, &runs, false)).await.unwrap();
        let written = Arc::new(Function { revision: 7, ..function("guest/f") });
        preparing.adopt(&written, &prepared);
        preparing.forget(&written.path, 6, &[]);
        let again = preparing.get(&written, || prepare(&written, &runs, false)).await.unwrap();
        assert!(Arc::ptr_eq(&again, &prepared) && runs.load(Ordering::Relaxed) == 1);
        // An earlier preparation is kept.
        preparing.adopt(&written, &prepare(&written, &runs, false).await.unwrap());
        assert!(Arc::ptr_eq(&preparing.ready(&written).unwrap(), &prepared));
    }
}
