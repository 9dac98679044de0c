//! Permits of which no namespace gets so many that nothing is left for others ([`Portions`]), and which may be
//! reserved before it is known whose they will be.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flint_model::NamespaceName;
use flint_shares::Portions;

pub(super) struct Shares {
    taken: Mutex<Taken>,
}

struct Taken {
    of: Portions<NamespaceName>,
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
        Arc::new(Self { taken: Mutex::new(Taken { of: Portions::new(all), reserved: 0 }) })
    }

    /// Permits for a namespace, if there are as many, and it may have them.
    pub(super) fn take(self: &Arc<Self>, namespace: &NamespaceName, permits: usize) -> Option<Share> {
        let mut taken = self.taken();
        if permits > taken.left() || taken.of.allows(namespace, permits) == 0 {
            return None;
        }
        taken.of.add(namespace, permits);
        Some(Share { shares: Arc::clone(self), permits, namespace: Some(namespace.clone()) })
    }

    /// Permits for a namespace that is not known yet.
    pub(super) fn reserve(self: &Arc<Self>, permits: usize) -> Option<Share> {
        let mut taken = self.taken();
        if permits > taken.left() {
            return None;
        }
        taken.reserved += permits;
        Some(Share { shares: Arc::clone(self), permits, namespace: None })
    }

    /// How many times the namespace may have so many permits more, out of those that are reserved or left.
    pub(super) fn allows(&self, namespace: &NamespaceName, permits: usize) -> usize {
        self.taken().of.allows(namespace, permits)
    }

    pub(super) fn are_used_up(&self) -> bool {
        self.taken().left() == 0
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn left(&self) -> usize {
        self.of.rest() - self.reserved
    }
}

impl Share {
    /// Gives reserved permits to a namespace, which [`Shares::allows`] them.
    pub(super) fn give_to(&mut self, namespace: &NamespaceName) {
        let mut taken = self.shares.taken();
        if self.namespace.is_none() {
            taken.reserved -= self.permits;
            taken.of.add(namespace, self.permits);
            self.namespace = Some(namespace.clone());
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.shares.taken();
        match &self.namespace {
            Some(namespace) => taken.of.remove(namespace, self.permits),
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
        assert!(shares.take(&a, 48).is_some() && shares.taken().of.sum() == 0);
    }
}
