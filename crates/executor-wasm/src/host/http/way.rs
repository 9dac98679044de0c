//! The ways that a request can go.

use std::{sync::Arc, time::Duration};

use flint_gate::DirectGate;
use flint_model::ByteSize;
use tokio::sync::OwnedSemaphorePermit;
use wasmtime_wasi_http::Error;

use super::{HttpBounds, HttpClient, Target, connect::Connection};

/// Longer than any call.
const ALWAYS: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// To the API what holds is what the gate and the API themselves bound, and the call's own time: a call that waits for another one may wait long.
const TO_THE_API: HttpBounds = HttpBounds {
    requests: u32::MAX,
    at_once: u32::MAX,
    connect: ALWAYS,
    idle: ALWAYS,
    request_body: ByteSize::bytes(u64::MAX),
    response_body: ByteSize::bytes(u64::MAX),
    response_head: ByteSize::kib(64),
};

/// How a request that was let pass goes where it wants to.
pub(super) enum Way {
    /// To another host, with a place among the call's requests.
    Out { client: Arc<HttpClient>, target: Target, place: OwnedSemaphorePermit },
    /// To the server's own API, without any network.
    Gate(Arc<DirectGate>),
}

impl Way {
    /// What holds for a request on it.
    pub(super) fn bounds(&self) -> HttpBounds {
        match self {
            Self::Out { client, .. } => client.bounds().clone(),
            Self::Gate(_) => TO_THE_API,
        }
    }

    /// A connection.
    pub(super) async fn connect(&self) -> Result<Box<dyn Connection>, Error> {
        match self {
            Self::Out { client, target, .. } => client.connect(target).await,
            Self::Gate(gate) => match gate.connect().await {
                Ok(stream) => Ok(Box::new(stream)),
                Err(_) => Err(Error::ConnectionRefused),
            },
        }
    }

    /// What is kept until the answer is gone.
    pub(super) fn place(self) -> Option<OwnedSemaphorePermit> {
        match self {
            Self::Out { place, .. } => Some(place),
            Self::Gate(_) => None,
        }
    }
}
