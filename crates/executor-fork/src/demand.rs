//! How many clones to fork ahead, derived from how often a function is called.
//!
//! One that is called now and then has one: its clone is forked after the call before rather than in the call, and
//! costs no more than its memory meanwhile. A busy one has as many as there are calls while a clone is forked.

use std::time::{Duration, Instant};

/// About how long a fork takes, which a clone forked ahead saves its call: as many are wanted as calls arrive
/// in that time.
const LEAD: Duration = Duration::from_millis(20);
/// A function without a call for this long is not busy: its rhythm says nothing any more.
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

    /// How many clones to keep ready, at most `most`; none once no call has come for `idle`.
    pub(crate) fn wanted(&self, now: Instant, most: usize, idle: Duration) -> usize {
        let (Some(last), Some(gap)) = (self.last, self.gap) else { return 0 };
        let silence = now.saturating_duration_since(last);
        if silence >= idle || gap >= idle.as_secs_f64() {
            return 0;
        }
        let busy = if silence < QUIET { (LEAD.as_secs_f64() / gap.max(1e-6)).ceil() as usize } else { 1 };
        busy.max(1).min(most)
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

    const IDLE: Duration = Duration::from_secs(600);

    #[test]
    fn a_single_call_is_no_rhythm() {
        let (demand, now) = called_every(Duration::from_millis(30), 1);
        assert_eq!(demand.wanted(now, 4, IDLE), 0);
    }

    #[test]
    fn a_busy_function_has_one_and_a_very_busy_one_more() {
        for (gap, wanted) in [(30, 1), (10, 2), (1, 4)] {
            let (demand, now) = called_every(Duration::from_millis(gap), 50);
            assert_eq!(demand.wanted(now, 4, IDLE), wanted, "every {gap} ms");
        }
    }

    #[test]
    fn one_that_is_called_now_and_then_has_one_and_one_that_is_called_less_often_has_none() {
        let (demand, now) = called_every(IDLE / 2, 3);
        assert_eq!(demand.wanted(now, 4, IDLE), 1);
        let (demand, now) = called_every(IDLE, 3);
        assert_eq!(demand.wanted(now, 4, IDLE), 0);
    }

    #[test]
    fn after_a_pause_the_new_rhythm_counts_at_once() {
        let (mut demand, last) = called_every(Duration::from_millis(1), 50);
        let back = last + IDLE / 2;
        demand.arrived(back);
        assert_eq!(demand.wanted(back, 4, IDLE), 1, "it is not busy yet");
        let now = back + Duration::from_millis(10);
        demand.arrived(now);
        assert_eq!(demand.wanted(now, 4, IDLE), 2);
    }

    #[test]
    fn one_that_has_gone_quiet_keeps_one_for_a_while_and_the_operator_may_forbid_it() {
        let (demand, now) = called_every(Duration::from_millis(1), 50);
        assert_eq!(demand.wanted(now + QUIET, 4, IDLE), 1);
        assert_eq!(demand.wanted(now + IDLE, 4, IDLE), 0);
        assert_eq!(demand.wanted(now, 4, Duration::ZERO), 0);
        assert_eq!(demand.wanted(now, 0, IDLE), 0);
    }
}
