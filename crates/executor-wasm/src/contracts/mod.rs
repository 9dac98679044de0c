//! The entry points of code, one file per contract.

mod core;
mod http;
mod http_0_3;
mod program;

use std::sync::Arc;

use flint_executor::PrepareError;
use flint_model::Contract;
use wasmtime::component::Component;
use wasmtime::{Engine, InstancePre, Linker, Module, ResourcesRequired, component};

pub(crate) use self::{
    core::{CoreModule, Given, Long},
    http::{HttpComponent, Responded, request},
    program::Program,
};
use crate::{cut::cut, link, pool, state::State, wasi::Wasi};

/// The linkers for modules and components, made once.
pub(crate) struct Linkers {
    core: Linker<State>,
    component: component::Linker<State>,
    wasi: Wasi,
}

/// Compiled code.
#[derive(Clone)]
pub(crate) enum Compiled {
    Module(Module),
    Component(Component),
}

impl Compiled {
    /// What an instance takes from its engine's pool, where that is known before instantiation.
    pub(crate) fn needs(&self) -> Option<ResourcesRequired> {
        match self {
            Self::Module(module) => Some(module.resources_required()),
            Self::Component(component) => component.resources_required(),
        }
    }

    /// How many of the engine's places an instance takes.
    pub(crate) fn places(&self) -> u32 {
        self.needs().map_or(1, |needs| pool::places(needs.num_memories, needs.num_tables))
    }

    /// Whether its guests can read their environment.
    pub(crate) fn reads_environment(&self) -> bool {
        match self {
            Self::Module(module) => module.imports().any(|import| import.name().starts_with("environ_")),
            Self::Component(component) => {
                let kind = component.component_type();
                kind.imports(component.engine()).any(|(name, _)| name.starts_with("wasi:cli/environment"))
            }
        }
    }

    /// Whether its guests can send requests. Core modules have no such import.
    pub(crate) fn sends_requests(&self) -> bool {
        match self {
            Self::Module(_) => false,
            Self::Component(component) => {
                let kind = component.component_type();
                let mut names = kind.imports(component.engine()).map(|(name, _)| name);
                names.any(|name| SENDERS.iter().any(|sender| name.starts_with(sender)))
            }
        }
    }
}

/// The imports by which a component sends requests, in 0.2 and in 0.3.
const SENDERS: [&str; 2] = ["wasi:http/outgoing-handler@", "wasi:http/client@"];

/// Code that can be instantiated.
#[derive(Clone)]
pub(crate) enum Code {
    Core(Arc<CoreModule>),
    Program(Arc<Program>),
    Http(Arc<HttpComponent>),
}

impl Linkers {
    pub(crate) fn new(engine: &Engine, wasi: Wasi) -> wasmtime::Result<Self> {
        Ok(Self { core: link::core(engine)?, component: link::component(engine, wasi)?, wasi })
    }

    /// Looks up the entry point of `contract` and the code's imports.
    pub(crate) fn link(&self, compiled: &Compiled, contract: Contract) -> Result<Code, PrepareError> {
        match (contract, compiled) {
            (Contract::WasmCore, Compiled::Module(module)) => {
                CoreModule::link(&self.core, module).map(|code| Code::Core(Arc::new(code)))
            }
            (Contract::WasiCommand, Compiled::Module(module)) => {
                Program::of_module(&self.core, module).map(|code| Code::Program(Arc::new(code)))
            }
            (Contract::WasiCommand, Compiled::Component(component)) => {
                Program::of_component(&self.component, component).map(|code| Code::Program(Arc::new(code)))
            }
            (Contract::WasiHttp, Compiled::Component(component)) => {
                HttpComponent::link(&self.component, component, self.wasi)
                    .map(|code| Code::Http(Arc::new(code)))
            }
            (contract, compiled) => {
                let is = match compiled {
                    Compiled::Module(_) => "a core module: say --contract wasm-core or wasi-command",
                    Compiled::Component(_) => "a component: say --contract wasi-http or wasi-command",
                };
                Err(PrepareError::Code(format!("contract {contract} does not fit this code, which is {is}")))
            }
        }
    }
}

/// Resolves a module's imports; the error lists the missing ones.
fn instance_pre(linker: &Linker<State>, module: &Module) -> Result<InstancePre<State>, PrepareError> {
    linker.instantiate_pre(module).map_err(|error| {
        let unknown: Vec<_> = module
            .imports()
            .filter(|import| !link::is_known_module(import.module()))
            .map(|import| format!("{}.{}", import.module(), import.name()))
            .collect();
        unknown_imports(&unknown, &error)
    })
}

/// Resolves a component's imports; the error lists the missing ones.
fn component_pre(
    linker: &component::Linker<State>,
    component: &Component,
) -> Result<component::InstancePre<State>, PrepareError> {
    linker.instantiate_pre(component).map_err(|error| {
        let engine = component.engine();
        let unknown: Vec<_> = component
            .component_type()
            .imports(engine)
            .map(|(name, _)| name.to_owned())
            .filter(|name| !link::is_known_interface(name))
            .collect();
        unknown_imports(&unknown, &error)
    })
}

fn unknown_imports(unknown: &[String], error: &wasmtime::Error) -> PrepareError {
    const OFFERED: &str = "core modules may import wasi_snapshot_preview1 and flint (docs/wasm-core-abi.md), components the interfaces of WASI 0.2, wasi:http, wasi:keyvalue and wasi:config";
    let text = match unknown {
        [] => {
            format!("the code's imports do not fit: {}; {OFFERED}", cut(format_args!("{error:#}")))
        }
        names => {
            format!("the code imports what Flint does not offer: {}; {OFFERED}", cut(names.join(", ")))
        }
    };
    PrepareError::Code(text)
}
