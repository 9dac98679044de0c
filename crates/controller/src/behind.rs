//! Making functions ready ahead of their first calls, behind deploys that were answered.
//!
//! Who waits is a name: its function, and its code, are read when its turn comes. So any number of deploys is no more in memory than any other, and what
//! became of a function meanwhile is what is prepared.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flint_model::{Entity, FunctionPath, NamespaceName, Version};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Controller, ControllerError, turns::Turns};

/// Functions prepared at once.
const PLACES: usize = 2;

/// How many of a namespace may wait. Of more the oldest are left to their first calls.
const OF_ONE: usize = 1000;

/// What waits for its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) path: FunctionPath,
    /// A version that is kept; `None` for the newest.
    pub(crate) version: Option<Version>,
}

/// Functions that are to be prepared, those of one namespace in turn with those of others.
pub(crate) struct Behind {
    waiting: Mutex<Turns<Wanted>>,
    places: Arc<Semaphore>,
}

impl Default for Behind {
    fn default() -> Self {
        Self { waiting: Mutex::default(), places: Arc::new(Semaphore::new(PLACES)) }
    }
}

impl Behind {
    /// Puts one at the end of its namespace's line, once.
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

    /// Lets go of those of a namespace that was deleted.
    pub(crate) fn forget(&self, namespace: &NamespaceName) {
        self.waiting().remove(namespace);
    }

    /// The one whose turn it is, with its place. None is taken for nothing, not for a moment: whoever wants something just then would find none.
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
    /// Makes a function ready to start without anybody waiting. Broken code is found again by its first call.
    pub(crate) fn prepare_behind(self: &Arc<Self>, wanted: Wanted) {
        self.behind.push(wanted);
        self.prepare_waiting();
    }

    /// Begins with whoever's turn it is while there are places.
    fn prepare_waiting(self: &Arc<Self>) {
        while !self.stopping.is_cancelled()
            && let Some((wanted, place)) = self.behind.next()
        {
            let controller = Arc::clone(self);
            self.tasks.spawn(async move {
                tokio::select! {
                    () = controller.stopping.cancelled() => {}
                    () = controller.prepare_wanted(&wanted) => {}
                }
                drop(place);
                controller.prepare_waiting();
            });
        }
    }

    async fn prepare_wanted(&self, Wanted { path, version }: &Wanted) {
        let prepared = async {
            let found = match version {
                Some(version) => self.stores.versions.version(path, *version).await?,
                None => match self.action_at(path).await? {
                    Some(Entity::Function(function)) => Some(function),
                    _ => None,
                },
            };
            // What is gone needs nothing.
            let Some(function) = found else { return Ok(()) };
            let prepared = self.invoker.prepared(&Arc::new(self.fit(function).await)).await;
            prepared.inspect_err(|error| self.look_for_leftovers(error))?;
            Ok::<_, ControllerError>(())
        };
        if let Err(error) = prepared.await {
            let error = error.detail().unwrap_or_else(|| error.to_string());
            tracing::info!(function = %path, error, "could not be made ready ahead of its first call");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(path: &str) -> Wanted {
        Wanted { path: path.parse().unwrap(), version: None }
    }

    fn drained(behind: &Behind) -> Vec<String> {
        std::iter::from_fn(|| behind.next()).map(|(wanted, _)| wanted.path.to_string()).collect()
    }

    #[test]
    fn a_function_waits_once_and_namespaces_take_turns() {
        let behind = Behind::default();
        for path in ["a/f", "a/g", "a/f", "a/h", "b/f", "a/f"] {
            behind.push(wanted(path));
        }
        let kept = Wanted { version: Some(Version::FIRST), ..wanted("b/f") };
        behind.push(kept.clone());
        let places = [behind.next().unwrap(), behind.next().unwrap()];
        assert_eq!((&places[0].0, &places[1].0), (&wanted("a/g"), &wanted("b/f")));
        assert!(behind.next().is_none(), "there are no more places");
        // One that is being prepared may be wanted again.
        behind.push(wanted("a/g"));
        drop(places);
        assert_eq!(behind.next().unwrap().0, wanted("a/h"));
        assert_eq!(behind.next().unwrap().0, kept, "another version of it");
        assert_eq!(drained(&behind), ["a/f", "a/g"]);
    }

    #[test]
    fn so_many_of_a_namespace_wait_and_none_of_one_that_is_gone() {
        let behind = Behind::default();
        for number in 0..OF_ONE + 2 {
            behind.push(wanted(&format!("a/f{number}")));
        }
        behind.push(wanted("b/f"));
        let names = drained(&behind);
        assert_eq!(names.len(), OF_ONE + 1);
        assert_eq!(names[..3], ["a/f2", "b/f", "a/f3"]);
        behind.push(wanted("a/f"));
        behind.forget(&"a".parse().unwrap());
        assert!(behind.next().is_none());
    }
}
