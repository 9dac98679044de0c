//! The memory of all instances together, or of one namespace's.
//!
//! Engines would contend for one counter, which every call changes several times. So each has its own, and a
//! part of the budget that nobody else can take. Only who takes more adds up what all have.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A quarter of the budget is divided between the engines.
const CERTAIN_SHARE: usize = 4;

/// Memory of which so much may be taken, on all engines together.
#[derive(Debug)]
pub(crate) struct Budget {
    all: usize,
    /// What each engine has for certain.
    certain: usize,
    taken: Box<[Taken]>,
}

/// By the instances of one engine, in bytes.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Taken(AtomicUsize);

impl Budget {
    pub(crate) fn new(all: usize, engines: usize) -> Self {
        let taken = (0..engines).map(|_| Taken::default()).collect();
        Self { all, certain: all / CERTAIN_SHARE / engines.max(1), taken }
    }

    /// Takes memory for an instance of this engine, if there is any.
    pub(crate) fn take(&self, engine: usize, bytes: usize) -> bool {
        if bytes > self.all {
            return false;
        }
        let own = &self.taken[engine].0;
        if own.fetch_add(bytes, SeqCst) + bytes <= self.certain {
            return true;
        }
        // Of two who take the last at once, the later one at least sees both.
        let of_all: usize = self.taken.iter().map(|taken| taken.0.load(SeqCst).max(self.certain)).sum();
        if of_all > self.all {
            self.give_back(engine, bytes);
            return false;
        }
        true
    }

    pub(crate) fn give_back(&self, engine: usize, bytes: usize) {
        self.taken[engine].0.fetch_sub(bytes, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_engines_together_have_the_budget_and_each_its_part() {
        let budget = Budget::new(800, 2);
        // 100 stay for the other one.
        assert!(budget.take(0, 700) && !budget.take(0, 1));
        assert!(budget.take(1, 100) && !budget.take(1, 1));
        budget.give_back(0, 300);
        assert!(budget.take(1, 300) && !budget.take(1, 1) && !budget.take(0, 1));
        assert!(!budget.take(0, usize::MAX));
        assert!(Budget::new(usize::MAX, 17).take(16, usize::MAX / 100));
    }

    #[test]
    fn who_takes_at_once_does_not_get_more_than_there_is() {
        let budget = Budget::new(4000, 4);
        std::thread::scope(|scope| {
            let counts: Vec<_> = (0..4)
                .map(|engine| {
                    let budget = &budget;
                    scope.spawn(move || (0..4000).filter(|_| budget.take(engine, 1)).count())
                })
                .collect();
            let counts: Vec<_> = counts.into_iter().map(|count| count.join().unwrap()).collect();
            assert!(
                counts.iter().sum::<usize>() <= 4000 && counts.iter().all(|count| *count >= 250),
                "{counts:?}"
            );
        });
    }
}
