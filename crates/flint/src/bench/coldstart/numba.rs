//! Python packages for the arms with numba: installed by pip once, cached, and packed with the function.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, ensure};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use crate::{
    bench::{interpreter, tied::tied},
    output::tell,
};

/// No version: pip chooses one for the interpreter, and the cache keeps it.
const PACKAGE: &str = "numba";

/// The folder with numba and its dependencies for the experiments' Python, and that interpreter's version
/// (`3.11`).
pub(super) fn site_packages() -> anyhow::Result<(PathBuf, String)> {
    let python = interpreter::python()?;
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .context("there is neither HOME nor XDG_CACHE_HOME to keep numba in")?;
    let folder = cache.join("flint-bench").join(format!("numba-{}", python.line));
    if !folder.is_dir() {
        install(&python.program, &folder)?;
    }
    Ok((folder, python.line))
}

/// Installs next to `folder` first, so that an interrupted installation is not taken for numba.
fn install(python: &Path, folder: &Path) -> anyhow::Result<()> {
    tell!("flint bench: installing {PACKAGE} into {}", folder.display());
    let parent = folder.parent().context("the cache has a parent")?;
    fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
    let half = tempfile::tempdir_in(parent).context("making a folder for numba")?;
    let output = tied(python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"])
        .arg("--target")
        .arg(half.path())
        .arg(PACKAGE)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("running {} -m pip", python.display()))?;
    ensure!(
        output.status.success(),
        "pip did not install {PACKAGE}: {}",
        String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default()
    );
    fs::rename(half.keep(), folder).context("moving numba to its place")
}

/// Packs `main` as `__main__.py`, with numba in a virtual environment.
pub(super) fn pack(archive: &Path, main: &str) -> anyhow::Result<()> {
    let (site, version) = site_packages()?;
    let mut zip = ZipWriter::new(File::create(archive).context("creating the archive")?);
    // Fast rather than small: it lives for one run.
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(1));
    zip.start_file("__main__.py", options)?;
    zip.write_all(main.as_bytes())?;
    let root = format!("virtualenv/lib/python{version}/site-packages");
    let mut folders = vec![(site, root)];
    while let Some((folder, inside)) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let inside = format!("{inside}/{name}");
            match entry.file_type()? {
                // Their own tests are a third of the packages, and nothing imports them.
                kind if kind.is_dir() && !["tests", "__pycache__", "bin"].contains(&name.as_str()) => {
                    folders.push((entry.path(), inside));
                }
                kind if kind.is_file() => {
                    zip.start_file(inside, options)?;
                    std::io::copy(&mut File::open(entry.path())?, &mut zip)?;
                }
                _ => {}
            }
        }
    }
    zip.finish()?;
    Ok(())
}
