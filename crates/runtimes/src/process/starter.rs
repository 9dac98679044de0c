//! Starting the sandboxes of one function, with a gate to the API where the function may have one.

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
    /// On whose account they work for as long as they live; `None` when that is told later.
    namespace: Option<NamespaceName>,
}

impl Starter {
    /// For sandboxes without a gate.
    pub fn plain(launcher: &Launcher) -> Self {
        Self { launcher: launcher.clone(), gates: None, namespace: None }
    }

    /// Starts one.
    ///
    /// # Errors
    /// Those of [`Launcher::start`].
    pub async fn start(&self, spec: &SandboxSpec, io: SandboxIo) -> Result<Sandbox, Error> {
        self.start_with_gate(spec, io).await.map(|(sandbox, _)| sandbox)
    }

    /// The same, with its gate, which was there before anything ran inside.
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

    /// The gate of a sandbox that somebody else has started, and in which only the runtime has run so far.
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
    /// What starts the sandboxes of a function.
    pub fn starter(&self, function: &Function, context: &StartContext) -> Starter {
        Starter {
            launcher: self.launcher().clone(),
            gates: self.gates_of(function).cloned(),
            namespace: context.namespace.clone(),
        }
    }
}
