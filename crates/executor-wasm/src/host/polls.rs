//! `wasi:io/poll` for no more than a guest can have. wasmtime looks up all that are named, millions if there are, before
//! the guest can be interrupted again.

use wasmtime::{
    Result, StoreContextMut,
    component::{Linker, Resource, WasmList},
};
use wasmtime_wasi_io::{IoView, bindings::wasi::io::poll::Host as _, poll::DynPollable};

use super::context::MOST_HANDLES;

/// The interface that wasmtime links. If a new release links another one, `what_a_component_waits_for_is_bounded`
/// fails.
const POLL: &str = "wasi:io/poll@0.2.12";

/// Limits how much a component waits for at once.
pub(super) fn bound_polls<T: IoView + Send + 'static>(linker: &mut Linker<T>) -> Result<()> {
    let mut poll = linker.instance(POLL)?;
    poll.func_wrap_async(
        "poll",
        |mut store: StoreContextMut<'_, T>, (named,): (WasmList<Resource<DynPollable>>,)| {
            let awaited = awaited(&mut store, &named);
            Box::new(async move {
                let ready = store.data_mut().table().poll(awaited?).await?;
                Ok::<_, wasmtime::Error>((ready,))
            })
        },
    )
}

fn awaited<T: 'static>(
    store: &mut StoreContextMut<'_, T>,
    named: &WasmList<Resource<DynPollable>>,
) -> Result<Vec<Resource<DynPollable>>> {
    let count = named.len();
    if count > MOST_HANDLES {
        wasmtime::bail!("poll of {count} handles, more than the {MOST_HANDLES} that there may be");
    }
    (0..count).filter_map(|at| named.get(&mut *store, at)).collect()
}
