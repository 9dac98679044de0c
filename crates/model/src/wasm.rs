//! What a function that runs as WebAssembly is granted, and how it is prepared, as its user says it.

use std::{collections::BTreeMap, fmt, net::Ipv6Addr, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::ByteSize;

/// Grants and preparation of a function with isolation `wasm`; nothing else reads them. Without a grant it has no files but its
/// own assets, no network, no shared data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WasmOptions {
    /// Where it may send HTTP requests; none = nowhere.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_hosts: Vec<HostPattern>,
    /// It may use its namespace's buckets through `wasi:keyvalue`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keyvalue: bool,
    /// What `wasi:config` tells it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, String>,
    /// Whether the initialiser that a module exports is run when it is prepared, so that calls start from the state it leaves.
    #[serde(skip_serializing_if = "is_true")]
    pub preinit: bool,
}

impl Default for WasmOptions {
    fn default() -> Self {
        Self { allow_hosts: Vec::new(), keyvalue: false, config: BTreeMap::new(), preinit: true }
    }
}

fn is_true(value: &bool) -> bool {
    *value
}

/// Why Wasm options are refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum WasmOptionsError {
    /// Too long a list of hosts.
    #[error("{count} allowed hosts are more than the {} that a function may have", WasmOptions::MAX_HOSTS)]
    TooManyHosts {
        /// How many there are.
        count: usize,
    },
    /// Too much configuration.
    #[error(
        "the configuration for wasi:config has {size}, more than the {} that a function may have",
        WasmOptions::MAX_CONFIG
    )]
    ConfigTooLarge {
        /// What it has.
        size: ByteSize,
    },
}

impl WasmOptions {
    /// The most hosts that a function may name.
    pub const MAX_HOSTS: usize = 64;

    /// The most bytes of configuration, keys and values together.
    pub const MAX_CONFIG: ByteSize = ByteSize::kib(64);

    /// Nothing was said.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether they are within bounds.
    pub fn check(&self) -> Result<(), WasmOptionsError> {
        if self.allow_hosts.len() > Self::MAX_HOSTS {
            return Err(WasmOptionsError::TooManyHosts { count: self.allow_hosts.len() });
        }
        let size = self.config.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        let size = ByteSize::bytes(size as u64);
        if size > Self::MAX_CONFIG {
            return Err(WasmOptionsError::ConfigTooLarge { size });
        }
        Ok(())
    }
}

/// Where HTTP requests may go: `[http://|https://]HOST[:PORT]`. The host is a name, an address (IPv6 in brackets), `*.NAME` for
/// every name below NAME, or `*` for any; without a port it is the scheme's own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPattern {
    scheme: Option<HttpScheme>,
    host: Host,
    port: Option<u16>,
}

/// A scheme that requests may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HttpScheme {
    /// In the clear.
    Http,
    /// By TLS.
    Https,
}

impl HttpScheme {
    /// The port that is meant when none is named.
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Host {
    Any,
    /// The names below this one, which begins with a dot.
    Below(String),
    /// This name or address; IPv6 without brackets.
    Exactly(String),
}

impl Host {
    /// Whether this name, in its normal form, is meant.
    fn means(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Below(suffix) => host.len() > suffix.len() && host.ends_with(suffix),
            Self::Exactly(own) => own == host,
        }
    }
}

/// Why a text is not a host pattern.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{text}' is not a host that requests may go to: {why}")]
pub struct HostPatternError {
    text: String,
    why: &'static str,
}

impl HostPattern {
    /// Whether the pattern matches a request to `host` (IPv6 with or without brackets) and `port`.
    pub fn allows(&self, scheme: HttpScheme, host: &str, port: u16) -> bool {
        let host = normal(host);
        self.scheme.is_none_or(|own| own == scheme)
            && self.port.unwrap_or(scheme.default_port()) == port
            && self.host.means(&host)
    }

    /// Whether the pattern matches a connection to `host` and `port`, for a protocol whose default port is `usual`.
    pub fn allows_server(&self, host: &str, port: u16, usual: u16) -> bool {
        let host = normal(host);
        self.scheme.is_none() && self.port.unwrap_or(usual) == port && self.host.means(&host)
    }
}

/// Names are compared in lower case and without the dot of the root.
fn normal(host: &str) -> String {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match host.parse::<Ipv6Addr>() {
        Ok(address) => address.to_string(),
        Err(_) => host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase(),
    }
}

impl FromStr for HostPattern {
    type Err = HostPatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |why| HostPatternError { text: text.to_owned(), why };
        let (scheme, rest) = match text.split_once("://") {
            None => (None, text),
            Some(("http", rest)) => (Some(HttpScheme::Http), rest),
            Some(("https", rest)) => (Some(HttpScheme::Https), rest),
            Some(_) => return Err(wrong("its scheme is neither http nor https")),
        };
        let (host, port) = match rest.strip_prefix('[').map(|rest| rest.split_once(']')) {
            Some(None) => return Err(wrong("its bracket is not closed")),
            Some(Some((host, port))) => {
                host.parse::<Ipv6Addr>().map_err(|_| wrong("what stands in brackets is no IPv6 address"))?;
                (host, if port.is_empty() { None } else { Some(port) })
            }
            None => match rest.find(':') {
                Some(colon) => (&rest[..colon], Some(&rest[colon..])),
                None => (rest, None),
            },
        };
        let port = match port.map(|port| port.strip_prefix(':')) {
            None => None,
            Some(Some(digits)) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().map_err(|_| wrong("its port is not within 0 to 65535"))?)
            }
            Some(_) => return Err(wrong("its port is not a number; IPv6 addresses stand in brackets")),
        };
        let host = match host {
            "*" => Host::Any,
            _ => match host.strip_prefix("*.") {
                Some(name) => Host::Below(format!(".{}", name_of(name).map_err(wrong)?)),
                None if host.contains(':') => Host::Exactly(normal(host)),
                None => Host::Exactly(name_of(host).map_err(wrong)?),
            },
        };
        Ok(Self { scheme, host, port })
    }
}

