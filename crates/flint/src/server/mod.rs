//! `flint up`: starts and stops all parts of the server.

mod address;
mod banner;
mod browser_guard;
mod connections;
mod data_dir;
mod head_guard;
mod notify;
mod operator;
mod owner;
mod parts;
mod places;
mod refusal;
mod secret_keys;
mod stop;
mod tap;
mod timer;

pub(crate) use data_dir::{explain_store, open_unserved};
pub(crate) use operator::OperatorFile;
pub(crate) use owner::Owner;
pub(crate) use parts::offline_api;
pub(crate) use secret_keys::KEY_FILE;

use anyhow::Context;
use tokio::sync::oneshot;
use tracing::info;

use crate::{
    config::{Config, Room, ServerConfig},
    failure::Exit,
};

/// Runs the server until it is told to stop.
pub(crate) async fn up(config: Config) -> anyhow::Result<Exit> {
    // Signals are handled from here on, so that a stop during the start cleans up as well.
    let mut signals = stop::Signals::listen().context("listening for signals")?;
    let address = address::Listen::parse(&config.server.listen)?;
    // First of all: a busy port is the most common reason for a failed start.
    let listener = address.bind().await?;
    let made = data_dir::Made::in_case_of_failure(&config.server.data_dir);
    let started = tokio::select! {
        started = parts::Parts::start(&config, listener.local_addr()?, &made) => started,
        signal = signals.next() => {
            info!(signal, "stopped during the start");
            return Ok(Exit::Ok);
        }
    };
    let parts = match started {
        Ok(parts) => parts,
        Err(error) => {
            made.remove();
            return Err(error);
        }
    };
    made.keep();
    let (closing, closed) = oneshot::channel::<()>();
    let room = Room::of(&config);
    if let Some(lacking) = room.lacking() {
        tracing::warn!(
            "fewer connections than configured: {lacking}; `flint doctor` says how to raise that limit"
        );
    }
    let server = ServerConfig { max_connections: room.server, ..config.server.clone() };
    let serving = tokio::spawn(connections::serve(listener, parts.service(), server, closed));
    banner::print(&parts, &config);
    notify::ready();

    let signal = signals.next().await;
    info!(signal, "stopping: running calls have {:?}", config.server.drain_timeout);
    notify::stopping();
    drop(closing);
    tokio::select! {
        () = parts.shutdown(config.server.drain_timeout, serving) => info!("stopped"),
        signal = signals.next() => {
            // The launcher ends with this process, and every sandbox with it; the next start cleans up.
            tracing::warn!(signal, "stopping now: calls that run are lost");
            return Ok(Exit::Local);
        }
    }
    Ok(Exit::Ok)
}
