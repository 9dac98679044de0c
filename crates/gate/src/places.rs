//! Fair limits on connections: so many in all, of which one namespace gets at most half, so that none keeps
//! the others out.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use flint_model::NamespaceName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The namespace to which a connection is charged; `None` if its sandbox does not work for any yet.
type Account = Option<NamespaceName>;

/// The limits.
#[derive(Debug)]
pub(crate) struct Places {
    all: Arc<Semaphore>,
    of_one: usize,
    /// The share of each namespace that has connections.
    shares: Mutex<HashMap<Account, Weak<Semaphore>>>,
}

/// The permit of one connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _all: OwnedSemaphorePermit,
    _share: OwnedSemaphorePermit,
}

impl Places {
    /// At most `most` connections, at least one.
    pub(crate) fn new(most: usize) -> Self {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        Self { all: Arc::new(Semaphore::new(most)), of_one: most.div_ceil(2), shares: Mutex::default() }
    }

    /// Waits for a permit for this namespace.
    pub(crate) async fn next(&self, account: Account) -> Option<Place> {
        // Its own share first, so that requests beyond it do not queue for the common one.
        let share = self.share(account).acquire_owned().await.ok()?;
        let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Place { _all: all, _share: share })
    }

    fn share(&self, account: Account) -> Arc<Semaphore> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(&account).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(self.of_one));
        shares.insert(account, Arc::downgrade(&share));
        share
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    /// A permit that is available at once.
    fn now(places: &Places, account: &str) -> Option<Place> {
        let next = pin!(places.next(NamespaceName::parse(account).ok()));
        match next.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => place,
            Poll::Pending => None,
        }
    }

    #[test]
    fn half_of_them_are_one_accounts_and_the_rest_is_others() {
        let places = Places::new(5);
        let mut held: Vec<_> = (0..3).map(|_| now(&places, "a").expect("one of its own")).collect();
        assert!(now(&places, "a").is_none(), "it has its half");
        let others = [now(&places, "b").expect("another's"), now(&places, "").expect("nobody's")];
        assert!(now(&places, "c").is_none(), "there are no more");
        drop(others);
        assert!(now(&places, "a").is_none(), "whoever else may have some");
        held.pop();
        assert!(now(&places, "a").is_some());
        drop(held);
        assert!(now(&places, "c").is_some());
        assert_eq!(places.shares.lock().expect("not poisoned").len(), 1, "who has none is forgotten");
        assert!(now(&Places::new(0), "a").is_some(), "there is always one");
    }
}
