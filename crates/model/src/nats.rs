//! Where a feed of NATS has its messages from.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Messages of a subject.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NatsSource {
    /// Any of these, tried in turn.
    pub servers: Vec<NatsServer>,
    /// What is listened to; `*` and `>` stand for more than one.
    pub subject: String,
    /// Of those that listen in the same group, one gets each message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The stream that keeps the messages, and is read from where it was left; absent: messages are heard or missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// Where a stream is read from at first.
    #[serde(default)]
    pub deliver: Deliver,
    /// Messages are parsed as JSON where they are that.
    #[serde(default)]
    pub json: bool,
    /// Messages are handed on in base64.
    #[serde(default)]
    pub base64: bool,
    /// Who listens.
    #[serde(default)]
    pub login: NatsLogin,
    /// Nothing is said in the clear.
    #[serde(default)]
    pub tls: bool,
    /// The certificates, in PEM, of authorities that the server's is checked by; absent: Mozilla's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

/// Where a stream is read from at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Deliver {
    /// From now on.
    #[default]
    New,
    /// From its beginning.
    All,
}

/// How one is known to a server.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NatsLogin {
    /// Not at all.
    #[default]
    Nobody,
    /// By name and password.
    User {
        /// The name.
        name: String,
        /// The password.
        password: String,
    },
    /// By a token.
    Token(String),
    /// By a file of credentials: a JWT and the seed of its key.
    Credentials(String),
}

/// How far a stream was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPosition {
    /// When the stream was made, in its server's words: another one of its name is counted anew.
    pub stream: String,
    /// The number of the last message read.
    pub sequence: u64,
}

/// A server: `[nats://|tls://]HOST[:PORT]`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NatsServer {
    /// A name or an address, IPv6 without brackets.
    pub host: String,
    /// 4222 where none is named.
    pub port: u16,
    /// It was written with `tls://`.
    pub tls: bool,
}

/// Why a text is not a server.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' is not a server of NATS: write [nats://|tls://]HOST[:PORT]")]
pub struct NatsServerError(String);

impl NatsServer {
    /// The port of NATS.
    pub const PORT: u16 = 4222;
}

impl FromStr for NatsServer {
    type Err = NatsServerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || NatsServerError(text.chars().take(100).collect());
        let (tls, rest) = match text.trim().split_once("://") {
            None => (false, text.trim()),
            Some(("nats", rest)) => (false, rest),
            Some(("tls", rest)) => (true, rest),
            Some(_) => return Err(wrong()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.strip_prefix('[').map(|rest| rest.split_once(']')) {
            Some(Some((host, port))) => {
                host.parse::<std::net::Ipv6Addr>().map_err(|_| wrong())?;
                (host, (!port.is_empty()).then_some(port))
            }
            Some(None) => return Err(wrong()),
            None => match rest.find(':') {
                Some(colon) => (&rest[..colon], Some(&rest[colon..])),
                None => (rest, None),
            },
        };
        let port = match port {
            None => Self::PORT,
            Some(port) => port.strip_prefix(':').and_then(|port| port.parse().ok()).ok_or_else(wrong)?,
        };
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
        if host.is_empty() || host.len() > 253 || !host.bytes().all(legal) || port == 0 {
            return Err(wrong());
        }
        Ok(Self { host: host.to_ascii_lowercase(), port, tls })
    }
}

impl fmt::Display for NatsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "tls" } else { "nats" };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Debug for NatsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TryFrom<String> for NatsServer {
    type Error = NatsServerError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<NatsServer> for String {
    fn from(server: NatsServer) -> Self {
        server.to_string()
    }
}

impl fmt::Debug for NatsLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "Nobody",
            Self::User { .. } => "User(..)",
            Self::Token(_) => "Token(..)",
            Self::Credentials(_) => "Credentials(..)",
        })
    }
}

impl fmt::Debug for NatsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { servers, subject, queue, stream, login, .. } = self;
        write!(f, "NatsSource({servers:?} {subject} queue {queue:?} stream {stream:?} {login:?})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn servers_are_written_with_or_without_scheme_and_port() {
        for (text, written) in [
            ("nats.example.com", "nats://nats.example.com:4222"),
            (" nats://NATS.example.com:5222/ ", "nats://nats.example.com:5222"),
            ("tls://10.0.0.1", "tls://10.0.0.1:4222"),
            ("[::1]:5222", "nats://[::1]:5222"),
        ] {
            let server: NatsServer = text.parse().unwrap();
            assert_eq!(server.to_string(), written);
            assert_eq!(written.parse(), Ok(server));
        }
        for bad in [
            "",
            "nats://",
            "ws://a",
            "a b",
            "a:",
            "a:0",
            "a:99999",
            "[::1",
            "[x]:1",
            "user:pw@host",
            "a/b",
            "h?x",
        ] {
            assert!(bad.parse::<NatsServer>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_server_reads_back(text in "((nats|tls|ws)://)?(\\[[0-9a-f:.]{0,12}\\]|[a-zA-Z0-9._: /-]{0,12})(:[0-9]{0,6})?/?") {
            if let Ok(server) = text.parse::<NatsServer>() {
                prop_assert_eq!(server.to_string().parse(), Ok(server), "{}", text);
            }
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let source = NatsSource {
            servers: vec!["a".parse().unwrap()],
            subject: "s".to_owned(),
            queue: None,
            stream: None,
            deliver: Deliver::All,
            json: false,
            base64: false,
            login: NatsLogin::User { name: "n".to_owned(), password: "hunter2".to_owned() },
            tls: false,
            ca: None,
        };
        assert!(!format!("{source:?}").contains("hunter2"));
        let written = serde_json::to_value(&source).unwrap();
        assert_eq!(serde_json::from_value::<NatsSource>(written).unwrap(), source);
    }
}
