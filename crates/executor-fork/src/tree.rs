//! One revision of a function with its zygotes: the serving one, its predecessors and its successor.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    ForkConfig,
    growth::{Growth, Purpose},
    instance::Clone,
    permits::Permits,
    succession::Succession,
    tally::Tally,
    worth::Worth,
    zygote::Zygote,
};
use flint_executor::{BRING_UP, Fault, Instance, Progress, StartContext, link::Restore};
use flint_model::{ByteSize, Function, Reuse, SnapshotReport, now_us};
use flint_runtimes::{
    House,
    discover::Runtime,
    handler::{HandlerInstance, NotForked, NotFrozen},
    prepare::artefact::SharedArtefact,
    stems::Stems,
};

/// How many zygotes a start tries, since one may end in the very moment of the request.
const ATTEMPTS: u32 = 3;
/// Below this time limit there may not be enough time to make a zygote during a call.
const SHORT: Duration = Duration::from_secs(10);
/// After so many zygotes that were tampered with, the function is not frozen any more.
const TOLERATED: u32 = 3;

/// What all trees share.
pub(crate) struct Ground {
    pub(crate) house: Arc<House>,
    pub(crate) stems: Arc<Stems>,
    pub(crate) config: ForkConfig,
    pub(crate) tally: Tally,
    /// Limits concurrent successions to [`ForkConfig::made_at_once`].
    successions: Permits,
}

impl Ground {
    pub(crate) fn new(house: Arc<House>, stems: Arc<Stems>, config: ForkConfig) -> Self {
        let successions = Permits::new(config.made_at_once.get());
        Self { house, stems, config, tally: Tally::default(), successions }
    }
}

/// The zygotes of one revision.
#[derive(Default)]
struct Zygotes {
    /// The zygote that is forked.
    serving: Option<Arc<Zygote>>,
    /// Its predecessors. Each lives as long as its clones, which are its children in its sandbox.
    former: Vec<Weak<Zygote>>,
}

impl Zygotes {
    /// All living zygotes.
    fn all(&self) -> impl Iterator<Item = Arc<Zygote>> {
        // The latest first.
        self.serving.iter().cloned().chain(self.former.iter().rev().filter_map(Weak::upgrade))
    }

    /// The latest zygote that can be forked.
    fn forkable(&self) -> Option<Arc<Zygote>> {
        self.all().find(|zygote| zygote.is_forkable())
    }

    fn is_serving(&self, zygote: &Arc<Zygote>) -> bool {
        self.serving.as_ref().is_some_and(|serving| Arc::ptr_eq(serving, zygote))
    }

    /// Makes this one the serving zygote.
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
    /// Held while a zygote is made for waiting calls, so that there is only one.
    growing: tokio::sync::Mutex<()>,
    succession: Mutex<Option<Succession>>,
    /// Counts starts without a zygote.
    worth: Worth,
    /// Whether there has been a zygote before.
    grown: AtomicBool,
    tampered: AtomicU32,
    /// Whether it could be frozen once and cannot any more.
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

    /// Makes the zygote for a deploy.
    pub(crate) async fn grow(&self, progress: Progress<'_>) -> Result<SnapshotReport, NotFrozen> {
        let _one = self.growing.lock().await;
        let (zygote, report) = self.growth(Purpose::Deploy).grow(progress).await?;
        self.take_over(zygote);
        Ok(report)
    }

