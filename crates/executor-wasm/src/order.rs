//! What a workshop is told to make of a module: machine code, or the module as its initialiser left it.

use std::path::PathBuf;

use flint_model::{ByteSize, NamespaceName};
use serde::{Deserialize, Serialize};

use crate::{WasmConfig, cache::Shape, engine, preinit, wasi::Wasi};

/// A piece of work on one module or component, with everything that it needs to know beside the code itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) config: WasmConfig,
    pub(crate) shape: Shape,
    pub(crate) wasi: Wasi,
    pub(crate) task: Task,
}

/// What is to be made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Machine code for the server's engine. None of the code is run.
    Compile,
    /// The module after its initialiser. This runs user code, and so what it gives is no more trusted than what was deployed.
    Initialise(Initialiser),
}

/// Which initialiser, and what it may use.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Initialiser {
    pub(crate) name: String,
    pub(crate) namespace: NamespaceName,
    pub(crate) memory: ByteSize,
    pub(crate) logs: ByteSize,
    pub(crate) assets: Option<PathBuf>,
}

impl Order {
    /// Does the work, here; the error is for the function's developer. Blocks, and cannot be interrupted but for an initialiser that computes.
    pub(crate) fn carry_out(&self, code: &[u8]) -> Result<Vec<u8>, String> {
        let Self { config, shape, wasi, task } = self;
        match task {
            Task::Compile => {
                let engine = engine::without_pool(config, *wasi).map_err(|error| format!("{error:#}"))?;
                let compiled = match shape {
                    Shape::Module => engine.precompile_module(code),
                    Shape::Component => engine.precompile_component(code),
                };
                compiled.map_err(|error| format!("this is not valid Wasm: {error:#}"))
            }
            Task::Initialise(initialiser) => preinit::run(config, initialiser, *shape, *wasi, code),
        }
    }
}
