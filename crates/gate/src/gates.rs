//! All gates of a server: accepting connections, and handing them to the API.

use std::{
    io,
    net::TcpListener,
    os::fd::OwnedFd,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use axum::Router;
use flint_model::NamespaceName;
use flint_shares::{Share, Shares};
use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::Handle,
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{DirectGate, Gate, GateConfig, connection};

/// The pause after a failed accept, mostly for want of descriptors, so that the loop does not spin.
const PAUSE: Duration = Duration::from_millis(50);

/// All gates of a server. Clones share them.
#[derive(Clone, Debug)]
pub struct Gates(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: GateConfig,
    http: http1::Builder,
    /// The API, while there is one.
    api: RwLock<Option<Api>>,
    /// Limits connections: so many in all, of which one namespace gets at most half, so that none keeps the others
    /// out. Those of sandboxes that do not work for any yet count as one namespace's.
    places: Shares<Option<NamespaceName>>,
    pub(crate) tasks: TaskTracker,
    pub(crate) closing: CancellationToken,
}

/// The API that answers requests.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    router: Router,
    /// The server's own runtime, on whatever thread a connection is made.
    pub(crate) runtime: Handle,
}

impl Gates {
    /// Without any gate yet.
    pub fn new(config: GateConfig) -> Self {
        let mut http = http1::Builder::new();
        // hyper requires at least 8 KB, and a read may fill more than the buffer's limit.
        let most = config.max_header.max(8 << 10);
        http.timer(TokioTimer::new())
            .header_read_timeout(config.idle)
            .keep_alive(true)
            .max_header_size(most)
            .max_buf_size(most);
        Self(Arc::new(Shared {
            places: Shares::halves(config.max_connections),
            config,
            http,
            api: RwLock::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        }))
    }

    /// The port of every gate, on the loopback of its sandbox.
    pub fn port(&self) -> u16 {
        self.0.config.port
    }

    /// The URL by which functions call the gate: `__OW_API_HOST`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port())
    }

    /// Sets the API that answers from now on, on the current runtime. Each request carries the [`Gate`] that
    /// it came through as an extension, which the API has to ask for whom it may answer.
    pub fn serve(&self, router: Router) {
        let api = Api { router, runtime: Handle::current() };
        *self.0.api.write().unwrap_or_else(PoisonError::into_inner) = Some(api);
    }

    /// Serves on a socket that listens inside a sandbox, until `end` resolves. `whose` is the namespace for
    /// which the sandbox works all its life; without it the gate admits nobody at first.
    ///
    /// # Errors
    /// The socket cannot be registered with the runtime.
    pub fn open(
        &self,
        listener: OwnedFd,
        end: impl Future<Output = ()> + Send + 'static,
        whose: Option<NamespaceName>,
    ) -> io::Result<Gate> {
        let listener = TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let gate = Gate::closed();
        let accepting = accept(Arc::clone(&self.0), listener, gate.clone());
        let closing = self.0.closing.clone();
        let owner = whose.map(|namespace| gate.admit(namespace));
        self.0.tasks.spawn(async move {
            // The future is dropped wherever it is, and with it the socket and every connection.
            tokio::select! {
                () = end => {}
                () = closing.cancelled() => {}
                () = accepting => {}
            }
            drop(owner);
        });
        Ok(gate)
    }

    /// A gate without a socket, for a guest of this namespace that runs in the server's own process.
    pub fn direct(&self, whose: NamespaceName) -> DirectGate {
        DirectGate::new(Arc::clone(&self.0), whose)
    }

    /// Ends every gate and drops the API.
    pub async fn close(&self) {
        self.0.closing.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
        self.0.api.write().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Accepts connections up to the limit. Further ones wait in the kernel's backlog, which is short.
async fn accept(shared: Arc<Shared>, listener: tokio::net::TcpListener, gate: Gate) {
    let mut connections = JoinSet::new();
    loop {
        let most = shared.config.connections.saturating_mul(gate.members_now());
        tokio::select! {
            _ = connections.join_next(), if !connections.is_empty() => {}
            () = gate.changed() => {}
            accepted = listener.accept(), if connections.len() < most => match accepted {
                Ok((stream, _)) => {
                    let Some((api, place)) = place(&shared, &gate).await else { continue };
                    // Best effort: without it small answers are merely delayed a little.
                    let _ = stream.set_nodelay(true);
                    connections.spawn(serve(Arc::clone(&shared), stream, api, gate.clone(), place));
                }
                Err(error) => {
                    tracing::warn!(%error, "a function's connection to the API was not accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
    }
}

/// Waits for this gate's turn for a connection; returns it with the API, or `None` while there is no API.
pub(crate) async fn place(shared: &Shared, gate: &Gate) -> Option<(Api, Share)> {
    let place = shared.places.take(&gate.account(), 1).await;
    let api = shared.api.read().unwrap_or_else(PoisonError::into_inner).clone()?;
    Some((api, place))
}

pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    shared: Arc<Shared>,
    stream: S,
    api: Api,
    gate: Gate,
    place: Share,
) {
    connection::serve(&shared.http, stream, api.router, gate, shared.config.idle).await;
    drop(place);
}
