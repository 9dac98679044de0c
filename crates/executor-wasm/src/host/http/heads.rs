//! Limits the server's memory that a guest's message heads take: methods, targets, fields and trailers.
//! wasmtime limits each map of fields, but neither their number nor the rest.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use http::{HeaderMap, Request};
use wasmtime::{
    Result, StoreContextMut,
    component::{Linker, Resource, ResourceTable},
};
use wasmtime_wasi_http::{
    FieldMap, WasiHttpView,
    p2::{
        bindings::http::types::{Host as _, HostOutgoingBody as _, HostOutgoingRequest as _, Method},
        body::HostOutgoingBody,
        types::{HostIncomingResponse, HostOutgoingRequest, HostOutgoingResponse},
    },
};

use crate::host::AsHost;

/// A call whose heads take more than this cannot add to them.
const MOST: usize = 4 << 20;
/// How many host calls pass between two measurements. Each adds one map of fields at most.
const LOOK_EVERY: u32 = 16;
/// The overhead of a field beyond its bytes.
const FIELD: usize = 64;
/// Longest method and longest authority; host names have at most 253 bytes.
const LONGEST_METHOD: usize = 256;
const LONGEST_AUTHORITY: usize = 1024;

/// The interface that wasmtime links. If a new release links another one, `heads_are_bounded` fails.
const TYPES: &str = "wasi:http/types@0.2.12";

/// The memory taken by the heads of one call.
#[derive(Debug, Default)]
pub(super) struct Heads {
    calls: u32,
    is_full: bool,
    /// That of heads without a handle in the guest's table.
    given_on: Arc<AtomicUsize>,
}

/// Counts the head of a request until it is done.
pub(super) struct UnderWay {
    size: usize,
    all: Arc<AtomicUsize>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.all.fetch_sub(self.size, Ordering::Relaxed);
    }
}

impl Heads {
    /// Called before each host call; measures every few calls.
    pub(super) fn look(&mut self, table: &mut ResourceTable) {
        self.calls = self.calls.wrapping_add(1);
        if self.is_full || self.calls.is_multiple_of(LOOK_EVERY) {
            let held: usize = table.iter_mut().map(|entry| head(entry)).sum();
            self.is_full = held + self.given_on.load(Ordering::Relaxed) > MOST;
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Counts a request's head until the result is dropped.
    pub(super) fn send<B>(&self, request: &Request<B>) -> UnderWay {
        let uri = request.uri();
        let texts = [Some(request.method().as_str()), uri.path_and_query().map(|path| path.as_str())];
        let texts: usize = texts.into_iter().flatten().map(str::len).sum();
        let authority = uri.authority().map_or(0, |authority| authority.as_str().len());
        let under_way =
            UnderWay { size: texts + authority + fields(request.headers()), all: Arc::clone(&self.given_on) };
        self.given_on.fetch_add(under_way.size, Ordering::Relaxed);
        under_way
    }

    /// Counts trailers until the end of the call.
    fn keep(&self, trailers: &HeaderMap) {
        self.given_on.fetch_add(fields(trailers), Ordering::Relaxed);
    }
}

/// The memory that a handle takes for heads.
fn head(handle: &(dyn Any + Send)) -> usize {
    if let Some(map) = handle.downcast_ref::<FieldMap>() {
        return fields(map);
    }
    if let Some(request) = handle.downcast_ref::<HostOutgoingRequest>() {
        let texts = [&request.authority, &request.path_with_query];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        return other(&request.method) + texts + fields(&request.headers);
    }
    if let Some(response) = handle.downcast_ref::<HostOutgoingResponse>() {
        return fields(&response.headers);
    }
    handle.downcast_ref::<HostIncomingResponse>().map_or(0, |response| fields(&response.headers))
}

fn fields(map: &HeaderMap) -> usize {
    map.iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD).sum()
}

/// The length of a non-standard method.
fn other(method: &Method) -> usize {
    match method {
        Method::Other(name) => name.len(),
        _ => 0,
    }
}

/// Adds limits to wasmtime's functions that lack them. [`super::Outbound`]'s hook limits fields.
pub(in crate::host) fn bound_heads<T: AsHost + WasiHttpView + 'static>(linker: &mut Linker<T>) -> Result<()> {
    let mut types = linker.instance(TYPES)?;
    types.func_wrap(
        "[method]outgoing-request.set-method",
        |mut store: StoreContextMut<'_, T>, (request, method): (Resource<HostOutgoingRequest>, Method)| {
            let refused = other(&method) > LONGEST_METHOD || store.data_mut().host().has_full_heads();
            let set = if refused { Err(()) } else { store.data_mut().http().set_method(request, method)? };
            Ok((set,))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-authority",
        |mut store: StoreContextMut<'_, T>,
         (request, authority): (Resource<HostOutgoingRequest>, Option<String>)| {
            let length = authority.as_ref().map_or(0, String::len);
            let refused = length > LONGEST_AUTHORITY || store.data_mut().host().has_full_heads();
            let set =
                if refused { Err(()) } else { store.data_mut().http().set_authority(request, authority)? };
            Ok((set,))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-path-with-query",
        |mut store: StoreContextMut<'_, T>,
         (request, path): (Resource<HostOutgoingRequest>, Option<String>)| {
            let refused = store.data_mut().host().has_full_heads();
            let set =
                if refused { Err(()) } else { store.data_mut().http().set_path_with_query(request, path)? };
            Ok((set,))
        },
    )?;
    types.func_wrap(
        "[static]outgoing-body.finish",
        |mut store: StoreContextMut<'_, T>,
         (body, trailers): (Resource<HostOutgoingBody>, Option<Resource<FieldMap>>)| {
            let context = store.data_mut().host().p2();
            if let Some(trailers) = &trailers {
                context.outbound.heads.keep(context.table.get(trailers)?);
            }
            let mut http = store.data_mut().http();
            let finished = match http.finish(body, trailers) {
                Ok(()) => Ok(()),
                Err(error) => Err(http.convert_error_code(error)?),
            };
            Ok((finished,))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_full(heads: &mut Heads, table: &mut ResourceTable) -> bool {
        (0..LOOK_EVERY).for_each(|_| heads.look(table));
        heads.is_full()
    }

    #[test]
    fn what_is_kept_counts_and_so_does_what_is_on_its_way() {
        let (mut heads, mut table) = (Heads::default(), ResourceTable::new());
        let request = |length| HostOutgoingRequest {
            method: Method::Get,
            scheme: None,
            authority: None,
            path_with_query: Some("/".repeat(length)),
            headers: FieldMap::default(),
            body: None,
        };
        for _ in 0..64 {
            table.push(request(MOST / 64)).unwrap();
        }
        assert!(!is_full(&mut heads, &mut table));
        let one_more = table.push(request(1)).unwrap();
        assert!(is_full(&mut heads, &mut table));
        table.delete(one_more).unwrap();
        assert!(!is_full(&mut heads, &mut table));
        let under_way = heads.send(&Request::builder().uri("http://a/b").body(()).unwrap());
        assert!(is_full(&mut heads, &mut table));
        drop(under_way);
        assert!(!is_full(&mut heads, &mut table));
        let mut trailers = HeaderMap::new();
        trailers.insert("a", http::HeaderValue::from_static("b"));
        heads.keep(&trailers);
        assert!(is_full(&mut heads, &mut table));
    }
}
