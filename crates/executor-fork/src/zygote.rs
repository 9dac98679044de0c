//! A function that is loaded, warmed up and frozen, ready to be forked.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use flint_model::{ByteSize, Function};
use flint_runtimes::{
    handler::{Cell, Frozen, NotForked},
    process::meter::Siblings,
};
use flint_sandbox::{CellSpec, ResourceLimits};
use tokio::sync::Semaphore;

use crate::{
    ForkConfig,
    standby::{self, Standbys},
    tally::Tally,
};

/// Cells kept ready, so that a start need not wait for the launcher to make one.
const SPARE_PLACES: usize = 2;
/// A used cell is replaced after this delay, the last one at once.
const REPLACE_AFTER: Duration = Duration::from_millis(8);
/// Most forks under way.
const FORKS_AT_ONCE: usize = 64;

/// The zygote of a function. Each clone holds a handle; dropping the last handle ends the zygote.
pub(crate) struct Zygote {
    frozen: Frozen,
    pub(crate) standbys: Standbys,
    /// Whether it was warmed up as the function asks.
    pub(crate) thorough: bool,
    /// The combined usage of its clones.
    pub(crate) siblings: Arc<Siblings>,
    place: CellSpec,
    /// Limits forks under way: a zygote forks one clone at a time anyway, and each fork under way needs
    /// descriptors and a place in the zygote's process limit.
    turns: Semaphore,
    spare: Mutex<Vec<flint_sandbox::Cell>>,
    born: Instant,
    /// When a clone was last requested or called, in ms since `born`.
    used: AtomicU64,
    /// Cloned for each clone, and for each call that is about to have one.
    user: Arc<()>,
    /// Whether it must not be asked for clones any more.
    given_up: AtomicBool,
    /// What [`Self::memory`] gave last, in bytes; 0 before that.
    measured: AtomicU64,
}

impl Zygote {
    pub(crate) fn new(frozen: Frozen, function: &Function, thorough: bool, config: &ForkConfig) -> Arc<Self> {
        let limits = &function.limits;
        let place = CellSpec {
            id: function.path.to_string(),
            limits: ResourceLimits {
                memory_bytes: limits.memory.as_u64(),
                processes: limits.processes,
                cpu_millis: limits.cpu_millis,
                ..ResourceLimits::default()
            },
            tmp_bytes: limits.tmp.as_u64(),
        };
        let zygote = Arc::new(Self {
            frozen,
            standbys: Standbys::default(),
            thorough,
            siblings: Arc::default(),
            place,
            turns: Semaphore::new(FORKS_AT_ONCE),
            spare: Mutex::default(),
            born: Instant::now(),
            used: AtomicU64::new(0),
            user: Arc::default(),
            given_up: AtomicBool::new(false),
            measured: AtomicU64::new(0),
        });
        if config.standbys > 0 {
            let (most, idle) = (config.standbys, config.standby_idle);
            tokio::spawn(standby::keep(Arc::downgrade(&zygote), most, idle));
        }
        zygote
    }

    /// A clone for a call: one forked ahead, or a new one.
    pub(crate) async fn clone_for_call(
        self: &Arc<Self>,
        deadline: Instant,
        within: Duration,
        tally: &Tally,
    ) -> Result<Cell, NotForked> {
        self.called();
        match self.standbys.take(Instant::now()) {
            Some(cell) => {
                tally.from_standby.one();
                Ok(cell)
            }
            None => {
                // A new clone primes itself during its inspection by the launcher. In a burst there is no
                // time for that.
                let alone = self.turns.available_permits() == FORKS_AT_ONCE;
                let cell = self.fork(alone, deadline, within).await;
                if cell.is_ok() {
                    tally.forked.one();
                }
                self.replace_places();
                cell
            }
        }
    }

