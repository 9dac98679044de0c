//! A bound on the memory of bodies that arrive: they are read before their calls are admitted, from whoever
//! connects, so neither a namespace's limits nor the queues' count them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flint_shares::Portions;

/// What a body needs no room for: most have less, and all connections together do not make much of it.
pub(crate) const FREE: usize = 16 << 10;

/// The bytes that there are for arriving bodies, of which one namespace leaves a quarter to others, as those do of
/// what they find. All APIs share them.
#[derive(Debug)]
pub struct Arriving(Mutex<Portions<str>>);

/// A body of a namespace, and the bytes it has until it is there.
#[derive(Debug)]
pub struct Arrival<'a> {
    arriving: &'a Arriving,
    namespace: &'a str,
    bytes: usize,
}

impl Arriving {
    /// As many as there are by default.
    pub const DEFAULT: usize = 256 << 20;

    /// So many bytes.
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self::of(bytes))
    }

    /// A body that begins to arrive, for this namespace.
    pub fn arrival<'a>(&'a self, namespace: &'a str) -> Arrival<'a> {
        Arrival { arriving: self, namespace, bytes: 0 }
    }

    fn of(bytes: usize) -> Self {
        Self(Mutex::new(Portions::new(bytes)))
    }

    fn taken(&self) -> MutexGuard<'_, Portions<str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Arriving {
    fn default() -> Self {
        Self::of(Self::DEFAULT)
    }
}

impl Arrival<'_> {
    /// Whether the body may have so many bytes in all. A namespace's only body may have what there is, and the only
    /// one of all more than that: its own limit bounds it, which an operator may have raised.
    pub(crate) fn may_have(&mut self, bytes: usize) -> bool {
        if bytes <= self.bytes.max(FREE) {
            return true;
        }
        let mut taken = self.arriving.taken();
        let (more, alone) = (bytes - self.bytes, taken.sum() == self.bytes);
        if !alone && !taken.may_grow(self.namespace, self.bytes, more) {
            return false;
        }
        taken.add(self.namespace, more);
        self.bytes = bytes;
        true
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        self.arriving.taken().remove(self.namespace, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KB: usize = 1 << 10;

    /// As many bodies of 64 KB as the namespace may have.
    fn all_that<'a>(arriving: &'a Arriving, namespace: &'a str) -> Vec<Arrival<'a>> {
        let another = || {
            let mut body = arriving.arrival(namespace);
            body.may_have(64 * KB).then_some(body)
        };
        std::iter::from_fn(another).collect()
    }

    #[test]
    fn each_namespace_leaves_room_to_the_next() {
        let arriving = Arriving::new(64 * 64 * KB);
        let bodies: Vec<_> = ["a", "b", "c", "d"].map(|name| all_that(&arriving, name)).into();
        assert_eq!(bodies.iter().map(Vec::len).collect::<Vec<_>>(), [48, 12, 3, 1]);
        assert!(!arriving.arrival("e").may_have(FREE + 1) && arriving.arrival("e").may_have(FREE));
        drop(bodies);
        assert_eq!(all_that(&arriving, "e").len(), 48);
        assert_eq!(arriving.taken().sum(), 0, "nothing is kept");
    }

    #[test]
    fn a_body_that_is_alone_may_be_larger() {
        let arriving = Arriving::new(256 * KB);
        let mut alone = arriving.arrival("a");
        assert!(alone.may_have(128 * KB) && alone.may_have(512 * KB));
        assert!(!arriving.arrival("b").may_have(32 * KB), "there is nothing left");
        drop(alone);
        let mut first = arriving.arrival("a");
        assert!(first.may_have(32 * KB));
        let mut only = arriving.arrival("b");
        assert!(only.may_have(224 * KB) && !only.may_have(225 * KB), "the only one of its namespace");
    }
}
