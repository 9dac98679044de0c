//! What a workshop makes of a module: machine code, or the module with the state that its initialiser left.

use std::path::PathBuf;

use flint_model::{ByteSize, NamespaceName};
use serde::{Deserialize, Serialize};

use crate::{WasmConfig, cache::Shape, cut::cut, engine, preinit, wasi::Wasi};

/// A job on one module or component, with all parameters besides the code.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) config: WasmConfig,
    pub(crate) shape: Shape,
    pub(crate) wasi: Wasi,
    pub(crate) task: Task,
}

/// The kind of job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Compile to machine code for the server's engine. None of the code is run.
    Compile,
    /// Run the initialiser. This executes user code, so the resulting module is no more trusted than what was
    /// deployed.
    Initialise(Initialiser),
}

/// The initialiser and its limits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Initialiser {
    pub(crate) name: String,
    pub(crate) namespace: NamespaceName,
    pub(crate) memory: ByteSize,
    pub(crate) logs: ByteSize,
    pub(crate) assets: Option<PathBuf>,
}

impl Order {
    /// Does the job in this process; the error is for the function's developer. Blocks, and cannot be
    /// interrupted except while an initialiser computes.
    pub(crate) fn carry_out(&self, code: &[u8]) -> Result<Vec<u8>, String> {
        let Self { config, shape, wasi, task } = self;
        match task {
            Task::Compile => {
                let engine = engine::without_pool(config, *wasi).map_err(|error| format!("{error:#}"))?;
                let compiled = match shape {
                    Shape::Module => engine.precompile_module(code),
                    Shape::Component => engine.precompile_component(code),
                };
                compiled.map_err(|error| cut(format_args!("this is not valid Wasm: {error:#}")))
            }
            Task::Initialise(initialiser) => preinit::run(config, initialiser, *shape, *wasi, code),
        }
    }
}
