//! What only Python needs: byte code beside the sources, since sandboxes cannot write it, and the version that a virtual environment is for.

use std::{
    collections::HashSet,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use flint_model::ByteSize;
use flint_sandbox::{Launcher, SandboxSpec};
use tokio::sync::Mutex;

use crate::{
    discover::Runtime,
    prepare::CODE,
    process::{
        command::{environment, readonly},
        tool,
    },
    shims::{Shims, create_readable_dir},
};

/// Names under which the shim looks for a virtual environment.
const VIRTUAL_ENVIRONMENTS: [&str; 3] = ["virtualenv", ".venv", "venv"];
/// Byte code of one function.
const CODE_MAX: u64 = 256 << 20;
const DEEPEST: usize = 32;
const OUT: &str = "/out";

/// Compiles every source below `/function` into a tree of its own below `/out`. What does not compile is left for its import to say.
const COMPILE: &str = "
import os, py_compile
for folder, _, names in os.walk('/function'):
    for name in names:
        if name.endswith('.py'):
            source = os.path.join(folder, name)
            cache = '/out' + __import__('importlib.util').util.cache_from_source(source)
            if not os.path.exists(cache[len('/out'):]):
                try:
                    py_compile.compile(source, cache, source, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
                except Exception:
                    pass
";

/// The interpreters that the shim has been compiled for.
#[derive(Debug, Default)]
pub(crate) struct PythonShims(Mutex<HashSet<String>>);

impl PythonShims {
    /// Compiles the shim once for each interpreter. Without it a start takes some ms longer.
    pub(crate) async fn make_ready(&self, runtime: &Runtime, shims: &Shims) {
        let mut ready = self.0.lock().await;
        if !ready.insert(runtime.identity()) {
            return;
        }
        let name = format!("python-{}", &blake3::hash(runtime.identity().as_bytes()).to_hex()[..16]);
        let (marker, shim, program) =
            (shims.derived().join(name), shims.of("python"), runtime.program.clone());
        if marker.exists() {
            return;
        }
        let compiled = tokio::task::spawn_blocking(move || compile_shim(&program, &shim, &marker)).await;
        if let Ok(Err(error)) = compiled {
            tracing::warn!(%error, "the Python shim was not compiled; it starts a little slower");
        }
    }
}

/// Our own sources: no sandbox is needed.
fn compile_shim(program: &Path, shim: &Path, marker: &Path) -> io::Result<()> {
    let mut command = Command::new(program);
    command.args(["-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "-s"]);
    command.arg(shim).args(["-p", "/runtime/python"]).arg(shim);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if !status.success() {
        return Err(io::Error::other(format!("{} -m compileall: {status}", program.display())));
    }
    make_readable(shim, 0)?;
    marker.parent().map_or(Ok(()), create_readable_dir)?;
    fs::write(marker, b"")
}

/// Whatever the umask is.
fn make_readable(folder: &Path, depth: usize) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let directory = entry.file_type()?.is_dir();
        let mode = if directory { 0o755 } else { 0o644 };
        fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode))?;
        if directory && depth < DEEPEST {
            make_readable(&entry.path(), depth + 1)?;
        }
    }
    Ok(())
}

/// The version (`3.11`) that the virtual environment in a function's folder was made for.
pub(crate) fn version_of_virtualenv(code: &Path) -> Option<String> {
    let libraries = VIRTUAL_ENVIRONMENTS.iter().flat_map(|name| fs::read_dir(code.join(name).join("lib")));
    libraries.flatten().flatten().find_map(|entry| {
        let line = entry.file_name().to_str()?.strip_prefix("python")?.to_owned();
        entry.path().join("site-packages").is_dir().then_some(line)
    })
}

/// Compiles a function's sources in a sandbox and puts the byte code beside them; how many files it is.
pub(crate) async fn compile_code(
    runtime: &Runtime,
    launcher: &Launcher,
    artefact: &Path,
    within: Duration,
    memory: ByteSize,
) -> Result<usize, String> {
    let (code, out) = (artefact.join("code"), artefact.join("byte-code"));
    let compiled = async {
        fs::create_dir(&out)
            .and_then(|()| fs::set_permissions(&out, fs::Permissions::from_mode(0o777)))
            .map_err(|error| error.to_string())?;
        let argv =
            [&runtime.inside(&runtime.program).display().to_string(), "-I", "-c", COMPILE].map(str::to_owned);
        let mut spec = SandboxSpec::new("py-compile", argv.into());
        spec.env = environment(Some(runtime));
        spec.mounts = runtime.mounts.clone();
        spec.mounts.push(readonly(code.clone(), CODE));
        spec.mounts.push(flint_sandbox::Mount { readonly: false, ..readonly(out.clone(), OUT) });
        spec.limits.memory_bytes = memory.as_u64();
        tool::run(launcher, &spec, within).await.map_err(|error| error.to_string())?;
        let (made, code) = (out.join(CODE.trim_start_matches('/')), code.clone());
        let taken = tokio::task::spawn_blocking(move || {
            let (mut left, mut files) = (CODE_MAX, 0);
            take(&made, &code, 0, &mut left, &mut files).map(|()| files)
        });
        taken.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    };
    let compiled = compiled.await;
    let _ = fs::remove_dir_all(&out);
    compiled
}

/// Copies byte code from where a sandbox has written it. Whatever else is there, and whatever has no source folder, is left.
fn take(from: &Path, to: &Path, depth: usize, left: &mut u64, files: &mut usize) -> io::Result<()> {
    for entry in fs::read_dir(from).into_iter().flatten() {
        let entry = entry?;
        let (kind, name, target) = (entry.file_type()?, entry.file_name(), to.join(entry.file_name()));
        if kind.is_dir() && depth < DEEPEST && (name == "__pycache__" || is_real_dir(&target)) {
            if name == "__pycache__" {
                create_readable_dir(&target)?;
            }
            if is_real_dir(&target) {
                take(&entry.path(), &target, depth + 1, left, files)?;
            }
        } else if kind.is_file()
            && to.ends_with("__pycache__")
            && Path::new(&name).extension().is_some_and(|end| end == "pyc")
        {
            let content = fs::read(entry.path())?;
            *left = left
                .checked_sub(content.len() as u64)
                .ok_or_else(|| io::Error::other("too much byte code"))?;
            write_new(&target, &content)?;
            *files += 1;
        }
    }
    Ok(())
}

/// A folder, and not a link to one: nothing is written through what an archive brought.
fn is_real_dir(path: &PathBuf) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    use io::Write;
    match fs::File::create_new(path) {
        Ok(mut file) => {
            file.write_all(content)?;
            file.set_permissions(fs::Permissions::from_mode(0o644))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}
