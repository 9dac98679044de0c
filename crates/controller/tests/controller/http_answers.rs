//! Calls of functions that speak HTTP: the answer goes to the caller as it is, and the record says what it was.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use flint_controller::{Accepts, Answer, ErrorKind, HttpAnswer, Invocation, Mode, PutCode, PutFunction};
use flint_executor::{Body, CallHead, body_channel};
use flint_model::{Activation, ActivationId, ByteSize, NamespaceLimits, Response, Status};
use http::{HeaderMap, Method, StatusCode, header::CONTENT_TYPE};
use serde_json::json;

use crate::support::{Server, config, crowded::Crowded, eventually};

const BLOCKING: Mode = Mode::Blocking { wait: Duration::from_secs(60) };

async fn deploy(server: &Server, code: &str, parameters: serde_json::Value) {
    let caller = server.guest().await;
    let code = PutCode { kind: "nodejs".into(), content: code.to_owned().into(), format: None, main: None };
    let parameters = Some(serde_json::from_value(parameters).unwrap());
    let put = PutFunction { overwrite: true, code: Some(code), parameters, ..PutFunction::default() };
    server.controller.put_function(&caller, "guest/f".parse().unwrap(), put, &|_| {}).await.unwrap();
}

fn call(body: &'static [u8], content_type: &'static str, mode: Mode) -> Invocation {
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, content_type.parse().unwrap())]);
    let head = CallHead { method: Method::POST, path: "/".into(), query: String::new(), headers };
    Invocation {
        path: "guest/f".parse().unwrap(),
        body: Body::Full(body.into()),
        head: Some(Box::new(head)),
        mode,
        accepts: Accepts::Http,
        transaction: "t".into(),
        arrived: Instant::now(),
        api_key: None,
    }
}

async fn answer(server: &Server, body: &'static [u8], content_type: &'static str) -> Answer {
    let caller = server.guest().await;
    server.controller.invoke(&caller, call(body, content_type, BLOCKING)).await.unwrap()
}

async fn record(server: &Server, id: ActivationId) -> Activation {
    let caller = server.guest().await;
    eventually("the record", || async {
        server.controller.activation(&caller, &caller.namespace.name, id).await.ok()
    })
    .await
}

#[tokio::test]
async fn an_answer_goes_to_the_caller_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    for (code, status, content_type, body, recorded) in [
        ("http image/jpeg bytes", 200, "image/jpeg", "bytes", None),
        ("http 404:text/plain none", 404, "text/plain", "none", None),
        ("http 201:application/json {\"a\":1}", 201, "application/json", "{\"a\":1}", Some("{\"a\":1}")),
    ] {
        deploy(&server, code, json!([])).await;
        let Answer::Http(HttpAnswer { activation, status: got, headers, body: sent }) =
            answer(&server, b"x", "text/plain").await
        else {
            panic!("{code}");
        };
        assert_eq!((got.as_u16(), headers[CONTENT_TYPE].to_str().unwrap()), (status, content_type));
        assert_eq!(sent.collect(99).await.unwrap(), body);
        let record = record(&server, activation).await;
        let expected = if status < 400 { Status::Success } else { Status::ApplicationError };
        assert_eq!(
            (record.response.status, record.response.size.as_u64()),
            (expected, body.len() as u64),
            "{code}"
        );
        assert_eq!(record.response.result.as_ref().map(|result| result.get()), recorded);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_stream_goes_on_to_its_end_and_is_recorded_then() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "stream 20", json!([])).await;
    let Answer::Http(HttpAnswer { activation, status, body, .. }) = answer(&server, b"", "text/plain").await
    else {
        panic!("no stream");
    };
    assert_eq!((status, server.controller.calls_in_flight()), (StatusCode::OK, 1));
    let caller = server.guest().await;
    let missing =
        server.controller.activation(&caller, &caller.namespace.name, activation).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "a call that goes on has no record yet");
    let body = body.collect(1 << 20).await.unwrap();
    assert!(body.starts_with(b"piece 0\n") && body.ends_with(b"piece 19\n"));
    let record = record(&server, activation).await;
    assert_eq!((record.response.status, record.logs.len()), (Status::Success, 1));
    assert_eq!(record.response.size.as_u64(), body.len() as u64);
    assert!(record.timeline.ran.is_some() && record.timeline.collected.is_some());
    eventually("its place is free", || async { (server.controller.calls_in_flight() == 0).then_some(()) })
        .await;
    server.stop().await;
}

