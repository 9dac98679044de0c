//! When to make a snapshot again for a function that has none.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Making a warmed-up snapshot takes about as long as so many starts of a runtime, and each start without a
/// snapshot costs one, because the prewarmed runtime that it takes is replaced. Making the snapshot once that
/// much has been spent costs at most twice the optimum, whatever the pattern of calls (as in the ski rental
/// problem).
const STARTS: u32 = 6;

/// Counts starts without a snapshot in quick succession.
#[derive(Debug, Default)]
pub(crate) struct Worth(Mutex<Option<(Instant, u32)>>);

impl Worth {
    /// Counts a start. Returns whether a snapshot, which would be released after `idle`, is worth making now;
    /// if so the count starts again.
    pub(crate) fn is_reached(&self, now: Instant, idle: Duration) -> bool {
        let mut starts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = match *starts {
            Some((last, count)) if now.saturating_duration_since(last) < idle => count + 1,
            _ => 1,
        };
        let reached = count >= STARTS;
        *starts = (!reached).then_some((now, count));
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(10);

    #[test]
    fn starts_that_follow_each_other_are_worth_a_snapshot_and_then_count_anew() {
        let (worth, begin) = (Worth::default(), Instant::now());
        let reached = (1..=STARTS * 2).filter(|n| worth.is_reached(begin + IDLE / 2 * *n, IDLE));
        assert_eq!(reached.collect::<Vec<_>>(), [STARTS, STARTS * 2]);
    }

    #[test]
    fn rare_starts_are_not() {
        let (worth, begin) = (Worth::default(), Instant::now());
        assert!((0..20).all(|n| !worth.is_reached(begin + IDLE * n, IDLE)));
    }
}
