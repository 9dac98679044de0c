//! Python: byte code beside the sources, since sandboxes cannot write it, and the version that a virtual
//! environment needs.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Component, Path},
    time::Duration,
};

use flint_model::ByteSize;
use flint_sandbox::{Launcher, SandboxSpec};
use tokio::sync::Mutex;

use crate::{
    discover::Runtime,
    prepare::CODE,
    process::{
        command::{SHIM, environment, readonly},
        tool::{Bounds, make},
    },
    shims::{Shims, create_readable_dir},
};

/// The names under which the shim looks for a virtual environment.
const VIRTUAL_ENVIRONMENTS: [&str; 3] = ["virtualenv", ".venv", "venv"];
const DEEPEST: usize = 32;

/// The limits of compiling the shim.
const COMPILING: Bounds =
    Bounds { within: Duration::from_secs(60), memory: ByteSize::mib(256), size: ByteSize::mib(64) };

/// Compiles every source below a directory and sends the byte code to descriptor 3 as a tar. Skips sources
/// that do not compile; their import will report why.
const COMPILE: &str = "
import importlib.util, os, py_compile, sys, tarfile
root = sys.argv[1]
out = tarfile.open(fileobj=os.fdopen(3, 'wb'), mode='w|')
for folder, _, names in os.walk(root):
    for name in names:
        if name.endswith('.py'):
            source = os.path.join(folder, name)
            cache = importlib.util.cache_from_source(source)
            if not os.path.exists(cache):
                try:
                    py_compile.compile(source, '/tmp/code', source, doraise=True, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
                except Exception:
                    continue
                out.add('/tmp/code', os.path.relpath(cache, root))
out.close()
";

/// The interpreters for which the shim has been compiled.
#[derive(Debug, Default)]
pub(crate) struct PythonShims(Mutex<HashSet<String>>);

impl PythonShims {
    /// Compiles the shim once per interpreter. Without that a start takes some ms longer.
    pub(crate) async fn make_ready(&self, runtime: &Runtime, shims: &Shims, launcher: &Launcher) {
        let mut ready = self.0.lock().await;
        if ready.contains(&runtime.identity()) {
            return;
        }
        let name = format!("python-{}", &blake3::hash(runtime.identity().as_bytes()).to_hex()[..16]);
        let marker = shims.derived().join(name);
        if !marker.exists()
            && let Err(error) = compile_shim(runtime, launcher, &shims.of("python"), &marker).await
        {
            tracing::warn!(%error, "the Python shim was not compiled; it starts a little slower");
        }
        ready.insert(runtime.identity());
    }
}

/// Compiles our own sources, in a sandbox like every tool, so that the interpreter ends with the server.
async fn compile_shim(
    runtime: &Runtime,
    launcher: &Launcher,
    shim: &Path,
    marker: &Path,
) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    marker.parent().map_or(Ok(()), create_readable_dir).map_err(failed)?;
    let made = marker.with_extension("tar");
    // Left by a server that was killed.
    let _ = fs::remove_file(&made);
    compile(runtime, launcher, (shim, &format!("{SHIM}/python")), &made, COMPILING).await?;
    fs::write(marker, b"").map_err(failed)
}

/// The version (`3.11`) for which the virtual environment in a function's directory was made.
pub(crate) fn version_of_virtualenv(code: &Path) -> Option<String> {
    let libraries = VIRTUAL_ENVIRONMENTS.iter().flat_map(|name| fs::read_dir(code.join(name).join("lib")));
    libraries.flatten().flatten().find_map(|entry| {
        let line = entry.file_name().to_str()?.strip_prefix("python")?.to_owned();
        entry.path().join("site-packages").is_dir().then_some(line)
    })
}

/// Compiles a function's sources in a sandbox and puts the byte code beside them; returns the number of
/// files.
pub(crate) async fn compile_code(
    runtime: &Runtime,
    launcher: &Launcher,
    artefact: &Path,
    bounds: Bounds,
) -> Result<usize, String> {
    compile(runtime, launcher, (&artefact.join("code"), CODE), &artefact.join("byte-code.tar"), bounds).await
}

