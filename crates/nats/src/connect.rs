//! Connects to the first usable server of a list.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_nats::{Client, ConnectOptions, Event};
use flint_model::{NatsLogin, NatsServer, NatsSource};

use crate::{NatsError, Reach, certificate};

/// Time limit for a server's answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Ping interval; a connection that is silent for twice as long is given up.
const PING: Duration = Duration::from_secs(20);
/// Delay before the only reconnection, to the same address. After that the caller starts over.
const AGAIN: Duration = Duration::from_millis(500);
/// Capacity of a connection's queue of unprocessed messages; messages beyond it are missed.
const WAITING: usize = 2048;
/// Maximum payload of an acceptable server: the maximum of NATS itself.
const LARGEST: usize = 64 << 20;

/// Connects to any server of a source, under this client name. Messages lost in this process are counted in
/// `missed`.
pub(crate) async fn connect(
    source: &NatsSource,
    name: &str,
    reach: &Reach,
    missed: &Arc<AtomicU64>,
) -> Result<Client, NatsError> {
    let mut why = Vec::new();
    for server in &source.servers {
        match to_server(source, server, name, reach, missed).await {
            Ok(client) => return Ok(client),
            // With several servers, another one may be usable.
            Err(error) if source.servers.len() == 1 => return Err(error),
            Err(error) => why.push(format!("{server}: {error}")),
        }
    }
    Err(NatsError::NoServer(why.join("; ")))
}

async fn to_server(
    source: &NatsSource,
    server: &NatsServer,
    name: &str,
    reach: &Reach,
    missed: &Arc<AtomicU64>,
) -> Result<Client, NatsError> {
    let addresses = reach.resolve(server).await?;
    let mut last = NatsError::NoAddress(server.host.clone());
    for address in addresses {
        let options = options(source, server, name)?.event_callback(counting(Arc::clone(missed)));
        // An address, so that the name is not resolved again; and the only one it will ever connect to.
        match options.connect(address.to_string()).await {
            Ok(client) if client.server_info().max_payload > LARGEST => {
                last = NatsError::NoServer(format!("{server} has messages of more than {LARGEST} bytes"));
            }
            Ok(client) => return Ok(client),
            Err(error) => last = NatsError::NoServer(format!("{server}: {}", causes(&error))),
        }
    }
    Err(last)
}

/// Counts lost messages among a connection's events.
fn counting(missed: Arc<AtomicU64>) -> impl Fn(Event) -> std::future::Ready<()> + Send + Sync + 'static {
    move |event| {
        if let Event::SlowConsumer(_) = event {
            missed.fetch_add(1, Ordering::Relaxed);
        }
        std::future::ready(())
    }
}

fn options(source: &NatsSource, server: &NatsServer, name: &str) -> Result<ConnectOptions, NatsError> {
    let options = match &source.login {
        NatsLogin::Nobody => ConnectOptions::new(),
        NatsLogin::User { name, password } => {
            ConnectOptions::with_user_and_password(name.clone(), password.clone())
        }
        NatsLogin::Token(token) => ConnectOptions::with_token(token.clone()),
        NatsLogin::Credentials(text) => ConnectOptions::with_credentials(text)
            .map_err(|error| NatsError::Invalid(format!("the credentials cannot be read: {error}")))?,
    };
    Ok(options
        .name(name)
        .connection_timeout(PATIENCE)
        .request_timeout(Some(PATIENCE))
        .ping_interval(PING)
        .subscription_capacity(WAITING)
        .ignore_discovered_servers()
        .max_reconnects(1)
        .reconnect_delay_callback(|attempt| if attempt < 2 { Duration::ZERO } else { AGAIN })
        .require_tls(source.tls || server.tls)
        // Also applies to servers that request TLS themselves.
        .tls_client_config(certificate::config(&server.host, source.ca.as_deref())?))
}

/// An error with its causes.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}
