//! Contract `wasi-http`: the same for components of WASI 0.2 and of 0.3, where that is switched on.

mod support;

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use flint_executor::{
    Body, BodyError, Call, CallHead, Executor, Fault, Instance, Invoked, ReplyHead, body_channel,
};
use flint_executor_wasm::WasmConfig;
use flint_model::Contract;
use http::{HeaderMap, Method, StatusCode};
use serde_json::json;
use support::{AMPLE, House, SHORT, done, json_call, wat};

const HTTP: &str = include_str!("modules/http.wat");
/// What is said of a handler that ends without a word, in 0.2 and in 0.3.
const NO_ANSWER: [&str; 2] = ["without a response", "failed to produce a result"];
const HTTP_0_3: &str = include_str!("modules/http_0_3.wat");

/// The same handler for both.
async fn both() -> [(House, Arc<dyn Instance>); 2] {
    let older = House::new();
    let newer = House::with(WasmConfig { http_0_3: true, ..WasmConfig::default() });
    let instance = older.start(Contract::WasiHttp, &wat(HTTP)).await;
    let newer_instance = newer.start(Contract::WasiHttp, &wat(HTTP_0_3)).await;
    [(older, instance), (newer, newer_instance)]
}

fn request(path: &str, body: Body, limit: std::time::Duration) -> Call {
    let head = CallHead {
        method: Method::POST,
        path: path.to_owned(),
        query: "a=b".to_owned(),
        headers: HeaderMap::new(),
    };
    Call { head: Some(Box::new(head)), body, ..json_call("", limit) }
}

fn empty() -> Body {
    Body::Full(Bytes::new())
}

/// A call whose answer has begun and that may meet its deadline then; with more time where the machine was too busy for so little.
async fn begun_before_its_deadline(instance: &Arc<dyn Instance>, path: &str) -> Invoked {
    let invoked = instance.invoke(request(path, empty(), SHORT)).await;
    match invoked {
        Invoked::Streaming { .. } => invoked,
        Invoked::Done { .. } => instance.invoke(request(path, empty(), 30 * SHORT)).await,
    }
}

#[tokio::test]
async fn a_json_call_is_answered_with_json_and_a_request_with_a_response() {
    for (house, instance) in both().await {
        let json = done(instance.invoke(json_call("{}", AMPLE)).await);
        assert_eq!(json.json(), json!({ "hello": "wasm" }));
        assert!(matches!(json.result.as_ref().unwrap().head, ReplyHead::Json));
        let response = done(instance.invoke(request("/hello", empty(), AMPLE)).await);
        let reply = response.result.unwrap();
        assert!(matches!(reply.head, ReplyHead::Http { status: StatusCode::OK, .. }), "{:?}", reply.head);
        assert_eq!(&reply.body[..], b"{\"hello\":\"wasm\"}");
        assert_eq!(house.executor.live(), 0);
    }
}

#[tokio::test]
async fn bodies_stream_both_ways() {
    const PIECE: usize = 64 << 10;
    const PIECES: usize = 100;
    for (house, instance) in both().await {
        let (sender, body) = body_channel();
        let feeding = tokio::spawn(async move {
            for n in 0..PIECES {
                sender.send(Ok(Bytes::from(vec![n as u8; PIECE]))).await.expect("the body is taken");
            }
        });
        let invoked = instance.invoke(request("/echo", Body::Stream(body), AMPLE)).await;
        let Invoked::Streaming { mut body, end, head } = invoked else { panic!("no stream: {invoked:?}") };
        assert!(matches!(head, ReplyHead::Http { status: StatusCode::OK, .. }));
        let mut length = 0;
        while let Some(piece) = body.recv().await {
            let piece = piece.expect("it goes well");
            assert_eq!(usize::from(piece[0]), length / PIECE);
            length += piece.len();
        }
        assert_eq!(length, PIECE * PIECES);
        feeding.await.unwrap();
        assert_eq!(end.await.unwrap().fault, None);
        assert_eq!(house.executor.live(), 0);
    }
}

