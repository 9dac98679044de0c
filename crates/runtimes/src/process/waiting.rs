//! A build tool that is started ahead, and given its input later.

use std::{io, os::fd::OwnedFd, path::Path, sync::Arc};

use flint_model::ByteSize;
use flint_sandbox::{Launcher, Sandbox, SandboxIo, SandboxSpec};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::{io::AsyncWriteExt, net::unix::pipe};

use super::{
    output::{Output, pipe_from},
    product::{Product, not_made},
    running::{Limit, Running},
    tool::ToolError,
};

/// A tool that waits for its input, on its stdin, and sends its product through its stdout, a pipe. Its
/// stderr is the error message. It ends with its input; dropping it ends it too.
#[derive(Debug)]
pub(crate) struct Waiting {
    tool: Running,
    input: pipe::Sender,
    product: pipe::Receiver,
    most: ByteSize,
}

impl Waiting {
    /// Starts it, within the limit; `most` is what it may send, and what each of its files may have.
    pub(crate) async fn start(
        launcher: &Launcher,
        mut spec: SandboxSpec,
        most: ByteSize,
        limit: Limit,
    ) -> Result<Self, ToolError> {
        let not_run = |error: io::Error| ToolError::NotRun(error.to_string());
        let (stdin, input) = pipe_to().map_err(not_run)?;
        let (product, stdout) = pipe_from().map_err(not_run)?;
        let (output, stderr) = Output::stderr_only().map_err(not_run)?;
        spec.limits.file_bytes = Some(most.as_u64());
        let io = SandboxIo { stdin: Some(stdin), stdout, stderr, link: None };
        let tool = Running::start(launcher, &spec, io, output, limit).await?;
        Ok(Self { tool, input, product, most })
    }

    /// Where it runs.
    pub(crate) fn sandbox(&self) -> &Arc<Sandbox> {
        self.tool.sandbox()
    }

    /// Gives it the input, and makes the new file `path` of what it sends.
    ///
    /// # Errors
    /// The tool's error message, or why there is no product. Then the file is removed.
    pub(crate) async fn make(self, input: &[u8], path: &Path, limit: Limit) -> Result<(), ToolError> {
        let Self { tool, input: mut stdin, product, most } = self;
        let mut received = Product::create(path, most, product).map_err(|error| not_made(path, &error))?;
        // Somebody waits for it from now on.
        tool.sandbox().foreground();
        let feeding = async move {
            // If the tool does not read it all, its end says why.
            let _ = stdin.write_all(input).await;
            // This is the input's end.
            drop(stdin);
            Ok::<(), ToolError>(())
        };
        let exchange = async { tokio::try_join!(feeding, received.receive()).map(|((), length)| length) };
        let made = tool.finish(limit, exchange).await;
        received.settle(made)
    }
}

/// A pipe whose write end is ours.
fn pipe_to() -> io::Result<(OwnedFd, pipe::Sender)> {
    let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok((theirs, pipe::Sender::from_owned_fd(ours)?))
}
