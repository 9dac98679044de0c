//! Background sandboxes, which get the CPU only while no other sandbox wants it.

use std::time::{Duration, Instant};

use super::{Launcher, Live};

/// How often the background is checked for sandboxes that have been in it for long enough.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The sandboxes in the background, and the latest moment at which each leaves it.
#[derive(Default)]
pub(super) struct Background(Vec<(Instant, u64)>);

impl Background {
    /// Puts a sandbox with [`crate::SandboxSpec::background`] into the background, now that its program runs.
    /// Not earlier: during set-up it holds locks of the host's kernel that others would wait for.
    pub(super) fn recede(&mut self, sid: u64, live: &Live) {
        if let (Some(longest), Some(leaf)) = (live.background, &live.slot.leaf) {
            leaf.set_idle(true);
            self.0.push((Instant::now() + longest, sid));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn forget(&mut self, sid: u64) -> bool {
        let known = self.0.len();
        self.0.retain(|(_, other)| *other != sid);
        self.0.len() < known
    }

    fn late(&self) -> Vec<u64> {
        let now = Instant::now();
        self.0.iter().filter(|(latest, _)| *latest <= now).map(|(_, sid)| *sid).collect()
    }
}

impl Launcher {
    /// Takes a sandbox out of the background, if it is in it: somebody waits for it.
    pub(super) fn come_forward(&mut self, sid: u64) {
        if self.background.forget(sid)
            && let Some(leaf) = self.live.get(&sid).and_then(|live| live.slot.leaf.as_ref())
        {
            leaf.set_idle(false);
        }
    }

    /// Takes out the sandboxes whose time is up, since on a busy host they might never get the CPU.
    pub(super) fn check_background(&mut self) {
        for sid in self.background.late() {
            self.come_forward(sid);
        }
    }
}
