//! Sandboxes that nobody waits for.

use std::time::{Duration, Instant};

use super::{Launcher, Live};

/// How often is looked who has been in the background for long enough.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Those in the background, and when they come to the fore at the latest.
#[derive(Default)]
pub(super) struct Background(Vec<(Instant, u64)>);

impl Background {
    /// `live` runs its program from now on. If it is of the background it recedes only now: on the way here it held locks of the host's that others wait for.
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
    /// Somebody waits for it.
    pub(super) fn come_forward(&mut self, sid: u64) {
        if self.background.forget(sid)
            && let Some(leaf) = self.live.get(&sid).and_then(|live| live.slot.leaf.as_ref())
        {
            leaf.set_idle(false);
        }
    }

    /// Beside sandboxes that are busy all the time their turn comes, too.
    pub(super) fn check_background(&mut self) {
        for sid in self.background.late() {
            self.come_forward(sid);
        }
    }
}
