//! Outbound `https`, against a server with a certificate authority of the test's own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;

use flint_executor::{CallHead, Executor, Instance};
use flint_executor_wasm::host::{HttpBounds, HttpClient, Reach, Services};
use flint_model::{Contract, FunctionLimits};
use http::{HeaderMap, Method};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use support::{AMPLE, Done, context, done, function, json_call, wat, with_services};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::mpsc,
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

/// Whom clients may trust, and who signs servers' certificates.
struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// A server's settings with a certificate for `name`, as `adjust` has it.
    fn serves(&self, name: &str, adjust: impl FnOnce(&mut CertificateParams)) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        adjust(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], PrivateKeyDer::Pkcs8(key.serialize_der().into()));
        TlsAcceptor::from(Arc::new(config.unwrap()))
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        roots
    }
}

/// A server on this host that answers everything that comes over TLS with 200, and tells the heads of requests.
struct WebServer {
    to: String,
    heads: mpsc::UnboundedReceiver<String>,
    serving: JoinHandle<()>,
}

impl WebServer {
    async fn start(acceptor: TlsAcceptor) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap().to_string();
        let (told, heads) = mpsc::unbounded_channel();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Who does not like the certificate hangs up.
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut head = vec![0; 4096];
                let length = stream.read(&mut head).await.unwrap_or(0);
                told.send(String::from_utf8_lossy(&head[..length]).into_owned()).unwrap();
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
                let _ = stream.shutdown().await;
            }
        });
        Self { to, heads, serving }
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Sends one `https` request to `to` from a function with this grant.
async fn send(client: HttpClient, to: &str, allow: &str) -> Done {
    // As the module has it, with the other scheme.
    const HTTP: &str = "(call $set_scheme (local.get $request) (i32.const 1) (i32.const 0)";
    const HTTPS: &str = "(call $set_scheme (local.get $request) (i32.const 1) (i32.const 1)";
    let text = include_str!("modules/outbound.wat");
    assert!(text.contains(HTTP));
    let component = wat(&text.replace(HTTP, HTTPS));
    let house = with_services(Services { http: Arc::new(client), ..Services::new(None).unwrap() });
    let mut source = function(Contract::WasiCommand, &component, FunctionLimits::default());
    let granted = Arc::get_mut(&mut source.function).unwrap();
    granted.wasm.config.insert("to".to_owned(), to.to_owned());
    granted.wasm.allow_hosts = vec![allow.parse().unwrap()];
    let prepared = house.prepare(source).await.unwrap();
    let instance: Arc<dyn Instance> = house.executor.start(&prepared, context()).await.unwrap().instance;
    let mut call = json_call("", AMPLE);
    // The command's answer is empty, which no JSON is.
    call.head = Some(Box::new(CallHead {
        method: Method::POST,
        path: "/".into(),
        query: String::new(),
        headers: HeaderMap::new(),
    }));
    done(instance.invoke(call).await)
}

fn trusting(roots: RootCertStore, reach: Reach) -> HttpClient {
    HttpClient::trusting(HttpBounds::default(), reach, roots).unwrap()
}

#[tokio::test]
async fn a_granted_request_goes_out_encrypted_and_is_answered() {
    let authority = Authority::new();
    for name in ["127.0.0.1", "localhost"] {
        let mut server = WebServer::start(authority.serves(name, |_| {})).await;
        let to = server.to.replace("127.0.0.1", name);
        let client = trusting(authority.roots(), Reach::Everything);
        let answered = send(client, &to, &format!("https://{to}")).await;
        assert!(answered.result.is_ok(), "{name}: {:?}", answered.result);
        let head = server.heads.recv().await.unwrap().to_ascii_lowercase();
        assert!(
            head.starts_with("get / http/1.1\r\n") && head.contains(&format!("host: {to}\r\n")),
            "{head}"
        );
    }
}

#[tokio::test]
async fn a_certificate_that_does_not_verify_is_an_error_and_nothing_is_sent() {
    let (authority, other) = (Authority::new(), Authority::new());
    let nothing_special: fn(&mut CertificateParams) = |_| {};
    let expired: fn(&mut CertificateParams) = |params| params.not_after = date_time_ymd(2001, 1, 1);
    let early: fn(&mut CertificateParams) = |params| params.not_before = date_time_ymd(4000, 1, 1);
    for (what, signer, name, adjust) in [
        ("of somebody else's authority", &other, "127.0.0.1", nothing_special),
        ("for another name", &authority, "example.com", nothing_special),
        ("for another address", &authority, "127.0.0.2", nothing_special),
        ("expired", &authority, "127.0.0.1", expired),
        ("not valid yet", &authority, "127.0.0.1", early),
    ] {
        let mut server = WebServer::start(signer.serves(name, adjust)).await;
        let client = trusting(authority.roots(), Reach::Everything);
        let refused = send(client, &server.to, &format!("https://{}", server.to)).await;
        assert!(refused.told().contains("certificate"), "{what}: {}", refused.told());
        assert!(server.heads.try_recv().is_err(), "{what}: a request was sent");
    }
}

#[tokio::test]
async fn what_functions_trust_are_the_public_authorities() {
    let authority = Authority::new();
    let mut server = WebServer::start(authority.serves("127.0.0.1", |_| {})).await;
    let public = HttpClient::new(HttpBounds::default(), Reach::Everything).unwrap();
    let refused = send(public, &server.to, &format!("https://{}", server.to)).await;
    assert!(refused.told().contains("certificate"), "{}", refused.told());
    assert!(server.heads.try_recv().is_err());
}

#[tokio::test]
async fn encryption_opens_no_way_inside_and_grants_have_a_scheme() {
    let authority = Authority::new();
    let mut server = WebServer::start(authority.serves("127.0.0.1", |_| {})).await;
    let inside = trusting(authority.roots(), Reach::Public);
    let refused = send(inside, &server.to, &format!("https://{}", server.to)).await;
    assert!(refused.told().contains("prohibited"), "{}", refused.told());
    let plain = trusting(authority.roots(), Reach::Everything);
    let denied = send(plain, &server.to, &format!("http://{}", server.to)).await;
    assert!(denied.told().contains("denied"), "{}", denied.told());
    assert!(server.heads.try_recv().is_err());
}
