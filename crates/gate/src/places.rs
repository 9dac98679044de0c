//! Places for connections: so many in all, and of one account at most half of them, so that whoever keeps his busy keeps nobody else out.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use flint_model::NamespaceName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// On whose account a connection is; `None`: nobody's, because its sandbox works for nobody yet.
type Account = Option<NamespaceName>;

/// All of them.
#[derive(Debug)]
pub(crate) struct Places {
    all: Arc<Semaphore>,
    of_one: usize,
    /// What each account that has some may have.
    shares: Mutex<HashMap<Account, Weak<Semaphore>>>,
}

/// That of one connection, for as long as this is there.
#[derive(Debug)]
pub(crate) struct Place {
    _all: OwnedSemaphorePermit,
    _share: OwnedSemaphorePermit,
}

impl Places {
    /// So many, at least one.
    pub(crate) fn new(most: usize) -> Self {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        Self { all: Arc::new(Semaphore::new(most)), of_one: most.div_ceil(2), shares: Mutex::default() }
    }

    /// The next one for this account, when it has its turn.
    pub(crate) async fn next(&self, account: Account) -> Option<Place> {
        // Its own first: what it has too many of does not stand in the common queue.
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

    /// One that is there now.
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
