//! The build cache with Go's compiled standard library, made once per toolchain from trusted sources.
//!
//! Builds see it read-only: if untrusted sources could write to it, their objects would get into other
//! functions.

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

use super::{BUILD, tool, writable};
use crate::{
    discover::Runtime,
    process::{command::readonly, tool::run},
    shims::{Shims, create_readable_dir, publish},
};

/// Compiling the standard library takes some ten seconds on two cores, which may be busy.
const WITHIN: Duration = Duration::from_secs(600);
const MEMORY: ByteSize = ByteSize::mib(1024);
/// Where the cache is mounted while it is made.
const CACHE: &str = "/cache";

/// A program that imports what most functions need.
const SAMPLE: &str = "package main

import (
	_ \"context\"
	_ \"crypto/sha256\"
	_ \"encoding/base64\"
	_ \"math/rand\"
	_ \"net/http\"
	_ \"regexp\"
	_ \"sort\"
	_ \"strconv\"
	_ \"sync\"
	_ \"time\"
)

func Main(arguments map[string]any) map[string]any { return arguments }
";

/// The finished caches, by [`Runtime::identity`].
#[derive(Debug, Default)]
pub(crate) struct GoCaches(Mutex<HashMap<String, Arc<PathBuf>>>);

impl GoCaches {
    /// The cache for this toolchain. The first call makes it; concurrent ones wait.
    pub(super) async fn get(
        &self,
        runtime: &Runtime,
        shims: &Shims,
        launcher: &Launcher,
    ) -> Result<Arc<PathBuf>, String> {
        let mut ready = self.0.lock().await;
        if let Some(cache) = ready.get(&runtime.identity()) {
            return Ok(Arc::clone(cache));
        }
        let cache = Arc::new(make(runtime, shims, launcher).await?);
        ready.insert(runtime.identity(), Arc::clone(&cache));
        Ok(cache)
    }
}

async fn make(runtime: &Runtime, shims: &Shims, launcher: &Launcher) -> Result<PathBuf, String> {
    let name = format!("go-{}", &blake3::hash(runtime.identity().as_bytes()).to_hex()[..16]);
    let folder = shims.derived().join(&name);
    if folder.is_dir() {
        return Ok(folder);
    }
    let half = shims.derived().join(format!(".{name}.{}", std::process::id()));
    let made = fill(runtime, shims, launcher, &half).await;
    let made = made.and_then(|()| publish(&half.join("cache"), &folder).map_err(|error| error.to_string()));
    let _ = fs::remove_dir_all(&half);
    made.map(|()| folder)
}

async fn fill(runtime: &Runtime, shims: &Shims, launcher: &Launcher, half: &Path) -> Result<(), String> {
    let source = half.join("source");
    let lay_out = || -> io::Result<()> {
        let _ = fs::remove_dir_all(half);
        create_readable_dir(&source)?;
        super::compile::write_launcher(shims, &source, "Main")?;
        super::compile::write_module(&source, runtime)?;
        fs::write(source.join("main.go"), SAMPLE)?;
        fs::set_permissions(source.join("main.go"), fs::Permissions::from_mode(0o644))?;
        fs::create_dir(half.join("cache"))?;
        fs::set_permissions(half.join("cache"), fs::Permissions::from_mode(0o777))
    };
    lay_out().map_err(|error| error.to_string())?;
    let arguments: Vec<&str> = BUILD.into_iter().chain(["/tmp/sample", "."]).collect();
    let mut spec = tool("go-cache", runtime, &arguments, "/source", CACHE, MEMORY);
    spec.mounts.extend([readonly(source, "/source"), writable(half.join("cache"), CACHE)]);
    run(launcher, &spec, WITHIN).await.map_err(|error| error.to_string())?;
    seal(&half.join("cache")).map_err(|error| error.to_string())
}

/// Makes the cache readable for everyone and writable for its owner only, whatever umask and user it was made
/// with.
fn seal(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            seal(&entry.path())?;
        } else {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o644))?;
        }
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
}
