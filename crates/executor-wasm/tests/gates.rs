//! The way of Wasm functions to the API: who has one, where it leads, and when it ends.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Body, extract::State};
use flint_executor::{CallHead, Executor, Fault, StartContext};
use flint_executor_wasm::host::{HttpBounds, HttpClient, Reach, Services};
use flint_gate::{Gate, GateConfig, Gates};
use flint_model::{Contract, Function, FunctionLimits, NamespaceName};
use http::{HeaderMap, Method, StatusCode};
use support::{AMPLE, Done, House, SHORT, context, done, function, json_call, wat, with_services};
use tokio::{
    net::TcpListener,
    sync::{Notify, Semaphore},
};

const OUTBOUND: &str = include_str!("modules/outbound.wat");

/// An API for those who work for `guest`, and where it is said to be.
struct Api {
    asked: AtomicUsize,
    arrived: Notify,
    dropped: Notify,
    go: Semaphore,
}

struct Dropped(Arc<Api>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.dropped.notify_one();
    }
}

/// Waits until it may, and answers 200 to whom the gate is open for guest alone.
async fn answer(State(api): State<Arc<Api>>, request: http::Request<Body>) -> StatusCode {
    let _dropped = Dropped(Arc::clone(&api));
    api.asked.fetch_add(1, Ordering::Relaxed);
    api.arrived.notify_one();
    api.go.acquire().await.unwrap().forget();
    let gate = request.extensions().get::<Gate>().unwrap();
    let admits = |name| gate.admits(&NamespaceName::parse(name).unwrap());
    let named = request.headers().contains_key("host");
    match admits("guest") && !admits("other") && !named {
        true => StatusCode::OK,
        false => StatusCode::FORBIDDEN,
    }
}

/// A house of functions with gates, at a port of the host's loopback where somebody listens and must not be asked.
struct Gated {
    house: House,
    api: Arc<Api>,
    gates: Gates,
    neighbour: TcpListener,
    port: u16,
}

/// A call that is to be made.
struct Wish<'a> {
    key: bool,
    to: &'a str,
    allow: &'a [&'a str],
    namespace: Option<&'a str>,
    limit: Duration,
}

impl Default for Wish<'_> {
    fn default() -> Self {
        Self { key: true, to: "127.0.0.1", allow: &[], namespace: Some("guest"), limit: AMPLE }
    }
}

impl Gated {
    async fn new(reach: Reach) -> Self {
        let neighbour = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = neighbour.local_addr().unwrap().port();
        let gates = Gates::new(GateConfig { port, ..GateConfig::default() });
        let api = Arc::new(Api {
            asked: AtomicUsize::new(0),
            arrived: Notify::new(),
            dropped: Notify::new(),
            go: Semaphore::new(Semaphore::MAX_PERMITS),
        });
        gates.serve(Router::new().fallback(answer).with_state(Arc::clone(&api)));
        let services = Services {
            gates: Some(gates.clone()),
            http: Arc::new(HttpClient::new(HttpBounds::default(), reach).unwrap()),
            ..Services::new(None).unwrap()
        };
        Self { house: with_services(services), api, gates, neighbour, port }
    }

    /// Deploys a function that asks once, and calls it.
    async fn ask(&self, wish: Wish<'_>) -> Done {
        let mut source = function(Contract::WasiCommand, &wat(OUTBOUND), FunctionLimits::default());
        let adjust = |function: &mut Function| {
            function.annotations.set("provide-api-key", wish.key);
            function.wasm.config.insert("to".to_owned(), format!("{}:{}", wish.to, self.port));
            function.wasm.allow_hosts = wish.allow.iter().map(|host| host.parse().unwrap()).collect();
        };
        adjust(Arc::get_mut(&mut source.function).unwrap());
        let prepared = self.house.prepare(source).await.unwrap();
        let namespace = wish.namespace.map(|name| NamespaceName::parse(name).unwrap());
        let context = StartContext { namespace, ..context() };
        let started = self.house.executor.start(&prepared, context).await.unwrap();
        let mut call = json_call("", wish.limit);
        call.head = Some(Box::new(CallHead {
            method: Method::POST,
            path: "/".into(),
            query: String::new(),
            headers: HeaderMap::new(),
        }));
        let done = done(started.instance.invoke(call).await);
        started.instance.stop().await;
        done
    }

    /// What was asked at the gate since the last time; nobody ever connects to the host's loopback.
    async fn asked(&self) -> usize {
        let connected = tokio::time::timeout(Duration::from_millis(50), self.neighbour.accept()).await;
        assert!(connected.is_err(), "somebody was connected to on the host's loopback");
        self.api.asked.swap(0, Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_a_key_reaches_the_api_with_nothing_else_granted() {
    for reach in [Reach::Public, Reach::Everything] {
        let gated = Gated::new(reach).await;
        let answered = gated.ask(Wish::default()).await;
        assert!(answered.result.is_ok(), "{:?}", answered.result);
        assert_eq!(gated.asked().await, 1);
        gated.gates.close().await;
        let refused = gated.ask(Wish::default()).await;
        assert!(refused.told().contains("failed"), "{}", refused.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_none_and_who_means_another_address_does_not() {
    let gated = Gated::new(Reach::Public).await;
    let everything = &["*"][..];
    let any_port = format!("*:{}", gated.port);
    for allow in [&[][..], everything, &[any_port.as_str()]] {
        let refused = gated.ask(Wish { key: false, allow, ..Wish::default() }).await;
        assert!(refused.told().contains("denied") || refused.told().contains("prohibited"));
        for to in ["localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "127.0.0.2"] {
            let refused = gated.ask(Wish { to, allow, ..Wish::default() }).await;
            let told = refused.told();
            assert!(told.contains("denied") || told.contains("prohibited"), "{to}: {told}");
        }
    }
    // One that works on nobody's account has no way either.
    let refused = gated.ask(Wish { namespace: None, ..Wish::default() }).await;
    assert!(refused.told().contains("denied"), "{}", refused.told());
    assert_eq!(gated.asked().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_open_to_the_namespace_of_the_call_alone() {
    let gated = Gated::new(Reach::Public).await;
    // Refused by the API, which is an answer.
    let refused = gated.ask(Wish { namespace: Some("other"), ..Wish::default() }).await;
    assert!(refused.result.is_err());
    assert_eq!(gated.asked().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_asked_for_ends_with_the_time_of_the_call() {
    let gated = Gated::new(Reach::Public).await;
    gated.api.go.forget_permits(Semaphore::MAX_PERMITS);
    // It has to ask by then: where the machine was too busy for that, more time is given.
    for limit in [SHORT, 30 * SHORT] {
        let late = gated.ask(Wish { limit, ..Wish::default() }).await;
        assert!(matches!(late.fault(), Fault::Deadline), "{:?}", late.fault());
        if gated.api.asked.load(Ordering::Relaxed) > 0 {
            break;
        }
    }
    tokio::time::timeout(AMPLE, gated.api.arrived.notified()).await.unwrap();
    tokio::time::timeout(AMPLE, gated.api.dropped.notified()).await.unwrap();
}
