//! Clones forked ahead of need. The `fork` itself is cheap beside the page faults of a new process: a clone
//! that has taken them in a dummy call answers its first call several times faster.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use flint_runtimes::handler::Cell;
use tokio::{sync::Notify, time::timeout};

use crate::{demand::Demand, zygote::Zygote};

/// A clone that was taken is replaced after this delay, so as not to disturb the call that took it.
const REFILL_AFTER: Duration = Duration::from_millis(8);
/// How often the demand is reviewed when no call arrives.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long a fork may take before it is given up.
const FORK_WITHIN: Duration = Duration::from_secs(5);

/// The standby clones of one zygote.
#[derive(Default)]
pub(crate) struct Standbys {
    kept: Mutex<Kept>,
    changed: Arc<Notify>,
}

#[derive(Default)]
struct Kept {
    ready: VecDeque<Cell>,
    demand: Demand,
}

impl Standbys {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a call and takes a living clone, if there is one.
    pub(crate) fn take(&self, now: Instant) -> Option<Cell> {
        let mut kept = self.kept();
        kept.demand.arrived(now);
        let taken = loop {
            match kept.ready.pop_front() {
                Some(cell) if cell.sandbox.exited().is_some() => {}
                other => break other,
            }
        };
        self.changed.notify_one();
        taken
    }

    /// The clones' sandboxes.
    pub(crate) fn sandboxes(&self) -> Vec<Arc<flint_sandbox::Sandbox>> {
        self.kept().ready.iter().map(|cell| Arc::clone(&cell.sandbox)).collect()
    }

    /// How many clones wait for a call.
    pub(crate) fn ready(&self) -> usize {
        self.kept().ready.len()
    }

    /// Drops surplus clones; returns whether one is missing.
    fn balance(&self, most: usize, idle: Duration) -> bool {
        let mut kept = self.kept();
        let wanted = kept.demand.wanted(Instant::now(), most, idle);
        kept.ready.truncate(wanted);
        kept.ready.len() < wanted
    }
}

/// Keeps as many clones as the demand asks for, until the zygote has gone or ended.
pub(crate) async fn keep(zygote: Weak<Zygote>, most: usize, idle: Duration) {
    loop {
        // Only a weak reference is kept while waiting, so that a released zygote ends at once.
        let Some(changed) = zygote.upgrade().map(|strong| Arc::clone(&strong.standbys.changed)) else {
            return;
        };
        let _ = timeout(LOOK_EVERY, changed.notified()).await;
        tokio::time::sleep(REFILL_AFTER).await;
        loop {
            let Some(strong) = zygote.upgrade() else { return };
            if !strong.standbys.balance(most, idle) {
                break;
            }
            match strong.fork(true, Instant::now() + FORK_WITHIN, FORK_WITHIN).await {
                Ok(cell) => strong.standbys.kept().ready.push_back(cell),
                Err(error) => {
                    tracing::debug!(%error, "no standby clone");
                    if strong.has_ended() {
                        return;
                    }
                    break;
                }
            }
        }
    }
}
