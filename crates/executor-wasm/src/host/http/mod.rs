//! HTTP requests of functions (`wasi:http/outgoing-handler`): to the hosts that a function may reach, at
//! public addresses only, with limits on their number, time and size; and to the server's own API, for a
//! function with a gate.
//!
//! Names are resolved here and connections go to an address that was checked, so a name that resolves to
//! something else a moment later does no harm. Redirects are left to the guest, as requests of their own.

mod bounded;
mod connect;
mod heads;
mod names;
mod send;
mod way;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use flint_gate::DirectGate;
use flint_model::{ByteSize, HttpScheme, NamespaceName};
use http::{HeaderName, Request, Response, Uri};
use tokio::sync::Semaphore;
use wasmtime::component::ResourceTable;
use wasmtime_wasi_http::{DEFAULT_FORBIDDEN_HEADERS, Error, RequestOptions, WasiBody, WasiHttpHooks};

pub use self::connect::HttpClient;
pub(super) use self::heads::bound_heads;
use self::{heads::Heads, way::Way};
use super::{Grants, Services};

/// The gate's address, as in a sandbox, where it is on the loopback. Here it is only a name, and nothing
/// connects to it.
const GATE: &str = "127.0.0.1";

/// Most bytes that a call's unread bodies, those of requests and of its response, may hold together. Each
/// gets a quarter of what the earlier ones left.
const UNTAKEN: usize = 4 << 20;
/// The least that a body gets, so that it can make progress.
const LEAST_UNTAKEN: usize = 4 << 10;

/// Limits on the requests of functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpBounds {
    /// Requests of one call.
    pub requests: u32,
    /// Concurrent requests of one call, including those whose response body is being read.
    pub at_once: u32,
    /// Time to resolve a name, connect and complete the TLS handshake.
    pub connect: Duration,
    /// Time until a response begins, and between its pieces.
    pub idle: Duration,
    /// Size of a request's body.
    pub request_body: ByteSize,
    /// Size of a response's body.
    pub response_body: ByteSize,
    /// Size of a response's head.
    pub response_head: ByteSize,
}

impl Default for HttpBounds {
    fn default() -> Self {
        Self {
            requests: 64,
            at_once: 8,
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            request_body: ByteSize::mib(64),
            response_body: ByteSize::mib(64),
            response_head: ByteSize::kib(64),
        }
    }
}

/// The addresses that requests may reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Public Internet addresses.
    #[default]
    Public,
    /// All addresses, even this host's own. For tests, and for networks whose operator trusts every function.
    Everything,
}

/// The outgoing requests of one call.
pub(super) struct Outbound {
    services: Arc<Services>,
    grants: Arc<Grants>,
    /// The namespace that connections count for.
    pub(super) whose: NamespaceName,
    left: AtomicU32,
    places: Arc<Semaphore>,
    /// Access to the server's API, made for this call's instance.
    gate: Option<Arc<DirectGate>>,
    /// The remaining part of [`UNTAKEN`].
    untaken: usize,
    heads: Heads,
}

impl Outbound {
    /// Requests to the hosts that `grants` allow, and to the API through `gate`.
    pub(super) fn new(
        services: Arc<Services>,
        grants: Arc<Grants>,
        whose: NamespaceName,
        gate: Option<Arc<DirectGate>>,
    ) -> Self {
        let bounds = services.http.bounds();
        let (left, places) =
            (AtomicU32::new(bounds.requests), Arc::new(Semaphore::new(bounds.at_once as usize)));
        Self { services, grants, whose, left, places, gate, untaken: UNTAKEN, heads: Heads::default() }
    }

    /// Requests to the hosts of one pattern.
    #[cfg(test)]
    fn to(client: HttpClient, allow: &str) -> Self {
        let mut outbound = Self::new(
            Arc::new(Services { http: Arc::new(client), ..Services::new(None).unwrap() }),
            Arc::new(Grants::of_initialiser(&"guest".parse().unwrap(), None).0),
            "guest".parse().unwrap(),
            None,
        );
        outbound.allow(allow);
        outbound
    }

