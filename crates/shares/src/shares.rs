//! Two limits at once: one on what all use, and one on what each of them does.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A limit on what all use, and one on what each of them does.
#[derive(Debug)]
pub struct Shares<K: ToOwned + ?Sized> {
    all: Arc<Semaphore>,
    each: u32,
    /// Those of whoever uses or wants some.
    own: Mutex<HashMap<K::Owned, Weak<Semaphore>>>,
}

/// What somebody uses, until it is dropped.
#[derive(Debug)]
pub struct Share {
    /// Its part in what all use. Dropped alone, it leaves that to others, and still counts for whose it is.
    pub all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
}

impl<K> Shares<K>
where
    K: ToOwned<Owned: Hash + Eq> + Hash + Eq + ?Sized,
{
    /// So many for all, and for each of them.
    pub fn new(all: u32, each: u32) -> Self {
        Self { all: Arc::new(Semaphore::new(all.max(each) as usize)), each, own: Mutex::default() }
    }

    /// So many, at least one, of which each gets at most half.
    pub fn halves(most: usize) -> Self {
        let most = u32::try_from(most).unwrap_or(u32::MAX).max(1);
        Self::new(most, most.div_ceil(2))
    }

    /// Waits for so many; as many as one may have, if that is less.
    pub async fn take(&self, who: &K, many: u32) -> Share {
        const OPEN: &str = "it is never closed";
        let many = many.min(self.each);
        // Its own first: who waits for what it has too many of keeps nothing from others.
        let own = self.own(who).acquire_many_owned(many).await.expect(OPEN);
        let all = Arc::clone(&self.all).acquire_many_owned(many).await.expect(OPEN);
        Share { all, _own: own }
    }

    /// One, if there is one at once.
    pub fn try_take(&self, who: &K) -> Option<Share> {
        let own = self.own(who).try_acquire_owned().ok()?;
        let all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(Share { all, _own: own })
    }

    fn own(&self, who: &K) -> Arc<Semaphore> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = own.get(who).and_then(Weak::upgrade) {
            return used;
        }
        own.retain(|_, used| used.strong_count() > 0);
        let new = Arc::new(Semaphore::new(self.each as usize));
        own.insert(who.to_owned(), Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// So many, if they are there at once.
    fn now(shares: &Shares<str>, who: &str, many: u32) -> Option<Share> {
        shares.take(who, many).now_or_never()
    }

    #[test]
    fn one_takes_its_part_and_not_that_of_others() {
        let shares = Shares::new(5, 3);
        let first = now(&shares, "greedy", 1).unwrap();
        let rest = [now(&shares, "greedy", 1).unwrap(), shares.try_take("greedy").unwrap()];
        assert!(shares.try_take("greedy").is_none() && now(&shares, "greedy", 1).is_none());
        let others = now(&shares, "other", 2).unwrap();
        assert!(shares.try_take("third").is_none() && now(&shares, "third", 1).is_none(), "all are in use");
        drop(first);
        assert!(now(&shares, "greedy", 1).is_some());
        drop((rest, others));
        assert!(now(&shares, "third", 100).is_some(), "more than there can be is all of it");
        drop(now(&shares, "third", 3).unwrap());
        drop(now(&shares, "other", 1).unwrap());
        assert_eq!(shares.own.lock().unwrap().len(), 1, "those that use nothing are forgotten");
        assert_eq!(shares.all.available_permits(), 5);
    }

    #[test]
    fn who_waits_for_its_own_stands_in_nobodys_way() {
        let shares = Shares::<str>::new(3, 2);
        let held = now(&shares, "greedy", 2).unwrap();
        let mut more: Vec<_> = (0..10).map(|_| Box::pin(shares.take("greedy", 1))).collect();
        assert!(more.iter_mut().all(|share| share.now_or_never().is_none()));
        let _other = now(&shares, "other", 1).unwrap();
        drop(held);
        let _first = more[0].as_mut().now_or_never().expect("who came first is the first");
        assert!(more[2].as_mut().now_or_never().is_none(), "its turn comes after the second's");
    }

    #[test]
    fn half_of_them_are_ones_own_and_the_rest_is_others() {
        let shares = Shares::halves(5);
        let mut held: Vec<_> = (0..3).map(|_| now(&shares, "a", 1).expect("one of its own")).collect();
        assert!(now(&shares, "a", 1).is_none(), "it has its half");
        let others = ["b", "c"].map(|name| now(&shares, name, 1).expect("another's"));
        assert!(now(&shares, "d", 1).is_none(), "there are no more");
        drop(others);
        assert!(now(&shares, "a", 1).is_none(), "whoever else may have some");
        held.pop();
        assert!(now(&shares, "a", 1).is_some());
        assert!(now(&Shares::halves(0), "a", 1).is_some(), "there is always one");
    }

    #[test]
    fn what_is_left_to_others_still_counts_for_whose_it_is() {
        let shares = Shares::halves(2);
        let Share { all, _own } = now(&shares, "a", 1).unwrap();
        let other = now(&shares, "b", 1).unwrap();
        drop(all);
        assert!(now(&shares, "a", 1).is_none() && now(&shares, "c", 1).is_some());
        drop((_own, other));
        assert!(now(&shares, "a", 1).is_some());
    }
}
