//! The Java shim: compiled by each JDK once, from the sources that the binary carries, with an archive of its classes.

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use flint_model::ByteSize;
use flint_sandbox::Launcher;
use tokio::sync::Mutex;

use super::{archive, jar};
use crate::{
    discover::Runtime,
    process::command::JavaFiles,
    shims::{Shims, create_readable_dir, publish},
};

/// How long the training run may take.
const TRAINING: Duration = Duration::from_secs(60);
const TRAINING_MEMORY: ByteSize = ByteSize::mib(512);

/// The shims that are ready, by [`Runtime::identity`].
#[derive(Debug, Default)]
pub(crate) struct JavaShims(Mutex<HashMap<String, Arc<JavaFiles>>>);

impl JavaShims {
    /// The shim for this JDK. Making it takes some seconds, once; others wait meanwhile.
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
    if !folder.join("flint-runtime.jar").is_file() {
        let (runtime, sources, folder) = (runtime.clone(), shims.of("java"), folder.clone());
        let compiled = tokio::task::spawn_blocking(move || compile(&runtime, &sources, &folder)).await;
        compiled.map_err(|error| error.to_string())?.map_err(|error| {
            format!("the Java shim could not be compiled with {}: {error}", folder_of(&error))
        })?;
    }
    let archive = archive::for_shim(runtime, launcher, &folder, TRAINING, TRAINING_MEMORY).await;
    let archive =
        archive.inspect_err(|error| tracing::warn!(%error, "Java starts without an archive of classes"));
    Ok(JavaFiles { folder, archive: archive.ok() })
}

fn folder_of(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::NotFound { "javac, which is not there" } else { "javac" }
}

/// Compiles our own sources: nothing of a user's is involved, so no sandbox is needed.
fn compile(runtime: &Runtime, sources: &Path, folder: &Path) -> io::Result<()> {
    let parent = folder.parent().unwrap_or(folder);
    create_readable_dir(parent)?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let half = parent.join(format!(".{name}.{}", std::process::id()));
    let _ = fs::remove_dir_all(&half);
    let classes = half.join("classes");
    create_readable_dir(&classes)?;
    let mut command = Command::new(runtime.compiler.as_deref().unwrap_or(Path::new("javac")));
    // Inline string concatenation: the invokedynamic form would load dozens of classes at start-up.
    command.args([
        "--release",
        "17",
        "-XDstringConcat=inline",
        "-g:source,lines",
        "-proc:none",
        "-nowarn",
        "-Xlint:-options",
    ]);
    command.args(["-encoding", "UTF-8", "-d"]).arg(&classes).args(java_files(&sources.join("src"))?);
    let output = command.output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let _ = fs::remove_dir_all(&half);
        return Err(io::Error::other(said));
    }
    let jar = half.join("flint-runtime.jar");
    jar::write(&jar, &read_classes(&classes)?)?;
    fs::set_permissions(&jar, fs::Permissions::from_mode(0o644))?;
    fs::remove_dir_all(&classes)?;
    publish(&half, folder)
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

/// Class files below `folder`, by their names in a jar. Only ordinary files count, whoever has made them.
fn read_classes(folder: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let (mut classes, mut left) = (BTreeMap::new(), CLASSES_MAX);
    read_into(folder, "", 0, &mut left, &mut classes)?;
    Ok(classes)
}

/// Bytes of all classes of one function.
const CLASSES_MAX: u64 = 64 << 20;
const DEEPEST: usize = 32;

fn read_into(
    folder: &Path,
    prefix: &str,
    depth: usize,
    left: &mut u64,
    classes: &mut BTreeMap<String, Vec<u8>>,
) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (kind, name) = (entry.file_type()?, entry.file_name());
        let Some(name) = name.to_str() else { continue };
        let name = format!("{prefix}{name}");
        if kind.is_dir() && depth < DEEPEST {
            read_into(&entry.path(), &format!("{name}/"), depth + 1, left, classes)?;
        } else if kind.is_file() && name.ends_with(".class") {
            let length = entry.metadata()?.len();
            *left = left
                .checked_sub(length)
                .ok_or_else(|| io::Error::other("its classes have more than 64 MB"))?;
            classes.insert(name, fs::read(entry.path())?);
        }
    }
    Ok(())
}
