//! Build tools: programs that run once, in a sandbox of their own because their input comes from users.

use std::{
    fs::File,
    future::ready,
    io::{self, Seek, Write},
    os::{fd::OwnedFd, unix::fs::FileExt},
    path::Path,
    time::Duration,
};

use flint_executor::PrepareError;
use flint_model::ByteSize;
use flint_sandbox::{ExitStatus, Launcher, SandboxIo, SandboxSpec};
use rustix::fs::{MemfdFlags, memfd_create};

use super::{
    output::{Output, pipe_from},
    product::{Product, not_made},
    running::{Limit, Running},
};

/// The message of `EFBIG`.
const FILE_TOO_LARGE: &str = "File too large";

/// The limits of a build step.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Its time limit.
    pub within: Duration,
    /// Its memory limit.
    pub memory: ByteSize,
    /// Most bytes that it may write.
    pub size: ByteSize,
}

/// Runs a tool to its end. The error is its output, or why it did not run.
pub(crate) async fn run(launcher: &Launcher, spec: &SandboxSpec, within: Duration) -> Result<(), ToolError> {
    run_with(launcher, spec, within, None, ready(Ok(()))).await
}

/// Runs a tool that sends one new file, `product`, through descriptor 3, a pipe. Nothing else that it writes
/// leaves its sandbox, so its input cannot make it fill the disk.
///
/// # Errors
/// The tool's output, or why there is no product. Then the file is removed.
pub async fn make(
    launcher: &Launcher,
    mut spec: SandboxSpec,
    product: &Path,
    Bounds { within, size: most, .. }: Bounds,
) -> Result<(), ToolError> {
    let failed = |error: io::Error| not_made(product, &error);
    let (pipe, for_tool) = pipe_from().map_err(failed)?;
    let mut received = Product::create(product, most, pipe).map_err(failed)?;
    // For intermediate files.
    spec.limits.file_bytes = Some(most.as_u64());
    let made = run_with(launcher, &spec, within, Some(for_tool), received.receive()).await;
    received.settle(made)
}

/// Runs a tool that converts `input`, from stdin to stdout. Both are memfds, of which nothing is left however
/// this process ends. Its stderr is the error message.
///
/// # Errors
/// The tool's error message, or why it did not run to its end.
pub async fn convert(
    launcher: &Launcher,
    mut spec: SandboxSpec,
    input: &[u8],
    Bounds { within, memory, size }: Bounds,
) -> Result<Vec<u8>, ToolError> {
    let not_run = |error: io::Error| ToolError::NotRun(error.to_string());
    let nameless = || memfd_create("flint-tool", MemfdFlags::CLOEXEC).map(File::from);
    let mut stdin = nameless().map_err(|error| not_run(error.into()))?;
    stdin.write_all(input).and_then(|()| stdin.rewind()).map_err(not_run)?;
    let product = nameless().map_err(|error| not_run(error.into()))?;
    let (output, stderr) = Output::stderr_only().map_err(not_run)?;
    spec.limits.memory_bytes = memory.as_u64();
    spec.limits.file_bytes = Some(size.as_u64());
    let stdout = product.try_clone().map_err(not_run)?.into();
    let io = SandboxIo { stdin: Some(stdin.into()), stdout, stderr, link: None };
    let ended = run_to_end(launcher, &spec, within, io, output, ready(Ok(()))).await;
    let length = product.metadata().map_err(not_run)?.len();
    judge(ended, length, size)?;
    let mut made = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    // Independent of the file offset, which the tool may have moved.
    product.read_exact_at(&mut made, 0).map_err(not_run)?;
    Ok(made)
}

/// Judges a tool's end by the length of its product.
pub(super) fn judge(ended: Result<(), ToolError>, length: u64, most: ByteSize) -> Result<(), ToolError> {
    match ended {
        // Either the product or an intermediate file was too large.
        Err(ToolError::Failed { said, .. }) if length >= most.as_u64() || said.contains(FILE_TOO_LARGE) => {
            Err(ToolError::TooMuch(most))
        }
        Ok(()) if length == 0 => Err(ToolError::NotRun("it made nothing".into())),
        other => other,
    }
}

async fn run_with<T>(
    launcher: &Launcher,
    spec: &SandboxSpec,
    within: Duration,
    link: Option<OwnedFd>,
    receiving: impl Future<Output = Result<T, ToolError>>,
) -> Result<T, ToolError> {
    let (output, [stdout, stderr]) = Output::both().map_err(|error| ToolError::NotRun(error.to_string()))?;
    let io = SandboxIo { stdin: None, stdout, stderr, link };
    run_to_end(launcher, spec, within, io, output, receiving).await
}

async fn run_to_end<T>(
    launcher: &Launcher,
    spec: &SandboxSpec,
    within: Duration,
    io: SandboxIo,
    output: Output,
    receiving: impl Future<Output = Result<T, ToolError>>,
) -> Result<T, ToolError> {
    let limit = Limit::from_now(within);
    Running::start(launcher, spec, io, output, limit).await?.finish(limit, receiving).await
}

/// Why a tool failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// It could not be started, or its product could not be read.
    #[error("{0}")]
    NotRun(String),
    /// It exceeded its time limit and was ended.
    #[error("it took longer than {0:?}")]
    TooLong(Duration),
    /// It reached its memory limit.
    #[error("it needs more than {0} of memory")]
    OutOfMemory(ByteSize),
    /// It wrote more than it may.
    #[error("it makes more than {0}")]
    TooMuch(ByteSize),
    /// It rejected its input.
    #[error("{status}: {said}")]
    Failed {
        /// Its exit status.
        status: ExitStatus,
        /// Its output.
        said: String,
    },
}

impl ToolError {
    /// The error for the deploy for which the tool ran. `refused` words a rejection of the code.
    pub(crate) fn of_build(self, operation: &str, refused: impl FnOnce(String) -> String) -> PrepareError {
        match self {
            Self::Failed { said, .. } => PrepareError::Code(refused(said)),
            Self::NotRun(detail) => PrepareError::Failed { operation: operation.to_owned(), detail },
            beyond => PrepareError::Code(format!(
                "{operation} was given up: {beyond}. The server's bounds are prepare.build_timeout, prepare.build_memory and prepare.build_size"
            )),
        }
    }
}
