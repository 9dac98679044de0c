//! Background preparation of functions, between the answer to a deploy and the first call.
//!
//! Only the function's name is queued; the function and its code are read when its turn comes. So memory does
//! not grow with the number of deploys, and the latest revision is prepared.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flint_executor::Anticipation;
use flint_model::{Entity, FunctionPath, NamespaceName, Version};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Controller, ControllerError, turns::Turns};

/// Concurrent preparations.
const PLACES: usize = 2;

/// Queued functions per namespace. Beyond that the oldest are dropped, and prepared by their first calls.
const OF_ONE: usize = 1000;

/// A queued function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wanted {
    pub(crate) path: FunctionPath,
    /// A kept version; `None` for the newest.
    pub(crate) version: Option<Version>,
}

/// The queue of functions to prepare; namespaces take turns.
pub(crate) struct BackgroundPreparation {
    waiting: Mutex<Turns<Wanted>>,
    places: Arc<Semaphore>,
}

impl Default for BackgroundPreparation {
    fn default() -> Self {
        Self { waiting: Mutex::default(), places: Arc::new(Semaphore::new(PLACES)) }
    }
}

impl BackgroundPreparation {
    /// Queues a function at the end of its namespace's queue; if already queued, it moves to the end.
    fn push(&self, wanted: Wanted) {
        let namespace = wanted.path.namespace.clone();
        let mut waiting = self.waiting();
        waiting.retain(&namespace, |other| *other != wanted);
        let mut too_many = (waiting.len_of(&namespace) + 1).saturating_sub(OF_ONE);
        waiting.retain(&namespace, |_| {
            let stays = too_many == 0;
            too_many = too_many.saturating_sub(1);
            stays
        });
        waiting.push(namespace, wanted);
    }

    /// Drops a deleted namespace's queue.
    pub(crate) fn forget(&self, namespace: &NamespaceName) {
        self.waiting().remove(namespace);
    }

    /// The next function, with a permit to prepare it. A permit is taken only when a function is queued: one
    /// held without, even briefly, would be missed by a concurrent caller.
    fn next(&self) -> Option<(Wanted, OwnedSemaphorePermit)> {
        let mut waiting = self.waiting();
        if waiting.is_empty() {
            return None;
        }
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some((waiting.pop()?, place))
    }

    fn waiting(&self) -> MutexGuard<'_, Turns<Wanted>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller {
    /// Prepares a function without anybody waiting. Code that cannot be prepared is reported by its first
    /// call.
    pub(crate) fn prepare_in_background(self: &Arc<Self>, wanted: Wanted) {
        self.background.push(wanted);
        self.prepare_waiting();
    }

    /// Starts as many queued preparations as there are permits.
    fn prepare_waiting(self: &Arc<Self>) {
        while !self.stopping.is_cancelled()
            && let Some((wanted, place)) = self.background.next()
        {
            let controller = Arc::clone(self);
            self.tasks.spawn(async move {
                tokio::select! {
                    () = controller.stopping.cancelled() => {}
                    // What it makes ahead goes on by itself.
                    anticipation = controller.prepare_wanted(&wanted) => drop(anticipation),
                }
                drop(place);
                controller.prepare_waiting();
            });
        }
    }

    /// Prepares a function, and has made ahead what its first calls are faster with. `None` if there is no
    /// such function or it cannot be prepared.
    pub(crate) async fn prepare_wanted(&self, Wanted { path, version }: &Wanted) -> Option<Anticipation> {
        let prepared = async {
            let found = match version {
                Some(version) => self.stores.versions.version(path, *version).await?,
                None => match self.action_at(path).await? {
                    Some(Entity::Function(function)) => Some(function),
                    _ => None,
                },
            };
            // Deleted meanwhile: there is nothing to prepare.
            let Some(function) = found else { return Ok(None) };
            let prepared = self.invoker.prepared(&Arc::new(self.fit(function).await)).await;
            let prepared = prepared.inspect_err(|error| self.look_for_leftovers(error))?;
            Ok::<_, ControllerError>(Some(self.invoker.anticipate(&prepared)))
        };
        prepared.await.unwrap_or_else(|error| {
            let error = error.detail().unwrap_or_else(|| error.to_string());
            tracing::info!(function = %path, error, "could not be made ready ahead of its first call");
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(path: &str) -> Wanted {
        Wanted { path: path.parse().unwrap(), version: None }
    }

    fn drained(background: &BackgroundPreparation) -> Vec<String> {
        std::iter::from_fn(|| background.next()).map(|(wanted, _)| wanted.path.to_string()).collect()
    }

    #[test]
    fn a_function_waits_once_and_namespaces_take_turns() {
        let background = BackgroundPreparation::default();
        for path in ["a/f", "a/g", "a/f", "a/h", "b/f", "a/f"] {
            background.push(wanted(path));
        }
        let kept = Wanted { version: Some(Version::FIRST), ..wanted("b/f") };
        background.push(kept.clone());
        let places = [background.next().unwrap(), background.next().unwrap()];
        assert_eq!((&places[0].0, &places[1].0), (&wanted("a/g"), &wanted("b/f")));
        assert!(background.next().is_none(), "there are no more places");
        // A function being prepared may be queued again.
        background.push(wanted("a/g"));
        drop(places);
        assert_eq!(background.next().unwrap().0, wanted("a/h"));
        assert_eq!(background.next().unwrap().0, kept, "another version of it");
        assert_eq!(drained(&background), ["a/f", "a/g"]);
    }

    #[test]
    fn so_many_of_a_namespace_wait_and_none_of_one_that_is_gone() {
        let background = BackgroundPreparation::default();
        for number in 0..OF_ONE + 2 {
            background.push(wanted(&format!("a/f{number}")));
        }
        background.push(wanted("b/f"));
        let names = drained(&background);
        assert_eq!(names.len(), OF_ONE + 1);
        assert_eq!(names[..3], ["a/f2", "b/f", "a/f3"]);
        background.push(wanted("a/f"));
        background.forget(&"a".parse().unwrap());
        assert!(background.next().is_none());
    }
}
