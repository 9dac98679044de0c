//! Measures a guest's CPU time without asking the kernel at each call: reading a thread's CPU clock costs a
//! tenth of a small call, and takes a lock that the scheduler needs too.
//!
//! A short stretch of work cannot have been interrupted for long, so its wall-clock time counts. For a longer
//! one the kernel is asked what the thread has used since the previous reading, which was at most [`FRESH`]
//! before the stretch began.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

/// Stretches shorter than this count with their wall-clock time.
const SHORT: Duration = Duration::from_micros(100);
/// Most age of the thread's previous reading.
const FRESH: Duration = Duration::from_millis(1);

thread_local! {
    /// The time and the result of the previous reading.
    static LAST: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
}

/// A stretch of work on the calling thread.
pub(crate) struct Stretch {
    began: Instant,
    /// The thread's CPU time, read at most [`FRESH`] before.
    before: Duration,
}

impl Stretch {
    pub(crate) fn begin() -> Self {
        let began = Instant::now();
        let before = match LAST.get() {
            Some((at, used)) if began.duration_since(at) < FRESH => used,
            _ => ask(began),
        };
        Self { began, before }
    }

    /// The CPU time of the stretch: never too low, and at most [`SHORT`] or [`FRESH`] too high.
    pub(crate) fn end(self) -> Duration {
        let now = Instant::now();
        let took = now.duration_since(self.began);
        if took < SHORT {
            return took;
        }
        took.min(ask(now).saturating_sub(self.before))
    }
}

fn ask(now: Instant) -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    let used = Duration::new(used.tv_sec as u64, used.tv_nsec as u32);
    LAST.set(Some((now, used)));
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_not_work_and_work_is() {
        let stretch = Stretch::begin();
        std::thread::sleep(Duration::from_millis(50));
        let waited = stretch.end();
        assert!(waited < Duration::from_millis(40), "{waited:?}");

        let stretch = Stretch::begin();
        let before = clock_gettime(ClockId::ThreadCPUTime);
        let mut sum = 0u64;
        let worked = loop {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
            let now = clock_gettime(ClockId::ThreadCPUTime);
            let nanos = (now.tv_sec - before.tv_sec) * 1_000_000_000 + (now.tv_nsec - before.tv_nsec);
            if nanos > 5_000_000 {
                break Duration::from_nanos(nanos as u64);
            }
        };
        let told = stretch.end();
        // The two clocks are adjusted independently.
        assert!(told + SHORT >= worked, "{told:?} of {worked:?}");
    }
}