    #[cfg(test)]
    fn allow(&mut self, pattern: &str) {
        let (mut grants, _) = Grants::of_initialiser(&"guest".parse().unwrap(), None);
        grants.allow_hosts = [pattern.parse().unwrap()].into();
        self.grants = Arc::new(grants);
    }

    /// Called before each host call that concerns HTTP.
    pub(super) fn look_at_heads(&mut self, table: &mut ResourceTable) {
        self.heads.look(table);
    }

    /// Whether the guest's heads have reached their limit.
    pub(super) fn has_full_heads(&self) -> bool {
        self.heads.is_full()
    }

    /// Decides whether and how a request is sent. The gate's address means the gate for a function that has
    /// one, and is an ordinary address for all others.
    fn admit(&self, uri: &Uri) -> Result<Way, Error> {
        let target = Target::of(uri)?;
        if let Some(gate) = self.gate.as_ref().filter(|gate| target.is_gate(gate.port())) {
            return Ok(Way::Gate(Arc::clone(gate)));
        }
        let Target { scheme, host, port } = &target;
        if !self.grants.allow_hosts.iter().any(|pattern| pattern.allows(*scheme, host, *port)) {
            return Err(Error::HttpRequestDenied);
        }
        let counted =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        counted.map_err(|_| Error::ConnectionLimitReached)?;
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| Error::ConnectionLimitReached)?;
        let (client, namespace) = (Arc::clone(&self.services.http), self.whose.clone());
        let share = client.admit(&namespace).ok_or(Error::ConnectionLimitReached)?;
        Ok(Way::Out { client, namespace, target, place, share })
    }
}

/// The destination of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    scheme: HttpScheme,
    /// An IPv6 address without brackets.
    host: String,
    port: u16,
}

impl Target {
    fn of(uri: &Uri) -> Result<Self, Error> {
        let scheme = match uri.scheme_str() {
            Some("http") => HttpScheme::Http,
            Some("https") => HttpScheme::Https,
            _ => return Err(Error::HttpProtocolError),
        };
        let authority = uri.authority().ok_or(Error::HttpRequestUriInvalid)?;
        // User information before an @ would be sent on in the Host header.
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(Error::HttpRequestUriInvalid);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = match authority.port() {
            Some(port) => port.as_u16(),
            // An invalid port, as in `host:` or `host:99999`, must not be taken for the default port.
            None if authority.as_str() != authority.host() => return Err(Error::HttpRequestUriInvalid),
            None => scheme.default_port(),
        };
        Ok(Self { scheme, host, port })
    }

    /// Whether it is the address in `__OW_API_HOST`; other names of it do not count.
    fn is_gate(&self, port: u16) -> bool {
        self.scheme == HttpScheme::Http && self.host == GATE && self.port == port
    }
}

type Sent = Result<(Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>), Error>;

impl WasiHttpHooks for Outbound {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Sent> + Send> {
        let (admitted, head) = (self.admit(request.uri()), self.heads.send(&request));
        Box::new(async move {
            let _head = head;
            send::send(admitted?, request, options.unwrap_or_default()).await
        })
    }

    /// Refuses further fields once the heads have reached their limit.
    fn is_forbidden_header(&mut self, name: &HeaderName) -> bool {
        self.heads.is_full() || DEFAULT_FORBIDDEN_HEADERS.contains(name)
    }

    /// Called once per body.
    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        let size = (self.untaken / 4).max(LEAST_UNTAKEN);
        self.untaken = self.untaken.saturating_sub(size);
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(uri: &str) -> Option<(HttpScheme, String, u16)> {
        let target = Target::of(&uri.parse::<Uri>().ok()?).ok()?;
        Some((target.scheme, target.host, target.port))
    }

