//! The [`House`]: what all functions share, the host's runtimes, the shims and the prepared functions.

use std::{
    collections::HashSet,
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use async_trait::async_trait;
use flint_executor::{
    Fault, FunctionSource, PrepareError, PrewarmTarget, Progress, RuntimeKind, StartContext,
};
use flint_gate::Gates;
use flint_model::{ByteSize, Function, NamespaceName, Timestamp};
use flint_sandbox::Launcher;
use tokio::sync::OnceCell;

use crate::{
    charge::Charge,
    config::{HouseConfig, HouseError},
    discover::{Engine, Family, NotUsed, Runtime, Runtimes},
    go::GoCaches,
    handler::{self, Cell},
    held::Held,
    java::{JavaCompilers, JavaShims},
    prepare::{
        Builds, Quota, Room, Turn, Workshop,
        artefact::{SharedArtefact, Shelf},
    },
    process::{
        code_images::CodeImages,
        command::{Launchers, ShimCommand},
        logs::Logs,
        starter::Starter,
    },
    python::PythonShims,
    shims::Shims,
    stems::{self, Grow, StemKey},
};

/// The host's runtimes, the shims and the prepared functions.
pub struct House {
    config: HouseConfig,
    shims: Shims,
    runtimes: Arc<Runtimes>,
    shelf: Arc<Shelf>,
    java: JavaShims,
    compilers: JavaCompilers,
    python: PythonShims,
    go: GoCaches,
    images: CodeImages,
    builds: Builds,
    room: Room,
    quota: Arc<Quota>,
    held: Arc<Held>,
    /// Set once artefacts of earlier versions, whose records lack a size, have been measured.
    measured: OnceCell<()>,
}

/// How often a preparation starts again after a collection has removed an artefact before it was marked as in
/// use.
const ATTEMPTS: usize = 3;

impl House {
    /// Finds the host's runtimes and lays out the shims. Takes some tenths of a second.
    ///
    /// # Errors
    /// A folder that cannot be used.
    pub async fn open(config: HouseConfig) -> Result<Self, HouseError> {
        let (artefacts, shims) = (config.artefacts_dir.clone(), config.runtimes_dir.clone());
        let (search, found) = (config.search.clone(), config.found.clone());
        let set_up = tokio::task::spawn_blocking(move || {
            let no_shelf =
                |error| HouseError::new("cannot use the folder for prepared functions", &artefacts, error);
            let shelf = Shelf::open(&artefacts).map_err(no_shelf)?;
            let no_shims = |error| HouseError::new("cannot lay out the runtime shims in", &shims, error);
            let shims = Shims::lay_out(&shims).map_err(no_shims)?;
            let runtimes = found.unwrap_or_else(|| Arc::new(Runtimes::discover(&search)));
            Ok((shelf, shims, runtimes))
        });
        let (shelf, shims, runtimes) = set_up.await.map_err(|error| {
            HouseError::new("cannot look for runtimes on", Path::new("PATH"), error.into())
        })??;
        let builds = Builds::new(config.concurrent_builds, config.concurrent_unpacks);
        let room = Room::new(&config.artefacts_dir, config.min_free);
        let quota = Quota::new(config.per_namespace);
        let compilers = JavaCompilers::new(config.compile_ahead);
        Ok(Self {
            config,
            shims,
            runtimes,
            shelf: Arc::new(shelf),
            java: JavaShims::default(),
            compilers,
            python: PythonShims::default(),
            go: GoCaches::default(),
            images: CodeImages::default(),
            builds,
            room,
            quota,
            held: Arc::default(),
            measured: OnceCell::new(),
        })
    }

    /// Its configuration.
    pub fn config(&self) -> &HouseConfig {
        &self.config
    }

    /// Starts the sandboxes.
    pub fn launcher(&self) -> &Launcher {
        &self.config.launcher
    }

    /// The runtimes that functions can name, available or not.
    pub fn kinds(&self) -> Vec<RuntimeKind> {
        self.runtimes.kinds()
    }

    /// Runtimes that were found but are not used, and why.
    pub fn not_used(&self) -> &[NotUsed] {
        self.runtimes.not_used()
    }

    /// Unpacks and builds a function unless that was done before; also returns how long it took. An artefact
    /// in use is not collected.
    ///
    /// # Errors
    /// Invalid code, a missing runtime, a full disk, or a namespace over its quota.
    pub async fn prepare(
        &self,
        source: &FunctionSource,
        progress: Progress<'_>,
    ) -> Result<(SharedArtefact, Duration), PrepareError> {
        let workshop = Workshop {
            shelf: &self.shelf,
            shims: &self.shims,
            java: &self.java,
            compilers: &self.compilers,
            python: &self.python,
            go: &self.go,
            builds: &self.builds,
            runtimes: &self.runtimes,
            room: &self.room,
            quota: &self.quota,
            config: &self.config,
        };
        let namespace = &source.function.path.namespace;
        for _ in 0..ATTEMPTS {
            let (artefact, took) = workshop.prepare(source, progress).await?;
            self.held.add(namespace, &artefact);
            if artefact.folder.is_dir() {
                if let Some(size) = artefact.record.size {
                    self.quota.charge_held(namespace, &artefact.address, size);
                }
                return Ok((artefact, took));
            }
        }
        Err(PrepareError::Failed {
            operation: "preparing the function".to_owned(),
            detail: "what was prepared was removed each time as nobody's: try again".to_owned(),
        })
    }

    /// Whether there is room for a function to be deployed, or it is prepared already.
    ///
    /// # Errors
    /// A disk that is nearly full; a namespace that is over its quota, or would be with this function's code.
    pub fn admits(&self, function: &Function) -> Result<(), PrepareError> {
        let found = self.runtimes.resolve(&function.kind).ok().map(|engine| {
            let address = Shelf::address(function, &engine, &self.shims);
            (engine, address)
        });
        let address = found.as_ref().map(|(_, address)| address.as_str());
        self.quota.admits(&function.path.namespace, address, function.code.size)?;
        let Err(full) = self.room.for_a_deploy() else { return Ok(()) };
        let is_there = found
            .is_some_and(|(engine, address)| self.shelf.find(&address, &engine, &self.runtimes).is_some());
        if is_there { Ok(()) } else { Err(full) }
    }

    /// Whether the disk has room for another function.
    ///
    /// # Errors
    /// A disk that is nearly full.
    pub fn has_room(&self) -> Result<(), PrepareError> {
        self.room.for_a_deploy()
    }

    /// Whether the disk has room for work that has begun.
    ///
    /// # Errors
    /// A disk that is nearly full.
    pub fn go_on(&self) -> Result<(), PrepareError> {
        self.room.to_go_on()
    }

    /// An empty charge to the namespace, for files that the house does not keep itself; `address` identifies
    /// them.
    pub fn charge(&self, namespace: &NamespaceName, address: &str) -> Charge {
        Charge(self.quota.claim(namespace, address))
    }

    /// Fails early if such files recently did not fit and still would not.
    ///
    /// # Errors
    /// The namespace would exceed its quota.
    pub fn recall(&self, namespace: &NamespaceName, address: &str) -> Result<(), PrepareError> {
        self.quota.recall(namespace, address)
    }

    /// Waits for permission to unpack an archive of the namespace, which lasts as long as the result is held.
    /// The caller has to check the disk.
    ///
    /// # Errors
    /// Too many of the namespace's archives are waiting.
    pub async fn unpacking(
        &self,
        namespace: &NamespaceName,
        progress: Progress<'_>,
    ) -> Result<Unpacking, PrepareError> {
        let turn = self.builds.unpacking(namespace, progress).await?;
        Ok(Unpacking { _turn: turn, room: self.room.clone() })
    }

    /// Runs `work` as one of the server's builds: in its namespace's turn, and not again if it recently
    /// failed because of the code. `address` identifies the product.
    ///
    /// # Errors
    /// Those of `work`; or too many of the namespace's builds are waiting.
    pub async fn build<T>(
        &self,
        namespace: &NamespaceName,
        address: &str,
        progress: Progress<'_>,
        work: impl Future<Output = Result<T, PrepareError>>,
    ) -> Result<T, PrepareError> {
        self.builds.recall(address)?;
        let _turn = self.builds.turn(namespace, progress).await?;
        // Another build may have tried the same meanwhile.
        self.builds.recall(address)?;
        let made = work.await;
        if let Err(error) = &made {
            self.builds.note(address, error);
        }
        made
    }

    /// The memory of build tools that wait for the next deploy.
    pub async fn tools_memory(&self) -> ByteSize {
        self.compilers.memory().await
    }

    /// Ends the build tools that wait for the next deploy, which takes longer without.
    pub async fn end_tools(&self) {
        self.compilers.end().await;
    }

    /// The same at the server's end: deploys that are under way start none any more.
    pub async fn close_tools(&self) {
        self.compilers.close().await;
    }

    /// The launchers of languages without a shim.
    pub fn launchers(&self) -> Launchers<'_> {
        Launchers(&self.shims)
    }

    /// How to start a runtime with its shim.
    ///
    /// # Errors
    /// What could not be prepared on this host.
    pub(crate) async fn command<'a>(
        &'a self,
        runtime: &'a Runtime,
        memory: ByteSize,
        zygote: bool,
    ) -> Result<ShimCommand<'a>, Fault> {
        let java = match runtime.family {
            Family::Java => {
                let made = self.java.get(runtime, &self.shims, &self.config.launcher).await;
                Some(made.map_err(|cause| Fault::Platform { cause })?)
            }
            Family::Python => {
                self.python.make_ready(runtime, &self.shims, &self.config.launcher).await;
                None
            }
            Family::Node => None,
            Family::Go | Family::Php | Family::Ruby => {
                let cause =
                    format!("{} is reached over contract actionloop, it has no handlers", runtime.family);
                return Err(Fault::Platform { cause });
            }
        };
        let image = match runtime.family {
            // Only the native helper can map the image.
            Family::Node if zygote && self.shims.node_helper().is_some() => {
                self.images.get(&runtime.program).await
            }
            _ => None,
        };
        Ok(ShimCommand { runtime, shims: &self.shims, java, memory, zygote, image })
    }

    /// The gates of this server, if the function gets one.
    pub fn gates_of(&self, function: &Function) -> Option<&Gates> {
        self.config.gates.as_ref().filter(|_| function.wants_api_key())
    }

    /// The environment set before the code is loaded.
    pub fn environment(
        &self,
        function: &Function,
        context: &StartContext,
    ) -> impl Iterator<Item = (String, String)> + use<> {
        let api_host = self.gates_of(function).map(Gates::url).or_else(|| self.config.api_host.clone());
        let deadline = SystemTime::now() + context.deadline.saturating_duration_since(Instant::now());
        let own = [
            ("__OW_API_HOST", api_host),
            ("__OW_ACTIVATION_ID", context.activation.map(|id| id.to_string())),
            ("__OW_TRANSACTION_ID", Some(context.transaction.to_string())),
            ("__OW_DEADLINE", Some(Timestamp::from(deadline).as_millis().to_string())),
        ];
        let own = own.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        own.chain(context.environment.clone())
    }

    /// Measures artefacts of earlier versions, whose records lack a size, so that no collection is delayed by
    /// that. Does nothing the second time.
    pub async fn measure(&self) {
        let measure = || async {
            let shelf = Arc::clone(&self.shelf);
            let _ = tokio::task::spawn_blocking(move || shelf.measure()).await;
        };
        self.measured.get_or_init(measure).await;
    }

    /// Removes prepared functions that are neither in `keep` nor in use. Namespaces are charged with the
    /// remaining ones from now on.
    pub async fn collect(&self, keep: &[Arc<Function>]) {
        let used: HashSet<(NamespaceName, String)> = keep
            .iter()
            .filter_map(|function| {
                let engine = self.runtimes.resolve(&function.kind).ok()?;
                Some((function.path.namespace.clone(), Shelf::address(function, &engine, &self.shims)))
            })
            .collect();
        let (shelf, quota, held) = (Arc::clone(&self.shelf), Arc::clone(&self.quota), Arc::clone(&self.held));
        let collected = tokio::task::spawn_blocking(move || {
            let collected = {
                let keep: HashSet<&str> = used.iter().map(|(_, address)| address.as_str()).collect();
                shelf.collect(|address| if keep.contains(address) { None } else { held.leave(address) })
            };
            // The quota is released once the files are gone.
            let sized = |(namespace, address): (NamespaceName, String)| {
                let size = shelf.size(&address).ok();
                (namespace, address, size)
            };
            quota.count(used.into_iter().map(sized).collect(), || held.all());
            collected
        });
        match collected.await {
            Ok(Ok(0)) | Err(_) => {}
            Ok(Ok(removed)) => {
                tracing::info!(removed, "removed prepared functions that are not deployed any more")
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "prepared functions that are not deployed any more could not be removed")
            }
        }
    }
}

