//! Contract `wasi-http`: a component that handles `wasi:http` requests.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use flint_executor::{Body, BodyError, BodyReceiver, Call, PrepareError};
use http::{HeaderValue, Request, Response};
use http_body::{Frame, SizeHint};
use tokio::sync::oneshot;
use wasmtime::{
    Store,
    component::{self, Component},
};
use wasmtime_wasi_http::{
    Error, WasiHttpView,
    p2::{
        bindings::{
            ProxyPre,
            http::types::{ErrorCode, Scheme},
        },
        body::HyperOutgoingBody,
    },
};

use super::http_0_3::Service;
use crate::{breach::Breach, cut::cut, host::AsHost, state::State, wasi::Wasi};

/// Who answers, as far as the function is told when the caller did not say.
const LOCAL: HeaderValue = HeaderValue::from_static("flint.local");

/// A component that handles requests.
pub(crate) enum HttpComponent {
    /// Of world `wasi:http/proxy@0.2`.
    Proxy(ProxyPre<State>),
    /// Of world `wasi:http/service@0.3`.
    Service(Service),
}

/// What comes of a request: a response, or the error code that the function answered with.
pub(crate) type Responded = Result<Response<HyperOutgoingBody>, String>;

impl HttpComponent {
    pub(crate) fn link(
        linker: &component::Linker<State>,
        component: &Component,
        wasi: Wasi,
    ) -> Result<Self, PrepareError> {
        let pre = super::component_pre(linker, component)?;
        if wasi == Wasi::V0_3 {
            return Service::new(pre).map(Self::Service);
        }
        ProxyPre::new(pre).map(Self::Proxy).map_err(|error| {
            PrepareError::Code(format!(
                "contract wasi-http asks for a component that exports wasi:http/incoming-handler@0.2, and this one does not: {}",
                cut(format_args!("{error:#}"))
            ))
        })
    }

    /// Handles a request to its end, which may be later than the response's.
    pub(crate) async fn handle(
        &self,
        store: &mut Store<State>,
        request: Request<RequestBody>,
        respond: oneshot::Sender<Responded>,
    ) -> wasmtime::Result<()> {
        let proxy = match self {
            Self::Proxy(proxy) => proxy,
            Self::Service(service) => return service.handle(store, request, respond).await,
        };
        let mut http = store.data_mut().host().http();
        let request = http.new_incoming_request(Scheme::Http, request)?;
        let out = http.new_response_outparam_from_callback(move |response| {
            // Nobody may be there any more.
            let _ = respond.send(response.map_err(|code: ErrorCode| cut(format_args!("{code:?}"))));
        })?;
        let proxy = proxy.instantiate_async(&mut *store).await?;
        proxy.wasi_http_incoming_handler().call_handle(&mut *store, request, out).await
    }
}

/// The request as the function gets it.
pub(crate) fn request(call: Call, breach: Breach) -> Result<Request<RequestBody>, String> {
    Ok(call.into_request(LOCAL)?.map(|body| RequestBody::new(body, breach)))
}

/// A request's body as `wasi:http` wants it.
pub(crate) enum RequestBody {
    Full(Option<Bytes>),
    Stream(BodyReceiver, Breach),
}

impl RequestBody {
    fn new(body: Body, breach: Breach) -> Self {
        match body {
            Body::Full(bytes) => Self::Full(Some(bytes).filter(|bytes| !bytes.is_empty())),
            Body::Stream(pieces) => Self::Stream(pieces, breach),
        }
    }
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match &mut *self {
            Self::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(pieces, breach) => pieces.poll_recv(cx).map(|piece| {
                piece.map(|piece| match piece {
                    Ok(piece) => Ok(Frame::data(piece)),
                    Err(error) => {
                        breach.set(error.clone());
                        Err(match error {
                            BodyError::TooLarge(allowed) => Error::HttpRequestBodySize(Some(allowed)),
                            BodyError::Broken(_) | BodyError::Late => Error::ConnectionTerminated,
                        })
                    }
                })
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Stream(..) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use flint_executor::{Fault, body_channel};
    use http_body::Body as _;

    use super::*;

    #[tokio::test]
    async fn a_function_that_failed_over_half_a_body_is_not_to_blame() {
        let own = || Fault::Developer { message: "a panic".to_owned() };
        let limits = [Fault::Deadline, Fault::OutOfMemory, Fault::Platform { cause: "no room".to_owned() }];
        for error in [BodyError::Broken("gone".into()), BodyError::TooLarge(7), BodyError::Late] {
            let (sender, pieces) = body_channel();
            sender.send(Ok(Bytes::from_static(b"half"))).await.expect("room");
            sender.send(Err(error.clone())).await.expect("room");
            let breach = Breach::default();
            let mut body = RequestBody::new(Body::Stream(pieces), breach.clone());
            for is_whole in [true, false] {
                let frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
                assert_eq!(frame.is_some_and(|frame| frame.is_ok()), is_whole);
                assert_eq!(breach.or(own()), if is_whole { own() } else { Fault::Request(error.clone()) });
            }
            for limit in &limits {
                assert_eq!(&breach.or(limit.clone()), limit);
            }
        }
    }
}
