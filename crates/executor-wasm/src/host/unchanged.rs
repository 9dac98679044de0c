//! What guests may ask for although their files are only read: to make them durable, to say how they will be read,
//! to remove them. wasmtime does some of it, which takes the disk's time from everybody, or memory. Nothing of it is
//! done here.

use wasmtime::{
    Linker, Result, StoreContextMut,
    component::{self, Resource},
};
use wasmtime_wasi::{
    WasiView,
    filesystem::WasiFilesystemView,
    p2::bindings::filesystem::types::{Advice, Descriptor, ErrorCode, Filesize},
};

use super::files::TYPES;

/// The module of preview 1.
const P1: &str = "wasi_snapshot_preview1";
const SUCCESS: i32 = 0;
const NOT_PERMITTED: i32 = 63;

/// `fsync` has the disk empty its cache even if there is nothing to write.
const SYNCS: [&str; 2] = ["fd_sync", "fd_datasync"];
const SYNC_METHODS: [&str; 2] = ["[method]descriptor.sync", "[method]descriptor.sync-data"];
/// Who advises that a file is not needed has it read from the disk again, as often as it likes.
const ADVISE: &str = "fd_advise";
const ADVISE_METHOD: &str = "[method]descriptor.advise";
/// It is not permitted, but wasmtime copies a path of any length before it says so.
const UNLINK: &str = "path_unlink_file";

/// For modules. Not even the descriptor is looked at.
pub(super) fn for_modules<T: 'static>(linker: &mut Linker<T>) -> Result<()> {
    for sync in SYNCS {
        linker.func_wrap(P1, sync, |_file: i32| SUCCESS)?;
    }
    linker.func_wrap(P1, ADVISE, |_file: i32, _offset: i64, _length: i64, _advice: i32| SUCCESS)?;
    linker.func_wrap(P1, UNLINK, |_folder: i32, _path: i32, _length: i32| NOT_PERMITTED)?;
    Ok(())
}

/// For components.
pub(super) fn for_components<T: WasiView + 'static>(linker: &mut component::Linker<T>) -> Result<()> {
    let mut types = linker.instance(TYPES)?;
    for sync in SYNC_METHODS {
        types.func_wrap(sync, |mut store: StoreContextMut<'_, T>, (file,): (Resource<Descriptor>,)| {
            store.data_mut().filesystem().table.get(&file)?;
            Ok((Ok::<(), ErrorCode>(()),))
        })?;
    }
    types.func_wrap(
        ADVISE_METHOD,
        |mut store: StoreContextMut<'_, T>,
         (file, _, _, _): (Resource<Descriptor>, Filesize, Filesize, Advice)| {
            store.data_mut().filesystem().table.get(&file)?;
            Ok((Ok::<(), ErrorCode>(()),))
        },
    )
}

#[cfg(test)]
mod tests {
    use wasmtime::Engine;

    use super::*;
    use crate::{host::AsHost, state::State};

    /// With another release of wasmtime they may have other names.
    #[test]
    fn these_are_functions_of_wasmtime() {
        let engine = Engine::default();
        let mut modules = Linker::<State>::new(&engine);
        wasmtime_wasi::p1::add_to_linker_async(&mut modules, |state: &mut State| state.host().p1()).unwrap();
        for name in SYNCS.into_iter().chain([ADVISE, UNLINK]) {
            assert!(modules.func_wrap(P1, name, || SUCCESS).is_err(), "{name}");
        }
        let mut components = component::Linker::<State>::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut components).unwrap();
        for name in SYNC_METHODS.into_iter().chain([ADVISE_METHOD]) {
            let mut types = components.instance(TYPES).unwrap();
            assert!(types.func_wrap(name, |_, (): ()| Ok(())).is_err(), "{name}");
        }
    }
}
