//! What calls use.
//!
//! Asking the kernel goes through the launcher and costs more than a short call does. So it is asked after calls that took long
//! ([`LONG`]) and after every [`EVERY`]th short one; a short call in between is reported with the average of the short calls before it.

use std::time::{Duration, Instant};

use flint_model::{ByteSize, Usage};
use flint_sandbox::Sandbox;

/// A call from this length on is measured by itself.
const LONG: Duration = Duration::from_millis(5);
/// Short calls between two measurements.
const EVERY: u32 = 256;
/// The launcher may be busy making sandboxes; an answer does not wait long for a figure.
const PATIENCE: Duration = Duration::from_millis(5);

/// One instance's account.
#[derive(Debug, Default)]
pub struct Meter {
    cpu_us: u64,
    peak: Option<ByteSize>,
    /// Short calls since the last measurement.
    unmeasured: u32,
    /// Their cost, as known from the last measurement that had only such.
    average_us: Option<u64>,
    /// The host has no figures.
    blind: bool,
}

impl Meter {
    /// Takes what was used so far off the account of the calls to come.
    pub async fn reset(&mut self, sandbox: &Sandbox) {
        if let Some(usage) = self.ask(sandbox).await {
            self.cpu_us = usage.cpu_us;
        }
    }

    /// What the call that began at `began` and has just ended used.
    pub async fn after_call(&mut self, sandbox: &Sandbox, began: Instant) -> Usage {
        let long = began.elapsed() >= LONG;
        self.unmeasured += 1;
        let due = long || self.unmeasured >= EVERY;
        if self.blind || !due {
            return Usage { cpu_us: self.average_us, memory_peak: self.peak };
        }
        let Some(usage) = self.ask(sandbox).await else {
            return Usage { cpu_us: self.average_us, memory_peak: self.peak };
        };
        let used = usage.cpu_us.saturating_sub(self.cpu_us);
        let short_ones = u64::from(self.unmeasured - 1);
        let cpu_us = if long {
            used.saturating_sub(short_ones * self.average_us.unwrap_or_default())
        } else {
            let average = used / u64::from(self.unmeasured);
            self.average_us = Some(average);
            average
        };
        (self.cpu_us, self.unmeasured) = (usage.cpu_us, 0);
        Usage { cpu_us: Some(cpu_us), memory_peak: self.peak }
    }

    async fn ask(&mut self, sandbox: &Sandbox) -> Option<flint_sandbox::Usage> {
        let usage = match tokio::time::timeout(PATIENCE, sandbox.usage()).await.ok()? {
            Ok(usage) => usage,
            // It has ended, and its last figures are with its end.
            Err(_) => tokio::time::timeout(PATIENCE, sandbox.wait()).await.ok()?.usage,
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
    let known = |figure: u64| (figure > 0).then_some(figure);
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
