//! Resources used by a process and its descendants, from /proc.

use std::{collections::HashMap, fs};

/// A process with its descendants.
#[derive(Clone, Copy, Debug)]
pub struct ProcessTree {
    root: u32,
}

/// Memory of a process tree in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TreeMemory {
    /// Resident; shared pages count in each process.
    pub rss: u64,
    /// Resident; shared pages are divided among the processes that share them.
    pub pss: u64,
    /// Resident and not shared.
    pub private: u64,
}

impl TreeMemory {
    /// The growth since `before`.
    #[must_use]
    pub const fn grown_from(self, before: Self) -> Self {
        Self {
            rss: self.rss.saturating_sub(before.rss),
            pss: self.pss.saturating_sub(before.pss),
            private: self.private.saturating_sub(before.private),
        }
    }
}

impl ProcessTree {
    /// The tree under `root`.
    pub const fn new(root: u32) -> Self {
        Self { root }
    }

    /// The process ids of the tree at present.
    pub fn pids(&self) -> Vec<u32> {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for pid in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = pid.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if let Some(parent) = parent_of(pid) {
                children.entry(parent).or_default().push(pid);
            }
        }
        let (mut tree, mut at) = (vec![self.root], 0);
        while at < tree.len() {
            tree.extend(children.remove(&tree[at]).unwrap_or_default());
            at += 1;
        }
        tree
    }

    /// Memory of the root process alone.
    pub fn root_memory(&self) -> TreeMemory {
        memory_of(self.root)
    }

    /// Memory of the whole tree.
    pub fn memory(&self) -> TreeMemory {
        self.pids().into_iter().map(memory_of).sum()
    }

    /// CPU time, user and system, of the whole tree, including children waited for, in µs; in steps of a
    /// clock tick, 10 ms on usual kernels.
    pub fn cpu_us(&self) -> u64 {
        self.pids().into_iter().filter_map(cpu_ticks).sum::<u64>() * US_PER_TICK
    }
}

impl std::iter::Sum for TreeMemory {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |sum, one| Self {
            rss: sum.rss + one.rss,
            pss: sum.pss + one.pss,
            private: sum.private + one.private,
        })
    }
}

/// CPU time of the process `pid` alone, user and system, in µs.
pub fn process_cpu_us(pid: u32) -> u64 {
    let fields = stat(pid).unwrap_or_default();
    (11..=12).filter_map(|at| fields.get(at)?.parse::<u64>().ok()).sum::<u64>() * US_PER_TICK
}

/// CPU time of all processors of the machine, in µs, including that of processes whose time is reported to
/// nobody, such as those that end without being waited for.
pub fn machine_cpu_us() -> u64 {
    busy_ticks(&fs::read_to_string("/proc/stat").unwrap_or_default()) * US_PER_TICK
}

/// user, nice, system, irq and softirq of the first line, without idle, iowait and steal.
fn busy_ticks(stat: &str) -> u64 {
    let fields: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|field| field.parse().ok())
        .collect();
    [0, 1, 2, 5, 6].iter().filter_map(|&at| fields.get(at)).sum()
}

/// USER_HZ has been 100 on every Linux architecture that Flint runs on.
const US_PER_TICK: u64 = 10_000;

/// The fields of /proc/PID/stat after the command's name, which may itself contain spaces and parentheses.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

/// The parent of `pid`, possibly after reparenting.
pub fn parent_of(pid: u32) -> Option<u32> {
    stat(pid)?.get(1)?.parse().ok()
}

fn cpu_ticks(pid: u32) -> Option<u64> {
    let fields = stat(pid)?;
    (11..=14).map(|at| fields.get(at)?.parse::<u64>().ok()).sum()
}

/// Memory of one process; zero if it has ended or is inaccessible.
pub fn memory_of(pid: u32) -> TreeMemory {
    // A process that has just ended uses nothing.
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let kib = |name: &str| -> u64 {
        text.lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(|rest| rest.trim_start_matches(':').trim().trim_end_matches(" kB").parse().ok())
            .unwrap_or(0)
    };
    TreeMemory {
        rss: kib("Rss") * 1024,
        pss: kib("Pss") * 1024,
        private: (kib("Private_Clean") + kib("Private_Dirty")) * 1024,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_what_is_neither_idle_nor_stolen() {
        assert_eq!(busy_ticks("cpu  1 20 300 4000 50000 600000 7000000 80000000 0 0\ncpu0 9 9 9"), 7_600_321);
        assert_eq!(busy_ticks(""), 0);
    }

    #[test]
    fn a_tree_includes_its_children_and_their_memory() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let tree = ProcessTree::new(std::process::id());
        let pids = tree.pids();
        let (whole, alone) = (tree.memory(), tree.root_memory());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(pids.contains(&child.id()));
        assert!(alone.rss > 0 && whole.rss > 0 && alone.pss <= alone.rss);
    }
}
