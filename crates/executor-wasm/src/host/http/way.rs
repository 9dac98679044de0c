//! The ways in which a request can be sent.

use std::{sync::Arc, time::Duration};

use flint_gate::DirectGate;
use flint_model::{ByteSize, NamespaceName};
use flint_shares::Share;
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
    /// To another host, with a permit for a concurrent request and one for a connection.
    Out {
        client: Arc<HttpClient>,
        namespace: NamespaceName,
        target: Target,
        place: OwnedSemaphorePermit,
        share: Share,
    },
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
            Self::Out { client, namespace, target, .. } => client.connect(namespace, target).await,
            Self::Gate(gate) => match gate.connect().await {
                Ok(stream) => Ok(Box::new(stream)),
                Err(_) => Err(Error::ConnectionRefused),
            },
        }
    }

    /// The permits to hold until the response and the connection are gone.
    pub(super) fn permits(self) -> (Option<OwnedSemaphorePermit>, Option<Share>) {
        match self {
            Self::Out { place, share, .. } => (Some(place), Some(share)),
            Self::Gate(_) => (None, None),
        }
    }
}