#[tokio::test]
async fn who_asks_for_the_record_gets_it_with_its_logs_whether_or_not_it_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let crowded = Arc::new(Crowded::default());
    let mut config = config();
    config.limits.bounds.max_result = ByteSize::bytes(100);
    let server = Server::start_crowded(dir.path(), config, &crowded).await;
    let codes = [
        ("http image/jpeg bytes", 5, None),
        ("http application/json {\"a\":1}", 7, Some("{\"a\":1}")),
        ("stream 2", 16, None),
        // Longer than a result may be, and read to its end all the same.
        ("stream 20", 170, None),
        ("answer {\"b\":2}", 7, Some("{\"b\":2}")),
    ];
    for keeps in ["all", "nothing, for now", "nothing"] {
        match keeps {
            "all" => {}
            "nothing, for now" => crowded.refuse(9),
            _ => {
                crowded.refuse(0);
                let limits = NamespaceLimits { store_activations: Some(false), ..NamespaceLimits::default() };
                server.controller.set_limits(&"guest".parse().unwrap(), limits).await.unwrap();
            }
        }
        for (code, size, result) in codes {
            deploy(&server, code, json!([])).await;
            let caller = server.guest().await;
            let asked = Invocation { accepts: Accepts::Record, ..call(b"{}", "application/json", BLOCKING) };
            let Answer::Finished(record) = server.controller.invoke(&caller, asked).await.unwrap() else {
                panic!("{code}");
            };
            let Response { status, size: got, result: shown, .. } = &record.response;
            assert_eq!((*status, got.as_u64()), (Status::Success, size), "{code}");
            assert_eq!(shown.as_ref().map(|shown| shown.get()), result, "{code}");
            assert_eq!(record.logs.len(), 1, "{code}");
            let found = server.controller.activation(&caller, &caller.namespace.name, record.id).await;
            assert_eq!(found.map(|found| found.logs.len()).ok(), (keeps == "all").then_some(1), "{code}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_json_body_goes_over_the_functions_defaults_and_any_other_is_handed_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "echo it", json!([{"key": "a", "value": 1}])).await;
    for (body, content_type) in [
        (&b"{\"b\":2}"[..], "application/json"),
        (b"[1]", "application/json"),
        (b"\x00\x01 not text", "application/octet-stream"),
    ] {
        answer(&server, body, content_type).await;
    }
    let seen = server.executor.calls_of("guest/f");
    assert_eq!(seen, ["{\"a\":1,\"b\":2}", "[1]", "\0\u{1} not text"]);
    server.stop().await;
}

#[tokio::test]
async fn arguments_are_merged_however_their_json_comes() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "echo it", json!([{"key": "a", "value": 1}])).await;
    let caller = server.guest().await;
    let streamed = async |body: &'static [u8], content_type: &'static str| {
        let (sender, pieces) = body_channel();
        for piece in body.chunks(3) {
            sender.send(Ok(Bytes::from_static(piece))).await.unwrap();
        }
        drop(sender);
        let asked = Invocation { body: Body::Stream(pieces), ..call(b"", content_type, BLOCKING) };
        server.controller.invoke(&caller, asked).await
    };
    for (body, content_type) in [
        (&b"{\"b\":2}"[..], "application/json"),
        (b"{\"b\":2}", "Application/JSON ; charset=utf-8"),
        (b"", "application/json"),
        (b"{\"b\":2}\n{}", "application/jsonlines"),
    ] {
        streamed(body, content_type).await.unwrap();
        answer(&server, body, content_type).await;
    }
    let expected = ["{\"a\":1,\"b\":2}", "{\"a\":1,\"b\":2}", "{\"a\":1}", "{\"b\":2}\n{}"];
    let expected: Vec<_> = expected.into_iter().flat_map(|seen| [seen, seen]).collect();
    assert_eq!(server.executor.calls_of("guest/f"), expected);

    let mut fixed = PutFunction { overwrite: true, ..PutFunction::default() };
    fixed.annotations.set("final", true);
    let path = "guest/f".parse().unwrap();
    server.controller.put_function(&caller, path, fixed, &|_| {}).await.unwrap();
    for content_type in ["application/json", "APPLICATION/JSON"] {
        let refused = streamed(b"{\"a\":2}", content_type).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{content_type}");
        let whole = call(b"{\"a\":2}", content_type, BLOCKING);
        assert!(server.controller.invoke(&caller, whole).await.is_err(), "{content_type}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_failure_is_a_record_and_not_an_http_answer() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "throw boom", json!([])).await;
    let Answer::Finished(record) = answer(&server, b"", "text/plain").await else { panic!("no record") };
    assert_eq!(record.response.status, Status::DeveloperError);
    assert_eq!(record.response.result.unwrap().get(), r#"{"error":"boom"}"#);
    server.stop().await;
}

#[tokio::test]
async fn an_asynchronous_call_takes_json_only() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "echo it", json!([])).await;
    let caller = server.guest().await;
    let refused =
        server.controller.invoke(&caller, call(b"x", "text/plain", Mode::NonBlocking)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert_eq!(server.controller.calls_in_flight(), 0);
    server.stop().await;
}
