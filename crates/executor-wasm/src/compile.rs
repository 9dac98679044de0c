//! Compiles Wasm to machine code, with limits on time, memory and size.

use std::path::PathBuf;

use bytes::Bytes;
use flint_executor::PrepareError;
use flint_model::Function;
use wasmtime::Engine;

use crate::{
    WasmConfig,
    cache::Shape,
    order::{Initialiser, Order, Task},
    preinit,
    wasi::Wasi,
    workshop::{Undone, Workshop},
};

/// The magic number of a Wasm file, and the version that follows in a module.
const MAGIC: &[u8] = b"\0asm";
const MODULE: [u8; 4] = [1, 0, 0, 0];
/// The last two bytes of the version, the layer, distinguish components from modules.
const COMPONENT_LAYER: [u8; 2] = [1, 0];

/// Has code compiled, and words errors for its developer.
pub(crate) struct Compiler {
    pub(crate) workshop: Workshop,
    config: WasmConfig,
}

impl Compiler {
    pub(crate) fn new(workshop: Workshop, config: WasmConfig) -> Self {
        Self { workshop, config }
    }

    /// Whether the bytes are a module or a component, or why they are neither.
    pub(crate) fn shape(&self, code: &[u8]) -> Result<Shape, PrepareError> {
        let refuse = |why: String| Err(PrepareError::Code(why));
        let largest = self.config.max_module.as_u64();
        if code.len() as u64 > largest {
            return refuse(format!(
                "the code has {} bytes, more than the {largest} that are compiled (wasm.max_module)",
                code.len(),
            ));
        }
        if Engine::detect_precompiled(code).is_some() {
            return refuse(
                "this is code that was compiled ahead for one machine (.cwasm): deploy the .wasm that it was made from, Flint compiles it for this machine".to_owned(),
            );
        }
        if code.starts_with(b"(module") || code.starts_with(b"(component") {
            return refuse(
                "this is the text form of Wasm: translate it with `wasm-tools parse` or wat2wasm, and deploy the .wasm".to_owned(),
            );
        }
        let Some(rest) = code.strip_prefix(MAGIC) else {
            return refuse("this is not Wasm: a .wasm file begins with the bytes \\0asm".to_owned());
        };
        match rest.get(..4) {
            Some(version) if version == MODULE => Ok(Shape::Module),
            Some(version) if version[2..] == COMPONENT_LAYER => Ok(Shape::Component),
            Some(version) => refuse(format!("this is Wasm of a version that is not known: {version:?}")),
            None => refuse("this Wasm file is truncated: it ends within its head".to_owned()),
        }
    }

    /// Compiles to machine code in the cache's format.
    pub(crate) async fn compile(
        &self,
        code: Bytes,
        shape: Shape,
        wasi: Wasi,
    ) -> Result<Vec<u8>, PrepareError> {
        let order = self.order(shape, wasi, Task::Compile);
        let too_large = |beyond: String| {
            PrepareError::Code(format!(
                "{beyond}: it is too large or too intricate; build it optimised and without debug information"
            ))
        };
        self.workshop.carry_out(order, code).await.map_err(|undone| match undone {
            Undone::Refused(why) => PrepareError::Code(why),
            Undone::TooLong => too_large(format!(
                "compiling the code took longer than {} s (wasm.compile_timeout)",
                self.config.compile_timeout.as_secs_f32()
            )),
            Undone::OutOfMemory(most) => too_large(format!(
                "compiling the code takes more than {most} of memory (wasm.compile_memory)"
            )),
            Undone::TooMuch(most) => too_large(format!("the code compiles to more than {most}")),
            Undone::Crashed(why) => {
                failed("compiling", format!("the compiler broke down over this code: {why}"))
            }
            Undone::NotBegun(why) => failed("compiling", why),
        })
    }

    /// Runs the initialiser and returns the code with the state that it left.
    pub(crate) async fn initialise(
        &self,
        function: &Function,
        code: Bytes,
        (shape, wasi): (Shape, Wasi),
        name: &str,
        assets: Option<PathBuf>,
    ) -> Result<Bytes, PrepareError> {
        let initialiser = Initialiser {
            name: name.to_owned(),
            namespace: function.path.namespace.clone(),
            memory: function.limits.memory,
            logs: function.limits.logs,
            assets,
        };
        let order = self.order(shape, wasi, Task::Initialise(initialiser));
        let why = match self.workshop.carry_out(order, code).await {
            Ok(code) => return Ok(code.into()),
            Err(Undone::NotBegun(why)) => return Err(failed("running the initialiser", why)),
            Err(Undone::Refused(why)) => why,
            Err(Undone::TooLong) => preinit::too_long(self.config.compile_timeout),
            Err(Undone::OutOfMemory(most)) => {
                format!("it takes more than {most} of memory, compiling it included (wasm.compile_memory)")
            }
            Err(Undone::TooMuch(most)) => format!("it leaves a module of more than {most}"),
            Err(Undone::Crashed(why)) => format!("the pre-initialiser gave up on this code: {why}"),
        };
        Err(PrepareError::Code(format!(
            "the initialiser {name} failed: {why}. Mend it, or deploy with --no-preinit to have the module as it is"
        )))
    }

    fn order(&self, shape: Shape, wasi: Wasi, task: Task) -> Order {
        Order { config: self.config.clone(), shape, wasi, task }
    }
}

fn failed(operation: &str, detail: String) -> PrepareError {
    PrepareError::Failed { operation: operation.to_owned(), detail }
}
