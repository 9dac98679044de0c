//! The host functions that guests can import.

use flint_model::LogStream;
use wasmtime::{Caller, Engine, Extern, Linker, Memory, component};

use crate::{cut::cut, host, state::State, teavm, wasi::Wasi};

/// The name of the module with Flint's own functions for core modules.
pub(crate) const FLINT: &str = "flint";
/// Longest text of one `flint.log` or `flint.fail`.
const LONGEST: usize = 1 << 20;

/// The function itself reported that the call failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Failed(pub(crate) String);

/// For core modules: WASI preview 1, `flint.log` and `flint.fail`, and the mathematics that TeaVM expects of
/// its host.
pub(crate) fn core(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    host::add_p1_to_linker(&mut linker)?;
    linker.func_wrap(FLINT, "log", |mut caller: Caller<'_, State>, stream: i32, at: i32, len: i32| {
        let (memory, state) = memory_of(&mut caller)?;
        let text = slice(memory, at, len)?;
        let stream = if stream == 2 { LogStream::Stderr } else { LogStream::Stdout };
        state.logs.write(stream, text);
        // Each call is a line, with or without a newline.
        if !text.ends_with(b"\n") {
            state.logs.write(stream, b"\n");
        }
        Ok(())
    })?;
    linker.func_wrap(FLINT, "fail", |mut caller: Caller<'_, State>, at: i32, len: i32| {
        let (memory, _) = memory_of(&mut caller)?;
        let text = cut(String::from_utf8_lossy(slice(memory, at, len)?));
        wasmtime::Result::<()>::Err(Failed(text).into())
    })?;
    teavm::add(&mut linker)?;
    Ok(linker)
}

/// For components: WASI 0.2 with `wasi:http` and Flint's other capabilities, and for those of 0.3 also its
/// interfaces.
pub(crate) fn component(engine: &Engine, wasi: Wasi) -> wasmtime::Result<component::Linker<State>> {
    let mut linker = component::Linker::new(engine);
    host::add_to_linker(&mut linker)?;
    if wasi == Wasi::V0_3 {
        host::add_0_3_to_linker(&mut linker)?;
    }
    Ok(linker)
}

fn memory_of<'a>(caller: &'a mut Caller<'_, State>) -> wasmtime::Result<(&'a [u8], &'a mut State)> {
    let memory: Memory = match caller.get_export("memory") {
        Some(Extern::Memory(memory)) => memory,
        _ => wasmtime::bail!("the module exports no memory"),
    };
    let (data, state) = memory.data_and_store_mut(caller);
    Ok((data, state))
}

fn slice(memory: &[u8], at: i32, len: i32) -> wasmtime::Result<&[u8]> {
    let (at, len) = (at as u32 as usize, len as u32 as usize);
    if len > LONGEST {
        wasmtime::bail!("a text of {len} bytes is longer than the {LONGEST} that are taken at once");
    }
    match at.checked_add(len).and_then(|end| memory.get(at..end)) {
        Some(text) => Ok(text),
        None => wasmtime::bail!("a text of {len} bytes at {at} is outside the module's memory"),
    }
}

/// Whether core modules are offered functions of this module.
pub(crate) fn is_known_module(name: &str) -> bool {
    matches!(name, FLINT | teavm::MODULE | "wasi_snapshot_preview1")
}

/// Whether components are offered an interface of this name, in whatever version.
pub(crate) fn is_known_interface(name: &str) -> bool {
    const PACKAGES: &[&str] = &[
        "wasi:cli/",
        "wasi:clocks/",
        "wasi:config/",
        "wasi:filesystem/",
        "wasi:http/types@",
        "wasi:http/outgoing-handler@0.2",
        "wasi:http/client@0.3",
        "wasi:io/",
        "wasi:keyvalue/",
        "wasi:random/",
        "wasi:sockets/",
    ];
    PACKAGES.iter().any(|package| name.starts_with(package))
}
