//! When a function without a snapshot is worth one again.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Making a warmed-up snapshot takes about as much time as so many starts of a runtime, which is what each start without a snapshot costs in the end, because
/// the prewarmed runtime that served it is replaced. It is made when these have been paid for, so that no rhythm of calls costs more than twice what it had to.
const STARTS: u32 = 6;

/// Starts without a snapshot, one soon after the other.
#[derive(Debug, Default)]
pub(crate) struct Worth(Mutex<Option<(Instant, u32)>>);

impl Worth {
    /// There was another one. Whether a snapshot that is let go after `idle` is worth its making now; the count begins anew then.
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
