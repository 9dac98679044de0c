//! Measures the resource usage of calls.
//!
//! Asking the kernel goes through the launcher and costs more than a short call. So usage is read after calls
//! of some length ([`LONG`]) and after every [`EVERY`]th short one; the short calls in between are reported
//! with the average of earlier short calls. As long as there is no average, a few short calls are measured
//! too ([`TRIES`]). A clone may serve only one call; its usage is known when it has ended, and counts as an
//! estimate for later clones ([`Siblings`]).

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use flint_model::{ByteSize, Usage};
use flint_sandbox::Sandbox;

/// A call at least this long is measured individually.
const LONG: Duration = Duration::from_millis(5);
/// One of so many short calls is measured.
const EVERY: u32 = 256;
/// How many short calls wait for a measurement while there is no average. The first call of an instance may
/// include costs of its start, so its figure does not count as the average, and some measurements may come
/// too late.
const TRIES: u32 = 4;
/// How long an answer waits for its figures. The launcher may be busy making sandboxes.
const PATIENCE: Duration = Duration::from_millis(5);
/// The same for a short call: the shortest time that the timer can resolve.
const BRIEFLY: Duration = Duration::from_millis(1);

/// The weight of the newest sibling, as a negative power of two.
const NEWEST: u32 = 2;

/// Average usage per call of the clones of one snapshot.
#[derive(Debug, Default)]
pub struct Siblings {
    cpu_us: AtomicU64,
    peak: AtomicU64,
}

impl Siblings {
    /// Adds a clone that ended after this many calls.
    pub fn ended(&self, exit: &flint_sandbox::Exit, calls: u64) {
        if let Some(each) = exit.usage.cpu_us.checked_div(calls) {
            mix(&self.cpu_us, each);
            mix(&self.peak, exit.usage.memory_peak_bytes);
        }
    }

    fn cpu_us(&self) -> Option<u64> {
        known(self.cpu_us.load(Ordering::Relaxed))
    }

    fn peak(&self) -> Option<ByteSize> {
        known(self.peak.load(Ordering::Relaxed)).map(ByteSize::bytes)
    }
}

/// A moving average that starts with the first figure. Concurrent updates may lose one of many figures, which
/// does no harm.
fn mix(average: &AtomicU64, newest: u64) {
    let before = average.load(Ordering::Relaxed);
    let after = if before == 0 { newest } else { before - (before >> NEWEST) + (newest >> NEWEST) };
    average.store(after, Ordering::Relaxed);
}

/// A host without the cgroup reports zero.
fn known(figure: u64) -> Option<u64> {
    (figure > 0).then_some(figure)
}

/// The account of one instance.
#[derive(Debug, Default)]
pub struct Meter {
    siblings: Option<Arc<Siblings>>,
    cpu_us: u64,
    peak: Option<ByteSize>,
    /// Whether a call has ended.
    served: bool,
    /// How many short calls were measured for want of an average.
    tries: u32,
    /// Short calls since the last measurement.
    unmeasured: u32,
    /// Their average CPU time, from the last measurement that covered short calls only.
    average_us: Option<u64>,
    /// Whether this host has no figures.
    blind: bool,
}

impl Meter {
    /// For a clone: its siblings' figures serve as estimates.
    pub fn compare(&mut self, siblings: Arc<Siblings>) {
        self.siblings = Some(siblings);
    }

    /// Excludes the usage so far from the calls to come.
    pub async fn reset(&mut self, sandbox: &Sandbox) {
        if let Some(usage) = self.ask(sandbox, PATIENCE).await {
            self.cpu_us = usage.cpu_us;
        }
    }

    /// The usage of the call that began at `began` and has just ended.
    pub async fn after_call(&mut self, sandbox: &Sandbox, began: Instant) -> Usage {
        let long = began.elapsed() >= LONG;
        let is_first = !mem::replace(&mut self.served, true);
        self.unmeasured += 1;
        let Some(patience) = self.patience(long) else { return self.estimate() };
        let Some(usage) = self.ask(sandbox, patience).await else { return self.estimate() };
        let used = usage.cpu_us.saturating_sub(self.cpu_us);
        let short_ones = u64::from(self.unmeasured - 1);
        let cpu_us = if long {
            used.saturating_sub(short_ones * self.average_us.unwrap_or_default())
        } else {
            let average = used / u64::from(self.unmeasured);
            if !is_first {
                self.average_us = Some(average);
            }
            average
        };
        (self.cpu_us, self.unmeasured) = (usage.cpu_us, 0);
        Usage { cpu_us: Some(cpu_us), memory_peak: self.peak }
    }

