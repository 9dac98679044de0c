//! The ways in which a request can be sent.

use std::{sync::Arc, time::Duration};

use flint_gate::DirectGate;
use flint_model::ByteSize;
use tokio::sync::OwnedSemaphorePermit;
use wasmtime_wasi_http::Error;

use super::{HttpBounds, HttpClient, Target, connect::Connection};

/// Longer than any call.
const ALWAYS: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Requests to the API are limited by the gate, the API and the call's deadline: one that waits for another
/// call may wait long.
const TO_THE_API: HttpBounds = HttpBounds {
    requests: u32::MAX,
    at_once: u32::MAX,
    connect: ALWAYS,
    idle: ALWAYS,
    request_body: ByteSize::bytes(u64::MAX),
    response_body: ByteSize::bytes(u64::MAX),
    response_head: ByteSize::kib(64),
};

/// How an admitted request is sent.
pub(super) enum Way {
    /// To another host, with a permit for a concurrent request.
    Out { client: Arc<HttpClient>, target: Target, place: OwnedSemaphorePermit },
    /// To the server's own API, without a network.
    Gate(Arc<DirectGate>),
}

impl Way {
    /// The limits for such a request.
    pub(super) fn bounds(&self) -> HttpBounds {
        match self {
            Self::Out { client, .. } => client.bounds().clone(),
            Self::Gate(_) => TO_THE_API,
        }
    }

    /// Connects.
    pub(super) async fn connect(&self) -> Result<Box<dyn Connection>, Error> {
        match self {
            Self::Out { client, target, .. } => client.connect(target).await,
            Self::Gate(gate) => match gate.connect().await {
                Ok(stream) => Ok(Box::new(stream)),
                Err(_) => Err(Error::ConnectionRefused),
            },
        }
    }

    /// The permit to hold until the response is gone.
    pub(super) fn place(self) -> Option<OwnedSemaphorePermit> {
        match self {
            Self::Out { place, .. } => Some(place),
            Self::Gate(_) => None,
        }
    }
}
