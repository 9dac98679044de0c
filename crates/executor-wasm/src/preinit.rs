//! Pre-initialisation: runs a module's initialiser when it is prepared, so that its calls start from the
//! state that it left. This is the Wasm form of a snapshot after initialisation, made by wasmtime's own
//! pre-initialiser.
//!
//! It runs in a workshop, never in the server. The initialiser is a function `wizer-initialize` (or, in core
//! modules, `wizer.initialize`) without parameters and results. It runs like a call, within the function's
//! limits, with its assets and nothing else: no network, no buckets, no environment. All calls would share
//! the random numbers that it drew, so it must not draw any.

mod reading;

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use flint_executor::Fault;
use flint_model::LogStream;
use tokio::runtime::Builder;
use wasmparser::{ComponentExternalKind, ExternalKind, Parser, Payload};
use wasmtime::{Module, Store, component::Component};
use wasmtime_wizer::Wizer;

use self::reading::{ComponentState, ModuleState};
use crate::{
    WasmConfig,
    cache::Shape,
    engine, fault,
    host::{CallSeed, Grants, Host, LogSink, Services},
    interrupt::Turn,
    limits::Limits,
    link,
    order::Initialiser,
    state::{self, Pace, State},
    ticker::Ticker,
    wasi::Wasi,
};

/// Number of threads that read its assets.
const FILE_THREADS: usize = 4;
/// The name of the initialiser in modules and components.
const INITIALISER: &str = "wizer-initialize";
/// Its older name, in modules only.
const OLDER: &str = "wizer.initialize";

/// The name of the initialiser that the code exports, if any. For invalid code it is `None`; the compiler
/// will report the reason.
pub(crate) fn initialiser(code: &[u8], shape: Shape) -> Option<&'static str> {
    let named = |name: &str| match shape {
        Shape::Module => [INITIALISER, OLDER].into_iter().find(|known| *known == name),
        Shape::Component => (name == INITIALISER).then_some(INITIALISER),
    };
    let mut depth = 0_u32; // modules and components within the component are not looked into
    for payload in Parser::new(0).parse_all(code) {
        match payload.ok()? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ExportSection(exports) if depth == 0 && shape == Shape::Module => {
                let mut functions =
                    exports.into_iter().flatten().filter(|export| export.kind == ExternalKind::Func);
                return functions.find_map(|export| named(export.name));
            }
            Payload::ComponentExportSection(exports) if depth == 0 => {
                let mut functions =
                    exports.into_iter().flatten().filter(|export| export.kind == ComponentExternalKind::Func);
                if let Some(found) = functions.find_map(|export| named(export.name.name)) {
                    return Some(found);
                }
            }
            _ => {}
        }
    }
    None
}

/// Runs the initialiser and returns the code with the resulting state; the error is for the function's
/// developer.
pub(crate) fn run(
    config: &WasmConfig,
    initialiser: &Initialiser,
    shape: Shape,
    wasi: Wasi,
    code: &[u8],
) -> Result<Vec<u8>, String> {
    let here = |error: &dyn std::fmt::Display| format!("it cannot be run here: {error}");
    let engine = engine::without_pool(config, wasi).map_err(|error| here(&error))?;
    let ticker = Ticker::start(&engine).map_err(|error| here(&error))?;
    let services = Arc::new(Services::new(None).map_err(|error| here(&error))?);
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(FILE_THREADS).build();
    let runtime = runtime.map_err(|error| here(&error))?;

    let (grants, drawn) = Grants::of_initialiser(&initialiser.namespace, initialiser.assets.clone());
    let logs = LogSink::new(initialiser.logs);
    let call = CallSeed {
        stdin: Box::new(tokio::io::empty()),
        stdout: Box::new(logs.stream(LogStream::Stdout)),
        logs: logs.clone(),
        env: Vec::new(),
        gate: None,
    };
    let host = Host::new(&services, &Arc::new(grants), call);
    let memory = usize::try_from(initialiser.memory.as_u64()).unwrap_or(usize::MAX);
    let pace = Pace::until(Instant::now() + config.compile_timeout);
    let turn = Turn::new(pace, ticker.clock());
    let limits = Limits::new(memory, config.table_elements as usize, None);
    let mut store = state::store(&engine, config, limits, logs.clone(), host, turn);
    let beat = ticker.during();
    let done = runtime.block_on(async {
        let name = &initialiser.name;
        match shape {
            Shape::Module => of_module(&mut store, code, name).await,
            Shape::Component => of_component(&mut store, wasi, code, name).await,
        }
    });
    drop(beat);
    let starved = store.data().limits.starved;
    let code = done.map_err(|error| match fault::of(&error, starved, logs.last_error_line()) {
        Fault::Deadline => too_long(config.compile_timeout),
        fault => fault.to_string(),
    })?;
    if drawn.load(Ordering::Relaxed) {
        return Err(
            "it drew random numbers, which all calls would share (in Rust the first HashMap does so too, unless it has a fixed hasher)"
                .to_owned(),
        );
    }
    Ok(code)
}

/// The message for an initialiser that does not end in time.
pub(crate) fn too_long(within: Duration) -> String {
    format!("it did not end within {} s (wasm.compile_timeout)", within.as_secs_f32())
}

fn wizer(initialiser: &str) -> Wizer {
    let mut wizer = Wizer::new();
    wizer.init_func(initialiser);
    wizer
}

async fn of_module(store: &mut Store<State>, code: &[u8], initialiser: &str) -> wasmtime::Result<Vec<u8>> {
    let (engine, wizer) = (store.engine().clone(), wizer(initialiser));
    let (context, instrumented) = wizer.instrument(code)?;
    let module = Module::new(&engine, &instrumented)?;
    let instance = link::core(&engine)?.instantiate_async(&mut *store, &module).await?;
    if module.get_export("_initialize").is_some() {
        instance.get_typed_func::<(), ()>(&mut *store, "_initialize")?.call_async(&mut *store, ()).await?;
    }
    instance.get_typed_func::<(), ()>(&mut *store, initialiser)?.call_async(&mut *store, ()).await?;
    wizer.snapshot(&context, &mut ModuleState { store, instance }).await
}

async fn of_component(
    store: &mut Store<State>,
    wasi: Wasi,
    code: &[u8],
    initialiser: &str,
) -> wasmtime::Result<Vec<u8>> {
    let (engine, wizer) = (store.engine().clone(), wizer(initialiser));
    let (context, instrumented) = wizer.instrument_component(code)?;
    let component = Component::new(&engine, &instrumented)?;
    let instance = link::component(&engine, wasi)?.instantiate_async(&mut *store, &component).await?;
    instance.get_typed_func::<(), ()>(&mut *store, initialiser)?.call_async(&mut *store, ()).await?;
    let mut state = ComponentState::new(store, instance);
    let code = wizer.snapshot_component(&context, &mut state).await?;
    state.finish().map(|()| code)
}
