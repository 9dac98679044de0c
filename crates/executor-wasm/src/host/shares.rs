//! Something limited that all functions use together, of which one namespace gets only a part.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use flint_model::NamespaceName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A limit on what all namespaces use, and one on what each of them does.
pub(super) struct Shares {
    all: Arc<Semaphore>,
    each: u32,
    /// Those of namespaces that use or want some.
    own: Mutex<HashMap<NamespaceName, Weak<Semaphore>>>,
}

/// What somebody uses, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    _all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
}

impl Shares {
    /// So many for all namespaces, and for each of them.
    pub(super) fn new(all: u32, each: u32) -> Self {
        Self { all: Arc::new(Semaphore::new(all.max(each) as usize)), each, own: Mutex::default() }
    }

    /// Waits for so many; as many as a namespace has, if that is less.
    pub(super) async fn take(&self, namespace: &NamespaceName, many: u32) -> Share {
        const OPEN: &str = "it is never closed";
        let many = many.min(self.each);
        // Who waits for its own namespace keeps nothing from others.
        let own = self.own(namespace).acquire_many_owned(many).await.expect(OPEN);
        let all = Arc::clone(&self.all).acquire_many_owned(many).await.expect(OPEN);
        Share { _all: all, _own: own }
    }

    /// One, if there is one at once.
    pub(super) fn try_take(&self, namespace: &NamespaceName) -> Option<Share> {
        let own = self.own(namespace).try_acquire_owned().ok()?;
        let all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(Share { _all: all, _own: own })
    }

    fn own(&self, namespace: &NamespaceName) -> Arc<Semaphore> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = own.get(namespace).and_then(Weak::upgrade) {
            return used;
        }
        own.retain(|_, used| used.strong_count() > 0);
        let new = Arc::new(Semaphore::new(self.each as usize));
        own.insert(namespace.clone(), Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn one_namespace_takes_its_part_and_not_that_of_others() {
        let shares = Shares::new(5, 3);
        let [greedy, other, third] =
            ["greedy", "other", "third"].map(|name| name.parse::<NamespaceName>().unwrap());
        let waits = async |namespace: &NamespaceName, many: u32| {
            timeout(Duration::from_millis(5), shares.take(namespace, many)).await.is_err()
        };
        let first = shares.take(&greedy, 1).await;
        let rest = [shares.take(&greedy, 1).await, shares.try_take(&greedy).unwrap()];
        assert!(shares.try_take(&greedy).is_none() && waits(&greedy, 1).await);
        let others = shares.take(&other, 2).await;
        assert!(shares.try_take(&third).is_none() && waits(&third, 1).await, "all are in use");
        drop(first);
        assert!(!waits(&greedy, 1).await);
        drop((rest, others));
        // More than there can be is all of it.
        assert!(!waits(&third, 100).await);
        shares.take(&third, 3).await;
        drop(shares.take(&other, 1).await);
        assert_eq!(shares.own.lock().unwrap().len(), 1, "those that use nothing are forgotten");
        assert_eq!(shares.all.available_permits(), 5);
    }
}
