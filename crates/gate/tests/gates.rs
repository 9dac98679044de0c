//! Gates over real sockets, with an API that says what it was asked.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    future::pending,
    net::SocketAddr,
    os::fd::OwnedFd,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{Router, body::Body, extract::State};
use flint_gate::{DirectGate, Gate, GateConfig, Gates};
use flint_model::NamespaceName;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{Notify, Semaphore, oneshot},
};

/// What requests wait for, and how many do.
#[derive(Default)]
struct Api {
    arrived: Notify,
    dropped: Notify,
    go: Option<Semaphore>,
}

/// Tells when it is dropped before its time.
struct Dropped(Arc<Api>, bool);

impl Drop for Dropped {
    fn drop(&mut self) {
        if !self.1 {
            self.0.dropped.notify_one();
        }
    }
}

async fn answer(State(api): State<Arc<Api>>, request: http::Request<Body>) -> String {
    let mut dropped = Dropped(Arc::clone(&api), false);
    api.arrived.notify_one();
    if let Some(go) = &api.go {
        go.acquire().await.unwrap().forget();
    }
    dropped.1 = true;
    let names: Vec<_> = request.headers().keys().map(|name| name.as_str().to_owned()).collect();
    let open = request.extensions().get::<Gate>().unwrap().is_open();
    if request.uri().path() == "/large" {
        return "x".repeat(64 << 20);
    }
    format!("{} open={open} headers={}\n", request.uri().path(), names.join(","))
}

fn gates(config: GateConfig, api: Api) -> (Gates, Arc<Api>) {
    let (gates, api) = (Gates::new(config), Arc::new(api));
    gates.serve(Router::new().fallback(answer).with_state(Arc::clone(&api)));
    (gates, api)
}

fn listener() -> (OwnedFd, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener.into(), address)
}

fn name(text: &str) -> NamespaceName {
    NamespaceName::parse(text).unwrap()
}

/// Everything that is said until the connection is closed, or the end of an answer that leaves it open.
async fn ask(stream: &mut TcpStream, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: evil.example\r\nx-forwarded-proto: https\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"\n") || said.ends_with(b"\r\n") {
        if stream.read_buf(&mut said).await.unwrap() == 0 {
            break;
        }
    }
    String::from_utf8(said).unwrap()
}

/// Whether a connection comes to its end, with or without a word.
async fn ends(mut stream: TcpStream) -> bool {
    let reading = async {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    };
    tokio::time::timeout(Duration::from_secs(60), reading).await.is_ok()
}

#[tokio::test]
async fn it_answers_until_its_sandbox_ends_and_then_nobody_does() {
    let (gates, _api) = gates(GateConfig::default(), Api::default());
    let (socket, address) = listener();
    let (end, ended) = oneshot::channel::<()>();
    let gate = gates.open(socket, async { drop(ended.await) }, None).unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let said = ask(&mut stream, "/a").await;
    assert!(said.starts_with("HTTP/1.1 200") && said.contains("/a open=false"), "{said}");
    // What the function says of the server is not heard.
    assert!(said.contains("headers=\n"), "{said}");
    let admission = gate.admit(name("guest"));
    assert!(ask(&mut stream, "/b").await.contains("/b open=true"));
    drop(admission);
    assert!(ask(&mut stream, "/c").await.contains("/c open=false"));
    drop(end);
    assert!(ends(stream).await);
    let refused = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), refused).await.unwrap();
}

#[tokio::test]
async fn one_that_belongs_to_somebody_is_open_to_him_from_the_beginning() {
    let (gates, _api) = gates(GateConfig::default(), Api::default());
    let (socket, _) = listener();
    let gate = gates.open(socket, pending(), Some(name("guest"))).unwrap();
    assert!(gate.admits(&name("guest")) && !gate.admits(&name("other")));
    gates.close().await;
    assert!(!gate.is_open(), "what it belonged to has ended");
}