/// Compiles the sources in a directory, which the sandbox sees as `inside`. `made` is an intermediate file.
async fn compile(
    runtime: &Runtime,
    launcher: &Launcher,
    (code, inside): (&Path, &str),
    made: &Path,
    bounds: Bounds,
) -> Result<usize, String> {
    let argv = [&runtime.inside(&runtime.program).display().to_string(), "-I", "-c", COMPILE, inside]
        .map(str::to_owned);
    let mut spec = SandboxSpec::new("py-compile", argv.into());
    spec.env = environment(Some(runtime));
    spec.mounts = runtime.mounts.clone();
    spec.mounts.push(readonly(code.to_owned(), inside));
    spec.limits.memory_bytes = bounds.memory.as_u64();
    let compiled = async {
        make(launcher, spec, made, bounds).await.map_err(|error| error.to_string())?;
        let (made, code) = (made.to_owned(), code.to_owned());
        let taken = tokio::task::spawn_blocking(move || take(File::open(made)?, &code));
        taken.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    };
    let compiled = compiled.await;
    let _ = fs::remove_file(made);
    compiled
}

/// Takes byte code out of a tar from a sandbox. Ignores everything else, and files without a source
/// directory.
fn take(tar: impl io::Read, code: &Path) -> io::Result<usize> {
    let mut files = 0;
    for entry in tar::Archive::new(tar).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let ordinary = path.components().all(|part| matches!(part, Component::Normal(_)));
        let (Some(cache), true) = (path.parent(), ordinary && entry.header().entry_type().is_file()) else {
            continue;
        };
        let sources = cache.parent().unwrap_or(Path::new(""));
        let is_code = path.extension().is_some_and(|end| end == "pyc") && cache.ends_with("__pycache__");
        if !is_code || path.components().count() > DEEPEST || !is_real_dir(code, sources) {
            continue;
        }
        create_readable_dir(&code.join(cache))?;
        if is_real_dir(code, cache) {
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            write_new(&code.join(&path), &content)?;
            files += 1;
        }
    }
    Ok(files)
}

/// Takes byte code out of any bytes, as a deploy does of what its compiler sent; for fuzz targets.
#[cfg(feature = "fuzzing")]
pub fn fuzz_byte_code(tar: &[u8], code: &Path) {
    let _ = take(tar, code);
}

/// Whether no component of the path is a link, so that nothing is written through a link from an archive.
fn is_real_dir(root: &Path, path: &Path) -> bool {
    path.ancestors().all(|above| fs::symlink_metadata(root.join(above)).is_ok_and(|meta| meta.is_dir()))
}

/// Writes a file whole or not at all, since a partial one would break every import. Keeps an existing one.
fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    use io::Write;
    let half = path.with_extension("half");
    // `remove_file` does not follow a link.
    let _ = fs::remove_file(&half);
    let mut file = File::create_new(&half)?;
    file.write_all(content)?;
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    let linked = fs::hard_link(&half, path);
    fs::remove_file(&half)?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_tar_only_byte_code_beside_its_sources_is_taken() {
        let scratch = tempfile::tempdir().unwrap();
        let (code, outside) = (scratch.path().join("code"), scratch.path().join("outside"));
        for folder in ["code/pkg", "code/linked", "outside"] {
            fs::create_dir_all(scratch.path().join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(&outside, code.join("link")).unwrap();
        std::os::unix::fs::symlink(&outside, code.join("linked/__pycache__")).unwrap();
        let mut tar = tar::Builder::new(Vec::new());
        let mut add = |name: &str| {
            let mut header = tar::Header::new_gnu();
            header.set_size(1);
            header.set_entry_type(tar::EntryType::Regular);
            // Any name that a hostile archive may contain.
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            tar.append(&header, &b"x"[..]).unwrap();
        };
        // An archive may contain a link where the intermediate file goes.
        fs::create_dir(code.join("__pycache__")).unwrap();
        std::os::unix::fs::symlink(outside.join("a"), code.join("__pycache__/a.half")).unwrap();
        let good = ["__pycache__/a.pyc", "pkg/__pycache__/b.pyc"];
        let bad = [
            "../outside/__pycache__/c.pyc",
            "/tmp/__pycache__/c.pyc",
            "link/__pycache__/c.pyc",
            "linked/__pycache__/c.pyc",
            "nowhere/__pycache__/c.pyc",
            "pkg/c.pyc",
            "pkg/__pycache__/c.py",
        ];
        good.iter().chain(&bad).for_each(|name| add(name));
        let mut link = tar::Header::new_gnu();
        link.set_size(0);
        link.set_entry_type(tar::EntryType::Symlink);
        tar.append_link(&mut link, "pkg/__pycache__/d.pyc", "/etc/passwd").unwrap();
        let tar = tar.into_inner().unwrap();
        assert_eq!(take(&tar[..], &code).unwrap(), good.len());
        assert!(good.iter().all(|name| fs::read(code.join(name)).unwrap() == b"x"));
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert_eq!(fs::read_dir(code.join("pkg/__pycache__")).unwrap().count(), 1);
        assert!(!code.join("nowhere").exists());
    }
}
