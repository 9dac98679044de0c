//! What the executor is told by whoever composes the server.

use std::{path::PathBuf, time::Duration};

use flint_gate::Gates;
use flint_model::ByteSize;
use flint_sandbox::Launcher;

use crate::process::tool::Bounds;

/// What a [`crate::House`] works with.
#[derive(Clone, Debug)]
pub struct HouseConfig {
    /// Where prepared functions are kept. Created when missing, for this user only.
    pub artefacts_dir: PathBuf,
    /// Where the runtime shims that the binary carries are laid out. Created when missing.
    pub runtimes_dir: PathBuf,
    /// Makes the sandboxes.
    pub launcher: Launcher,
    /// Where language runtimes are looked for besides PATH: folders with programs, installations, or folders of installations.
    pub search: Vec<PathBuf>,
    /// Where functions are to call Flint: `__OW_API_HOST`, except for those with a gate.
    pub api_host: Option<String>,
    /// How functions that want a key reach Flint from their sandboxes; absent: they do not.
    pub gates: Option<Gates>,
    /// What an archive may contain.
    pub unpack: UnpackLimits,
    /// Free space that deploys leave on the disk of the artefacts; absent: 1 GB, or a twentieth of a smaller disk.
    pub min_free: Option<ByteSize>,
    /// The most that the unpacked code of one namespace may take of that disk; zero: no bound.
    pub per_namespace: ByteSize,
    /// Load every function of contract `handler` once when it is prepared, so that a syntax error or a missing `main` is found at deploy. Off by
    /// default: OpenWhisk accepts broken code and lets its calls fail.
    pub validate: bool,
    /// How long each build step of [`flint_executor::Executor::prepare`] may take.
    pub build_timeout: Duration,
    /// Memory for build steps, such as the Java compiler.
    pub build_memory: ByteSize,
    /// The most that a build step may write.
    pub build_size: ByteSize,
    /// Builds at once.
    pub concurrent_builds: usize,
    /// Archives that are unpacked at once.
    pub concurrent_unpacks: usize,
}

impl HouseConfig {
    /// What a step of a build may use.
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
            api_host: None,
            gates: None,
            unpack: UnpackLimits::default(),
            min_free: None,
            per_namespace: ByteSize::mib(10 * 1024),
            validate: false,
            build_timeout: Duration::from_secs(60),
            build_memory: ByteSize::mib(1024),
            build_size: ByteSize::mib(256),
            // A build uses several cores, and calls need theirs.
            concurrent_builds: std::thread::available_parallelism()
                .map_or(1, |cores| (cores.get() / 2).max(1)),
            // More would only share the processors, and take the threads that the store reads with.
            concurrent_unpacks: std::thread::available_parallelism().map_or(1, |cores| cores.get().min(8)),
        }
    }
}

/// What one archive may contain; more is refused halfway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnpackLimits {
    /// Files, folders and links, with the folders that these are in.
    pub entries: usize,
    /// Bytes of all files together, uncompressed.
    pub bytes: ByteSize,
}

impl Default for UnpackLimits {
    fn default() -> Self {
        Self { entries: 65_536, bytes: ByteSize::mib(512) }
    }
}

/// Why the executor cannot be set up.
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