#[tokio::test]
async fn requests_under_way_are_dropped_with_the_sandbox_and_with_their_connection() {
    let (gates, api) = gates(GateConfig::default(), Api { go: Some(Semaphore::new(0)), ..Api::default() });
    for ends_with_sandbox in [true, false] {
        let (socket, address) = listener();
        let (end, ended) = oneshot::channel::<()>();
        gates.open(socket, async { drop(ended.await) }, None).unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        api.arrived.notified().await;
        if ends_with_sandbox {
            drop(end);
        } else {
            drop(stream);
        }
        tokio::time::timeout(Duration::from_secs(60), api.dropped.notified()).await.unwrap();
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_and_each_member_brings_its_own() {
    let config = GateConfig { connections: 2, ..GateConfig::default() };
    let (gates, _api) = gates(config, Api::default());
    let (socket, address) = listener();
    let gate = gates.open(socket, pending(), Some(name("a"))).unwrap();
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        assert!(ask(&mut stream, "/").await.contains("200"));
        open.push(stream);
    }
    let mut third = TcpStream::connect(address).await.unwrap();
    let waits = tokio::time::timeout(Duration::from_millis(200), ask(&mut third, "/third")).await;
    assert!(waits.is_err(), "{waits:?}");
    // It has been asked already; the answer comes as soon as there is room, here because somebody joins.
    let _second = gate.admit(name("b"));
    let mut said = [0; 12];
    third.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"HTTP/1.1 200");
    // Or because one goes.
    let mut fourth = TcpStream::connect(address).await.unwrap();
    assert!(ask(&mut fourth, "/").await.contains("200"));
    let mut fifth = TcpStream::connect(address).await.unwrap();
    let waits = tokio::time::timeout(Duration::from_millis(200), ask(&mut fifth, "/fifth")).await;
    assert!(waits.is_err(), "{waits:?}");
    drop(open);
    fifth.read_exact(&mut said).await.unwrap();
}

#[tokio::test]
async fn one_sandbox_cannot_take_the_places_of_all_for_ever() {
    let config = GateConfig { max_connections: 1, idle: Duration::from_millis(300), ..GateConfig::default() };
    let (gates, _api) = gates(config, Api::default());
    let ((socket, hog), (other, address)) = (listener(), listener());
    gates.open(socket, pending(), None).unwrap();
    gates.open(other, pending(), None).unwrap();
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(hog).await.unwrap());
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    let said = tokio::time::timeout(Duration::from_secs(60), ask(&mut stream, "/")).await.unwrap();
    assert!(said.contains("200"), "{said}");
}

#[tokio::test]
async fn one_namespace_takes_half_of_all_places_however_many_sandboxes_it_has() {
    let config = GateConfig { connections: 8, max_connections: 4, ..GateConfig::default() };
    let (gates, _api) = gates(config, Api::default());
    let mut busy = Vec::new();
    for answered in [true, true, false] {
        let (socket, address) = listener();
        gates.open(socket, pending(), Some(name("hog"))).unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let within = if answered { Duration::from_secs(60) } else { Duration::from_millis(200) };
        let said = tokio::time::timeout(within, ask(&mut stream, "/")).await;
        assert_eq!(said.is_ok(), answered, "{said:?}");
        busy.push(stream);
    }
    let (socket, address) = listener();
    gates.open(socket, pending(), Some(name("guest"))).unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let said = tokio::time::timeout(Duration::from_secs(60), ask(&mut stream, "/")).await.unwrap();
    assert!(said.contains("200"), "{said}");
    // Another one of theirs is served when one of them goes.
    busy.remove(0);
    let mut said = [0; 12];
    busy[1].read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"HTTP/1.1 200");
}

#[tokio::test]
async fn who_says_nothing_or_too_much_or_does_not_read_is_let_go() {
    let config = GateConfig { idle: Duration::from_secs(1), max_header: 8 << 10, ..GateConfig::default() };
    let (gates, _api) = gates(config, Api::default());
    let (socket, address) = listener();
    gates.open(socket, pending(), None).unwrap();
    assert!(ends(TcpStream::connect(address).await.unwrap()).await, "silence");
    let mut half = TcpStream::connect(address).await.unwrap();
    half.write_all(b"GET / HTTP/1.1\r\nx: ").await.unwrap();
    assert!(ends(half).await, "half a head");
    let mut kept = TcpStream::connect(address).await.unwrap();
    assert!(ask(&mut kept, "/").await.contains("200"));
    assert!(ends(kept).await, "idle after an answer");
    let mut long = TcpStream::connect(address).await.unwrap();
    let head = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(64 << 10));
    let _ = long.write_all(head.as_bytes()).await;
    let mut said = Vec::new();
    let _ = long.read_to_end(&mut said).await;
    assert!(!String::from_utf8_lossy(&said).starts_with("HTTP/1.1 200"));
    // More is asked for than fits on the way, and nothing is read: the connection breaks in the middle of the answer.
    let mut deaf = TcpStream::connect(address).await.unwrap();
    deaf.write_all(b"GET /large HTTP/1.1\r\n\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_secs(6)).await;
    let mut said = Vec::new();
    let _ = deaf.read_to_end(&mut said).await;
    assert!(said.starts_with(b"HTTP/1.1 200") && said.len() < 64 << 20, "{} bytes", said.len());
}

