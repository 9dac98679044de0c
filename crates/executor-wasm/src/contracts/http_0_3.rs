//! Contract `wasi-http` for components of WASI 0.3: handling a request is an async task, which may respond
//! before it ends.

use std::future::poll_fn;

use flint_executor::PrepareError;
use http::{
    Request, Uri,
    header::HOST,
    uri::{Authority, Scheme},
};
use tokio::sync::oneshot;
use wasmtime::{Store, component::InstancePre};
use wasmtime_wasi_http::{
    WasiHttpView,
    p3::{self, bindings::ServicePre},
};

use super::http::{RequestBody, Responded};
use crate::{cut::cut, host::AsHost, state::State};

/// A component of world `wasi:http/service`.
pub(crate) struct Service(ServicePre<State>);

impl Service {
    pub(super) fn new(pre: InstancePre<State>) -> Result<Self, PrepareError> {
        ServicePre::new(pre).map(Self).map_err(|error| {
            PrepareError::Code(format!(
                "the component's wasi:http/handler@0.3 is not as it should be: {}",
                cut(format_args!("{error:#}"))
            ))
        })
    }

    /// Handles a request until all of its tasks have ended, which may be after the end of the response.
    pub(super) async fn handle(
        &self,
        store: &mut Store<State>,
        request: Request<RequestBody>,
        respond: oneshot::Sender<Responded>,
    ) -> wasmtime::Result<()> {
        let service = self.0.instantiate_async(&mut *store).await?;
        // A function that forwards the request's body as its response's learns how reading it ended.
        let (request, read) = p3::Request::from_http(store.data_mut().host().http().hooks, absolute(request));
        let handling = store.run_concurrent(async |accessor| {
            let response = match service.handle(accessor, request).await? {
                Ok(response) => accessor.with(|store| response.into_http(store, read)).map(Ok)?,
                Err(code) => Err(cut(format_args!("{code:?}"))),
            };
            // The receiver may have gone.
            let _ = respond.send(response);
            poll_fn(|cx| accessor.poll_no_interesting_tasks(cx)).await;
            Ok::<(), wasmtime::Error>(())
        });
        handling.await?
    }
}

/// Adds the authority to the URI, since 0.3 does not take it from the headers.
fn absolute(mut request: Request<RequestBody>) -> Request<RequestBody> {
    let host = request.headers().get(HOST);
    if let Some(authority) = host.and_then(|host| Authority::try_from(host.as_bytes()).ok()) {
        let mut parts = request.uri().clone().into_parts();
        (parts.scheme, parts.authority) = (Some(Scheme::HTTP), Some(authority));
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}
