//! Notifies systemd of the server's state, if started with `Type=notify`:
//! <https://www.freedesktop.org/software/systemd/man/sd_notify.html>

use std::os::{
    linux::net::SocketAddrExt,
    unix::net::{SocketAddr, UnixDatagram},
};

pub(super) fn ready() {
    send("READY=1");
}

pub(super) fn stopping() {
    send("STOPPING=1");
}

fn send(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return };
    let address = match name.as_encoded_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&name),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::warn!(%error, "systemd was not told: {state}");
    }
}
