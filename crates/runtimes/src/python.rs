//! What only Python needs: byte code beside the sources, since sandboxes cannot write it, and the version that a virtual environment is for.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Component, Path},
    process::{Command, Stdio},
};

use flint_sandbox::{Launcher, SandboxSpec};
use tokio::sync::Mutex;

use crate::{
    discover::Runtime,
    prepare::CODE,
    process::{
        command::{environment, readonly},
        tool::{Bounds, make},
    },
    shims::{Shims, create_readable_dir},
};

/// Names under which the shim looks for a virtual environment.
const VIRTUAL_ENVIRONMENTS: [&str; 3] = ["virtualenv", ".venv", "venv"];
const DEEPEST: usize = 32;

/// Compiles every source below `/function`, and writes the byte code to descriptor 3 as a tar. What does not compile is left for its import to say.
const COMPILE: &str = "
import importlib.util, os, py_compile, tarfile
out = tarfile.open(fileobj=os.fdopen(3, 'wb'), mode='w|')
for folder, _, names in os.walk('/function'):
    for name in names:
        if name.endswith('.py'):
            source = os.path.join(folder, name)
            cache = importlib.util.cache_from_source(source)
            if not os.path.exists(cache):
                try:
                    py_compile.compile(source, '/tmp/code', source, doraise=True, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
                except Exception:
                    continue
                out.add('/tmp/code', os.path.relpath(cache, '/function'))
out.close()
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
    bounds: Bounds,
) -> Result<usize, String> {
    let (code, made) = (artefact.join("code"), artefact.join("byte-code.tar"));
    let argv =
        [&runtime.inside(&runtime.program).display().to_string(), "-I", "-c", COMPILE].map(str::to_owned);
    let mut spec = SandboxSpec::new("py-compile", argv.into());
    spec.env = environment(Some(runtime));
    spec.mounts = runtime.mounts.clone();
    spec.mounts.push(readonly(code.clone(), CODE));
    spec.limits.memory_bytes = bounds.memory.as_u64();
    let compiled = async {
        make(launcher, spec, &made, bounds).await.map_err(|error| error.to_string())?;
        let made = made.clone();
        let taken = tokio::task::spawn_blocking(move || take(File::open(made)?, &code));
        taken.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    };
    let compiled = compiled.await;
    let _ = fs::remove_file(&made);
    compiled
}

/// Takes byte code out of a tar that a sandbox has written. Whatever else is in it, and whatever has no source folder, is left.
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

/// A folder in which no step is a link: nothing is written through what an archive brought.
fn is_real_dir(root: &Path, path: &Path) -> bool {
    path.ancestors().all(|above| fs::symlink_metadata(root.join(above)).is_ok_and(|meta| meta.is_dir()))
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
            // As hostile as the name may be.
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            tar.append(&header, &b"x"[..]).unwrap();
        };
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