#[tokio::test]
async fn a_caller_that_goes_away_ends_the_instance() {
    for (house, instance) in both().await {
        // One that computes, one that waits, one that writes.
        for path in ["/while", "/pause", "/stream"] {
            let invoked = instance.invoke(request(path, empty(), AMPLE)).await;
            let Invoked::Streaming { body, end, .. } = invoked else { panic!("no stream: {invoked:?}") };
            assert_eq!(house.executor.live(), 1, "{path}");
            drop(body);
            end.await.expect("the call's end");
            house.until_no_guest().await;
        }
    }
}

#[tokio::test]
async fn a_caller_that_takes_nothing_holds_the_instance_until_its_deadline_only() {
    for (_house, instance) in both().await {
        for path in ["/stream", "/pause", "/while"] {
            let invoked = begun_before_its_deadline(&instance, path).await;
            let Invoked::Streaming { body, end, .. } = invoked else { panic!("no stream: {invoked:?}") };
            assert_eq!(end.await.unwrap().fault, Some(Fault::Deadline), "{path}");
            drop(body);
        }
    }
}

/// What comes after a whole answer is in the call's record; the answer has its end by then.
#[tokio::test]
async fn an_answer_ends_with_its_body_and_not_with_its_guest() {
    let house = House::new();
    let instance = house.start(Contract::WasiHttp, &wat(HTTP)).await;
    for path in ["/finish", "/go"] {
        let began = Instant::now();
        let invoked = begun_before_its_deadline(&instance, path).await;
        let Invoked::Streaming { mut body, mut end, .. } = invoked else { panic!("no stream: {invoked:?}") };
        let mut whole = Vec::new();
        while let Some(piece) = body.recv().await {
            whole.extend_from_slice(&piece.expect("nothing is broken"));
        }
        assert_eq!(whole, b"{\"hello\":\"wasm\"}", "{path}");
        let early = end.try_recv().ok();
        if path == "/finish" {
            let goes_on = early.is_none() && house.executor.live() == 1;
            assert!(goes_on || began.elapsed() >= SHORT, "its guest goes on until its deadline");
        }
        let fault = match early {
            Some(end) => end.fault,
            None => end.await.unwrap().fault,
        };
        match path {
            "/finish" => assert_eq!(fault, Some(Fault::Deadline)),
            _ => assert!(
                matches!(&fault, Some(Fault::Developer { message }) if message.contains("broken_handler")),
                "{fault:?}"
            ),
        }
        house.until_no_guest().await;
    }
}

#[tokio::test]
async fn an_informational_status_is_no_answer() {
    let house = House::new();
    let instance = house.start(Contract::WasiHttp, &wat(HTTP)).await;
    let streamed = done(instance.invoke(request("/informational", empty(), AMPLE)).await);
    let always = HTTP.replace("(i32.eq (local.get $op) (i32.const 0x69))", "(i32.const 1)");
    let instance = house.start(Contract::WasiHttp, &wat(&always)).await;
    let whole = done(instance.invoke(json_call("{}", AMPLE)).await);
    for answered in [streamed, whole] {
        let text = "101 is not an HTTP status of an answer".to_owned();
        assert_eq!(answered.fault(), &Fault::InvalidAnswer { text });
    }
    assert_eq!(house.executor.live(), 0);
}

#[tokio::test]
async fn what_goes_wrong_is_told() {
    for (_house, instance) in both().await {
        let trap = done(instance.invoke(request("/trap", empty(), AMPLE)).await);
        assert!(
            trap.told().contains("broken_handler") && trap.told().contains("handle_request"),
            "{}",
            trap.told()
        );
        let none = done(instance.invoke(request("/none", empty(), AMPLE)).await);
        assert!(NO_ANSWER.iter().any(|text| none.told().contains(text)), "{}", none.told());
        let broken = done(instance.invoke(request("/broken", empty(), AMPLE)).await);
        assert!(broken.told().contains("broken_handler"), "half of an answer is none: {}", broken.told());
        let (sender, body) = body_channel();
        sender.send(Err(BodyError::Broken("gone".into()))).await.unwrap();
        // The function decides what that means; this one ends its answer.
        match instance.invoke(request("/echo", Body::Stream(body), AMPLE)).await {
            Invoked::Done { result, .. } => assert!(result.is_ok(), "{result:?}"),
            // It waited for the body after it had begun to answer.
            Invoked::Streaming { mut body, end, .. } => {
                while body.recv().await.is_some() {}
                assert_eq!(end.await.unwrap().fault, None);
            }
        }
    }
}

