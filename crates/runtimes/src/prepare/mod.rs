//! Prepares functions: unpacks and builds them into artefacts.

mod archive;
pub mod artefact;
mod build;
mod builds;
mod entry;
mod failures;
mod quota;
mod room;
mod tree;
mod turns;

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use flint_executor::{FunctionSource, PrepareError, Progress};
use flint_model::{CodeFormat, Contract, Function};
use tree::{bad, failed};

use self::artefact::{Artefact, HalfBuilt, Record, SharedArtefact, Shelf};
use crate::{
    config::{HouseConfig, UnpackLimits},
    discover::{Engine, Family, Runtimes},
    disk_usage,
    go::GoCaches,
    java::{JavaCompilers, JavaShims},
    python::PythonShims,
    shims::Shims,
};

pub(crate) use builds::Builds;
pub use entry::CODE;
pub(crate) use quota::{Claim, Quota};
pub(crate) use room::Room;
pub(crate) use turns::Turn;

/// The parts of the house that preparation uses.
pub(crate) struct Workshop<'a> {
    pub(crate) shelf: &'a Arc<Shelf>,
    pub(crate) shims: &'a Shims,
    pub(crate) java: &'a JavaShims,
    pub(crate) compilers: &'a JavaCompilers,
    pub(crate) python: &'a PythonShims,
    pub(crate) go: &'a GoCaches,
    pub(crate) builds: &'a Builds,
    pub(crate) runtimes: &'a Arc<Runtimes>,
    pub(crate) room: &'a Room,
    pub(crate) quota: &'a Arc<Quota>,
    pub(crate) config: &'a HouseConfig,
}

impl Workshop<'_> {
    /// Builds the artefact unless it exists; also returns how long that took.
    pub(crate) async fn prepare(
        &self,
        source: &FunctionSource,
        progress: Progress<'_>,
    ) -> Result<(SharedArtefact, Duration), PrepareError> {
        let function = &source.function;
        let engine = self.runtimes.resolve(&function.kind).map_err(|reason| PrepareError::Unavailable {
            what: format!("the runtime {}", function.kind),
            reason,
        })?;
        let has_handlers = matches!(&engine, Engine::Language(runtime) if runtime.family.has_shim());
        if !has_handlers && function.contract == Contract::Handler {
            return Err(bad(format!(
                "the kind {} has no handlers that Flint could call: choose the contract actionloop, stdio, http or openwhisk",
                function.kind
            )));
        }
        let address = Shelf::address(function, &engine, self.shims);
        if let Some(artefact) = self.find(function, &address, &engine).await? {
            return Ok((Arc::new(artefact), Duration::ZERO));
        }
        if !is_built(function, &engine) {
            return self.make(source, engine, address, progress).await;
        }
        self.builds.recall(&address)?;
        let _turn = self.builds.turn(&function.path.namespace, progress).await?;
        // Another deploy may have built the same meanwhile.
        if let Some(artefact) = self.find(function, &address, &engine).await? {
            return Ok((Arc::new(artefact), Duration::ZERO));
        }
        self.builds.recall(&address)?;
        let made = self.make(source, engine, address.clone(), progress).await;
        if let Err(error) = &made {
            self.builds.note(&address, error);
        }
        made
    }

    /// The artefact, if it exists. It is charged to the function's namespace as if it had been made for it.
    async fn find(
        &self,
        function: &Function,
        address: &str,
        engine: &Engine,
    ) -> Result<Option<Artefact>, PrepareError> {
        let Some(mut artefact) = self.shelf.find(address, engine, self.runtimes) else { return Ok(None) };
        let size = match artefact.record.size {
            Some(size) => size,
            None => {
                let (shelf, address) = (Arc::clone(self.shelf), address.to_owned());
                let measure = move || match shelf.size(&address) {
                    Ok(size) => Ok(Some(size)),
                    // A collection has removed it.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(failed("measuring the code", &error)),
                };
                let Some(size) = blocking("measuring the code", measure).await? else { return Ok(None) };
                size
            }
        };
        self.quota.charge(&function.path.namespace, address, size)?;
        artefact.record.size = Some(size);
        Ok(Some(artefact))
    }

    /// Makes the artefact.
    async fn make(
        &self,
        source: &FunctionSource,
        engine: Engine,
        address: String,
        progress: Progress<'_>,
    ) -> Result<(SharedArtefact, Duration), PrepareError> {
        let (function, began) = (&source.function, Instant::now());
        self.quota.recall(&function.path.namespace, &address)?;
        let (half, mut record) = self.unpack(source.clone(), engine.clone(), &address, progress).await?;
        let mut engine = engine;
        if let Engine::Language(runtime) = &engine {
            match runtime.family {
                Family::Java => self.build_java(source, runtime, &half, &mut record, progress).await?,
                Family::Python => {
                    let runtime = self.build_python(function, runtime, &half, &mut record, progress).await?;
                    engine = Engine::Language(runtime);
                }
                Family::Go if record.script.is_some() => {
                    self.build_go(function, runtime, &half, &mut record, progress).await?;
                }
                Family::Node | Family::Go | Family::Php | Family::Ruby => {}
            }
        }
        let artefact = self.publish(half, address, engine, record).await?;
        Ok((Arc::new(artefact), began.elapsed()))
    }

    async fn unpack(
        &self,
        source: FunctionSource,
        engine: Engine,
        address: &str,
        progress: Progress<'_>,
    ) -> Result<(HalfBuilt, Record), PrepareError> {
        let turn = match source.function.code.format {
            CodeFormat::Zip | CodeFormat::TarGz => {
                Some(self.builds.unpacking(&source.function.path.namespace, progress).await?)
            }
            CodeFormat::Source | CodeFormat::Executable | CodeFormat::Jar => None,
        };
        let claim = Arc::new(self.quota.claim(&source.function.path.namespace, address));
        let (shelf, limits, room) = (Arc::clone(self.shelf), self.config.unpack, self.room.claimed(&claim));
        progress("unpacking");
        blocking("unpacking the code", move || {
            // Unpacking goes on when its caller has gone, so it keeps its turn.
            let _turn = turn;
            room.to_go_on()?;
            let half =
                shelf.begin(claim).map_err(|error| failed("creating the artefact's folder", &error))?;
            let record = unpack(&source, &engine, &half.code(), limits, &room)?;
            Ok((half, record))
        })
        .await
    }

    async fn publish(
        &self,
        half: HalfBuilt,
        address: String,
        engine: Engine,
        mut record: Record,
    ) -> Result<Artefact, PrepareError> {
        let (shelf, runtimes) = (Arc::clone(self.shelf), Arc::clone(self.runtimes));
        blocking("storing the artefact", move || {
            record.size = Some(half.measure()?);
            shelf
                .publish(half, address, engine, record, &runtimes)
                .map_err(|error| failed("storing the artefact", &error))
        })
        .await
    }
}

