//! What calls use.
//!
//! Asking the kernel goes through the launcher and costs more than a short call does. So it is asked after calls that took long
//! ([`LONG`]) and after every [`EVERY`]th short one; a short call in between is reported with the average of the short calls before it.
//! As long as there is no average, short calls are measured themselves ([`TRIES`]).
//! A clone may serve no second call. What it has used is told with its end, and is the figure of its later siblings ([`Siblings`]).

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

/// A call from this length on is measured by itself.
const LONG: Duration = Duration::from_millis(5);
/// Short calls between two measurements.
const EVERY: u32 = 256;
/// Measurements that short calls may wait for as long as there is no average. The first call of an instance may have paid for its start, so it takes
/// another to know what stands for the others; and some may come too late.
const TRIES: u32 = 4;
/// The launcher may be busy making sandboxes; an answer does not wait long for a figure.
const PATIENCE: Duration = Duration::from_millis(5);
/// That of a short call, even less: as long as the timer can tell.
const BRIEFLY: Duration = Duration::from_millis(1);

/// How much the newest sibling counts, as a power of a half.
const NEWEST: u32 = 2;

/// What clones of one snapshot have used, a call on average.
#[derive(Debug, Default)]
pub struct Siblings {
    cpu_us: AtomicU64,
    peak: AtomicU64,
}

impl Siblings {
    /// One has ended after so many calls.
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

/// A moving average that begins with the first figure. Two that end at once may overwrite each other, which only loses one figure of many.
fn mix(average: &AtomicU64, newest: u64) {
    let before = average.load(Ordering::Relaxed);
    let after = if before == 0 { newest } else { before - (before >> NEWEST) + (newest >> NEWEST) };
    average.store(after, Ordering::Relaxed);
}

/// Zero is what a host without these cgroups says.
fn known(figure: u64) -> Option<u64> {
    (figure > 0).then_some(figure)
}

/// One instance's account.
#[derive(Debug, Default)]
pub struct Meter {
    siblings: Option<Arc<Siblings>>,
    cpu_us: u64,
    peak: Option<ByteSize>,
    /// A call has ended.
    served: bool,
    /// How often the kernel was asked because there was no average.
    tries: u32,
    /// Short calls since the last measurement.
    unmeasured: u32,
    /// Their cost, as known from the last measurement that had only such.
    average_us: Option<u64>,
    /// The host has no figures.
    blind: bool,
}

impl Meter {
    /// For a clone: what its siblings have used stands for what is not measured.
    pub fn compare(&mut self, siblings: Arc<Siblings>) {
        self.siblings = Some(siblings);
    }

    /// Takes what was used so far off the account of the calls to come.
    pub async fn reset(&mut self, sandbox: &Sandbox) {
        if let Some(usage) = self.ask(sandbox, PATIENCE).await {
            self.cpu_us = usage.cpu_us;
        }
    }

    /// What the call that began at `began` and has just ended used.
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

    /// How long the call that has just ended may wait for its figures; `None` where it is not measured.
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

    /// What a call that was not measured is taken to have used.
    fn estimate(&self) -> Usage {
        let siblings = self.siblings.as_deref();
        Usage {
            cpu_us: self.average_us.or_else(|| siblings?.cpu_us()),
            memory_peak: self.peak.or_else(|| siblings?.peak()),
        }
    }

    async fn ask(&mut self, sandbox: &Sandbox, patience: Duration) -> Option<flint_sandbox::Usage> {
        let usage = match tokio::time::timeout(patience, sandbox.usage()).await.ok()? {
            Ok(usage) => usage,
            // It has ended, and its last figures are with its end.
            Err(_) => tokio::time::timeout(patience, sandbox.wait()).await.ok()?.usage,
        };
        // Zero is what a host without these cgroups says.
        self.blind = usage.cpu_us == 0 && usage.memory_bytes == 0;
        if usage.memory_peak_bytes > 0 {
            self.peak = Some(ByteSize::bytes(usage.memory_peak_bytes));
        }
        (!self.blind).then_some(usage)
    }
}

/// The figures of a sandbox that has ended.
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

/// The figures of a sandbox that was killed, when it ends at once.
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
        flint_sandbox::Exit { status: flint_sandbox::ExitStatus::Code(0), oom: false, usage, setup_us: 0 }
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
        // Long calls are measured anyway, and say nothing about short ones.
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
