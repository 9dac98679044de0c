//! From Wasm to machine code, within bounds of time and size.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use flint_executor::PrepareError;
use tokio::sync::Semaphore;
use wasmtime::Engine;

use crate::cache::Shape;

/// What a Wasm file begins with, and what follows in a module and in a component.
const MAGIC: &[u8] = b"\0asm";
const MODULE: [u8; 4] = [1, 0, 0, 0];
/// Components are told from modules by the layer, the last two bytes.
const COMPONENT_LAYER: [u8; 2] = [1, 0];

/// Compiles, one module at a time: each takes all cores that it gets.
pub(crate) struct Compiler {
    engine: Engine,
    turn: Arc<Semaphore>,
    timeout: Duration,
    largest: u64,
}

impl Compiler {
    pub(crate) fn new(engine: Engine, timeout: Duration, largest: u64) -> Self {
        Self { engine, turn: Arc::new(Semaphore::new(1)), timeout, largest }
    }

    /// What the bytes are, or why they are nothing that Flint runs.
    pub(crate) fn shape(&self, code: &[u8]) -> Result<Shape, PrepareError> {
        let refuse = |why: String| Err(PrepareError::Code(why));
        if code.len() as u64 > self.largest {
            return refuse(format!(
                "the code has {} bytes, more than the {} that are compiled (wasm.max_module)",
                code.len(),
                self.largest
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

    /// Machine code as the cache keeps it.
    pub(crate) async fn compile(&self, code: Bytes, shape: Shape) -> Result<Vec<u8>, PrepareError> {
        let until = Instant::now() + self.timeout;
        let too_long = || {
            PrepareError::Code(format!(
                "compiling the code took longer than {} s (wasm.compile_timeout): it is too large or too intricate; build it optimised and without debug information",
                self.timeout.as_secs_f32()
            ))
        };
        let turn = tokio::time::timeout_at(until.into(), Arc::clone(&self.turn).acquire_owned());
        let turn = turn.await.map_err(|_| PrepareError::Failed {
            operation: "compiling".into(),
            detail: "other code is being compiled for longer than wasm.compile_timeout; try again".into(),
        })?;
        let engine = self.engine.clone();
        // A compilation cannot be cut short. One that takes too long holds its turn, so that there is never more than one.
        let compiling = tokio::task::spawn_blocking(move || {
            let compiled = match shape {
                Shape::Module => engine.precompile_module(&code),
                Shape::Component => engine.precompile_component(&code),
            };
            drop(turn);
            compiled
        });
        match tokio::time::timeout_at(until.into(), compiling).await {
            Err(_) => Err(too_long()),
            Ok(Err(died)) => Err(PrepareError::Failed {
                operation: "compiling".into(),
                detail: format!("the compiler failed: {died}"),
            }),
            Ok(Ok(Err(error))) => Err(PrepareError::Code(format!("this is not valid Wasm: {error:#}"))),
            Ok(Ok(Ok(compiled))) => Ok(compiled),
        }
    }
}