#[tokio::test]
async fn a_head_is_bounded_however_it_is_read() {
    let (gates, _api) = gates(GateConfig { max_header: 64 << 10, ..GateConfig::default() }, Api::default());
    let (socket, address) = listener();
    let _gate = gates.open(socket, pending(), Some(name("a"))).unwrap();
    let asked = async |size: usize| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let line = "GET / HTTP/1.1\r\nconnection: close\r\nx: ";
        let head = format!("{line}{}\r\n\r\n", "y".repeat(size - line.len() - 4));
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut said = [0; 12];
        stream.read_exact(&mut said).await.unwrap();
        String::from_utf8_lossy(&said).into_owned()
    };
    assert_eq!(asked(64 << 10).await, "HTTP/1.1 200");
    assert_eq!(asked(70_000).await, "HTTP/1.1 431");
}

#[tokio::test]
async fn closing_ends_everything_and_lets_go_of_the_api() {
    let (gates, api) = gates(GateConfig::default(), Api::default());
    let (socket, address) = listener();
    gates.open(socket, pending(), None).unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    assert!(ask(&mut stream, "/").await.contains("200"));
    gates.close().await;
    assert!(ends(stream).await && TcpStream::connect(address).await.is_err());
    let until = Instant::now() + Duration::from_secs(60);
    while Arc::strong_count(&api) > 1 {
        assert!(Instant::now() < until, "somebody still holds the API");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What is said on a connection of a gate without a socket, to its end.
async fn say(gate: &DirectGate, request: &str) -> String {
    let mut stream = gate.connect().await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    said
}

const LAST: &str = "GET /a HTTP/1.1\r\nhost: evil.example\r\nforwarded: for=x\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn a_guest_of_this_process_has_one_without_a_socket() {
    let (gates, _api) = gates(GateConfig::default(), Api::default());
    let gate = gates.direct(name("guest"));
    let said = say(&gate, LAST).await;
    assert!(said.starts_with("HTTP/1.1 200") && said.contains("/a open=true"), "{said}");
    assert!(said.ends_with("headers=connection\n"), "what it says of the server is not heard: {said}");
    gates.close().await;
    assert!(gate.connect().await.is_err(), "nobody answers any more");
}

#[tokio::test]
async fn what_a_guest_asked_for_ends_with_its_connection_with_itself_and_with_the_server() {
    for ends in ["connection", "guest", "server"] {
        let (gates, api) =
            gates(GateConfig::default(), Api { go: Some(Semaphore::new(0)), ..Api::default() });
        let gate = gates.direct(name("guest"));
        let mut stream = gate.connect().await.unwrap();
        stream.write_all(LAST.as_bytes()).await.unwrap();
        api.arrived.notified().await;
        match ends {
            "connection" => drop(stream),
            "guest" => drop(gate),
            _ => gates.close().await,
        }
        tokio::time::timeout(Duration::from_secs(60), api.dropped.notified()).await.unwrap();
    }
}

#[tokio::test]
async fn a_guest_has_as_many_connections_as_a_sandbox_and_takes_from_the_same_in_all() {
    let config = GateConfig { connections: 2, max_connections: 3, ..GateConfig::default() };
    let (gates, _api) = gates(config, Api::default());
    let (one, other) = (gates.direct(name("guest")), gates.direct(name("other")));
    let waits = async |gate: &DirectGate| {
        tokio::time::timeout(Duration::from_millis(200), gate.connect()).await.is_err()
    };
    let (first, _second) = (one.connect().await.unwrap(), one.connect().await.unwrap());
    assert!(waits(&one).await, "its own");
    let _third = other.connect().await.unwrap();
    assert!(waits(&other).await, "those of all");
    drop(first);
    assert!(say(&other, LAST).await.contains("200"));
}

#[tokio::test]
async fn a_guest_that_says_nothing_or_does_not_read_is_let_go() {
    let config = GateConfig { idle: Duration::from_millis(200), ..GateConfig::default() };
    let (gates, _api) = gates(config, Api::default());
    let gate = gates.direct(name("guest"));
    assert_eq!(say(&gate, "").await, "", "silence");
    let mut deaf = gate.connect().await.unwrap();
    deaf.write_all(b"GET /large HTTP/1.1\r\n\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut said = Vec::new();
    let _ = deaf.read_to_end(&mut said).await;
    assert!(said.starts_with(b"HTTP/1.1 200") && said.len() < 64 << 20, "{} bytes", said.len());
}
