//! Connects to addresses that have been checked.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use flint_model::{HttpScheme, NamespaceName, is_public_address};
use flint_shares::{Share, Shares};
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;
use wasmtime_wasi_http::Error;

use super::{super::files, HttpBounds, Reach, Target, names::Names};

/// Connections together get this fraction of the server's descriptors...
const PART: u64 = 8;
/// ...and at most so many.
const MOST: u64 = 1 << 14;
/// A namespace gets this fraction of them.
const NAMESPACES_PART: u32 = 4;

/// The HTTP client for all functions' requests.
pub struct HttpClient {
    bounds: HttpBounds,
    reach: Reach,
    tls: Arc<ClientConfig>,
    names: Names,
    connections: Shares<NamespaceName>,
}

/// A connection with or without TLS.
pub(super) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Connection for S {}

impl HttpClient {
    /// Trusts Mozilla's certificate authorities, and none of this host's.
    pub fn new(bounds: HttpBounds, reach: Reach) -> Result<Self, rustls::Error> {
        Self::trusting(bounds, reach, RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() })
    }

    /// Trusts these certificate authorities.
    pub fn trusting(bounds: HttpBounds, reach: Reach, roots: RootCertStore) -> Result<Self, rustls::Error> {
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connections = (files::descriptors() / PART).clamp(1, MOST) as u32;
        Ok(Self {
            bounds,
            reach,
            tls: Arc::new(tls),
            names: Names::new(),
            connections: Shares::new(connections, connections.div_ceil(NAMESPACES_PART)),
        })
    }

    /// Permits one more connection, for as long as it lasts; `None` while there are too many.
    pub(super) fn admit(&self, namespace: &NamespaceName) -> Option<Share> {
        self.connections.try_take(namespace)
    }

    pub(super) fn bounds(&self) -> &HttpBounds {
        &self.bounds
    }

    fn may_reach(&self, address: IpAddr) -> bool {
        self.reach == Reach::Everything || is_public_address(address)
    }

    /// Connects to the target, with a TLS handshake where its scheme has one.
    pub(super) async fn connect(
        &self,
        namespace: &NamespaceName,
        target: &Target,
    ) -> Result<Box<dyn Connection>, Error> {
        let stream = self.connect_to_any(&self.resolve(namespace, target).await?).await?;
        if target.scheme == HttpScheme::Http {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(target.host.clone()).map_err(|_| Error::HttpRequestUriInvalid)?;
        let connector = TlsConnector::from(Arc::clone(&self.tls));
        Ok(Box::new(connector.connect(name, stream).await.map_err(|error| tls_error(&error))?))
    }

    /// The target's addresses that may be reached.
    async fn resolve(&self, namespace: &NamespaceName, target: &Target) -> Result<Vec<SocketAddr>, Error> {
        let found = match target.host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, target.port)],
            Err(_) => {
                let found = self.names.look_up(namespace, &target.host, target.port).await;
                found.map_err(|_| unknown_name())?
            }
        };
        if found.is_empty() {
            return Err(unknown_name());
        }
        let allowed: Vec<_> = found.into_iter().filter(|address| self.may_reach(address.ip())).collect();
        if allowed.is_empty() { Err(Error::DestinationIpProhibited) } else { Ok(allowed) }
    }

    async fn connect_to_any(&self, addresses: &[SocketAddr]) -> Result<TcpStream, Error> {
        let mut last = Error::DestinationUnavailable;
        for address in addresses {
            match TcpStream::connect(address).await {
                // A public address may be this host's own. Then the kernel gives both ends of the connection
                // the same address.
                Ok(stream) if self.reach == Reach::Public && is_own(&stream) => {
                    last = Error::DestinationIpProhibited
                }
                Ok(stream) => {
                    let _ = stream.set_nodelay(true); // one round trip earlier where the kernel takes it
                    return Ok(stream);
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    last = Error::ConnectionRefused
                }
                Err(_) => last = Error::DestinationUnavailable,
            }
        }
        Err(last)
    }
}

fn is_own(stream: &TcpStream) -> bool {
    match (stream.local_addr(), stream.peer_addr()) {
        (Ok(local), Ok(peer)) => local.ip() == peer.ip(),
        _ => true,
    }
}

fn unknown_name() -> Error {
    Error::DnsError { rcode: Some("the name has no address".to_owned()), info_code: None }
}

/// Distinguishes certificate errors from other TLS errors.
fn tls_error(error: &io::Error) -> Error {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => {
            Error::TlsCertificateError
        }
        _ => Error::TlsProtocolError,
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn client(reach: Reach) -> HttpClient {
        HttpClient::new(HttpBounds::default(), reach).unwrap()
    }

    async fn connect(client: HttpClient, target: Target) -> Result<(), Error> {
        client.connect(&"guest".parse().unwrap(), &target).await.map(|_| ())
    }

    fn to(host: &str, port: u16) -> Target {
        Target { scheme: HttpScheme::Http, host: host.to_owned(), port }
    }

    #[tokio::test]
    async fn names_and_addresses_of_this_host_are_not_reached() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in
            ["localhost", "127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "169.254.169.254", "10.0.0.1"]
        {
            let refused = connect(client(Reach::Public), to(host, port)).await.unwrap_err();
            assert!(matches!(refused, Error::DestinationIpProhibited), "{host}: {refused}");
        }
        assert!(connect(client(Reach::Everything), to("127.0.0.1", port)).await.is_ok());
    }

    #[tokio::test]
    async fn a_connection_to_an_own_address_is_recognised() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        assert!(is_own(&stream));
        let elsewhere = TcpListener::bind("127.0.0.2:0").await.unwrap();
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.3:0".parse().unwrap()).unwrap();
        assert!(!is_own(&socket.connect(elsewhere.local_addr().unwrap()).await.unwrap()));
    }

    #[tokio::test]
    async fn a_server_that_speaks_no_tls_is_no_https_server() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let talking = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            stream
        });
        let target = Target { scheme: HttpScheme::Https, ..to("127.0.0.1", port) };
        let refused = connect(client(Reach::Everything), target).await.unwrap_err();
        assert!(matches!(refused, Error::TlsProtocolError), "{refused}");
        drop(talking.await.unwrap());
    }
    #[test]
    fn connections_are_bounded_for_all_and_for_each_namespace() {
        let client = HttpClient { connections: Shares::new(5, 3), ..client(Reach::Public) };
        let [guest, other] = ["guest", "other"].map(|name| name.parse().unwrap());
        let admit = |namespace| std::iter::from_fn(|| client.admit(namespace)).collect::<Vec<_>>();
        let (first, second) = (admit(&guest), admit(&other));
        assert_eq!((first.len(), second.len()), (3, 2));
        drop(first);
        assert_eq!(admit(&other).len(), 1);
    }
}
