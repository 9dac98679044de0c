//! Directory listings of components. wasmtime reads all names of a directory, perhaps 10,000 long ones, into the server's
//! memory, where they stay until the component has read them or gives the listing up. So they count as its memory.

use std::vec;

use wasmtime::{
    Result, StoreContextMut,
    component::{Linker, Resource, ResourceType},
};
use wasmtime_wasi::{
    WasiView,
    filesystem::{WasiFilesystemCtxView, WasiFilesystemView},
    p2::{
        FsResult,
        bindings::filesystem::types::{
            Descriptor, DirectoryEntry, ErrorCode, Host as _, HostDescriptor as _,
        },
    },
};

use super::{AsHost, files::TYPES};

/// Most listings that a component has at a time.
const MOST: usize = 16;

/// What is left to read of a directory. Takes the place of wasmtime's own, which does not tell its size.
struct Listing {
    entries: vec::IntoIter<DirectoryEntry>,
    /// What it has taken of the server's memory.
    bytes: usize,
}

/// Limits the listings that components have, and charges for them.
pub(super) fn bound_lists<T: AsHost + WasiView + 'static>(linker: &mut Linker<T>) -> Result<()> {
    let mut types = linker.instance(TYPES)?;
    types.resource("directory-entry-stream", ResourceType::host::<Listing>(), |mut store, listing| {
        let listing = Resource::<Listing>::new_own(listing);
        let Listing { bytes, .. } = store.data_mut().filesystem().table.delete(listing)?;
        store.data_mut().host().give_back(bytes);
        Ok(())
    })?;
    types.func_wrap_async(
        "[method]descriptor.read-directory",
        |mut store: StoreContextMut<'_, T>, (folder,): (Resource<Descriptor>,)| {
            Box::new(async move {
                let mut files = store.data_mut().filesystem();
                let lists = files.table.iter_mut().filter(|handle| handle.is::<Listing>()).count();
                let listed = if lists < MOST {
                    match entries(&mut files, folder).await {
                        Ok(entries) => Ok(entries),
                        Err(error) => Err(files.convert_error_code(error)?),
                    }
                } else {
                    Err(ErrorCode::InsufficientMemory)
                };
                let listed = match listed {
                    Ok(entries) => keep(store.data_mut(), entries)?,
                    Err(code) => Err(code),
                };
                Ok::<_, wasmtime::Error>((listed,))
            })
        },
    )?;
    types.func_wrap(
        "[method]directory-entry-stream.read-directory-entry",
        |mut store: StoreContextMut<'_, T>, (listing,): (Resource<Listing>,)| {
            let next = store.data_mut().filesystem().table.get_mut(&listing)?.entries.next();
            Ok((Ok::<_, ErrorCode>(next),))
        },
    )
}

async fn entries(
    files: &mut WasiFilesystemCtxView<'_>,
    folder: Resource<Descriptor>,
) -> FsResult<Vec<DirectoryEntry>> {
    let list = files.read_directory(folder).await?;
    files.table.delete(list)?.into_iter().collect()
}

/// Makes it the component's, if there is memory for it.
fn keep<T: AsHost + WasiView>(
    data: &mut T,
    entries: Vec<DirectoryEntry>,
) -> Result<Result<Resource<Listing>, ErrorCode>> {
    let names: usize = entries.iter().map(|entry| entry.name.len()).sum();
    let bytes = names + entries.len() * size_of::<DirectoryEntry>();
    if !data.host().take(bytes) {
        return Ok(Err(ErrorCode::InsufficientMemory));
    }
    let listing = Listing { entries: entries.into_iter(), bytes };
    Ok(Ok(data.filesystem().table.push(listing)?))
}