#[tokio::test]
async fn what_only_0_3_can_do_and_its_limits() {
    let [_, (house, instance)] = both().await;
    let denied = done(instance.invoke(request("/denied", empty(), AMPLE)).await);
    assert!(denied.told().contains("HttpRequestDenied"), "{}", denied.told());
    let starved = done(instance.invoke(request("/memory", empty(), AMPLE)).await);
    assert_eq!(starved.fault(), &Fault::OutOfMemory);
    assert!(starved.end.usage.memory_peak.is_some());
    assert_eq!(house.executor.live(), 0);
}

#[tokio::test]
async fn components_for_0_3_are_refused_while_it_is_off() {
    let house = House::new();
    let told = house.refused(Contract::WasiHttp, &wat(HTTP_0_3)).await;
    assert!(told.contains("wasm.http_0_3 = true") && told.contains("no security patches"), "{told}");
    // Where it is on, code for 0.2 is what it was.
    let on = House::with(WasmConfig { http_0_3: true, ..WasmConfig::default() });
    let instance = on.start(Contract::WasiHttp, &wat(HTTP)).await;
    assert_eq!(done(instance.invoke(json_call("{}", AMPLE)).await).json(), json!({ "hello": "wasm" }));
}

/// Large enough that it is divided between the processors, where there are several.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_divided_pool_is_filled_whole_and_waited_for_as_one() {
    let house = House::with(WasmConfig { instances: Some(128), ..WasmConfig::default() });
    let instance = house.start(Contract::WasiHttp, &wat(HTTP)).await;
    let other = house.start_elsewhere(Contract::WasiHttp, &wat(HTTP)).await;
    let slots = || house.executor.slots().unwrap();
    let hold =
        async |instance: &Arc<dyn Instance>| match instance.invoke(request("/pause", empty(), AMPLE)).await {
            Invoked::Streaming { body, end, .. } => (body, end),
            Invoked::Done { result, .. } => panic!("it did not wait: {result:?}"),
        };
    // One namespace alone cannot.
    let mut held = Vec::new();
    while held.len() as u64 <= slots().total / 2 {
        held.push(hold(&instance).await);
    }
    while (held.len() as u64) < slots().total {
        held.push(hold(&other).await);
    }
    assert_eq!((slots().live, slots().in_use, slots().waited), (slots().total, slots().total, 0));

    let refused = done(instance.invoke(json_call("{}", SHORT)).await);
    let Fault::Platform { cause } = refused.fault() else { panic!("{:?}", refused.fault()) };
    assert!(cause.contains(&format!("all {} Wasm instances", slots().total)), "{cause}");

    // Wherever a place comes free.
    for at in [0, held.len() - 1] {
        let (before, waiting) = (slots().waited, Arc::clone(&instance));
        let waiting = tokio::spawn(async move { done(waiting.invoke(json_call("{}", AMPLE)).await) });
        until(|| slots().waited == before + 1).await;
        drop(held.remove(at));
        assert_eq!(waiting.await.unwrap().json(), json!({ "hello": "wasm" }));
        held.insert(at, hold(&instance).await);
    }
    drop(held);
    until(|| slots().live == 0 && slots().in_use == 0).await;
}

async fn until(is_so: impl Fn() -> bool) {
    let patience = std::time::Instant::now() + AMPLE;
    while !is_so() {
        assert!(std::time::Instant::now() < patience, "it does not come to that");
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}
