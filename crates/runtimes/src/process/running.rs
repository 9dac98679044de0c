//! A build tool while it runs: that it starts and that it ends are two steps, between which it may wait.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use flint_model::ByteSize;
use flint_sandbox::{Launcher, Sandbox, SandboxIo, SandboxSpec};

use super::{ending, logs::Logs, output::Output, tool::ToolError};

/// How much of a tool's output is kept.
const SAID: ByteSize = ByteSize::kib(64);

/// A time limit that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    within: Duration,
    deadline: Instant,
}

impl Limit {
    /// Begins now.
    pub(crate) fn from_now(within: Duration) -> Self {
        Self { within, deadline: Instant::now() + within }
    }

    /// Does the work within the limit, or gives it up.
    pub(crate) async fn bound<T>(
        self,
        work: impl Future<Output = Result<T, ToolError>>,
    ) -> Result<T, ToolError> {
        let done = tokio::time::timeout_at(self.deadline.into(), work).await;
        done.unwrap_or(Err(ToolError::TooLong(self.within)))
    }
}

/// A tool that was started. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Running {
    sandbox: Arc<Sandbox>,
    output: Output,
    /// Its memory limit.
    memory: ByteSize,
}

impl Running {
    /// Starts the tool; `output` is what it says.
    pub(super) async fn start(
        launcher: &Launcher,
        spec: &SandboxSpec,
        io: SandboxIo,
        output: Output,
        limit: Limit,
    ) -> Result<Self, ToolError> {
        let starting =
            async { launcher.start(spec, io).await.map_err(|error| ToolError::NotRun(error.to_string())) };
        let sandbox = Arc::new(limit.bound(starting).await?);
        Ok(Self { sandbox, output, memory: ByteSize::bytes(spec.limits.memory_bytes) })
    }

    /// Where it runs.
    pub(super) fn sandbox(&self) -> &Arc<Sandbox> {
        &self.sandbox
    }

    /// Waits for its end. `receiving` is what the server does meanwhile with what the tool sends. The tool is
    /// ended at once if that fails; both together have the time limit.
    pub(super) async fn finish<T>(
        self,
        limit: Limit,
        receiving: impl Future<Output = Result<T, ToolError>>,
    ) -> Result<T, ToolError> {
        let Self { sandbox, mut output, memory } = self;
        let mut logs = Logs::new(SAID);
        let ending = async { Ok(ending::gather(&sandbox, &mut output, &mut logs).await) };
        let ended = limit.bound(async { tokio::try_join!(ending, receiving) }).await;
        let (exit, received) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                ending::completely(&sandbox).await;
                return Err(error);
            }
        };
        if exit.status.success() {
            return Ok(received);
        }
        if exit.oom {
            return Err(ToolError::OutOfMemory(memory));
        }
        let said: Vec<String> = logs.finish().0.into_iter().map(|line| line.text).collect();
        Err(ToolError::Failed { status: exit.status, said: said.join("\n") })
    }
}
