//! The processes that belong to functions.

use std::{
    collections::{BTreeSet, HashSet},
    time::Duration,
};

use flint_lab::{ProcessTree, TreeMemory, memory_of};
use tokio::time::sleep;

/// Interval of looks at the processes.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Processes are stable after this number of unchanged looks.
const SAME_LOOKS: usize = 12;
/// Maximum number of looks.
const MOST_LOOKS: usize = 150;

/// All descendants of one process, except those that are not the functions'.
#[derive(Clone, Debug)]
pub(in crate::bench) struct Belongings {
    pub(in crate::bench) tree: ProcessTree,
    pub(in crate::bench) apart: HashSet<u32>,
    /// A process that contains instances, and its memory before them.
    pub(in crate::bench) inside: Option<(u32, TreeMemory)>,
}

impl Belongings {
    /// Their memory, and the number of processes.
    pub(in crate::bench) fn memory(&self) -> (TreeMemory, usize) {
        self.memory_with_pauses(None)
    }

    /// Waits until none of them is ending.
    pub(super) async fn settle(&self) {
        until_the_same(|| self.pids()).await;
    }

    pub(in crate::bench) fn pids(&self) -> BTreeSet<u32> {
        self.tree.pids().into_iter().filter(|pid| !self.apart.contains(pid)).collect()
    }

    /// The same with a pause after each process: the kernel takes long for each, and blocks forks of that
    /// process meanwhile.
    pub(super) fn memory_with_pauses(&self, pause: Option<Duration>) -> (TreeMemory, usize) {
        let pids = self.pids();
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

/// Looks until nothing changes any more.
async fn until_the_same(mut look: impl FnMut() -> BTreeSet<u32>) {
    let (mut known, mut same) = (look(), 0);
    for _ in 0..MOST_LOOKS {
        if same == SAME_LOOKS {
            break;
        }
        sleep(LOOK_EVERY).await;
        let now = look();
        same = if now == known { same + 1 } else { 0 };
        known = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_ending_is_waited_for() {
        let mut looks = 0;
        until_the_same(|| {
            looks += 1;
            // A process that ends with the sixth look, beside one that stays.
            if looks < 6 { BTreeSet::from([1, 2]) } else { BTreeSet::from([1]) }
        })
        .await;
        assert_eq!(looks, 6 + SAME_LOOKS);
        let (mut looks, mut changing) = (0, 0);
        until_the_same(|| {
            (looks, changing) = (looks + 1, changing + 1);
            BTreeSet::from([changing])
        })
        .await;
        assert_eq!(looks, 1 + MOST_LOOKS);
    }
}
