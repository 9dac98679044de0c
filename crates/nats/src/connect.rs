//! Connects to the first usable server of a list.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use async_nats::{Client, ConnectOptions, Subscriber};
use flint_model::{NatsLogin, NatsServer, NatsSource};

use futures_util::StreamExt;
use tokio::time::timeout;

use crate::{NatsError, Reach, certificate, line::Line};

/// Time limit for a server's answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Ping interval; a connection that is silent for twice as long is given up.
const PING: Duration = Duration::from_secs(20);
/// First and longest delay before the client connects again by itself, doubled each time. By then it is gone,
/// because its caller starts over, unless that is busy with what came before.
const AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// Capacity of a connection's queue of unprocessed messages; messages beyond it are missed.
const WAITING: usize = 2048;
/// Maximum payload of an acceptable server: the maximum of NATS itself.
const LARGEST: usize = 64 << 20;

/// Connects to any server of a source, under this client name.
pub(crate) async fn connect(
    source: &NatsSource,
    name: &str,
    reach: &Reach,
) -> Result<(Client, Line), NatsError> {
    let mut why = Vec::new();
    for server in &source.servers {
        match to_server(source, server, name, reach).await {
            Ok(connected) => return Ok(connected),
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
) -> Result<(Client, Line), NatsError> {
    let addresses = reach.resolve(server).await?;
    let mut last = NatsError::NoAddress(server.host.clone());
    for address in addresses {
        let line = Line::new(source.stream.is_none().then_some(source.subject.as_str()));
        let told = line.clone();
        let options = options(source, server, name)?.event_callback(move |event| {
            told.tell(event);
            std::future::ready(())
        });
        // An address, so that the name is not resolved again; and the only one it will ever connect to.
        match options.connect(address.to_string()).await {
            Ok(client) if client.server_info().max_payload > LARGEST => {
                last = NatsError::NoServer(format!("{server} has messages of more than {LARGEST} bytes"));
            }
            Ok(client) => return Ok((client, line)),
            Err(error) => last = NatsError::NoServer(format!("{server}: {}", causes(&error))),
        }
    }
    Err(last)
}

/// Subscribes to a plain subject. Returns once the server has answered to that, which it does where it refuses it.
pub(crate) async fn subscribe(
    client: &Client,
    source: &NatsSource,
    line: &Line,
) -> Result<Subscriber, NatsError> {
    let subject = source.subject.clone();
    let subscriber = match &source.queue {
        Some(queue) => client.queue_subscribe(subject, queue.clone()).await,
        None => client.subscribe(subject).await,
    };
    let subscriber = subscriber.map_err(|error| NatsError::Invalid(causes(&error)))?;
    tokio::select! {
        biased;
        why = line.ended() => Err(NatsError::Ended(why)),
        answered = timeout(PATIENCE, round_trip(client)) => match answered {
            Ok(answered) => answered.map(|()| subscriber),
            Err(_) => Err(NatsError::Ended("the server does not answer".to_owned())),
        },
    }
}

/// Waits for the server. The client sends a PING at the end of a subscription, and waits for the answer; whether
/// this one is allowed does not matter.
async fn round_trip(client: &Client) -> Result<(), NatsError> {
    let ended = |error: &dyn std::error::Error| NatsError::Ended(causes(error));
    let mut other = client.subscribe(client.new_inbox()).await.map_err(|error| ended(&error))?;
    other.drain().await.map_err(|error| ended(&error))?;
    while other.next().await.is_some() {}
    Ok(())
}

/// The delays before a client's connections: the first is asked for, further ones are not.
fn delays() -> impl Fn(usize) -> Duration + Send + Sync + 'static {
    let asked = AtomicU32::new(0);
    // The client's own count begins anew whenever it succeeds, also if the server then ends the connection at once.
    move |_| match asked.fetch_add(1, Ordering::Relaxed) {
        0 => Duration::ZERO,
        again => AGAIN.0.saturating_mul(2_u32.saturating_pow(again - 1)).min(AGAIN.1),
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
        .reconnect_delay_callback(delays())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_connects_at_once_and_then_ever_more_slowly() {
        let delay = delays();
        // As it counts when each connection succeeds.
        let millis: Vec<_> = (0..10).map(|_| delay(1).as_millis()).collect();
        assert_eq!(millis, [0, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
    }
}
