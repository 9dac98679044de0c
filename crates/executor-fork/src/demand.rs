//! How many clones to fork ahead, derived from how often a function is called.

use std::time::{Duration, Instant};

/// About how long a fork takes, which a clone forked ahead saves its call: as many are wanted as calls arrive
/// in that time.
const LEAD: Duration = Duration::from_millis(20);
/// A function without a call for this long is not busy.
const QUIET: Duration = Duration::from_secs(10);
/// The weight of the newest gap in the moving average.
const WEIGHT: f64 = 0.2;

/// The arrivals of one function.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    last: Option<Instant>,
    /// The moving average of the time between two calls, in seconds; the length of a pause, after one.
    gap: Option<f64>,
}

impl Demand {
    /// Records a call.
    pub(crate) fn arrived(&mut self, now: Instant) {
        if let Some(last) = self.last {
            let gap = now.saturating_duration_since(last).as_secs_f64();
            self.gap = Some(match self.gap {
                // Neither the rate before a pause nor the pause says how often it is called now.
                Some(usual) if gap.max(usual) < QUIET.as_secs_f64() => usual + WEIGHT * (gap - usual),
                _ => gap,
            });
        }
        self.last = Some(now);
    }

    /// How many clones to keep ready.
    pub(crate) fn wanted(&self, now: Instant, most: usize) -> usize {
        let (Some(last), Some(gap)) = (self.last, self.gap) else { return 0 };
        let silence = now.saturating_duration_since(last);
        if silence >= QUIET || gap >= QUIET.as_secs_f64() {
            return 0;
        }
        ((LEAD.as_secs_f64() / gap.max(1e-6)).ceil() as usize).clamp(1, most.max(1)).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called_every(gap: Duration, times: u32) -> (Demand, Instant) {
        let (mut demand, begin) = (Demand::default(), Instant::now());
        for n in 0..times {
            demand.arrived(begin + gap * n);
        }
        (demand, begin + gap * (times - 1))
    }

    #[test]
    fn a_single_call_is_no_rhythm() {
        let (demand, now) = called_every(Duration::from_millis(30), 1);
        assert_eq!(demand.wanted(now, 4), 0);
    }

    #[test]
    fn a_busy_function_has_one_and_a_very_busy_one_more() {
        for (gap, wanted) in [(30, 1), (10, 2), (1, 4)] {
            let (demand, now) = called_every(Duration::from_millis(gap), 50);
            assert_eq!(demand.wanted(now, 4), wanted, "every {gap} ms");
        }
    }

    #[test]
    fn after_a_pause_the_new_rhythm_counts_at_once() {
        let (mut demand, last) = called_every(Duration::from_millis(30), 50);
        let back = last + Duration::from_secs(600);
        demand.arrived(back);
        assert_eq!(demand.wanted(back, 4), 0, "a single call is none");
        let now = back + Duration::from_millis(10);
        demand.arrived(now);
        assert_eq!(demand.wanted(now, 4), 2);
    }

    #[test]
    fn one_that_has_gone_quiet_has_none_and_the_operator_may_forbid_them() {
        let (demand, now) = called_every(Duration::from_millis(30), 50);
        assert_eq!(demand.wanted(now + QUIET, 4), 0);
        assert_eq!(demand.wanted(now, 0), 0);
    }
}
