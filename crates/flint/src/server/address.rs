//! The address to listen on.

use std::{fmt, net::SocketAddr};

use tokio::net::{TcpListener, lookup_host};

use crate::failure::{Exit, Failure};

/// `ADDR:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listen {
    host: String,
    port: u16,
}

impl Listen {
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = || {
            Failure::usage(format!("'{text}' is not an address to listen on"))
                .hint("write ADDRESS:PORT, for example 127.0.0.1:3233, or 0.0.0.0:3233 for every interface")
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port: port.parse().map_err(|_| wrong())? })
    }

    /// Binds the port.
    pub(crate) async fn bind(&self) -> Result<TcpListener, Failure> {
        let cannot = |why: String| {
            Failure::new(Exit::Local, "cannot_listen", format!("cannot listen on {self}: {why}"))
        };
        let found = lookup_host((self.host.as_str(), self.port)).await;
        let address: SocketAddr = found
            .map_err(|error| cannot(error.to_string()))?
            .next()
            .ok_or_else(|| cannot("the name has no address".into()))?;
        TcpListener::bind(address).await.map_err(|error| {
            let failure = cannot(error.to_string());
            match error.kind() {
                std::io::ErrorKind::AddrInUse => Failure::new(Exit::Local, "port_in_use", format!("port {} is in use by another program", self.port))
                    .hint(format!("stop it (`ss -ltnp 'sport = :{}'` names it), or choose another port with --listen {}:PORT", self.port, self.host)),
                std::io::ErrorKind::PermissionDenied => failure.hint("ports below 1024 need root or CAP_NET_BIND_SERVICE: choose a higher one"),
                std::io::ErrorKind::AddrNotAvailable => failure.hint("this machine does not have that address; `ip addr` lists what it has"),
                _ => failure,
            }
        })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        for good in ["127.0.0.1:3233", "[::1]:80", "localhost:0"] {
            assert_eq!(Listen::parse(good).unwrap().to_string(), good);
        }
        for bad in ["", "3233", ":3233", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:99999"] {
            assert!(Listen::parse(bad).is_err(), "{bad}");
        }
    }
}
