//! A gate without a socket, for guests that run in the server's own process.

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

/// How many unread bytes a connection buffers in each direction.
const BUFFER: usize = 64 << 10;

/// The gate of one guest in this process. Nothing listens: a connection is a pair of buffers, made for
/// the holder of this object, so that nobody else can connect. Otherwise it serves like a socket, with the
/// same limits. Its connections end when it is dropped.
#[derive(Debug)]
pub struct DirectGate {
    shared: Arc<Shared>,
    gate: Gate,
    /// Limits this guest's connections.
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

    /// The port by which guests address this gate on a loopback that they do not have.
    pub fn port(&self) -> u16 {
        self.shared.config.port
    }

    /// Opens a connection to the API as soon as the limits allow it. It is served on the server's runtime,
    /// wherever this is called.
    ///
    /// # Errors
    /// The server is stopping, or does not serve yet.
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

/// Serves until the connection or the guest ends.
async fn until(end: CancellationToken, serving: impl Future<Output = ()>, place: OwnedSemaphorePermit) {
    tokio::select! {
        () = end.cancelled() => {}
        () = serving => {}
    }
    drop(place);
}
