//! The compilers of Java sources (`Compile.java` in the shim's jar): a process for each source, which ends
//! with it.
//!
//! Until the JVM has loaded and compiled the compiler itself, a source takes it most of a second. So once a
//! source has been compiled, the compiler of the next one is started ahead, compiles a sample and waits. No
//! two sources ever meet in one process, since nothing in it would keep a hostile one from the other.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use flint_model::ByteSize;
use flint_sandbox::{ExitStatus, Launcher, Sandbox, SandboxSpec};
use tokio::{sync::oneshot, task::JoinHandle};

use super::{SHIM_JAR, tool, with_gson};
use crate::{
    discover::Runtime,
    process::{
        command::readonly,
        ending, meter,
        running::Limit,
        tool::{Bounds, ToolError},
        waiting::Waiting,
    },
};

/// How long a compiler waits for the next source: as long as somebody may think between two saves.
const IDLE: Duration = Duration::from_secs(5 * 60);
/// How long one that nobody waits for may take to be started, before it compiles its sample.
const START_WITHIN: Duration = Duration::from_secs(30);
/// How long it compiles its sample in the background at most, so that it gets there on a busy server too.
const LONGEST_IN_BACKGROUND: Duration = Duration::from_secs(5);

/// Made for a short life, and nothing of the JVM's own goes to stdout, where the jar goes.
const FLAGS: [&str; 4] =
    ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xlog:disable", "-Xlog:all=error:stderr"];

/// What a source is compiled with.
#[derive(Clone, Copy)]
pub(crate) struct Jdk<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) launcher: &'a Launcher,
    /// The directory of the shim for this JDK.
    pub(crate) shim: &'a Path,
    pub(crate) bounds: Bounds,
}

impl Jdk<'_> {
    fn key(&self) -> Key {
        let Bounds { memory, size, .. } = self.bounds;
        Key { jdk: self.runtime.identity(), memory, size }
    }

    /// The sandbox of a compiler, which is started with these arguments.
    fn sandbox(&self, arguments: &[&str]) -> SandboxSpec {
        let mut argv = vec![self.runtime.inside(&self.runtime.program).display().to_string()];
        argv.extend(FLAGS.map(str::to_owned));
        argv.extend(["-cp".into(), with_gson(SHIM_JAR.into()), "flint.Compile".into()]);
        argv.extend(arguments.iter().map(|&argument| argument.to_owned()));
        let mounts = vec![readonly(self.shim.to_owned(), "/runtime/java")];
        tool("javac", self.runtime, argv, mounts, self.bounds.memory)
    }
}

/// What a compiler that waits and a source must have in common.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    /// [`Runtime::identity`].
    jdk: String,
    memory: ByteSize,
    size: ByteSize,
}

/// The compilers of a server, of which at most one waits.
#[derive(Debug)]
pub(crate) struct JavaCompilers {
    /// Whether one may wait.
    keeps: AtomicBool,
    ahead: Mutex<Option<Ahead>>,
}

impl JavaCompilers {
    /// Whether one may wait: [`crate::HouseConfig::compile_ahead`].
    pub(crate) fn new(keeps: bool) -> Self {
        Self { keeps: keeps.into(), ahead: Mutex::default() }
    }

    /// Compiles the text of a source file called `name` to the new file `jar`; returns whether a compiler had
    /// been waiting for it.
    pub(super) async fn compile(
        &self,
        jdk: Jdk<'_>,
        name: &str,
        text: &str,
        jar: &Path,
    ) -> Result<bool, ToolError> {
        let limit = Limit::from_now(jdk.bounds.within);
        let input = format!("{name}\n{text}");
        let taken = limit.bound(async { Ok(self.take(&jdk.key()).await) }).await?;
        if let Some(compiler) = taken {
            // At once, so that it is ready as soon as can be: in the background it is in nobody's way.
            self.start_next(jdk);
            match compiler.make(input.as_bytes(), jar, limit).await {
                // Killed, perhaps before it had read the source, which is not to blame for that.
                Err(ToolError::Failed { status, .. }) if !matches!(status, ExitStatus::Code(_)) => {}
                made => return made.map(|()| true),
            }
        }
        let compiler = Waiting::start(jdk.launcher, jdk.sandbox(&[]), jdk.bounds.size, limit).await?;
        let made = compiler.make(input.as_bytes(), jar, limit).await;
        self.start_next(jdk);
        made.map(|()| false)
    }

