//! One revision of a function: its zygote now, and the next one.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use flint_executor::{BRING_UP, Fault, Instance, Progress, StartContext, link::Restore};
use flint_model::{ByteSize, Function, Reuse, SnapshotReport};
use flint_runtimes::{
    House,
    discover::Runtime,
    handler::{HandlerInstance, NotForked, NotFrozen},
    prepare::artefact::SharedArtefact,
    stems::Stems,
};
use tokio::{sync::Semaphore, task::JoinHandle};

use crate::{
    ForkConfig,
    growth::{Growth, Purpose},
    instance::Clone,
    tally::Tally,
    worth::Worth,
    zygote::Zygote,
};

/// A start is tried with so many zygotes: one may end in the very moment it is asked.
const ATTEMPTS: u32 = 3;
/// A time limit below this may be too short for a zygote to be made within it.
const SHORT: Duration = Duration::from_secs(10);
/// A function whose zygotes were tampered with so often is not frozen any more.
const TOLERATED: u32 = 3;

/// What all trees share.
pub(crate) struct Ground {
    pub(crate) house: Arc<House>,
    pub(crate) stems: Arc<Stems>,
    pub(crate) config: ForkConfig,
    pub(crate) tally: Tally,
    /// Turns of [`ForkConfig::made_at_once`].
    pub(crate) successions: Semaphore,
}

impl Ground {
    pub(crate) fn new(house: Arc<House>, stems: Arc<Stems>, config: ForkConfig) -> Self {
        let successions = Semaphore::new(config.made_at_once.get().min(Semaphore::MAX_PERMITS));
        Self { house, stems, config, tally: Tally::default(), successions }
    }
}

/// The zygotes of one revision.
#[derive(Default)]
struct Zygotes {
    /// The one that clones come from.
    serving: Option<Arc<Zygote>>,
    /// Those before it. One lives as long as clones of it do, which are its children, in its sandbox.
    former: Vec<Weak<Zygote>>,
}

impl Zygotes {
    /// All that live.
    fn all(&self) -> impl Iterator<Item = Arc<Zygote>> {
        // The latest first.
        self.serving.iter().cloned().chain(self.former.iter().rev().filter_map(Weak::upgrade))
    }

    /// The one that serves; where that can be forked no more, or there is none, the latest of those before it that can.
    fn forkable(&self) -> Option<Arc<Zygote>> {
        self.all().find(|zygote| zygote.is_forkable())
    }

    fn is_serving(&self, zygote: &Arc<Zygote>) -> bool {
        self.serving.as_ref().is_some_and(|serving| Arc::ptr_eq(serving, zygote))
    }

    /// From now on this one serves.
    fn serve(&mut self, zygote: Option<Arc<Zygote>>) {
        if let Some(former) = std::mem::replace(&mut self.serving, zygote) {
            self.former.push(Arc::downgrade(&former));
        }
        let Self { serving, former } = self;
        former.retain(|former| {
            former.strong_count() > 0
                && serving.as_ref().is_none_or(|serving| !std::ptr::eq(former.as_ptr(), Arc::as_ptr(serving)))
        });
    }
}

/// One revision of a function.
pub(crate) struct Tree {
    ground: Arc<Ground>,
    pub(crate) function: Arc<Function>,
    pub(crate) artefact: SharedArtefact,
    pub(crate) runtime: Arc<Runtime>,
    zygotes: Mutex<Zygotes>,
    /// Only one is grown for those who wait.
    growing: tokio::sync::Mutex<()>,
    /// The task that grows a thorough one beside the one that serves.
    succession: Mutex<Option<JoinHandle<()>>>,
    /// Starts without one.
    worth: Worth,
    /// There was one before.
    grown: AtomicBool,
    tampered: AtomicU32,
    /// It could be frozen once, and cannot now.
    refuses: AtomicBool,
}

