//! Cgroups of ended cells, kept for later cells with the same key.

use std::collections::VecDeque;

use crate::cgroup::Leaf;

/// Empty cgroups, the longest unused first.
pub(super) struct Groups {
    idle: VecDeque<(String, Leaf)>,
    limit: usize,
}

impl Groups {
    pub(super) fn new(limit: usize) -> Self {
        Self { idle: VecDeque::new(), limit }
    }

    pub(super) fn take(&mut self, key: Option<&str>) -> Option<Leaf> {
        let key = key?;
        let at = self.idle.iter().rposition(|(other, _)| other == key)?;
        self.idle.remove(at).map(|(_, leaf)| leaf)
    }

    /// Keeps a cgroup under its key; returns one that has to be removed instead.
    pub(super) fn keep(&mut self, key: Option<String>, leaf: Leaf) -> Option<Leaf> {
        let Some(key) = key.filter(|_| leaf.recyclable()) else { return Some(leaf) };
        self.idle.push_back((key, leaf));
        if self.idle.len() > self.limit { self.idle.pop_front().map(|(_, leaf)| leaf) } else { None }
    }
}
