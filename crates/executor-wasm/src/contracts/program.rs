//! Contract `wasi-command`: a program with a main function, its body on stdin and its answer on stdout.

use flint_executor::PrepareError;
use wasmtime::{
    ExternType, InstancePre, Linker, Module, ModuleExport, Store,
    component::{self, Component},
};
use wasmtime_wasi::{I32Exit, p2::bindings::CommandPre};

use crate::{cut::cut, state::State};

const START: &str = "_start";

/// A program in the form that its toolchain produced.
pub(crate) enum Program {
    /// A core module for WASI preview 1.
    Module(InstancePre<State>, ModuleExport),
    /// A component of world `wasi:cli/command`.
    Component(CommandPre<State>),
}

impl Program {
    pub(crate) fn of_module(linker: &Linker<State>, module: &Module) -> Result<Self, PrepareError> {
        let is_main = |ty: &wasmtime::FuncType| ty.params().len() == 0 && ty.results().len() == 0;
        let start = match module.get_export(START) {
            Some(ExternType::Func(ty)) if is_main(&ty) => module.get_export_index(START),
            _ => None,
        };
        let Some(start) = start else {
            return Err(PrepareError::Code(format!(
                "contract wasi-command asks for the export {START} without parameters, and the module has none: build a program with a main function, not a library, or say --contract wasm-core"
            )));
        };
        Ok(Self::Module(super::instance_pre(linker, module)?, start))
    }

    pub(crate) fn of_component(
        linker: &component::Linker<State>,
        component: &Component,
    ) -> Result<Self, PrepareError> {
        let pre = super::component_pre(linker, component)?;
        let command = CommandPre::new(pre).map_err(|error| {
            PrepareError::Code(format!(
                "contract wasi-command asks for a component that exports wasi:cli/run@0.2, and this one does not: {}",
                cut(format_args!("{error:#}"))
            ))
        })?;
        Ok(Self::Component(command))
    }

    /// Runs it to its end; an error unless it exits successfully.
    pub(crate) async fn run(&self, store: &mut Store<State>) -> wasmtime::Result<()> {
        let ended = match self {
            Self::Module(pre, start) => run_module(pre, start, store).await,
            Self::Component(pre) => match pre.instantiate_async(&mut *store).await {
                Ok(command) => match command.wasi_cli_run().call_run(&mut *store).await {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(())) => Err(I32Exit(1).into()),
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            },
        };
        match ended {
            Err(error) if error.downcast_ref::<I32Exit>().is_some_and(|exit| exit.0 == 0) => Ok(()),
            other => other,
        }
    }
}

async fn run_module(
    pre: &InstancePre<State>,
    start: &ModuleExport,
    store: &mut Store<State>,
) -> wasmtime::Result<()> {
    let instance = pre.instantiate_async(&mut *store).await?;
    let start = instance.get_module_export(&mut *store, start).and_then(wasmtime::Extern::into_func);
    let start = start.ok_or_else(|| wasmtime::format_err!("the export {START} is gone"))?;
    start.typed::<(), ()>(&*store)?.call_async(&mut *store, ()).await
}
