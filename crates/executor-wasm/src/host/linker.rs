//! The host functions that guests can import.

use wasmtime::{
    Linker,
    component::{self, ResourceTable},
};
use wasmtime_wasi::{WasiCtxView, WasiView};
use wasmtime_wasi_config::WasiConfig;
use wasmtime_wasi_http::{WasiHttpCtxView, WasiHttpView};
use wasmtime_wasi_io::IoView;

use super::{context::AsHost, error, files, http, key_value, lists, no_files, polls, unchanged};

/// WASI preview 1, for core modules.
pub(crate) fn add_p1_to_linker<T: AsHost + 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    wasmtime_wasi::p1::add_to_linker_async(linker, |data: &mut T| data.host().p1())?;
    linker.allow_shadowing(true);
    unchanged::for_modules(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// WASI preview 2, `wasi:http`, `wasi:keyvalue` and `wasi:config`, for components. Everything can be
/// imported; functions that were not granted fail when called.
pub(crate) fn add_to_linker<T>(linker: &mut component::Linker<T>) -> wasmtime::Result<()>
where
    T: AsHost + WasiView + WasiHttpView + IoView + 'static,
{
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    // Linked again: with limits, and in forms that need only the table of handles.
    linker.allow_shadowing(true);
    wasmtime_wasi_io::add_to_linker_async(linker)?;
    error::add_to_linker(linker)?;
    polls::bound_polls(linker)?;
    files::bound_files(linker)?;
    lists::bound_lists(linker)?;
    unchanged::for_components(linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    http::bound_heads(linker)?;
    linker.allow_shadowing(false);
    wasmtime_wasi_config::add_to_linker(linker, |data: &mut T| WasiConfig::new(&data.host().grants.config))?;
    key_value::add_to_linker(linker)
}

/// The interfaces of WASI 0.3, beside those of 0.2, which language runtimes import as well. Sockets are not
/// among them, and no files can be had by them.
pub(crate) fn add_0_3_to_linker<T>(linker: &mut component::Linker<T>) -> wasmtime::Result<()>
where
    T: WasiView + WasiHttpView + 'static,
{
    use wasmtime_wasi::p3::{cli, clocks, random};
    cli::add_to_linker(linker)?;
    clocks::add_to_linker(linker)?;
    no_files::add_to_linker(linker)?;
    random::add_to_linker(linker)?;
    wasmtime_wasi_http::p3::add_to_linker(linker)
}

impl WasiView for crate::state::State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.host().ctx()
    }
}

impl IoView for crate::state::State {
    fn table(&mut self) -> &mut ResourceTable {
        self.host().table()
    }
}

impl WasiHttpView for crate::state::State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        self.host().http()
    }
}