/// Permission to unpack an archive, until it is dropped.
#[derive(Debug)]
pub struct Unpacking {
    _turn: Turn,
    room: Room,
}

impl Unpacking {
    /// Whether the disk has room for more of it.
    ///
    /// # Errors
    /// A disk that is nearly full.
    pub fn go_on(&self) -> Result<(), PrepareError> {
        self.room.to_go_on()
    }
}

/// How long a prewarmed runtime starts in the background at most, so that it comes up even on a server that
/// is never idle.
const LONGEST_IN_BACKGROUND: Duration = Duration::from_secs(1);

/// Starts prewarmed runtimes.
pub struct Nursery {
    /// Whose runtimes it starts.
    pub house: Arc<House>,
}

#[async_trait]
impl Grow for Nursery {
    fn key(&self, target: &PrewarmTarget) -> Option<StemKey> {
        match self.house.runtimes.resolve(&target.kind).ok()? {
            Engine::Language(runtime) if runtime.family.has_shim() => {
                Some(StemKey { runtime: runtime.identity(), memory: target.memory })
            }
            Engine::Language(_) | Engine::Native => None,
        }
    }

    async fn grow(
        &self,
        target: &PrewarmTarget,
        id: String,
        deadline: Instant,
        logs: &mut Logs,
    ) -> Result<Cell, Fault> {
        let runtime = match self.house.runtimes.resolve(&target.kind) {
            Ok(Engine::Language(runtime)) => runtime,
            Ok(Engine::Native) => {
                return Err(Fault::Platform { cause: format!("{} has no runtime to prewarm", target.kind) });
            }
            Err(cause) => return Err(Fault::Platform { cause }),
        };
        let command = self.house.command(&runtime, target.memory, false).await?;
        let mut spec = command.for_stem(id, &stems::limits(target.memory));
        spec.background = Some(LONGEST_IN_BACKGROUND);
        let starter = Starter::plain(self.house.launcher());
        let cell = handler::launch(&starter, &spec, None, deadline, logs).await?;
        // The call that takes it waits for it.
        cell.sandbox.foreground();
        Ok(cell)
    }
}
