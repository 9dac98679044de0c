//! Build tools: programs that run once, in a sandbox of their own, because what they read comes from users.

use std::time::{Duration, Instant};

use flint_model::ByteSize;
use flint_sandbox::{Launcher, SandboxIo, SandboxSpec};

use super::{ending, logs::Logs, output::Output};

/// The most that is kept of what a tool says.
const SAID: ByteSize = ByteSize::kib(64);

/// Runs a tool to its end. The error is what it said, or why it did not run.
pub(crate) async fn run(launcher: &Launcher, spec: &SandboxSpec, within: Duration) -> Result<(), ToolError> {
    let mut logs = Logs::new(SAID);
    let (mut output, [stdout, stderr]) =
        Output::both().map_err(|error| ToolError::NotRun(error.to_string()))?;
    let io = SandboxIo { stdin: None, stdout, stderr, link: None };
    let deadline = Instant::now() + within;
    let sandbox = match tokio::time::timeout_at(deadline.into(), launcher.start(spec, io)).await {
        Ok(Ok(sandbox)) => sandbox,
        Ok(Err(error)) => return Err(ToolError::NotRun(error.to_string())),
        Err(_) => return Err(ToolError::TooLong(within)),
    };
    let Ok(exit) =
        tokio::time::timeout_at(deadline.into(), ending::gather(&sandbox, &mut output, &mut logs)).await
    else {
        ending::completely(&sandbox).await;
        return Err(ToolError::TooLong(within));
    };
    if exit.status.success() {
        return Ok(());
    }
    if exit.oom {
        return Err(ToolError::NotRun(format!(
            "it needs more than {} bytes of memory",
            spec.limits.memory_bytes
        )));
    }
    let said: Vec<String> = logs.finish().0.into_iter().map(|line| line.text).collect();
    Err(ToolError::Failed { status: exit.status.to_string(), said: said.join("\n") })
}

/// Why a tool did not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    #[error("{0}")]
    NotRun(String),
    #[error("it took longer than {0:?}")]
    TooLong(Duration),
    /// It looked at its input, and did not like it.
    #[error("{status}: {said}")]
    Failed { status: String, said: String },
}
