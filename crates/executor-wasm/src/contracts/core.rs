//! Contract `wasm-core`: pointer and length in, pointer and length out; see docs/wasm-core-abi.md.

use std::ops::Range;

use bytes::Bytes;
use flint_executor::PrepareError;
use tokio::io::AsyncWriteExt as _;
use wasmtime::{ExternType, FuncType, InstancePre, Linker, Memory, Module, ModuleExport, Store, ValType};

use crate::{
    state::State,
    stdio::{Outlet, WINDOW},
};

/// A module's exports, looked up once.
#[repr(align(128))]
pub(crate) struct CoreModule {
    pre: InstancePre<State>,
    memory: ModuleExport,
    alloc: ModuleExport,
    call: ModuleExport,
    initialize: Option<ModuleExport>,
}

/// The result of a function.
pub(crate) enum Given {
    Bytes(Bytes),
    /// Longer than is taken as a whole.
    Long(Long),
}

/// A result that is still in its instance's memory.
pub(crate) struct Long {
    memory: Memory,
    range: Range<usize>,
}

impl Long {
    pub(crate) fn size(&self) -> u64 {
        self.range.len() as u64
    }

    pub(crate) fn bytes<'a>(&self, store: &'a Store<State>) -> &'a [u8] {
        &self.memory.data(store)[self.range.clone()]
    }

    /// Writes it piece by piece, as it is taken.
    pub(crate) async fn pour(self, store: &mut Store<State>, mut outlet: Outlet) -> wasmtime::Result<()> {
        for at in (0..self.range.len()).step_by(WINDOW) {
            let rest = &self.bytes(store)[at..];
            let piece = Bytes::copy_from_slice(&rest[..rest.len().min(WINDOW)]);
            outlet.write_all(&piece).await?;
        }
        Ok(())
    }
}

impl CoreModule {
    pub(crate) fn link(linker: &Linker<State>, module: &Module) -> Result<Self, PrepareError> {
        use ValType::{I32, I64};
        let engine = module.engine();
        let function = |name: &str, parameters: &[ValType], results: &[ValType]| {
            let wanted = FuncType::new(engine, parameters.iter().cloned(), results.iter().cloned());
            match module.get_export(name) {
                Some(ExternType::Func(found)) if FuncType::eq(&found, &wanted) => export(module, name),
                Some(ExternType::Func(found)) => Err(PrepareError::Code(format!(
                    "the export {name} is {found}, and contract wasm-core asks for {wanted} (docs/wasm-core-abi.md)"
                ))),
                _ => Err(missing(name)),
            }
        };
        let memory = match module.get_export("memory") {
            Some(ExternType::Memory(_)) => export(module, "memory")?,
            _ => return Err(missing("memory")),
        };
        let alloc = function("flint_alloc", &[I32], &[I32])?;
        let call = function("flint_call", &[I32, I32], &[I64])?;
        let initialize = match module.get_export("_initialize") {
            Some(_) => Some(function("_initialize", &[], &[])?),
            None => None,
        };
        let pre = super::instance_pre(linker, module)?;
        Ok(Self { pre, memory, alloc, call, initialize })
    }

    /// Runs one call in an instance of its own. Copies the result if it has at most `longest` bytes.
    pub(crate) async fn run(
        &self,
        store: &mut Store<State>,
        body: &[u8],
        longest: u64,
    ) -> wasmtime::Result<Given> {
        let instance = self.pre.instantiate_async(&mut *store).await?;
        let find = |store: &mut Store<State>, export: &ModuleExport| {
            instance.get_module_export(store, export).and_then(wasmtime::Extern::into_func)
        };
        let gone = || wasmtime::format_err!("an export is gone that was there at the deploy");
        if let Some(initialize) = &self.initialize {
            let initialize = find(store, initialize).ok_or_else(gone)?.typed::<(), ()>(&*store)?;
            initialize.call_async(&mut *store, ()).await?;
        }
        let alloc = find(store, &self.alloc).ok_or_else(gone)?.typed::<i32, i32>(&*store)?;
        let call = find(store, &self.call).ok_or_else(gone)?.typed::<(i32, i32), i64>(&*store)?;
        let memory = instance
            .get_module_export(&mut *store, &self.memory)
            .and_then(wasmtime::Extern::into_memory)
            .ok_or_else(gone)?;

        let Ok(len) = i32::try_from(body.len()) else {
            wasmtime::bail!("a body of {} bytes does not fit the function's memory", body.len())
        };
        let at = alloc.call_async(&mut *store, len).await?;
        let space =
            range(at as u32, len as u32).and_then(|range| memory.data_mut(&mut *store).get_mut(range));
        match space {
            Some(space) => space.copy_from_slice(body),
            None => wasmtime::bail!("flint_alloc({len}) gave {at}, which is outside the memory"),
        }
        let packed = call.call_async(&mut *store, (at, len)).await? as u64;
        let (at, len) = ((packed >> 32) as u32, packed as u32);
        let data = memory.data(&*store);
        let Some(given) = range(at, len).and_then(|range| data.get(range)) else {
            wasmtime::bail!("flint_call gave {len} bytes at {at}, which is outside the memory")
        };
        if u64::from(len) > longest {
            let range = at as usize..at as usize + len as usize;
            return Ok(Given::Long(Long { memory, range }));
        }
        Ok(Given::Bytes(Bytes::copy_from_slice(given)))
    }
}

fn range(at: u32, len: u32) -> Option<Range<usize>> {
    Some(at as usize..(at as usize).checked_add(len as usize)?)
}

fn export(module: &Module, name: &str) -> Result<ModuleExport, PrepareError> {
    module.get_export_index(name).ok_or_else(|| missing(name))
}

fn missing(name: &str) -> PrepareError {
    PrepareError::Code(format!(
        "contract wasm-core asks for the export {name}, and the module has none: write it (docs/wasm-core-abi.md), or say --contract wasi-command for a program with a main function"
    ))
}
