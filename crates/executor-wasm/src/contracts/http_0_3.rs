//! Contract `wasi-http` for components of WASI 0.3: a request is a task, which may answer before it ends.

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
use crate::{host::AsHost, state::State};

/// A component of world `wasi:http/service`.
pub(crate) struct Service(ServicePre<State>);

impl Service {
    pub(super) fn new(pre: InstancePre<State>) -> Result<Self, PrepareError> {
        ServicePre::new(pre).map(Self).map_err(|error| {
            PrepareError::Code(format!(
                "the component's wasi:http/handler@0.3 is not as it should be: {error:#}"
            ))
        })
    }

    /// Handles a request until no task of it is left, which may be later than the response's end.
    pub(super) async fn handle(
        &self,
        store: &mut Store<State>,
        request: Request<RequestBody>,
        respond: oneshot::Sender<Responded>,
    ) -> wasmtime::Result<()> {
        let service = self.0.instantiate_async(&mut *store).await?;
        // What became of the request's body is told to a function that gives it on as its answer's.
        let (request, read) = p3::Request::from_http(store.data_mut().host().http().hooks, absolute(request));
        let handling = store.run_concurrent(async |accessor| {
            let response = match service.handle(accessor, request).await? {
                Ok(response) => accessor.with(|store| response.into_http(store, read)).map(Ok)?,
                Err(code) => Err(format!("{code:?}")),
            };
            // Nobody may be there any more.
            let _ = respond.send(response);
            poll_fn(|cx| accessor.poll_no_interesting_tasks(cx)).await;
            Ok::<(), wasmtime::Error>(())
        });
        handling.await?
    }
}

/// The same with the authority that it was sent to, which 0.3 does not look for in the headers.
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
