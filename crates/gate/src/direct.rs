//! A gate without a socket, for guests that run in this process.

use std::{io, sync::Arc};

use flint_model::NamespaceName;
use tokio::{
    io::DuplexStream,
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Admission, Gate,
    gates::{Shared, place, serve},
};

/// What a connection holds of what the other end has not read, in bytes each way.
const BUFFER: usize = 64 << 10;

/// The gate of one guest in this process. Nothing listens anywhere: a connection is a pair of buffers, made for who holds this, and so nobody else can come in.
/// What is served there, for whom and within which bounds is as at a socket. Its connections end when this is dropped.
#[derive(Debug)]
pub struct DirectGate {
    shared: Arc<Shared>,
    gate: Gate,
    /// Places for connections of this guest.
    places: Arc<Semaphore>,
    end: CancellationToken,
    _ends: DropGuard,
    _owner: Admission,
}

impl DirectGate {
    pub(crate) fn new(shared: Arc<Shared>, whose: NamespaceName) -> Self {
        let (gate, end) = (Gate::closed(), shared.closing.child_token());
        let places = shared.config.connections.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            places: Arc::new(Semaphore::new(places)),
            _ends: end.clone().drop_guard(),
            _owner: gate.admit(whose),
            shared,
            gate,
            end,
        }
    }

    /// The port that guests say when they mean this gate, on the loopback that they do not have.
    pub fn port(&self) -> u16 {
        self.shared.config.port
    }

    /// A connection to the API, when there is a place for it. It is served on the server's runtime, wherever this is called.
    ///
    /// # Errors
    /// The server stops, or does not answer yet.
    pub async fn connect(&self) -> io::Result<DuplexStream> {
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let own = Arc::clone(&self.places).acquire_owned().await.map_err(|_| refused())?;
        let (api, place) = place(&self.shared, &self.gate).await.ok_or_else(refused)?;
        let (near, far) = tokio::io::duplex(BUFFER);
        let runtime = api.runtime.clone();
        let serving = serve(Arc::clone(&self.shared), far, api, self.gate.clone(), place);
        let served = until(self.end.clone(), serving, own);
        self.shared.tasks.spawn_on(served, &runtime);
        Ok(near)
    }
}

/// Serves to the end, or to that of the guest.
async fn until(end: CancellationToken, serving: impl Future<Output = ()>, place: OwnedSemaphorePermit) {
    tokio::select! {
        () = end.cancelled() => {}
        () = serving => {}
    }
    drop(place);
}
