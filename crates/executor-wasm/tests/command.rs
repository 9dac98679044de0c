//! Contract `wasi-command`, of core modules.

mod support;

use bytes::Bytes;
use flint_executor::{Body, BodyError, CallHead, Fault, Invoked, ReplyHead, body_channel};
use flint_model::{ByteSize, Contract};
use http::{HeaderMap, Method};
use serde_json::json;
use support::{AMPLE, House, done, json_call, wat};

const COMMAND: &str = include_str!("modules/command.wat");

fn head() -> Option<Box<CallHead>> {
    let (path, query) = ("/".to_owned(), String::new());
    Some(Box::new(CallHead { method: Method::POST, path, query, headers: HeaderMap::new() }))
}

#[tokio::test]
async fn stdin_is_the_body_and_stdout_the_answer() {
    let house = House::new();
    let instance = house.start(Contract::WasiCommand, &wat(COMMAND)).await;
    let answer = done(instance.invoke(json_call(r#"{"a":1}"#, AMPLE)).await);
    assert_eq!(answer.json(), json!({ "a": 1 }));
    let mut raw = json_call("copy this", AMPLE);
    raw.head = head();
    assert_eq!(&done(instance.invoke(raw).await).result.unwrap().body[..], b"copy this");
}

#[tokio::test]
async fn a_failure_is_told_with_its_last_words() {
    let house = House::new();
    let instance = house.start(Contract::WasiCommand, &wat(COMMAND)).await;
    let failed = done(instance.invoke(json_call("x", AMPLE)).await);
    assert_eq!(failed.told(), "the program ended with exit code 7: it cannot go on");
    assert_eq!(failed.lines(), ["Stderr it cannot go on"]);
}

#[tokio::test]
async fn it_has_random_numbers_of_its_own_and_no_files() {
    let house = House::new();
    let instance = house.start(Contract::WasiCommand, &wat(COMMAND)).await;
    let drawn = async || done(instance.invoke(json_call("r", AMPLE)).await).result.unwrap().body;
    let (one, two) = (drawn().await, drawn().await);
    assert!(one.len() == 16 && one != two, "{one:?} {two:?}");
    let opened = done(instance.invoke(json_call("h", AMPLE)).await);
    assert_eq!(&opened.result.unwrap().body[..], b"1", "a file of the host was opened");
}

#[tokio::test]
async fn long_input_and_output_stream() {
    let house = House::new();
    let instance = house.start(Contract::WasiCommand, &wat(COMMAND)).await;
    let invoked = instance.invoke(json_call("s", AMPLE)).await;
    let Invoked::Streaming { mut body, end, .. } = invoked else { panic!("no stream: {invoked:?}") };
    let mut length = 0;
    while let Some(piece) = body.recv().await {
        let piece = piece.unwrap();
        assert_eq!(usize::from(piece[0]), length / 65536);
        length += piece.len();
    }
    assert_eq!(length, 4 << 20);
    assert_eq!(end.await.unwrap().fault, None);

    let (sender, body) = body_channel();
    let feeding = tokio::spawn(async move {
        sender.send(Ok(Bytes::from_static(b"copy"))).await.expect("taken");
        for _ in 0..64 {
            sender.send(Ok(Bytes::from(vec![b'.'; 65536]))).await.expect("taken");
        }
    });
    let mut copy = json_call("", AMPLE);
    (copy.body, copy.head) = (Body::Stream(body), head());
    let Invoked::Streaming { mut body, end, .. } = instance.invoke(copy).await else { panic!("no stream") };
    let mut length = 0;
    while let Some(piece) = body.recv().await {
        length += piece.unwrap().len();
    }
    assert_eq!(length, 4 + (4 << 20));
    assert_eq!(end.await.unwrap().fault, None);
    feeding.await.unwrap();
}

#[tokio::test]
async fn json_is_bounded_by_the_results_limit_and_nothing_else_is() {
    const LENGTH: usize = 3_000_000;
    let house = House::new();
    let instance = house.start(Contract::WasiCommand, &wat(COMMAND)).await;
    let echo = async |beginning: &str, max_result| {
        // It begins with what has it answer with its input.
        let mut call = json_call(format!("{beginning}{}}}", " ".repeat(LENGTH - beginning.len() - 1)), AMPLE);
        call.max_result = max_result;
        instance.invoke(call).await
    };
    let answered = done(echo("{", ByteSize::mib(10)).await);
    let reply = answered.result.unwrap();
    assert!(matches!(reply.head, ReplyHead::Json) && reply.body.len() == LENGTH, "{:?}", reply.head);
    for most in [ByteSize::kib(100), ByteSize::mib(2)] {
        let refused = done(echo("{", most).await);
        let Fault::ResultTooLarge { size, allowed, beginning } = refused.fault() else {
            panic!("{refused:?}")
        };
        assert_eq!((*size, *allowed, beginning.len() as u64), (LENGTH as u64, most.as_u64(), most.as_u64()));
    }
    let Invoked::Streaming { body, end, .. } = echo("{INFO}", ByteSize::kib(100)).await else {
        panic!("no stream")
    };
    let (whole, end) = tokio::join!(Body::Stream(body).collect(1 << 30), end);
    assert_eq!((whole.unwrap().len(), end.unwrap().fault), (LENGTH, None));
    assert_eq!(house.executor.live(), 0);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_the_callers_fault() {
    let house = House::new();
    let instance = house.start(Contract::WasiCommand, &wat(COMMAND)).await;
    let (sender, body) = body_channel();
    sender.send(Err(BodyError::Broken("the client went away".into()))).await.unwrap();
    let mut broken = json_call("", AMPLE);
    broken.body = Body::Stream(body);
    let broken = done(instance.invoke(broken).await);
    assert_eq!(broken.fault(), &Fault::Request(BodyError::Broken("the client went away".into())));
}
