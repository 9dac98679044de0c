//! All gates of a server.

use std::{
    io,
    net::TcpListener,
    os::fd::OwnedFd,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use axum::Router;
use flint_model::NamespaceName;
use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::Handle,
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    DirectGate, Gate, GateConfig, connection,
    places::{Place, Places},
};

/// After a failed accept (out of file descriptors, mostly), so that the loop does not spin.
const PAUSE: Duration = Duration::from_millis(50);

/// All gates of a server. Clones share them.
#[derive(Clone, Debug)]
pub struct Gates(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: GateConfig,
    http: http1::Builder,
    /// What answers, once there is something; taken out again in the end.
    api: RwLock<Option<Api>>,
    /// Places for connections.
    places: Places,
    pub(crate) tasks: TaskTracker,
    pub(crate) closing: CancellationToken,
}

/// What answers.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    router: Router,
    /// The server's own threads, whoever asks.
    pub(crate) runtime: Handle,
}

impl Gates {
    /// None yet.
    pub fn new(config: GateConfig) -> Self {
        let mut http = http1::Builder::new();
        // hyper's own minimum is 8 KB. A read may bring more than its buffer is to have.
        let most = config.max_header.max(8 << 10);
        http.timer(TokioTimer::new())
            .header_read_timeout(config.idle)
            .keep_alive(true)
            .max_header_size(most)
            .max_buf_size(most);
        Self(Arc::new(Shared {
            places: Places::new(config.max_connections),
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

    /// What functions are to call the gate: `__OW_API_HOST`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port())
    }

    /// What answers from now on, on the runtime that this is called on. Requests have the [`Gate`] that they came through as an extension, and it is for what answers to ask it.
    pub fn serve(&self, router: Router) {
        let api = Api { router, runtime: Handle::current() };
        *self.0.api.write().unwrap_or_else(PoisonError::into_inner) = Some(api);
    }

    /// Serves on a socket that listens inside of a sandbox, until that ends, which `end` tells. `whose`: the account on which it works for all its life;
    /// without, it is closed to everybody until somebody is admitted.
    ///
    /// # Errors
    /// The socket cannot be waited on.
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
            // Dropped in the middle of whatever it does: it owns the socket and every connection.
            tokio::select! {
                () = end => {}
                () = closing.cancelled() => {}
                () = accepting => {}
            }
            drop(owner);
        });
        Ok(gate)
    }

    /// A gate without a socket, to be asked by whoever runs a guest of this account in the server's own process.
    pub fn direct(&self, whose: NamespaceName) -> DirectGate {
        DirectGate::new(Arc::clone(&self.0), whose)
    }

    /// Ends every gate and lets go of what answers.
    pub async fn close(&self) {
        self.0.closing.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
        self.0.api.write().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Accepts as many connections as there may be; the others wait in the kernel, which lets few wait.
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
                    // Best effort: without it small answers only wait a little longer.
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

/// A place for one more connection of this gate, when it has its turn, and what answers there; `None` when nothing does (yet).
pub(crate) async fn place(shared: &Shared, gate: &Gate) -> Option<(Api, Place)> {
    let place = shared.places.next(gate.account()).await?;
    let api = shared.api.read().unwrap_or_else(PoisonError::into_inner).clone()?;
    Some((api, place))
}

pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    shared: Arc<Shared>,
    stream: S,
    api: Api,
    gate: Gate,
    place: Place,
) {
    connection::serve(&shared.http, stream, api.router, gate, shared.config.idle).await;
    drop(place);
}
