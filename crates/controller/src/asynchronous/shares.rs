//! Permits of which no namespace gets so many that nothing is left for others: one that has some gets more only
//! while it then has at most three times what remains. Alone it gets three quarters; whoever comes next finds a
//! quarter, and takes at most three quarters of that. What cannot be divided goes to who comes first.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use flint_model::NamespaceName;

/// How many times what remains a namespace may have.
const OF_THE_REST: usize = 3;

pub(super) struct Shares {
    all: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    of: HashMap<NamespaceName, usize>,
    /// By all namespaces together.
    sum: usize,
    /// For whichever namespace gets them.
    reserved: usize,
}

/// Permits, until it is dropped.
pub(super) struct Share {
    shares: Arc<Shares>,
    permits: usize,
    /// Whose they are; nobody's while they are reserved.
    namespace: Option<NamespaceName>,
}

impl Shares {
    pub(super) fn new(all: usize) -> Arc<Self> {
        Arc::new(Self { all, taken: Mutex::default() })
    }

    /// Permits for a namespace, if there are as many, and it may have them.
    pub(super) fn take(self: &Arc<Self>, namespace: &NamespaceName, permits: usize) -> Option<Share> {
        let mut taken = self.taken();
        if permits > taken.left(self.all) || taken.allows(self.all, namespace, permits) == 0 {
            return None;
        }
        taken.add(namespace, permits);
        Some(Share { shares: Arc::clone(self), permits, namespace: Some(namespace.clone()) })
    }

    /// Permits for a namespace that is not known yet.
    pub(super) fn reserve(self: &Arc<Self>, permits: usize) -> Option<Share> {
        let mut taken = self.taken();
        if permits > taken.left(self.all) {
            return None;
        }
        taken.reserved += permits;
        Some(Share { shares: Arc::clone(self), permits, namespace: None })
    }

    /// How many times the namespace may have so many permits more, out of those that are reserved or left.
    pub(super) fn allows(&self, namespace: &NamespaceName, permits: usize) -> usize {
        self.taken().allows(self.all, namespace, permits)
    }

    pub(super) fn are_used_up(&self) -> bool {
        self.taken().left(self.all) == 0
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn left(&self, all: usize) -> usize {
        all - self.sum - self.reserved
    }

    fn allows(&self, all: usize, namespace: &NamespaceName, permits: usize) -> usize {
        let has = self.of.get(namespace).copied().unwrap_or(0);
        let rest = OF_THE_REST * (all - self.sum);
        let more = rest.saturating_sub(has) / (permits.max(1) * (OF_THE_REST + 1));
        if has == 0 { more.max(1) } else { more }
    }

    fn add(&mut self, namespace: &NamespaceName, permits: usize) {
        self.sum += permits;
        match self.of.get_mut(namespace) {
            Some(has) => *has += permits,
            None => drop(self.of.insert(namespace.clone(), permits)),
        }
    }

    fn remove(&mut self, namespace: &NamespaceName, permits: usize) {
        self.sum -= permits;
        if let Some(has) = self.of.get_mut(namespace) {
            *has -= permits;
            if *has == 0 {
                self.of.remove(namespace);
            }
        }
    }
}

impl Share {
    /// Gives reserved permits to a namespace, which [`Shares::allows`] them.
    pub(super) fn give_to(&mut self, namespace: &NamespaceName) {
        let mut taken = self.shares.taken();
        if self.namespace.is_none() {
            taken.reserved -= self.permits;
            taken.add(namespace, self.permits);
            self.namespace = Some(namespace.clone());
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.shares.taken();
        match &self.namespace {
            Some(namespace) => taken.remove(namespace, self.permits),
            None => taken.reserved -= self.permits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many single permits as the namespace gets.
    fn all_that(shares: &Arc<Shares>, namespace: &str) -> Vec<Share> {
        let namespace = namespace.parse().unwrap();
        std::iter::from_fn(|| shares.take(&namespace, 1)).collect()
    }

    #[test]
    fn each_namespace_leaves_something_to_the_next() {
        let shares = Shares::new(256);
        let got: Vec<_> = ["a", "b", "c", "d", "e"].map(|name| all_that(&shares, name)).into();
        let counts: Vec<_> = got.iter().map(Vec::len).collect();
        assert_eq!(counts, [192, 48, 12, 3, 1]);
        assert!(shares.are_used_up());
        drop(got);
        assert_eq!(all_that(&shares, "e").len(), 192);
        assert!(shares.taken().of.is_empty(), "nothing is kept of namespaces without permits");
    }

    #[test]
    fn few_permits_go_to_who_comes_first() {
        for (all, first) in [(1, 1), (2, 1), (3, 2), (4, 3)] {
            let shares = Shares::new(all);
            let held = all_that(&shares, "a");
            assert_eq!(
                (held.len(), all_that(&shares, "b").len()),
                (first, usize::from(all > first)),
                "{all}"
            );
        }
        assert!(Shares::new(0).take(&"a".parse().unwrap(), 1).is_none());
    }

    #[test]
    fn one_may_need_all() {
        let shares = Shares::new(64);
        let [a, b] = ["a", "b"].map(|name| name.parse().unwrap());
        let held = shares.take(&a, 64).unwrap();
        assert!(shares.take(&b, 1).is_none() && shares.take(&a, 1).is_none());
        drop(held);
        let _held = shares.take(&a, 40).unwrap();
        assert!(shares.take(&a, 9).is_none(), "48 are its share");
        assert!(
            shares.take(&a, 8).is_some() && shares.take(&b, 25).is_none() && shares.take(&b, 24).is_some()
        );
    }

    #[test]
    fn what_is_reserved_becomes_a_namespaces() {
        let shares = Shares::new(64);
        let a = "a".parse().unwrap();
        let mut reserved: Vec<_> = std::iter::from_fn(|| shares.reserve(16)).collect();
        assert_eq!((reserved.len(), shares.allows(&a, 16)), (4, 3), "of those reserved");
        assert!(shares.take(&a, 1).is_none(), "but none is left");
        reserved.truncate(3);
        reserved.iter_mut().for_each(|share| share.give_to(&a));
        assert_eq!((shares.allows(&a, 16), shares.allows(&"b".parse().unwrap(), 4)), (0, 3));
        drop(reserved);
        assert!(shares.take(&a, 48).is_some() && shares.taken().of.is_empty());
    }
}