    /// Forks a new clone, if its turn comes by the deadline and the zygote was not given up before. From then
    /// on, the zygote has that much time.
    pub(crate) async fn fork(
        &self,
        prime: bool,
        deadline: Instant,
        within: Duration,
    ) -> Result<Cell, NotForked> {
        let turn = tokio::time::timeout_at(deadline.into(), self.turns.acquire()).await;
        // Not the zygote's fault: it may be forking all the time.
        let _turn = turn.map_err(|_| {
            NotForked::Platform(format!(
                "{FORKS_AT_ONCE} other clones were being forked all the time: the host is overloaded"
            ))
        })?;
        // While the turn was waited for, the forks before may have shown that it does not answer.
        if self.given_up.load(Ordering::Relaxed) {
            return Err(NotForked::Ended);
        }
        let spare = self.spare().pop();
        let place = match spare {
            Some(place) => place,
            None => self.new_place().await?,
        };
        self.frozen.fork(place, prime, Instant::now() + within).await
    }

    async fn new_place(&self) -> Result<flint_sandbox::Cell, NotForked> {
        self.frozen.sandbox().cell(&self.place).await.map_err(|error| match error {
            flint_sandbox::Error::Ended { .. } => NotForked::Ended,
            other => NotForked::Platform(other.to_string()),
        })
    }

    fn replace_places(self: &Arc<Self>) {
        let zygote = Arc::downgrade(self);
        let at_once = self.spare().is_empty();
        tokio::spawn(async move {
            if !at_once {
                tokio::time::sleep(REPLACE_AFTER).await;
            }
            while let Some(zygote) = zygote.upgrade()
                && zygote.spare().len() < SPARE_PLACES
            {
                let Ok(place) = zygote.new_place().await else { return };
                let mut spare = zygote.spare();
                // Each fork of a burst makes some.
                if spare.len() < SPARE_PLACES {
                    spare.push(place);
                }
            }
        });
    }

    fn spare(&self) -> MutexGuard<'_, Vec<flint_sandbox::Cell>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn age_ms(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.born).as_millis().try_into().unwrap_or(u64::MAX)
    }

    /// Records that a clone was requested or called.
    pub(crate) fn called(&self) {
        self.used.store(self.age_ms(Instant::now()), Ordering::Relaxed);
    }

    /// The time since a clone was last requested or called.
    pub(crate) fn idle(&self) -> Duration {
        let now = self.age_ms(Instant::now());
        Duration::from_millis(now.saturating_sub(self.used.load(Ordering::Relaxed)))
    }

    /// A token that marks the zygote as in use while it is held.
    pub(crate) fn user(&self) -> Arc<()> {
        Arc::clone(&self.user)
    }

    pub(crate) fn is_unused(&self) -> bool {
        Arc::strong_count(&self.user) == 1
    }

    /// Stops requests for further clones; existing ones go on.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Whether it may be asked for a clone.
    pub(crate) fn is_forkable(&self) -> bool {
        !self.has_ended() && !self.given_up.load(Ordering::Relaxed)
    }

    /// Whether the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.frozen.sandbox().exited().is_some()
    }

    /// What the launcher found in it while nobody forked it, and ended it for.
    pub(crate) fn tampered(&self) -> Option<String> {
        self.frozen.sandbox().exited()?.tampered
    }

    /// Kills it with all its clones.
    pub(crate) fn kill(&self) {
        self.frozen.sandbox().kill();
    }

    /// Resolves when nothing of it is left.
    pub(crate) async fn ended(&self) {
        self.frozen.sandbox().wait().await;
    }

    /// Measures the memory of it and its standby clones, with a question to the launcher for each.
    pub(crate) async fn memory(&self) -> ByteSize {
        let mut bytes = self.frozen.sandbox().usage().await.map_or(0, |usage| usage.memory_bytes);
        for sandbox in self.standbys.sandboxes() {
            bytes += sandbox.usage().await.map_or(0, |usage| usage.memory_bytes);
        }
        self.measured.store(bytes, Ordering::Relaxed);
        ByteSize::bytes(bytes)
    }

    /// The memory as last measured; it is measured now if it never was.
    pub(crate) async fn known_memory(&self) -> ByteSize {
        match self.measured.load(Ordering::Relaxed) {
            0 => self.memory().await,
            bytes => ByteSize::bytes(bytes),
        }
    }
}
