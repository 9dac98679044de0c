//! The configuration of a [`crate::House`].

use std::{path::PathBuf, sync::Arc, time::Duration};

use flint_gate::Gates;
use flint_model::ByteSize;
use flint_sandbox::Launcher;

use crate::{discover::Runtimes, process::tool::Bounds};

/// The configuration of a [`crate::House`], given by whoever composes the server.
#[derive(Clone, Debug)]
pub struct HouseConfig {
    /// Where prepared functions are kept. Created when missing, for this user only.
    pub artefacts_dir: PathBuf,
    /// Where the runtime shims from the binary are laid out. Created when missing.
    pub runtimes_dir: PathBuf,
    /// Starts the sandboxes.
    pub launcher: Launcher,
    /// Where language runtimes are looked for besides PATH: directories with programs, installations, or
    /// directories of installations.
    pub search: Vec<PathBuf>,
    /// Runtimes that were found already; the search, which asks every interpreter for its version, is left out.
    pub found: Option<Arc<Runtimes>>,
    /// The URL by which functions without a gate call Flint: `__OW_API_HOST`.
    pub api_host: Option<String>,
    /// Gives functions that want a key access to Flint from their sandboxes; `None` if there is none.
    pub gates: Option<Gates>,
    /// Limits on an archive's contents.
    pub unpack: UnpackLimits,
    /// Space on the artefacts' disk that deploys leave free; `None` means 1 GB, or a twentieth of a smaller
    /// disk.
    pub min_free: Option<ByteSize>,
    /// Quota of a namespace's unpacked code on that disk; zero means none.
    pub per_namespace: ByteSize,
    /// Whether to load every function of contract `handler` once when it is prepared, so that a syntax error
    /// or a missing `main` is found at deploy. Off by default: OpenWhisk accepts broken code and lets its
    /// calls fail.
    pub validate: bool,
    /// How long each build step of [`flint_executor::Executor::prepare`] may take.
    pub build_timeout: Duration,
    /// Memory of a build step, such as the Java compiler.
    pub build_memory: ByteSize,
    /// Most bytes that a build step may write.
    pub build_size: ByteSize,
    /// How many builds run at once.
    pub concurrent_builds: usize,
    /// How many archives are unpacked at once.
    pub concurrent_unpacks: usize,
    /// Whether a compiler is started ahead of the next Java source, and takes memory until that comes.
    pub compile_ahead: bool,
}

impl HouseConfig {
    /// The limits of a build step.
    pub(crate) fn build_bounds(&self) -> Bounds {
        Bounds { within: self.build_timeout, memory: self.build_memory, size: self.build_size }
    }

    /// The defaults.
    pub fn new(
        artefacts_dir: impl Into<PathBuf>,
        runtimes_dir: impl Into<PathBuf>,
        launcher: Launcher,
    ) -> Self {
        Self {
            artefacts_dir: artefacts_dir.into(),
            runtimes_dir: runtimes_dir.into(),
            launcher,
            search: Vec::new(),
            found: None,
            api_host: None,
            gates: None,
            unpack: UnpackLimits::default(),
            min_free: None,
            per_namespace: ByteSize::mib(10 * 1024),
            validate: false,
            build_timeout: Duration::from_secs(60),
            build_memory: ByteSize::mib(1024),
            build_size: ByteSize::mib(256),
            // A build uses several cores, and calls need some too.
            concurrent_builds: std::thread::available_parallelism()
                .map_or(1, |cores| (cores.get() / 2).max(1)),
            // More would only share the CPUs, and take blocking threads that the store needs for reading.
            concurrent_unpacks: std::thread::available_parallelism().map_or(1, |cores| cores.get().min(8)),
            compile_ahead: true,
        }
    }
}

/// Limits on the contents of an archive; unpacking stops when one is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnpackLimits {
    /// Files, directories and links, including the directories that contain them.
    pub entries: usize,
    /// Total size of all files, uncompressed.
    pub bytes: ByteSize,
}

impl Default for UnpackLimits {
    fn default() -> Self {
        Self { entries: 65_536, bytes: ByteSize::mib(512) }
    }
}

/// Why the house cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error(
    "{what} {path}: {source}. Check that the data directory is on a disk with free space and belongs to this user"
)]
pub struct HouseError {
    /// What was being done.
    pub what: &'static str,
    /// Where.
    pub path: String,
    /// The system's answer.
    pub source: std::io::Error,
}

impl HouseError {
    pub(crate) fn new(what: &'static str, path: &std::path::Path, source: std::io::Error) -> Self {
        Self { what, path: path.display().to_string(), source }
    }
}
