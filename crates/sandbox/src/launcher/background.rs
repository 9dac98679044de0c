//! Sandboxes that nobody waits for.

use std::time::Instant;

use super::Launcher;

impl Launcher {
    /// A sandbox runs its program. One of the background recedes only now: on the way here it held locks of the host's that others wait for.
    pub(super) fn recede(&mut self, sid: u64) {
        if let Some(live) = self.live.get(&sid)
            && let (Some(longest), Some(leaf)) = (live.background, &live.slot.leaf)
        {
            leaf.set_idle(true);
            self.background.push((Instant::now() + longest, sid));
        }
    }

    /// Somebody waits for it.
    pub(super) fn come_forward(&mut self, sid: u64) {
        let known = self.background.len();
        self.background.retain(|(_, other)| *other != sid);
        if self.background.len() < known
            && let Some(leaf) = self.live.get(&sid).and_then(|live| live.slot.leaf.as_ref())
        {
            leaf.set_idle(false);
        }
    }

    /// On a host that is busy all the time their turn comes, too.
    pub(super) fn check_background(&mut self) {
        let now = Instant::now();
        let late: Vec<u64> =
            self.background.iter().filter(|(latest, _)| *latest <= now).map(|(_, sid)| *sid).collect();
        for sid in late {
            self.come_forward(sid);
        }
    }
}