    /// Takes the compiler that waits, if it lives and fits. One that does not fit is ended.
    async fn take(&self, key: &Key) -> Option<Waiting> {
        let ahead = self.ahead().take()?;
        if ahead.key == *key {
            return ahead.taken().await;
        }
        ahead.end().await;
        None
    }

    /// Starts the compiler of the next source, unless there is one or none may wait.
    fn start_next(&self, jdk: Jdk<'_>) {
        let mut ahead = self.ahead();
        // Asked under the lock, so that none is started behind [`Self::close`].
        if self.keeps.load(Ordering::Relaxed) && ahead.as_ref().is_none_or(|ahead| ahead.task.is_finished()) {
            *ahead = Some(Ahead::start(jdk));
        }
    }

    /// The memory of the compiler that waits.
    pub(crate) async fn memory(&self) -> ByteSize {
        let sandbox = self.ahead().as_ref().and_then(|ahead| ahead.sandbox.get().cloned());
        match sandbox {
            Some(sandbox) => meter::memory(&sandbox).await.unwrap_or_default(),
            None => ByteSize::default(),
        }
    }

    /// Ends the compiler that waits.
    pub(crate) async fn end(&self) {
        let ahead = self.ahead().take();
        if let Some(ahead) = ahead {
            ahead.end().await;
        }
    }

    /// The same, and none waits from now on.
    pub(crate) async fn close(&self) {
        self.keeps.store(false, Ordering::Relaxed);
        self.end().await;
    }

    fn ahead(&self) -> MutexGuard<'_, Option<Ahead>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A compiler that was started ahead of its source. Dropping it ends it.
#[derive(Debug)]
struct Ahead {
    key: Key,
    /// Asks for it. It ends when this is dropped.
    taker: oneshot::Sender<()>,
    task: JoinHandle<Option<Waiting>>,
    /// There once it has started.
    sandbox: Arc<OnceLock<Arc<Sandbox>>>,
}

impl Ahead {
    fn start(jdk: Jdk<'_>) -> Self {
        let (taker, taken) = oneshot::channel();
        let mut spec = jdk.sandbox(&["warm"]);
        spec.background = Some(LONGEST_IN_BACKGROUND);
        let sandbox = Arc::default();
        let task = wait(jdk.launcher.clone(), spec, jdk.bounds.size, Arc::clone(&sandbox), taken);
        Self { key: jdk.key(), taker, task: tokio::spawn(task), sandbox }
    }

    /// The compiler, unless it has ended. One that still compiles its sample reads its source after that.
    async fn taken(self) -> Option<Waiting> {
        let _ = self.taker.send(());
        self.task.await.ok().flatten()
    }

    async fn end(self) {
        drop(self.taker);
        let _ = self.task.await;
    }
}

/// Starts a compiler and returns it when it is taken. Ends it when it is not.
async fn wait(
    launcher: Launcher,
    spec: SandboxSpec,
    size: ByteSize,
    place: Arc<OnceLock<Arc<Sandbox>>>,
    taken: oneshot::Receiver<()>,
) -> Option<Waiting> {
    let compiler = match Waiting::start(&launcher, spec, size, Limit::from_now(START_WITHIN)).await {
        Ok(compiler) => compiler,
        Err(error) => {
            tracing::warn!(%error, "no Java compiler waits for the next source, which takes longer");
            return None;
        }
    };
    let sandbox = compiler.sandbox();
    let _ = place.set(Arc::clone(sandbox));
    let is_taken = tokio::select! {
        biased;
        taken = taken => taken.is_ok(),
        () = sandbox.end() => false,
        () = tokio::time::sleep(IDLE) => false,
    };
    if is_taken && sandbox.exited().is_none() {
        return Some(compiler);
    }
    ending::completely(sandbox).await;
    None
}