fn name_of(text: &str) -> Result<String, &'static str> {
    let name = normal(text);
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    match name.len() <= 253 && name.split('.').all(label) {
        true => Ok(name),
        false => Err("write [http://|https://]HOST[:PORT], HOST a name, an address, *.NAME or *"),
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scheme {
            Some(HttpScheme::Http) => f.write_str("http://")?,
            Some(HttpScheme::Https) => f.write_str("https://")?,
            None => {}
        }
        match &self.host {
            Host::Any => f.write_str("*")?,
            Host::Below(suffix) => write!(f, "*{suffix}")?,
            Host::Exactly(host) if host.contains(':') => write!(f, "[{host}]")?,
            Host::Exactly(host) => f.write_str(host)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl fmt::Debug for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl TryFrom<String> for HostPattern {
    type Error = HostPatternError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<HostPattern> for String {
    fn from(pattern: HostPattern) -> Self {
        pattern.to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn allows(pattern: &str, scheme: HttpScheme, host: &str, port: u16) -> bool {
        pattern.parse::<HostPattern>().unwrap().allows(scheme, host, port)
    }

    #[test]
    fn a_pattern_means_servers_of_other_protocols_too() {
        let allows = |pattern: &str, host, port| {
            pattern.parse::<HostPattern>().unwrap().allows_server(host, port, 4222)
        };
        assert!(
            allows("nats.example.com", "NATS.example.com", 4222)
                && !allows("nats.example.com", "nats.example.com", 80)
        );
        assert!(allows("*.example.com:5222", "a.example.com", 5222) && allows("*", "10.0.0.1", 4222));
        assert!(!allows("https://nats.example.com:4222", "nats.example.com", 4222), "that is for HTTP");
    }

    #[test]
    fn a_pattern_means_scheme_host_and_port() {
        use HttpScheme::{Http, Https};
        assert!(allows("api.example.com", Https, "API.example.com.", 443));
        assert!(allows("api.example.com", Http, "api.example.com", 80));
        assert!(!allows("api.example.com", Https, "api.example.com", 8443));
        assert!(!allows("api.example.com", Https, "xapi.example.com", 443));
        assert!(!allows("https://api.example.com", Http, "api.example.com", 80));
        assert!(allows("http://api.example.com:8080", Http, "api.example.com", 8080));
        assert!(allows("*.example.com", Https, "a.b.example.com", 443));
        assert!(!allows("*.example.com", Https, "example.com", 443));
        assert!(!allows("*.example.com", Https, "evilexample.com", 443));
        assert!(!allows("*.example.com", Https, ".example.com", 443));
        assert!(allows("*:8443", Https, "anything", 8443) && !allows("*", Https, "anything", 8443));
        assert!(allows("[2001:DB8::1]:80", Http, "[2001:db8:0::1]", 80));
        assert!(allows("203.0.113.7", Http, "203.0.113.7", 80));
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_the_reason() {
        for (text, why) in [
            ("", "HOST a name"),
            ("ftp://x", "scheme"),
            ("x:y", "port"),
            ("x:99999", "port"),
            ("x:", "port"),
            ("a..b", "HOST a name"),
            ("user@host", "HOST a name"),
            ("host/path", "HOST a name"),
            ("a.*.b", "HOST a name"),
            ("[::1", "bracket"),
            ("[x]", "IPv6"),
            ("::1", "port is not a number"),
            ("münchen.de", "HOST a name"),
        ] {
            let error = text.parse::<HostPattern>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn options_are_written_as_they_were_read_and_bounded() {
        let written = json!({
            "allow_hosts": ["https://*.example.com:8443", "[::1]"], "keyvalue": true, "config": {"a": "b"}, "preinit": false,
        });
        let read: WasmOptions = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), written);
        assert_eq!(read.check(), Ok(()));
        assert_eq!(serde_json::to_value(WasmOptions::default()).unwrap(), json!({}));
        let many = WasmOptions { allow_hosts: vec!["*".parse().unwrap(); 65], ..Default::default() };
        assert!(many.check().unwrap_err().to_string().starts_with("65 allowed hosts"));
        let config = [("k".to_owned(), "v".repeat(64 << 10))].into();
        let large = WasmOptions { config, ..Default::default() };
        assert!(large.check().unwrap_err().to_string().contains("more than the 64"));
    }

    #[test]
    fn what_is_accepted_is_read_back_as_it_was_written() {
        for text in [
            "*",
            "*:1",
            "http://*",
            "https://*.a-b.c:65535",
            "a_b",
            "[2001:db8::1]:80",
            "https://[::1]",
            "1.2.3.4:80",
            "A.b.",
        ] {
            let pattern: HostPattern = text.parse().unwrap();
            assert_eq!(pattern.to_string().parse::<HostPattern>().unwrap(), pattern, "{text}");
        }
    }
}