/// Whether preparing it involves more than unpacking.
fn is_built(function: &Function, engine: &Engine) -> bool {
    let Engine::Language(runtime) = engine else { return false };
    match runtime.family {
        Family::Java => true,
        Family::Python => function.code.format != CodeFormat::Source,
        Family::Go => function.code.format != CodeFormat::Executable,
        Family::Node | Family::Php | Family::Ruby => false,
    }
}

/// Runs disk work on the blocking thread pool.
async fn blocking<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> Result<T, PrepareError> + Send + 'static,
) -> Result<T, PrepareError> {
    let panicked = |error: tokio::task::JoinError| PrepareError::Failed {
        operation: what.into(),
        detail: error.to_string(),
    };
    tokio::task::spawn_blocking(work).await.map_err(panicked)?
}

/// Puts the code into `folder` and finds where it begins.
fn unpack(
    source: &FunctionSource,
    engine: &Engine,
    folder: &Path,
    limits: UnpackLimits,
    room: &Room,
) -> Result<Record, PrepareError> {
    let function = &source.function;
    let format = function.code.format;
    let mut record = Record::default();
    let unpacked = match format {
        CodeFormat::Zip => archive::zip(&source.code, folder, limits, room)?,
        CodeFormat::TarGz => archive::tar_gz(&source.code, folder, limits, room)?,
        CodeFormat::Source | CodeFormat::Executable | CodeFormat::Jar => {
            entry::check_file(engine, format, &source.code, function.kind.as_str())?;
            let name = entry::file_name(engine, format);
            room.take(disk_usage::of_file(source.code.len() as u64))?;
            write_file(&folder.join(name), &source.code, name == "exec")?;
            if let Some(other) = entry::other_name(engine, format) {
                let made = fs::hard_link(folder.join(name), folder.join(other));
                made.map_err(|error| failed(format!("naming {name} {other}"), &error))?;
            }
            record.code = format!("{CODE}/{name}");
            record.script =
                (matches!(engine, Engine::Language(_)) && name != "exec").then(|| record.code.clone());
            record.steps.push(format!("stored {name}"));
            return Ok(record);
        }
    };
    record.code = entry::find(engine, folder, function)?;
    record.script = entry::script(engine, folder);
    if record.code.ends_with("/exec") {
        // It may be a link, to another file of the archive.
        let program = folder.join("exec").canonicalize().map_err(|error| failed("finding 'exec'", &error))?;
        if !folder.canonicalize().is_ok_and(|folder| program.starts_with(folder)) {
            return Err(bad("the archive's 'exec' leads out of its folder"));
        }
        let made = fs::set_permissions(&program, fs::Permissions::from_mode(0o755));
        made.map_err(|error| failed("making 'exec' executable", &error))?;
    } else if function.contract != Contract::Handler && record.script.is_none() {
        return Err(bad(format!(
            "the archive has no file that {} could be started with: it needs an index.js, a __main__.py or a function.jar",
            function.kind
        )));
    }
    record.steps.push(match unpacked.left_out {
        0 => format!("unpacked {}", counted(unpacked.files, "file")),
        links => format!(
            "unpacked {}, left out {} to an interpreter",
            counted(unpacked.files, "file"),
            counted(links, "link")
        ),
    });
    Ok(record)
}

/// `1 file`, `2 files`
fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

fn write_file(path: &Path, content: &[u8], executable: bool) -> Result<(), PrepareError> {
    let mode = if executable { 0o755 } else { 0o644 };
    fs::write(path, content)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        .map_err(|error| failed(format!("writing {}", path.display()), &error))
}

/// Unpacks any bytes as a deploy does; for fuzz targets.
#[cfg(feature = "fuzzing")]
pub fn fuzz_unpack(code: &[u8], folder: &Path) {
    let limits = UnpackLimits { bytes: flint_model::ByteSize::mib(4), ..UnpackLimits::default() };
    let room = Room::new(folder, Some(flint_model::ByteSize::bytes(0)));
    let _ = archive::zip(code, folder, limits, &room);
    let _ = archive::tar_gz(code, folder, limits, &room);
}
