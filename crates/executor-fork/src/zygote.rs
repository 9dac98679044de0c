//! A function, loaded, warmed up and frozen, ready to be forked.

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
    standby::{self, Standbys},
    tally::Tally,
};

/// Places for clones that are kept ready, so that a start need not wait for the launcher twice.
const SPARE_PLACES: usize = 2;
/// A place that was taken is replaced this much later, the last one at once.
const REPLACE_AFTER: Duration = Duration::from_millis(8);
/// The most forks under way.
const FORKS_AT_ONCE: usize = 64;

/// A snapshot of one function. Dropping the last handle ends it; its clones hold one each.
pub(crate) struct Zygote {
    frozen: Frozen,
    pub(crate) standbys: Standbys,
    /// It was warmed up as the function asks.
    pub(crate) thorough: bool,
    /// What its clones use.
    pub(crate) siblings: Arc<Siblings>,
    place: CellSpec,
    /// A burst is served in turns: a zygote forks one at a time anyway, and each fork under way needs descriptors and a process of the zygote's.
    turns: Semaphore,
    spare: Mutex<Vec<flint_sandbox::Cell>>,
    born: Instant,
    /// When it was last asked for a clone, or one of its clones was called, in ms after it was born.
    used: AtomicU64,
    /// Another one is held for each clone, and for each call that is about to have one.
    user: Arc<()>,
    /// It is not to be asked again.
    given_up: AtomicBool,
}

impl Zygote {
    pub(crate) fn new(frozen: Frozen, function: &Function, thorough: bool, standbys: usize) -> Arc<Self> {
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
        });
        if standbys > 0 {
            tokio::spawn(standby::keep(Arc::downgrade(&zygote), standbys));
        }
        zygote
    }

    /// A clone for a call: one forked ahead, or a new one.
    pub(crate) async fn clone_for_call(
        self: &Arc<Self>,
        deadline: Instant,
        tally: &Tally,
    ) -> Result<Cell, NotForked> {
        self.called();
        match self.standbys.take(Instant::now()) {
            Some(cell) => {
                tally.from_standby.one();
                Ok(cell)
            }
            None => {
                // A clone primes itself while it is looked at from outside. In a burst there is no such time to spare.
                let alone = self.turns.available_permits() == FORKS_AT_ONCE;
                let cell = self.fork(alone, deadline).await;
                if cell.is_ok() {
                    tally.forked.one();
                }
                self.replace_places();
                cell
            }
        }
    }

    /// A new clone.
    pub(crate) async fn fork(&self, prime: bool, deadline: Instant) -> Result<Cell, NotForked> {
        let turn = tokio::time::timeout_at(deadline.into(), self.turns.acquire()).await;
        let _turn = turn.map_err(|_| NotForked::Deadline)?;
        let spare = self.spare().pop();
        let place = match spare {
            Some(place) => place,
            None => self.new_place().await?,
        };
        self.frozen.fork(place, prime, deadline).await
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
                match zygote.new_place().await {
                    Ok(place) => zygote.spare().push(place),
                    Err(_) => return,
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

    /// Somebody asks for a clone, or calls one.
    pub(crate) fn called(&self) {
        self.used.store(self.age_ms(Instant::now()), Ordering::Relaxed);
    }

    /// Since when nobody has asked for a clone or called one.
    pub(crate) fn idle(&self) -> Duration {
        let now = self.age_ms(Instant::now());
        Duration::from_millis(now.saturating_sub(self.used.load(Ordering::Relaxed)))
    }

    /// Held by whoever has a clone of it, or is about to: it is in use so long.
    pub(crate) fn user(&self) -> Arc<()> {
        Arc::clone(&self.user)
    }

    pub(crate) fn is_unused(&self) -> bool {
        Arc::strong_count(&self.user) == 1
    }

    /// It is not to be asked again; its clones may go on.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Whether it may be asked for a clone.
    pub(crate) fn is_forkable(&self) -> bool {
        !self.has_ended() && !self.given_up.load(Ordering::Relaxed)
    }

    /// Whether it can be forked no more.
    pub(crate) fn has_ended(&self) -> bool {
        self.frozen.sandbox().exited().is_some()
    }

    /// Ends it at once, with all its clones.
    pub(crate) fn kill(&self) {
        self.frozen.sandbox().kill();
    }

    /// Returns when nothing of it is left.
    pub(crate) async fn ended(&self) {
        self.frozen.sandbox().wait().await;
    }

    /// What it and its standby clones use.
    pub(crate) async fn memory(&self) -> ByteSize {
        let mut bytes = self.frozen.sandbox().usage().await.map_or(0, |usage| usage.memory_bytes);
        for sandbox in self.standbys.sandboxes() {
            bytes += sandbox.usage().await.map_or(0, |usage| usage.memory_bytes);
        }
        ByteSize::bytes(bytes)
    }
}