    #[test]
    fn a_target_is_read_or_refused_never_guessed() {
        assert_eq!(target("https://a.b/x"), Some((HttpScheme::Https, "a.b".into(), 443)));
        assert_eq!(target("http://[::1]:8080/"), Some((HttpScheme::Http, "::1".into(), 8080)));
        assert_eq!(target("http://[::1]/"), Some((HttpScheme::Http, "::1".into(), 80)));
        for wrong in
            ["ftp://a/", "https://user@a/", "http://a:@b/", "http://a:99999/", "http://a:/", "/x", "http://"]
        {
            assert_eq!(target(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_its_own_address_means_the_gate_and_only_to_whom_has_one() {
        let client =
            || HttpClient::new(HttpBounds { requests: 1, ..HttpBounds::default() }, Reach::Public).unwrap();
        let gates = flint_gate::Gates::new(flint_gate::GateConfig::default());
        let mut outbound = Outbound::to(client(), "https://example.com");
        let at = |outbound: &Outbound, uri: &str| outbound.admit(&uri.parse().unwrap());
        assert!(matches!(at(&outbound, "http://127.0.0.1:3233/"), Err(Error::HttpRequestDenied)));
        outbound.gate = Some(Arc::new(gates.direct("guest".parse().unwrap())));
        for elsewhere in [
            "https://127.0.0.1:3233/",
            "http://127.0.0.1/",
            "http://127.0.0.1:3234/",
            "http://127.0.0.1:80/",
            "http://127.0.0.2:3233/",
            "http://0.0.0.0:3233/",
            "http://2130706433:3233/",
            "http://localhost:3233/",
            "http://[::1]:3233/",
            "http://[::ffff:127.0.0.1]:3233/",
            "http://127.0.0.1.example.com:3233/",
        ] {
            let refused = at(&outbound, elsewhere).err().unwrap();
            assert!(matches!(refused, Error::HttpRequestDenied), "{elsewhere}: {refused}");
        }
        assert!(matches!(at(&outbound, "http://x@127.0.0.1:3233/"), Err(Error::HttpRequestUriInvalid)));
        // Requests to the gate are not counted as requests to another host.
        for _ in 0..100 {
            assert!(matches!(at(&outbound, "http://127.0.0.1:3233/api/v1"), Ok(Way::Gate(_))));
        }
        assert!(matches!(at(&outbound, "https://example.com/"), Ok(Way::Out { .. })));
    }

    #[test]
    fn bodies_that_nobody_takes_are_small_where_they_are_many() {
        let client = HttpClient::new(HttpBounds::default(), Reach::Public).unwrap();
        let mut outbound = Outbound::to(client, "https://example.com");
        let sizes: Vec<_> = (0..1000).map(|_| outbound.p2_outgoing_body_chunk_size()).collect();
        assert_eq!((sizes[0], sizes[999]), (UNTAKEN / 4, LEAST_UNTAKEN));
        assert!(sizes.iter().sum::<usize>() <= UNTAKEN + sizes.len() * LEAST_UNTAKEN);
    }

    #[test]
    fn what_is_not_allowed_is_denied_and_requests_are_counted() {
        let bounds = HttpBounds { requests: 2, ..HttpBounds::default() };
        let client = HttpClient::new(bounds, Reach::Public).unwrap();
        let outbound = Outbound::to(client, "https://*.example.com");
        let admit = |uri: &str| outbound.admit(&uri.parse().unwrap());
        assert!(matches!(admit("https://evil.com/"), Err(Error::HttpRequestDenied)));
        assert!(matches!(admit("http://a.example.com/"), Err(Error::HttpRequestDenied)));
        assert!(matches!(admit("https://a.example.com:8443/"), Err(Error::HttpRequestDenied)));
        assert!(admit("https://a.example.com/").is_ok() && admit("https://b.example.com/").is_ok());
        assert!(matches!(admit("https://c.example.com/"), Err(Error::ConnectionLimitReached)));
    }
}
