//! The processes that belong to the functions of a place.

use std::{collections::HashSet, time::Duration};

use flint_lab::{ProcessTree, TreeMemory, memory_of};

/// Everything below one process, but for what is not the functions'.
#[derive(Clone, Debug)]
pub(in crate::bench) struct Belongings {
    pub(in crate::bench) tree: ProcessTree,
    pub(in crate::bench) apart: HashSet<u32>,
    /// A process with instances inside, and what it was before they came.
    pub(in crate::bench) inside: Option<(u32, TreeMemory)>,
}

impl Belongings {
    /// Their memory, and how many processes they are.
    pub(in crate::bench) fn memory(&self) -> (TreeMemory, usize) {
        self.memory_with_pauses(None)
    }

    /// The same, with a pause after each process that is looked at: the kernel is long at it, and holds up who forks that process.
    pub(super) fn memory_with_pauses(&self, pause: Option<Duration>) -> (TreeMemory, usize) {
        let pids: Vec<u32> = self.tree.pids().into_iter().filter(|pid| !self.apart.contains(pid)).collect();
        let of_each = pids.iter().map(|&pid| {
            if let Some(pause) = pause {
                std::thread::sleep(pause);
            }
            memory_of(pid)
        });
        let inside = self.inside.map(|(pid, before)| memory_of(pid).grown_from(before));
        (of_each.chain(inside).sum(), pids.len())
    }
}
