//! The Java shim: compiled once per JDK from the sources in the binary, with an archive of its classes.

use std::{
    collections::HashMap,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use flint_model::ByteSize;
use flint_sandbox::Launcher;
use tokio::sync::Mutex;

use super::{and_send, archive, tool};
use crate::{
    discover::Runtime,
    process::{
        command::{JavaFiles, readonly},
        tool::{Bounds, make as make_file},
    },
    shims::{Shims, create_readable_dir, publish},
};

const JAR: &str = "flint-runtime.jar";
/// Where the compiler sees the shim's sources.
const SOURCE: &str = "/source";
/// Where it writes classes.
const CLASSES: &str = "/tmp/classes";
/// The limits of compiling the shim.
const COMPILING: Bounds =
    Bounds { within: Duration::from_secs(120), memory: ByteSize::mib(512), size: ByteSize::mib(64) };

/// How long the training run may take.
const TRAINING: Duration = Duration::from_secs(60);
const TRAINING_MEMORY: ByteSize = ByteSize::mib(512);

/// The finished shims, by [`Runtime::identity`].
#[derive(Debug, Default)]
pub(crate) struct JavaShims(Mutex<HashMap<String, Arc<JavaFiles>>>);

impl JavaShims {
    /// The shim for this JDK. The first call makes it, which takes some seconds; concurrent ones wait.
    pub(crate) async fn get(
        &self,
        runtime: &Runtime,
        shims: &Shims,
        launcher: &Launcher,
    ) -> Result<Arc<JavaFiles>, String> {
        let mut ready = self.0.lock().await;
        if let Some(files) = ready.get(&runtime.identity()) {
            return Ok(Arc::clone(files));
        }
        let files = Arc::new(make(runtime, shims, launcher).await?);
        ready.insert(runtime.identity(), Arc::clone(&files));
        Ok(files)
    }
}

async fn make(runtime: &Runtime, shims: &Shims, launcher: &Launcher) -> Result<JavaFiles, String> {
    let name = format!("java-{}", &blake3::hash(runtime.identity().as_bytes()).to_hex()[..16]);
    let folder = shims.derived().join(name);
    if !folder.join(JAR).is_file() {
        compile(runtime, launcher, &shims.of("java"), &folder)
            .await
            .map_err(|error| format!("the Java shim could not be compiled with javac: {error}"))?;
    }
    let archive = archive::for_shim(runtime, launcher, &folder, TRAINING, TRAINING_MEMORY).await;
    let archive =
        archive.inspect_err(|error| tracing::warn!(%error, "Java starts without an archive of classes"));
    Ok(JavaFiles { folder, archive: archive.ok() })
}

/// Compiles our own sources, in a sandbox like every tool, so that the compiler ends with the server.
async fn compile(runtime: &Runtime, launcher: &Launcher, shim: &Path, folder: &Path) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let parent = folder.parent().unwrap_or(folder);
    create_readable_dir(parent).map_err(failed)?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let half = parent.join(format!(".{name}.{}", std::process::id()));
    let _ = fs::remove_dir_all(&half);
    create_readable_dir(&half).map_err(failed)?;
    let compiler = runtime.compiler.as_ref().map(|path| runtime.inside(path)).unwrap_or_default();
    let mut argv = vec![compiler.display().to_string()];
    argv.extend(["-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1"].map(str::to_owned));
    argv.extend(["-proc:none", "-encoding", "UTF-8", "-nowarn"].map(str::to_owned));
    // `invokedynamic` string concatenation would load dozens of classes at start-up.
    let flags = ["--release", "17", "-XDstringConcat=inline", "-g:source,lines", "-Xlint:-options"];
    argv.extend(flags.map(str::to_owned));
    argv.extend(["-d".into(), CLASSES.into()]);
    for file in java_files(&shim.join("src")).map_err(failed)? {
        let file = file.strip_prefix(shim).unwrap_or(&file);
        argv.push(Path::new(SOURCE).join(file).display().to_string());
    }
    let mounts = vec![readonly(shim.to_owned(), SOURCE)];
    let spec = tool("javac", runtime, and_send(argv, &packing(&compiler)), mounts, COMPILING.memory);
    let jar = half.join(JAR);
    let made = make_file(launcher, spec, &jar, COMPILING).await.map_err(|error| error.to_string());
    let published = made.and_then(|()| {
        fs::set_permissions(&jar, fs::Permissions::from_mode(0o644))
            .and_then(|()| publish(&half, folder))
            .map_err(failed)
    });
    if published.is_err() {
        let _ = fs::remove_dir_all(&half);
    }
    published
}

/// The shell command that makes a jar of the compiled classes.
fn packing(compiler: &Path) -> String {
    let jar = compiler.with_file_name("jar");
    format!(
        "'{}' -J-XX:+UseSerialGC -J-XX:TieredStopAtLevel=1 --create --no-compress --no-manifest -C {CLASSES} . >&3",
        jar.display()
    )
}

fn java_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(java_files(&path)?);
        } else if path.extension().is_some_and(|end| end == "java") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