    /// How long the call that has just ended may wait for its figures; `None` if it is not measured.
    fn patience(&mut self, long: bool) -> Option<Duration> {
        if self.blind {
            return None;
        }
        if long || self.unmeasured >= EVERY {
            return Some(PATIENCE);
        }
        let unknown = self.tries < TRIES && self.estimate().cpu_us.is_none();
        self.tries += u32::from(unknown);
        unknown.then_some(BRIEFLY)
    }

    /// The estimated usage of a call that was not measured.
    fn estimate(&self) -> Usage {
        let siblings = self.siblings.as_deref();
        Usage {
            cpu_us: self.average_us.or_else(|| siblings?.cpu_us()),
            memory_peak: self.peak.or_else(|| siblings?.peak()),
        }
    }

    async fn ask(&mut self, sandbox: &Sandbox, patience: Duration) -> Option<flint_sandbox::Usage> {
        let usage = match tokio::time::timeout(patience, sandbox.spent()).await.ok()? {
            Ok(usage) => usage,
            // It has ended; its exit contains the final figures.
            Err(_) => tokio::time::timeout(patience, sandbox.wait()).await.ok()?.usage,
        };
        // A host without the cgroups reports zero.
        self.blind = usage.cpu_us == 0 && usage.memory_peak_bytes == 0;
        if usage.memory_peak_bytes > 0 {
            self.peak = Some(ByteSize::bytes(usage.memory_peak_bytes));
        }
        (!self.blind).then_some(usage)
    }
}

/// The usage of a sandbox that has ended.
pub fn of_exit(exit: &flint_sandbox::Exit) -> Usage {
    Usage {
        cpu_us: known(exit.usage.cpu_us),
        memory_peak: known(exit.usage.memory_peak_bytes).map(ByteSize::bytes),
    }
}

/// Memory in use; `None` where the host cannot tell.
pub async fn memory(sandbox: &Sandbox) -> Option<ByteSize> {
    let usage = sandbox.usage().await.ok()?;
    (usage.memory_bytes > 0).then(|| ByteSize::bytes(usage.memory_bytes))
}

/// The usage of a sandbox that was killed, if it ends at once.
pub async fn of_ended(sandbox: &Sandbox) -> Usage {
    tokio::time::timeout(PATIENCE, sandbox.wait())
        .await
        .map_or_else(|_| Usage::default(), |exit| of_exit(&exit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(cpu_us: u64) -> flint_sandbox::Exit {
        let usage = flint_sandbox::Usage { cpu_us, memory_peak_bytes: 1 << 20, ..Default::default() };
        let status = flint_sandbox::ExitStatus::Code(0);
        flint_sandbox::Exit::new(status, usage)
    }

    #[test]
    fn a_clone_is_reported_with_what_its_siblings_used_a_call() {
        let siblings = Arc::<Siblings>::default();
        let mut meter = Meter::default();
        meter.compare(Arc::clone(&siblings));
        assert_eq!(meter.estimate(), Usage::default());
        siblings.ended(&ended(7000), 0);
        assert_eq!(meter.estimate(), Usage::default(), "one that served no call says nothing");
        siblings.ended(&ended(8000), 2);
        assert_eq!(meter.estimate(), Usage { cpu_us: Some(4000), memory_peak: Some(ByteSize::mib(1)) });
        siblings.ended(&ended(8000), 1);
        assert_eq!(meter.estimate().cpu_us, Some(5000));
        meter.average_us = Some(300);
        assert_eq!(meter.estimate().cpu_us, Some(300), "its own calls are worth more");
    }

    #[test]
    fn a_short_call_waits_for_a_measurement_only_where_nothing_stands_for_it() {
        let mut meter = Meter::default();
        // Long calls are measured anyway, and tell nothing about short ones.
        for _ in 0..2 * TRIES {
            assert_eq!(meter.patience(true), Some(PATIENCE));
        }
        for _ in 0..TRIES {
            assert_eq!(meter.patience(false), Some(BRIEFLY));
        }
        assert_eq!(meter.patience(false), None, "the figures came too late each time");
        meter.unmeasured = EVERY;
        assert_eq!(meter.patience(false), Some(PATIENCE));

        let mut known = Meter { average_us: Some(300), ..Meter::default() };
        assert_eq!(known.patience(false), None);

        let siblings = Arc::<Siblings>::default();
        siblings.ended(&ended(8000), 1);
        let mut clone = Meter { siblings: Some(siblings), ..Meter::default() };
        assert_eq!(clone.patience(false), None, "its siblings' figures stand for it");

        let mut blind = Meter { blind: true, ..Meter::default() };
        assert_eq!(blind.patience(true), None);
    }
}
