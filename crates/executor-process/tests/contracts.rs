//! Contracts `stdio`, `http` and `openwhisk`, end to end.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;

use bytes::Bytes;
use flint_executor::{
    Body, BodyError, EndOfProcess, Executor, Fault, Instance, Invoked, ReplyHead, StartContext, body_channel,
};
use flint_model::{ByteSize, CodeFormat, Contract, LogStream};
use support::{House, SERVER, answer, context, function, json, request, stdio, text};

const PROXY: &str = include_str!("fixtures/proxy.py");

fn content_type(head: &ReplyHead) -> &str {
    match head {
        ReplyHead::Json => "json",
        ReplyHead::Http { headers, .. } => headers["content-type"].to_str().unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stdio_answers_with_what_the_program_writes() {
    let house = House::new().await;
    let prepared = house.prepare(stdio("#!/bin/cat\n")).await;
    drop(prepared);
    let cat = "#!/bin/sh\nexec cat\n";
    let run = async |script: &str, call| {
        let instance = house.start(stdio(script)).await;
        let invoked = instance.invoke(call).await;
        instance.stop().await;
        invoked
    };
    let reply = answer(run(cat, json(r#"{"a":1}"#)).await);
    assert_eq!((content_type(&reply.head), &reply.body[..]), ("json", &br#"{"a":1}"#[..]));
    let reply = answer(run(cat, request("POST", "/", Bytes::from_static(b"[1]"))).await);
    assert_eq!(content_type(&reply.head), "application/json");
    let reply = answer(run(cat, request("POST", "/", Bytes::from_static(b"hello\n"))).await);
    assert_eq!((content_type(&reply.head), &reply.body[..]), ("text/plain; charset=utf-8", &b"hello\n"[..]));
    let reply = answer(run(cat, request("POST", "/", Bytes::from_static(b"\0\xff"))).await);
    assert_eq!(content_type(&reply.head), "application/octet-stream");
    let env = "#!/bin/sh\necho \"$Http_Method $Http_Path $Http_Query $Http_X_Test\"; echo said >&2";
    let Invoked::Done { result, end } = run(env, request("PUT", "/a/b?c=d", Bytes::new())).await else {
        panic!()
    };
    assert_eq!(result.unwrap().body, "PUT /a/b c=d 1\n");
    assert_eq!(
        (end.logs.len(), end.logs[0].stream, end.logs[0].text.as_str()),
        (1, LogStream::Stderr, "said")
    );
    let fail = "#!/bin/sh\necho no such luck >&2; exit 3";
    let Invoked::Done { result, .. } = run(fail, json("{}")).await else { panic!() };
    let message = "the program ended with exit code 3: no such luck".to_owned();
    assert_eq!(result.unwrap_err(), Fault::Developer { message });
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stdio_streams_long_bodies_both_ways() {
    const PIECE: usize = 1 << 20;
    let house = House::new().await;
    let instance = house.start(stdio("#!/bin/sh\nexec cat\n")).await;
    let (sender, body) = body_channel();
    let feeding = tokio::spawn(async move {
        for n in 0..20_u8 {
            sender.send(Ok(Bytes::from(vec![n; PIECE]))).await.unwrap();
        }
    });
    let invoked = instance.invoke(request("POST", "/", Body::Stream(body))).await;
    let Invoked::Streaming { body, end, .. } = invoked else { panic!("{invoked:?}") };
    let whole = Body::Stream(body).collect(1 << 30).await.unwrap();
    assert!(
        whole.len() == 20 * PIECE && whole.chunks(PIECE).zip(0..).all(|(piece, n)| piece[PIECE / 2] == n)
    );
    assert_eq!(end.await.unwrap().fault, None);
    feeding.await.unwrap();
    instance.stop().await;
    stalls(async || house.start(stdio("#!/bin/sh\nexec cat /dev/zero\n")).await).await;
    house.end().await;
}

/// A caller that takes nothing of an endless answer, and reads on after the deadline, does not take what it gets for all.
async fn stalls(start: impl AsyncFn() -> Arc<dyn Instance>) {
    // The answer has to begin by then: where the machine was too busy for that, more time is given.
    for seconds in [6, 60] {
        let instance = start().await;
        let mut call = request("POST", "/endless", Bytes::new());
        call.deadline = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
        let invoked = instance.invoke(call).await;
        let Invoked::Streaming { mut body, end, .. } = invoked else {
            instance.stop().await;
            assert!(seconds < 60, "{invoked:?}");
            continue;
        };
        assert_eq!(end.await.unwrap().fault, Some(Fault::Deadline));
        let mut last = None;
        while let Some(piece) = body.recv().await {
            last = Some(piece);
        }
        assert!(matches!(last, Some(Err(_))), "{last:?}");
        instance.stop().await;
        return;
    }
}

/// An endless answer ends with its caller, long before its deadline. Gives the instance, and whether it can be used again.
async fn leaves(instance: Arc<dyn Instance>) -> (Arc<dyn Instance>, bool) {
    let mut call = request("POST", "/endless", Bytes::new());
    call.deadline = std::time::Instant::now() + std::time::Duration::from_secs(600);
    let invoked = instance.invoke(call).await;
    let Invoked::Streaming { mut body, end, .. } = invoked else { panic!("{invoked:?}") };
    assert!(matches!(body.recv().await, Some(Ok(_))));
    drop(body);
    let end = tokio::time::timeout(std::time::Duration::from_secs(60), end).await;
    let end = end.expect("it goes on for nobody").unwrap();
    assert_eq!(end.fault, None);
    (instance, end.reusable)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_breaks_off_is_not_waited_for() {
    let house = House::new().await;
    let instance = house.start(function("python:default", Contract::Http, CodeFormat::Source, SERVER)).await;
    // It exits with an error long after that.
    let Invoked::Done { result, .. } = instance.invoke(request("POST", "/hang-up", Bytes::new())).await
    else {
        panic!()
    };
    let Err(Fault::Developer { message }) = result else { panic!("{result:?}") };
    assert!(message.starts_with("the function's server broke off without an answer"), "{message}");
    instance.stop().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_ends_when_its_caller_goes_away() {
    let house = House::new().await;
    let server = function("python:default", Contract::Http, CodeFormat::Source, SERVER);
    let (instance, reusable) = leaves(house.start(server).await).await;
    assert!(reusable);
    let reply = answer(instance.invoke(json(r#"{"a":1}"#)).await);
    assert_eq!(reply.body, r#"{"a":1}"#);
    instance.stop().await;
    let (instance, _) = leaves(house.start(stdio("#!/bin/sh\nexec cat /dev/zero\n")).await).await;
    instance.stop().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_of_a_program_is_bounded_by_the_results_limit() {
    let house = House::new().await;
    let array = "#!/bin/sh\nprintf '['; head -c 3000000 /dev/zero | tr '\\0' ' '; printf '1]'";
    let allowed = |max_result| {
        let mut call = json("{}");
        call.max_result = max_result;
        call
    };
    let run = async |script: &str, max_result| {
        let instance = house.start(stdio(script)).await;
        let invoked = instance.invoke(allowed(max_result)).await;
        instance.stop().await;
        invoked
    };
    let reply = answer(run(array, ByteSize::mib(10)).await);
    assert_eq!((content_type(&reply.head), reply.body.len()), ("json", 3_000_003));
    for most in [ByteSize::kib(100), ByteSize::mib(2)] {
        let Invoked::Done { result, end } = run(array, most).await else { panic!("a stream came") };
        let Err(Fault::ResultTooLarge { size, allowed, .. }) = result else { panic!("{result:?}") };
        assert_eq!((size, allowed, end.fault), (3_000_003, most.as_u64(), None));
    }
    // What is not JSON has no such bound, however it begins.
    let text = "#!/bin/sh\nprintf '[INFO] '; head -c 3000000 /dev/zero";
    let instance = house.start(stdio(text)).await;
    let Invoked::Streaming { body, end, .. } = instance.invoke(allowed(ByteSize::kib(100))).await else {
        panic!("no stream came")
    };
    let (whole, end) = tokio::join!(Body::Stream(body).collect(1 << 30), end);
    assert_eq!((whole.unwrap().len(), end.unwrap().fault), (3_000_007, None));
    instance.stop().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interim_responses_are_passed_over_and_switching_protocols_is_no_answer() {
    let house = House::new().await;
    let instance = house.start(function("python:default", Contract::Http, CodeFormat::Source, SERVER)).await;
    for _ in 0..2 {
        let reply = answer(instance.invoke(request("POST", "/interim", Bytes::from_static(b"hi"))).await);
        let ReplyHead::Http { status, .. } = reply.head else { panic!() };
        assert_eq!((status.as_u16(), &reply.body[..]), (201, &b"hi"[..]));
        let Invoked::Done { result, .. } = instance.invoke(request("POST", "/switch", Bytes::new())).await
        else {
            panic!()
        };
        let text = "101 is not an HTTP status of an answer".to_owned();
        assert_eq!(result.unwrap_err(), Fault::InvalidAnswer { text }, "and the server goes on");
    }
    instance.stop().await;
    house.end().await;
}

/// How much of a head that has not ended is kept depends on the pieces it came in, up to twice the limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_headers_than_a_response_may_have_are_the_functions_fault() {
    let house = House::new().await;
    let server = || function("python:default", Contract::Http, CodeFormat::Source, SERVER);
    let ask = |count: usize, length: usize| {
        request("POST", &format!("/headers/{count}/{length}"), Bytes::from_static(b"hi"))
    };
    for (count, length) in [(1100, 1), (1, 1 << 20), (900, 2000)] {
        let instance = house.start(server()).await;
        for allowed in [ask(900, 10), ask(1, 100_000)] {
            let reply = answer(instance.invoke(allowed).await);
            let ReplyHead::Http { headers, .. } = reply.head else { panic!() };
            assert!(headers.contains_key("x-0") && reply.body == "hi", "{headers:?}");
        }
        let Invoked::Done { result, end } = instance.invoke(ask(count, length)).await else { panic!() };
        let Err(Fault::Developer { message }) = result else { panic!("{count} of {length}: {result:?}") };
        let said = "the function's server answered with a head that is too large: status and headers may have 256 KB, and there may be 1000 headers";
        assert_eq!(message, said);
        assert!(!end.reusable, "the rest of it would be taken for the next answer");
        instance.stop().await;
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_http_server_gets_requests_and_its_responses_come_back() {
    let house = House::new().await;
    let instance = house.start(function("python:default", Contract::Http, CodeFormat::Source, SERVER)).await;
    for n in 0..3 {
        let mut call = request("POST", "/echo?x=1", Bytes::from(format!("body {n}")));
        call.activation = flint_model::ActivationId::generate();
        let id = call.activation.to_string();
        let Invoked::Done { result, end } = instance.invoke(call).await else { panic!() };
        let reply = result.unwrap();
        let ReplyHead::Http { status, headers } = reply.head else { panic!() };
        assert_eq!((status.as_u16(), reply.body), (201, Bytes::from(format!("body {n}"))));
        assert_eq!(
            (&headers["x-path"], &headers["x-activation"]),
            (&"/echo?x=1".parse().unwrap(), &id.parse().unwrap())
        );
        assert_eq!(end.logs.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(), ["serving /echo?x=1"]);
        assert!(end.reusable);
    }
    let Invoked::Streaming { body, end, .. } =
        instance.invoke(request("POST", "/stream", Bytes::new())).await
    else {
        panic!()
    };
    assert_eq!(Body::Stream(body).collect(100).await.unwrap(), "part 0part 1part 2");
    assert!(end.await.unwrap().reusable);
    let reply = answer(instance.invoke(json(r#"{"a":1}"#)).await);
    assert_eq!(reply.body, r#"{"a":1}"#);
    instance.stop().await;
    let source = || function("python:default", Contract::Http, CodeFormat::Source, SERVER);
    stalls(async || house.start(source()).await).await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_http_server_answers_a_json_call_with_a_result_or_with_what_it_wants() {
    let house = House::new().await;
    let instance = house.start(function("python:default", Contract::Http, CodeFormat::Source, SERVER)).await;
    let invoke = async |asked: &str| {
        let mut call = json(asked);
        call.max_result = ByteSize::kib(100);
        instance.invoke(call).await
    };
    // JSON is waited for, whatever its server takes it for, and is bounded.
    for media_type in ["null", r#""application/json""#, r#""text/html""#] {
        let asked = format!(r#"{{"pieces": ["{{\"a\":", "1}}"], "type": {media_type}}}"#);
        let reply = answer(invoke(&asked).await);
        assert_eq!(
            (content_type(&reply.head), &reply.body[..]),
            ("json", &br#"{"a":1}"#[..]),
            "{media_type}"
        );
    }
    let long = format!(r#"{{"pieces": ["[", "{}]"]}}"#, " ".repeat(200_000));
    let Invoked::Done { result, end } = invoke(&long).await else { panic!("a stream came") };
    let Err(Fault::ResultTooLarge { size, allowed, .. }) = result else { panic!("{result:?}") };
    assert_eq!((size, allowed, end.reusable), (200_002, 100 << 10, true));
    // Anything else streams without such a bound, also what only begins as JSON does.
    for (asked, size) in [
        (r#"{"pieces": ["data: 1\n\n"], "times": 300000, "type": "text/event-stream"}"#, 2_700_000),
        (r#"{"pieces": ["a picture"], "times": 300000, "type": "image/png"}"#, 2_700_000),
        (r#"{"pieces": ["[1", "] and 2 "], "times": 300000}"#, 3_000_000),
    ] {
        let Invoked::Streaming { body, end, .. } = invoke(asked).await else { panic!("no stream: {asked}") };
        let (whole, end) = tokio::join!(Body::Stream(body).collect(1 << 30), end);
        let end = end.unwrap();
        assert_eq!((whole.unwrap().len(), end.fault, end.reusable), (size, None, true), "{asked}");
    }
    // A short one that is there costs no stream.
    let reply = answer(invoke(r#"{"pieces": ["short"], "type": "text/plain"}"#).await);
    assert_eq!((content_type(&reply.head), &reply.body[..]), ("text/plain", &b"short"[..]));
    instance.stop().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_a_signal_ends_is_told_from_others() {
    let house = House::new().await;
    let abort = "#!/bin/sh\nkill -ABRT $$; sleep 60\n";
    for source in [stdio(abort), function("python:default", Contract::Http, CodeFormat::Source, SERVER)] {
        let instance = house.start(source).await;
        let Invoked::Done { result, .. } = instance.invoke(request("POST", "/abort", Bytes::new())).await
        else {
            panic!()
        };
        assert_eq!(result.unwrap_err(), Fault::Exited { end: Some(EndOfProcess::Signal(6)) });
        instance.stop().await;
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_http_server_may_answer_without_its_request() {
    let house = House::new().await;
    let instance = house.start(function("python:default", Contract::Http, CodeFormat::Source, SERVER)).await;
    for _ in 0..2 {
        let (sender, body) = body_channel();
        let feeding =
            tokio::spawn(
                async move { while sender.send(Ok(Bytes::from(vec![0; 1 << 20]))).await.is_ok() {} },
            );
        // Without a length the server takes it for empty.
        let invoked = instance.invoke(request("POST", "/unread", Body::Stream(body))).await;
        let Invoked::Done { result, end } = invoked else { panic!("{invoked:?}") };
        assert_eq!((result.unwrap().body.len(), end.reusable), (0, true));
        let let_go = tokio::time::timeout(std::time::Duration::from_secs(60), feeding).await;
        let_go.expect("nobody is left to wait for").unwrap();
    }
    // A connection with nothing left on it is kept, where the next request comes soon.
    let connection = async || {
        let reply = answer(instance.invoke(request("POST", "/", Bytes::from_static(b"read"))).await);
        let ReplyHead::Http { headers, .. } = reply.head else { panic!() };
        headers["x-connection"].clone()
    };
    let mut before = connection().await;
    while before != connection().await {
        before = connection().await;
    }
    // But not for so long that the server might be about to close it.
    tokio::time::sleep(std::time::Duration::from_millis(1200)).await;
    assert_ne!(connection().await, before);
    let reply = answer(instance.invoke(request("POST", "/cookies", Bytes::new())).await);
    let ReplyHead::Http { headers, .. } = reply.head else { panic!() };
    assert_eq!(headers.get_all("set-cookie").iter().count(), 500);
    instance.stop().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_breaks_off_or_stalls_does_not_end_the_server() {
    let house = House::new().await;
    let instance = house.start(function("python:default", Contract::Http, CodeFormat::Source, SERVER)).await;
    let process = async || {
        let reply = answer(instance.invoke(request("POST", "/", Bytes::new())).await);
        let ReplyHead::Http { headers, .. } = reply.head else { panic!() };
        headers["x-process"].clone()
    };
    let before = process().await;
    for error in [Some(BodyError::Broken("gone".into())), Some(BodyError::TooLarge(5)), None] {
        let (sender, body) = body_channel();
        sender.send(Ok(Bytes::from_static(b"piece"))).await.unwrap();
        let mut call = request("POST", "/upload", Body::Stream(body));
        match error.clone() {
            Some(error) => sender.send(Err(error)).await.unwrap(),
            None => call.deadline = std::time::Instant::now() + std::time::Duration::from_secs(2),
        }
        let Invoked::Done { result, end } = instance.invoke(call).await else { panic!("a stream came") };
        let fault = Fault::Request(error.unwrap_or(BodyError::Late));
        assert_eq!((result.unwrap_err(), end.reusable), (fault, true));
        assert_eq!(process().await, before, "the server serves on");
    }
    instance.stop().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_writes_between_two_calls_is_not_the_second_ones() {
    let house = House::new().await;
    let instance = house.start(function("python:default", Contract::Http, CodeFormat::Source, SERVER)).await;
    let logs = async |path: &str| {
        let Invoked::Done { end, .. } = instance.invoke(request("POST", path, Bytes::new())).await else {
            panic!("a stream came")
        };
        end.logs.into_iter().map(|line| line.text).collect::<Vec<_>>()
    };
    let mut tries = 0;
    for _ in 0..2 {
        loop {
            assert!(logs("/trailing/0.05").await.contains(&"serving /trailing/0.05".to_owned()));
            // Until that has been written, unless the machine is too busy for it: then it is during the second call.
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            let second = logs("/").await;
            if second == ["serving /"] {
                break;
            }
            tries += 1;
            assert!(tries < 10, "{second:?}");
        }
    }
    // A line that follows the answer at once is the call's, unless the machine is too busy for it.
    let mut tries = 0;
    while logs("/trailing/0.001").await != ["serving /trailing/0.001", "trailing"] {
        tries += 1;
        assert!(tries < 100, "it never is");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    instance.stop().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_proxy_is_initialised_and_run() {
    let house = House::new().await;
    let source = function("python:default", Contract::OpenWhisk, CodeFormat::Source, PROXY);
    let instance = house.start(source.clone()).await;
    for n in 0..3 {
        let invoked = instance.invoke(json(&format!(r#"{{"n":{n}}}"#))).await;
        let Invoked::Done { result, end } = invoked else { panic!() };
        let answer: serde_json::Value = serde_json::from_slice(&result.unwrap().body).unwrap();
        assert_eq!((&answer["value"]["n"], &answer["name"]), (&n.into(), &answer["env"]));
        let logs: Vec<_> = end.logs.iter().map(|line| line.text.clone()).collect();
        assert!(logs.len() == 1 && logs[0].starts_with("running "), "{logs:?}");
    }
    let Invoked::Done { result, end } = instance.invoke(json(r#"{"fail":true}"#)).await else { panic!() };
    assert_eq!(result.unwrap_err(), Fault::Developer { message: "asked to fail".into() });
    assert!(!end.reusable);
    let Invoked::Done { result, .. } = instance.invoke(json(r#"{"exit":true}"#)).await else { panic!() };
    assert!(matches!(result.unwrap_err(), Fault::Exited { .. }));
    instance.stop().await;
    let prepared = house.prepare(source).await;
    let mut broken = context();
    broken.environment.push(("BROKEN".into(), "1".into()));
    let failure = house.executor.start(&prepared, broken).await.err().unwrap();
    assert_eq!(failure.fault, Fault::Developer { message: "it is broken".into() });
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_takes_to_come_up_is_not_the_functions_time() {
    let house = House::new().await;
    let start = async |contract, code: &'static str| {
        let source = function("python:default", contract, CodeFormat::Source, code);
        let prepared = house.prepare(source).await;
        let environment = vec![("SLOW".into(), "60".into())];
        let over = StartContext { deadline: std::time::Instant::now(), environment, ..context() };
        match house.executor.start(&prepared, over).await {
            Ok(started) => {
                started.instance.stop().await;
                None
            }
            Err(failure) => Some(failure.fault),
        }
    };
    assert_eq!(start(Contract::Http, SERVER).await, None);
    assert_eq!(start(Contract::Stdio, "pass").await, None);
    // Its initialisation is.
    assert_eq!(start(Contract::OpenWhisk, PROXY).await, Some(Fault::Deadline));
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_speaks_stdio_too() {
    let house = House::new().await;
    let code = "process.stdin.on('data', (data) => process.stdout.write(String(data).toUpperCase()))";
    let instance = house.start(function("nodejs:default", Contract::Stdio, CodeFormat::Source, code)).await;
    assert_eq!(text(instance.invoke(request("POST", "/", Bytes::from_static(b"abc"))).await), "ABC");
    instance.stop().await;
    house.end().await;
}
