//! The server's address.

use std::fmt;

use http::{HeaderValue, Uri};

use crate::failure::Failure;

/// `http://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// Parses a URL such as `http://127.0.0.1:3233`; the scheme may be omitted.
    pub(crate) fn parse(url: &str) -> Result<Self, Failure> {
        let wrong = |why: &str| {
            Failure::usage(format!("'{url}' is not the address of a server: {why}"))
                .hint("write it as http://HOST:PORT, for example http://127.0.0.1:3233")
        };
        let full = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let uri: Uri = full.trim_end_matches('/').parse().map_err(|error| wrong(&format!("{error}")))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(wrong("this command line does not speak TLS").hint(
                    "connect through a tunnel, for example `ssh -L 3233:127.0.0.1:3233 HOST`, and use http://127.0.0.1:3233",
                ));
            }
            other => return Err(wrong(&format!("the scheme '{}' is unknown", other.unwrap_or_default()))),
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(Failure::usage("the address of a server has no user and no password in it")
                .hint("the key is given with --auth, FLINT_AUTH or ~/.config/flint/auth"));
        }
        if uri.path().len() > 1 || uri.query().is_some() {
            return Err(wrong("it has a path"));
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("it has no host"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        // `port_u16` does not distinguish an excessive port from none.
        let port = match uri.authority().and_then(|authority| {
            authority.as_str().rsplit_once(']').unwrap_or(("", authority.as_str())).1.split_once(':')
        }) {
            Some((_, port)) => port.parse().map_err(|_| wrong("the port is not a number up to 65535"))?,
            None => 80,
        };
        Ok(Self { host, port })
    }

    /// The host's name or address, without brackets.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Whether it is a loopback address.
    pub(crate) fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
    }

    pub(crate) fn host_header(&self) -> HeaderValue {
        let authority = self.to_string();
        // A URI's authority is visible ASCII.
        HeaderValue::from_str(authority.trim_start_matches("http://"))
            .unwrap_or(HeaderValue::from_static("flint"))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "http://[{}]:{}", self.host, self.port),
            false => write!(f, "http://{}:{}", self.host, self.port),
        }
    }
}

/// Percent-encodes a name as one path segment: everything but unreserved characters, including the slash of
/// `package/name`.
pub(crate) fn segment(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        let read =
            |url| Address::parse(url).map(|address| address.to_string()).map_err(|failure| failure.message);
        assert_eq!(read("http://127.0.0.1:3233/"), Ok("http://127.0.0.1:3233".into()));
        assert_eq!(read("localhost:99"), Ok("http://localhost:99".into()));
        assert_eq!(read("http://[::1]:99"), Ok("http://[::1]:99".into()));
        assert!(Address::parse("http://[::1]:99").is_ok_and(|address| address.is_loopback()));
        assert!(
            Address::parse("http://10.0.0.1")
                .is_ok_and(|address| !address.is_loopback() && address.port() == 80)
        );
        for bad in ["", "http://", "ftp://x", "https://x", "http://x:99999", "http://x/path", "http://a b"] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_key_in_an_address_is_refused_and_not_shown() {
        for url in ["http://me:hunter2@h:80", "hunter2@h:80"] {
            let failure = Address::parse(url).unwrap_err();
            assert!(!failure.message.contains("hunter2") && failure.hint.is_some(), "{failure}");
        }
    }

    #[test]
    fn names_become_one_segment() {
        assert_eq!(segment("images/re size&co"), "images%2Fre%20size%26co");
        assert_eq!(segment("../x"), "..%2Fx");
    }
}