    /// Forks a clone for a call; with the time at which its zygote was finished, if it had to be made first.
    /// A zygote that ends meanwhile is replaced, unnoticed by the call.
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
            let turn = context.deadline + BRING_UP;
            // Independent of the function's time limit: a zygote that has not forked a clone by then is
            // considered broken.
            let cell = match zygote.clone_for_call(turn, BRING_UP, &self.ground.tally).await {
                Ok(cell) => cell,
                Err(NotForked::Refused(why)) => return Err(platform(why)),
                Err(NotForked::Platform(why)) => return Err(platform(why)),
                Err(error) => {
                    if matches!(error, NotForked::Deadline) {
                        // Its clones may be serving calls, so it is left alone and ends with the last of
                        // them.
                        self.retire(&zygote);
                        if Instant::now() >= context.deadline {
                            return Err(Fault::Deadline);
                        }
                        continue;
                    }
                    // Perhaps only the clone has ended, or the zygote was given up meanwhile. The zygote, on
                    // which other calls depend, is kept.
                    let is_kept = !zygote.has_ended() && (attempt == 0 || !zygote.is_forkable());
                    if matches!(error, NotForked::Ended) && is_kept {
                        continue;
                    }
                    let tampered = match error {
                        NotForked::Tampered(what) => Some(what),
                        _ => zygote.tampered(),
                    };
                    // Counted once, however many starts of a burst have noticed it.
                    if self.fell(&zygote)
                        && let Some(what) = tampered
                    {
                        self.was_tampered_with(&what);
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
        // A zygote that ends whenever it is asked may do so on purpose.
        self.tampered.fetch_add(1, Ordering::Relaxed);
        Err(platform(format!(
            "{ATTEMPTS} snapshots of {} have ended while they were asked",
            self.function.path
        )))
    }

    /// Gives up the serving zygote if the launcher has ended it for what it found.
    pub(crate) fn look_after(&self) {
        let serving = self.zygotes().serving.clone();
        if let Some(zygote) = serving
            && let Some(what) = zygote.tampered()
            && self.retire(&zygote)
        {
            self.was_tampered_with(&what);
        }
    }

    fn was_tampered_with(&self, what: &str) {
        self.tampered.fetch_add(1, Ordering::Relaxed);
        self.ground.tally.tampered.one();
        tracing::warn!(function = %self.function.path, what, "a snapshot has been tampered with; it is made anew");
    }

    /// The variables of a call that the snapshot was not loaded with.
    fn env(&self, context: &StartContext) -> serde_json::Map<String, serde_json::Value> {
        let known: Vec<_> = self.function.parameters.environment().collect();
        let new = context.environment.iter().filter(|variable| !known.contains(variable));
        new.map(|(name, value)| (name.clone(), value.clone().into())).collect()
    }

    /// Whether the function should not be frozen any more.
    pub(crate) fn is_given_up(&self) -> bool {
        self.refuses.load(Ordering::Relaxed) || self.tampered.load(Ordering::Relaxed) >= TOLERATED
    }

    /// [`Self::zygote`] with a deadline. If it passes, the zygote is made beside the calls: otherwise each
    /// call would start making it and none would finish.
    async fn zygote_within(self: &Arc<Self>, deadline: Instant) -> Result<Arc<Zygote>, Fault> {
        match tokio::time::timeout_at(deadline.into(), self.zygote()).await {
            Ok(zygote) => zygote,
            Err(_) => {
                self.succeed();
                Err(Fault::Deadline)
            }
        }
    }

    /// Makes a zygote where there is none, in the shortest way, unless another call has just done so. A thorough
    /// successor follows.
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
        // A thorough one may have been finished in the background meanwhile.
        if let Some(better) = self.living() {
            return Ok(better);
        }
        self.take_over(Arc::clone(&zygote));
        if !zygote.thorough {
            self.succeed();
        }
        Ok(zygote)
    }

    /// Makes a thorough zygote in the background if there is none to fork. Resolves when it is there, or did
    /// not come to be.
    pub(crate) fn anticipate(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        let mut over = None;
        if self.lacks_zygote() && !self.is_given_up() {
            self.succeed();
            over = self.succession().as_ref().map(Succession::over);
        }
        async move {
            if let Some(over) = over {
                over.await;
            }
        }
    }

    /// Makes a thorough zygote, once there is a permit for it, while another one or none serves, and lets it
    /// take over.
    fn succeed(self: &Arc<Self>) {
        let mut succession = self.succession();
        if succession.as_ref().is_some_and(|going_on| !going_on.is_over()) {
            return;
        }
        let (tree, ground) = (Arc::downgrade(self), Arc::clone(&self.ground));
        let namespace = self.function.path.namespace.clone();
        *succession = Some(Succession::begin(async move {
            let making = async {
                // Otherwise the tree has gone, perhaps because another revision was deployed meanwhile.
                if let Some(tree) = tree.upgrade() {
                    tree.make_successor().await;
                }
            };
            ground.successions.make(&namespace, making).await;
        }));
    }

    async fn make_successor(&self) {
        match self.growth(Purpose::Succession).grow(&|_| {}).await {
            Ok((zygote, _)) => self.take_over(zygote),
            // Without a zygote to go on with, later attempts would fail like this one.
            Err(NotFrozen::Refused(why)) if self.lacks_zygote() => self.refuse(&why),
            Err(reason) => {
                tracing::warn!(function = %self.function.path, ?reason, "no better snapshot could be made to succeed this one");
            }
        }
    }

    fn succession(&self) -> MutexGuard<'_, Option<Succession>> {
        self.succession.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops freezing a function that could be frozen once and cannot any more.
    fn refuse(&self, why: &str) {
        tracing::warn!(function = %self.function.path, why, "a function could not be frozen again; it is started as fresh processes");
        self.refuses.store(true, Ordering::Relaxed);
    }

    /// Makes this the zygote that is forked from now on.
    fn take_over(&self, zygote: Arc<Zygote>) {
        if self.grown.swap(true, Ordering::Relaxed) {
            self.ground.tally.rebuilt.one();
        }
        self.zygotes().serve(Some(zygote));
    }

    /// Whether there is no zygote to fork.
    pub(crate) fn lacks_zygote(&self) -> bool {
        self.zygotes().forkable().is_none()
    }

    /// Records that a call was served by a fresh process for want of a zygote. If such calls keep coming, a
    /// zygote is made beside them.
    pub(crate) fn started_fresh(self: &Arc<Self>) {
        if self.worth.is_reached(Instant::now(), self.ground.config.idle) {
            self.succeed();
        }
    }

    /// Records that a start without a zygote failed. If a call's time limit was too short for it, a zygote is
    /// made beside the calls, with the time that a deploy has.
    pub(crate) fn not_started(self: &Arc<Self>, fault: &Fault) {
        if *fault == Fault::Deadline && self.function.limits.timeout < SHORT {
            self.succeed();
        }
    }

    /// The number of clones that wait for a call; `None` without a zygote.
    pub(crate) fn standbys(&self) -> Option<usize> {
        self.zygotes().forkable().map(|zygote| zygote.standbys.ready())
    }

    /// The zygote to fork. A predecessor that lives on for its clones serves again when there is no better
    /// one, since a new one would take memory beside it.
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

    /// Kills a zygote with its clones. Returns whether it was serving until now.
    fn fell(&self, zygote: &Arc<Zygote>) -> bool {
        zygote.kill();
        self.retire(zygote)
    }

    /// Stops forking a zygote, whose clones may go on. Returns whether it was serving until now.
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

    /// Releases the serving zygote, and the successor that is being made, if it was idle for this long and
    /// has no clones. A zygote with clones would live on, and a new one would be made beside it for the next
    /// call, so it is kept until its clones have gone.
    pub(crate) fn prune(&self, idle: Duration) -> bool {
        let mut zygotes = self.zygotes();
        let idles =
            zygotes.serving.as_ref().is_some_and(|zygote| zygote.is_unused() && zygote.idle() >= idle);
        if idles {
            zygotes.serve(None);
            if let Some(succession) = &*self.succession() {
                succession.abort();
            }
        }
        idles
    }

    /// The zygote that [`Self::prune`] would release, and for how long it has been idle.
    pub(crate) fn unused(&self) -> Option<(Duration, Weak<Zygote>)> {
        let zygotes = self.zygotes();
        let unused = zygotes.serving.as_ref().filter(|zygote| zygote.is_unused())?;
        Some((unused.idle(), Arc::downgrade(unused)))
    }

    /// Measures the memory of all its zygotes, including those that live on for their clones.
    pub(crate) async fn memory(&self) -> ByteSize {
        self.sum_of(Zygote::memory).await
    }

    /// The same as last measured.
    pub(crate) async fn known_memory(&self) -> ByteSize {
        self.sum_of(Zygote::known_memory).await
    }

    async fn sum_of(&self, memory: impl AsyncFn(&Zygote) -> ByteSize) -> ByteSize {
        let zygotes: Vec<_> = self.zygotes().all().collect();
        let mut bytes = 0;
        for zygote in zygotes {
            bytes += memory(&zygote).await.as_u64();
        }
        ByteSize::bytes(bytes)
    }

    /// Ends its zygotes and waits until nothing of them is left.
    pub(crate) async fn end(&self) {
        let succession = self.succession().take();
        if let Some(succession) = succession {
            succession.abort();
            succession.over().await;
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
