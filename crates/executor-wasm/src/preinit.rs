//! Pre-initialisation: a module that exports an initialiser is run up to there when it is prepared, and its calls start from the
//! state that it left. The Wasm form of a snapshot after initialisation, by wasmtime's own pre-initialiser.
//!
//! The initialiser is a function `wizer-initialize` (or, of core modules, `wizer.initialize`) without parameters and results. It runs
//! as a call does, within the function's limits, with its assets and nothing else: no network, no buckets, no environment. What it
//! draws of random numbers, every call would share; so it may draw none.

mod reading;

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use bytes::Bytes;
use flint_executor::{Fault, PrepareError};
use flint_model::{Function, LogStream};
use tokio::{runtime::Handle, time::timeout_at};
use wasmparser::{ComponentExternalKind, ExternalKind, Parser, Payload};
use wasmtime::{Module, Store, component::Component};
use wasmtime_wizer::Wizer;

use self::reading::{ComponentState, ModuleState};
use crate::{
    cache::Shape,
    executor::House,
    fault,
    host::{CallSeed, Grants, Host, LogSink},
    link,
    state::{self, Pace, State},
};

/// What the initialiser of modules and components is called.
const INITIALISER: &str = "wizer-initialize";
/// Its older name, of modules alone.
const OLDER: &str = "wizer.initialize";

/// The name of the initialiser that the code exports, if it exports one. Code that cannot be read has none: compiling it says why.
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

/// Runs the initialiser, and gives the code as it is afterwards.
pub(crate) async fn run(
    house: &House,
    function: &Function,
    code: Bytes,
    shape: Shape,
    initialiser: &'static str,
    assets: Option<PathBuf>,
) -> Result<Bytes, PrepareError> {
    let refuse = |why: String| {
        PrepareError::Code(format!(
            "the initialiser {initialiser} failed: {why}. Mend it, or deploy with --no-preinit to have the module as it is"
        ))
    };
    let turn = Arc::clone(&house.initialising).acquire_owned().await;
    let slot = Arc::clone(&house.slots).acquire_owned().await;
    let (turn, slot) = turn.and_then(|turn| Ok((turn, slot?))).map_err(|error| failed(error.to_string()))?;

    let (grants, drawn) = Grants::of_initialiser(function, assets);
    let logs = LogSink::new(function.limits.logs);
    let until = Instant::now() + house.config.compile_timeout;
    let call = CallSeed {
        stdin: Box::new(tokio::io::empty()),
        stdout: Box::new(logs.stream(LogStream::Stdout)),
        logs: logs.clone(),
        env: Vec::new(),
    };
    let host = Host::new(&house.services, &Arc::new(grants), call);
    let memory = usize::try_from(function.limits.memory.as_u64()).unwrap_or(usize::MAX);
    let mut store =
        state::store(&house.engine, &house.config, memory, logs.clone(), host, &Pace::until(until));
    let beat = house.ticker.during();

    // Compiling and taking a snapshot have no points at which they could give way: all of it goes on a thread of its own. One
    // that is not waited for any longer keeps its turn, so that there is never more than one.
    let work = move || {
        let done = Handle::current().block_on(async {
            match shape {
                Shape::Module => of_module(&mut store, &code, initialiser).await,
                Shape::Component => of_component(&mut store, &code, initialiser).await,
            }
        });
        let starved = store.data().limits.refused;
        drop((store, slot, beat, turn));
        (done, starved)
    };
    let (done, starved) = match timeout_at(until.into(), tokio::task::spawn_blocking(work)).await {
        Ok(Ok(done)) => done,
        Ok(Err(died)) => return Err(refuse(format!("the pre-initialiser gave up on this code: {died}"))),
        Err(_) => return Err(refuse(too_long(house))),
    };
    let code = done.map_err(|error| match fault::of(&error, starved, logs.last_error_line()) {
        Fault::Deadline => refuse(too_long(house)),
        fault => refuse(fault.to_string()),
    })?;
    if drawn.load(Ordering::Relaxed) {
        return Err(refuse(
            "it drew random numbers, which all calls would share (in Rust the first HashMap does so too, unless it has a fixed hasher)"
                .to_owned(),
        ));
    }
    Ok(code.into())
}

fn too_long(house: &House) -> String {
    format!("it did not end within {} s (wasm.compile_timeout)", house.config.compile_timeout.as_secs_f32())
}

fn failed(detail: String) -> PrepareError {
    PrepareError::Failed { operation: "running the initialiser".to_owned(), detail }
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

async fn of_component(store: &mut Store<State>, code: &[u8], initialiser: &str) -> wasmtime::Result<Vec<u8>> {
    let (engine, wizer) = (store.engine().clone(), wizer(initialiser));
    let (context, instrumented) = wizer.instrument_component(code)?;
    let component = Component::new(&engine, &instrumented)?;
    let instance = link::component(&engine)?.instantiate_async(&mut *store, &component).await?;
    instance.get_typed_func::<(), ()>(&mut *store, initialiser)?.call_async(&mut *store, ()).await?;
    let mut state = ComponentState::new(store, instance);
    let code = wizer.snapshot_component(&context, &mut state).await?;
    state.finish().map(|()| code)
}
