//! Probes the speed of memory shared by the processors: neighbours that use the last-level cache and memory
//! bandwidth show neither in the processors' accounts nor in a computation within registers.

use std::{hint, sync::Barrier, thread, time::Instant};

use crate::Random;

/// Bytes of a cache line on the supported processors; with longer lines, a walk has some more hits.
const LINE: usize = 64;
/// Lines per walker, 12 MiB: more than a processor's private caches, and few enough pages to keep TLB misses
/// cheap.
const LINES: usize = (12 << 20) / LINE;
/// Maximum number of concurrent walkers.
const MOST_WALKERS: usize = 8;
/// Steps of one walk, about 15 ms on a quiet host.
const STEPS: usize = 96 << 10;

/// A chain of cache lines per usable processor. Created once, since that takes longer than a walk.
#[derive(Debug)]
pub(super) struct Memory(Vec<Chain>);

impl Memory {
    pub(super) fn new() -> Self {
        let walkers = thread::available_parallelism().map_or(1, usize::from).min(MOST_WALKERS);
        let seed = Random::new(0);
        Self((0..walkers as u64).map(|walker| Chain::new(LINES, seed.part(walker))).collect())
    }

    /// Walks on all processors concurrently; returns the seconds per step of each.
    pub(super) fn walk(&self) -> Vec<f64> {
        let together = Barrier::new(self.0.len());
        let walk = |chain: &Chain| {
            together.wait();
            chain.walk()
        };
        thread::scope(|scope| {
            let walkers: Vec<_> = self.0.iter().map(|chain| scope.spawn(move || walk(chain))).collect();
            walkers.into_iter().filter_map(|walker| walker.join().ok()).collect()
        })
    }
}

/// One cycle through all lines, in an order that no prefetcher predicts; the same in every run.
#[derive(Debug)]
struct Chain(Vec<Line>);

#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct Line {
    next: u32,
}

impl Chain {
    /// Sattolo's shuffle, which yields a single cycle.
    fn new(lines: usize, mut random: Random) -> Self {
        let mut chain: Vec<Line> = (0..lines as u32).map(|next| Line { next }).collect();
        for last in (1..lines).rev() {
            let other = random.below(last);
            let next = chain[last].next;
            chain[last].next = chain[other].next;
            chain[other].next = next;
        }
        Self(chain)
    }

    /// Seconds per step. All lines are read in order first, so that the cache use of an earlier measurement
    /// does not matter. Wall-clock time: a processor that the hypervisor gives to others counts as slow, too.
    fn walk(&self) -> f64 {
        hint::black_box(self.0.iter().fold(0, |sum: u32, line| sum.wrapping_add(line.next)));
        let mut at = 0;
        let begin = Instant::now();
        for _ in 0..STEPS {
            at = self.0[at as usize].next;
        }
        hint::black_box(at);
        begin.elapsed().as_secs_f64() / STEPS as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_comes_by_every_line_before_it_comes_back() {
        let chain = Chain::new(1000, Random::new(0));
        let (mut at, mut steps) = (chain.0[0].next, 1);
        while at != 0 {
            (at, steps) = (chain.0[at as usize].next, steps + 1);
        }
        assert_eq!(steps, 1000);
        // In an order that is not the memory's.
        let ahead = chain.0.iter().enumerate().filter(|(at, line)| line.next as usize == at + 1).count();
        assert!(ahead < 10, "{ahead}");
        assert_eq!(size_of::<Line>(), LINE);
    }

    #[test]
    fn every_processor_walks() {
        let memory = Memory::new();
        let walks = memory.walk();
        let processors = thread::available_parallelism().unwrap().get();
        assert_eq!(walks.len(), processors.min(MOST_WALKERS));
        assert!(walks.iter().all(|step| *step > 0.0), "{walks:?}");
    }
}