impl Tree {
    pub(crate) fn new(
        ground: Arc<Ground>,
        function: Arc<Function>,
        artefact: SharedArtefact,
        runtime: Arc<Runtime>,
    ) -> Arc<Self> {
        Arc::new(Self {
            ground,
            function,
            artefact,
            runtime,
            zygotes: Mutex::default(),
            growing: tokio::sync::Mutex::default(),
            succession: Mutex::default(),
            worth: Worth::default(),
            grown: AtomicBool::new(false),
            tampered: AtomicU32::new(0),
            refuses: AtomicBool::new(false),
        })
    }

    fn growth(&self, purpose: Purpose) -> Growth<'_> {
        Growth {
            house: &self.ground.house,
            stems: &self.ground.stems,
            config: &self.ground.config,
            function: &self.function,
            artefact: &self.artefact,
            runtime: &self.runtime,
            purpose,
        }
    }

    /// Grows the zygote that the function asks for.
    pub(crate) async fn grow(&self, progress: Progress<'_>) -> Result<SnapshotReport, NotFrozen> {
        let _one = self.growing.lock().await;
        let (zygote, report) = self.growth(Purpose::Deploy).grow(progress).await?;
        self.take_over(zygote);
        Ok(report)
    }

    /// A clone for a call, and since when there has been its zygote, where that had to be made first. A zygote that ends meanwhile is replaced; the call does not
    /// notice.
    pub(crate) async fn start(
        self: &Arc<Self>,
        context: &StartContext,
    ) -> Result<(Arc<dyn Instance>, Option<Instant>), Fault> {
        let mut made = None;
        for attempt in 0..ATTEMPTS {
            let zygote = match self.living() {
                Some(zygote) => zygote,
                None => {
                    let zygote = self.zygote_within(context.deadline + BRING_UP).await?;
                    made = Some(Instant::now());
                    zygote
                }
            };
            let user = zygote.user();
            // However little time its function has: a zygote from which no clone has come by then is taken to be broken.
            let deadline = Instant::now() + BRING_UP;
            let cell = match zygote.clone_for_call(deadline, &self.ground.tally).await {
                Ok(cell) => cell,
                Err(NotForked::Refused(why)) => return Err(platform(why)),
                Err(NotForked::Platform(why)) => return Err(platform(why)),
                Err(error) => {
                    if matches!(error, NotForked::Deadline) {
                        // Its clones may be in the middle of calls; it ends with the last of them.
                        self.retire(&zygote);
                        if Instant::now() >= context.deadline {
                            return Err(Fault::Deadline);
                        }
                        continue;
                    }
                    // The clone alone may have ended: its zygote, and with it everybody else's call, is to live on.
                    if attempt == 0 && matches!(error, NotForked::Ended) && !zygote.has_ended() {
                        continue;
                    }
                    // Once, however many starts of a burst have found it.
                    if self.fell(&zygote)
                        && let NotForked::Tampered(what) = &error
                    {
                        self.tampered.fetch_add(1, Ordering::Relaxed);
                        self.ground.tally.tampered.one();
                        tracing::warn!(function = %self.function.path, what, "a snapshot has been tampered with; it is made anew");
                    }
                    if self.is_given_up() {
                        break;
                    }
                    continue;
                }
            };
            let entropy = entropy().map_err(|error| {
                platform(format!(
                    "the kernel gives no random bytes ({error}); without them clones would be alike"
                ))
            })?;
            let instance = context.id.to_string();
            let time = now_us();
            let restore = Restore {
                entropy: &entropy,
                time,
                instance: &instance,
                once: self.function.strategy.reuse == Reuse::Never,
                env: self.env(context),
            };
            let gate = cell.gate.as_ref().zip(context.namespace.clone());
            let admission = gate.map(|(gate, namespace)| gate.admit(namespace));
            let handler = HandlerInstance::restored(
                context.id,
                cell,
                Arc::clone(&self.artefact),
                &restore,
                Arc::clone(&zygote.siblings),
            );
            return Ok((Arc::new(Clone::new(handler, zygote, user, admission)), made));
        }
        // One that ends whenever it is asked may do so on purpose.
        self.tampered.fetch_add(1, Ordering::Relaxed);
        Err(platform(format!(
            "{ATTEMPTS} snapshots of {} have ended while they were asked",
            self.function.path
        )))
    }

    /// What a call wants to be set that the snapshot was not loaded with.
    fn env(&self, context: &StartContext) -> serde_json::Map<String, serde_json::Value> {
        let known: Vec<_> = self.function.parameters.environment().collect();
        let new = context.environment.iter().filter(|variable| !known.contains(variable));
        new.map(|(name, value)| (name.clone(), value.clone().into())).collect()
    }

    /// Whether it is better not to freeze the function any more.
    pub(crate) fn is_given_up(&self) -> bool {
        self.refuses.load(Ordering::Relaxed) || self.tampered.load(Ordering::Relaxed) >= TOLERATED
    }

    /// [`Self::zygote`] for a call that waits no longer than that. What takes longer to freeze is made beside the calls: else each would begin it anew, and none have it.
    async fn zygote_within(self: &Arc<Self>, deadline: Instant) -> Result<Arc<Zygote>, Fault> {
        match tokio::time::timeout_at(deadline.into(), self.zygote()).await {
            Ok(zygote) => zygote,
            Err(_) => {
                self.succeed();
                Err(Fault::Deadline)
            }
        }
    }

    /// A zygote where there was none: grown in the shortest way, unless somebody else has just done so; its thorough successor follows.
    async fn zygote(self: &Arc<Self>) -> Result<Arc<Zygote>, Fault> {
        let _one = self.growing.lock().await;
        if let Some(zygote) = self.living() {
            return Ok(zygote);
        }
        let (zygote, _) = self.growth(Purpose::Calls).grow(&|_| {}).await.map_err(|reason| match reason {
            NotFrozen::Refused(why) => {
                self.refuse(&why);
                platform(format!("the function could not be frozen again: {why}"))
            }
            NotFrozen::Broken(fault) => {
                self.not_started(&fault);
                fault
            }
        })?;
        self.take_over(Arc::clone(&zygote));
        if !zygote.thorough {
            self.succeed();
        }
        Ok(zygote)
    }

    /// Grows a thorough zygote beside the one that serves, when its turn comes, and lets it take over.
    fn succeed(self: &Arc<Self>) {
        let mut succession = self.succession.lock().unwrap_or_else(PoisonError::into_inner);
        if succession.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let (tree, ground) = (Arc::downgrade(self), Arc::clone(&self.ground));
        *succession = Some(tokio::spawn(async move {
            let _turn = ground.successions.acquire().await;
            // Another revision may be deployed by now.
            let Some(tree) = tree.upgrade() else { return };
            match tree.growth(Purpose::Succession).grow(&|_| {}).await {
                Ok((zygote, _)) => tree.take_over(zygote),
                // Where there is none to go on with, the next attempt would end like this one.
                Err(NotFrozen::Refused(why)) if tree.lacks_zygote() => tree.refuse(&why),
                Err(reason) => {
                    tracing::warn!(function = %tree.function.path, ?reason, "no better snapshot could be made to succeed this one");
                }
            }
        }));
    }

    /// It could be frozen once, and cannot now.
    fn refuse(&self, why: &str) {
        tracing::warn!(function = %self.function.path, why, "a function could not be frozen again; it is started as fresh processes");
        self.refuses.store(true, Ordering::Relaxed);
    }

    /// Clones come from this one from now on.
    fn take_over(&self, zygote: Arc<Zygote>) {
        if self.grown.swap(true, Ordering::Relaxed) {
            self.ground.tally.rebuilt.one();
        }
        self.zygotes().serve(Some(zygote));
    }

    /// Whether there is nothing to fork.
    pub(crate) fn lacks_zygote(&self) -> bool {
        self.zygotes().forkable().is_none()
    }

    /// A call was served by a fresh process because there was nothing to fork. Where such calls keep coming, a zygote is grown beside them.
    pub(crate) fn started_fresh(self: &Arc<Self>) {
        if self.worth.is_reached(Instant::now(), self.ground.config.idle) {
            self.succeed();
        }
    }

    /// A start without a zygote came to nothing. What the time of a call is too short for is made beside the calls, with the time that a deploy has.
    pub(crate) fn not_started(self: &Arc<Self>, fault: &Fault) {
        if *fault == Fault::Deadline && self.function.limits.timeout < SHORT {
            self.succeed();
        }
    }

    /// How many clones wait for a call; `None` when it has no zygote.
    pub(crate) fn standbys(&self) -> Option<usize> {
        self.zygotes().forkable().map(|zygote| zygote.standbys.ready())
    }

    /// The zygote to fork. One that had been replaced, and lives on for the sake of its clones, serves again when there is no better one left: another one would be added to it.
    fn living(self: &Arc<Self>) -> Option<Arc<Zygote>> {
        let mut zygotes = self.zygotes();
        let zygote = zygotes.forkable()?;
        if !zygotes.is_serving(&zygote) {
            zygotes.serve(Some(Arc::clone(&zygote)));
            drop(zygotes);
            if !zygote.thorough {
                self.succeed();
            }
        }
        Some(zygote)
    }

    /// This one is not to be asked again, and its clones are not to go on. Whether it was in service until now.
    fn fell(&self, zygote: &Arc<Zygote>) -> bool {
        zygote.kill();
        self.retire(zygote)
    }

    /// This one is not to be asked again, but its clones may go on. Whether it was in service until now.
    fn retire(&self, zygote: &Arc<Zygote>) -> bool {
        zygote.give_up();
        let mut zygotes = self.zygotes();
        let served = zygotes.is_serving(zygote);
        if served {
            zygotes.serve(None);
        }
        served
    }

    fn zygotes(&self) -> MutexGuard<'_, Zygotes> {
        self.zygotes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of a zygote that nobody has called for this long and that no clone needs, and of the one that was to succeed it. With clones it would live on, and another
    /// one be made beside it when one is wanted: it goes when they have gone.
    pub(crate) fn prune(&self, idle: Duration) -> bool {
        let mut zygotes = self.zygotes();
        let idles =
            zygotes.serving.as_ref().is_some_and(|zygote| zygote.is_unused() && zygote.idle() >= idle);
        if idles {
            zygotes.serve(None);
            // Cancelled, its candidate is dropped, and so ended.
            if let Some(task) = &*self.succession.lock().unwrap_or_else(PoisonError::into_inner) {
                task.abort();
            }
        }
        idles
    }

    /// The zygote that [`Self::prune`] lets go of now, and since when nobody has called it.
    pub(crate) fn unused(&self) -> Option<(Duration, Weak<Zygote>)> {
        let zygotes = self.zygotes();
        let unused = zygotes.serving.as_ref().filter(|zygote| zygote.is_unused())?;
        Some((unused.idle(), Arc::downgrade(unused)))
    }

    /// What its zygotes use, those included that only live on for their clones.
    pub(crate) async fn memory(&self) -> ByteSize {
        let zygotes: Vec<_> = self.zygotes().all().collect();
        let mut bytes = 0;
        for zygote in zygotes {
            bytes += zygote.memory().await.as_u64();
        }
        ByteSize::bytes(bytes)
    }

    /// Ends its zygotes and waits until nothing is left.
    pub(crate) async fn end(&self) {
        let succession = self.succession.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = succession {
            task.abort();
            // Cancelled, its candidate is dropped, and so ended.
            let _ = task.await;
        }
        let zygotes: Vec<_> = std::mem::take(&mut *self.zygotes()).all().collect();
        for zygote in &zygotes {
            zygote.kill();
        }
        for zygote in zygotes {
            zygote.ended().await;
        }
    }
}

fn platform(cause: String) -> Fault {
    Fault::Platform { cause }
}

/// 32 random bytes in hex.
fn entropy() -> Result<String, rustix::io::Errno> {
    use std::fmt::Write;
    let mut bytes = [0_u8; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

fn now_us() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since.as_micros().try_into().unwrap_or(u64::MAX)
}
