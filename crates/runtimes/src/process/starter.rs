//! Starts the sandboxes of one function, with a gate to the API if the function gets one.

use flint_executor::StartContext;
use flint_gate::{Gate, Gates};
use flint_model::{Function, NamespaceName};
use flint_sandbox::{Error, Launcher, Sandbox, SandboxIo, SandboxSpec};

use crate::House;

/// Starts the sandboxes of one function.
#[derive(Clone, Debug)]
pub struct Starter {
    launcher: Launcher,
    gates: Option<Gates>,
    /// The namespace for which they work all their life; `None` if it is known later.
    namespace: Option<NamespaceName>,
}

impl Starter {
    /// Starts sandboxes without a gate.
    pub fn plain(launcher: &Launcher) -> Self {
        Self { launcher: launcher.clone(), gates: None, namespace: None }
    }

    /// Starts a sandbox.
    ///
    /// # Errors
    /// Those of [`Launcher::start`].
    pub async fn start(&self, spec: &SandboxSpec, io: SandboxIo) -> Result<Sandbox, Error> {
        self.start_with_gate(spec, io).await.map(|(sandbox, _)| sandbox)
    }

    /// Starts a sandbox; its gate listens before anything runs inside.
    ///
    /// # Errors
    /// Those of [`Launcher::start`].
    pub async fn start_with_gate(
        &self,
        spec: &SandboxSpec,
        io: SandboxIo,
    ) -> Result<(Sandbox, Option<Gate>), Error> {
        let Some(gates) = &self.gates else {
            return Ok((self.launcher.start(spec, io).await?, None));
        };
        let (sandbox, listener) = self.launcher.start_and_listen(spec, io, gates.port()).await?;
        let gate = self.open(gates, &sandbox, listener)?;
        Ok((sandbox, Some(gate)))
    }

    /// Opens the gate of a sandbox that is running already, in which only the runtime has run so far.
    ///
    /// # Errors
    /// [`Error::Ended`], [`Error::Operation`].
    pub async fn add_gate(&self, sandbox: &Sandbox) -> Result<Option<Gate>, Error> {
        let Some(gates) = &self.gates else { return Ok(None) };
        let listener = sandbox.listen(gates.port()).await?;
        self.open(gates, sandbox, listener).map(Some)
    }

    fn open(&self, gates: &Gates, sandbox: &Sandbox, listener: std::os::fd::OwnedFd) -> Result<Gate, Error> {
        gates.open(listener, sandbox.end(), self.namespace.clone()).map_err(|source| Error::Operation {
            id: sandbox.id().to_owned(),
            operation: "open its gate to the API".into(),
            source,
        })
    }
}

impl House {
    /// The starter for a function's sandboxes.
    pub fn starter(&self, function: &Function, context: &StartContext) -> Starter {
        Starter {
            launcher: self.launcher().clone(),
            gates: self.gates_of(function).cloned(),
            namespace: context.namespace.clone(),
        }
    }
}
