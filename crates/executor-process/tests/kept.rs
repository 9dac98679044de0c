//! Contract `stdio` in a sandbox that stays: a process a call, one after the other.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;

use bytes::Bytes;
use flint_executor::{Body, CallEnd, Fault, Instance, Invoked};
use flint_model::{CodeFormat, Contract, Reuse};
use support::{House, answer, call, function, json};

async fn start(house: &House, script: &str) -> Arc<dyn Instance> {
    let mut source = function("native", Contract::Stdio, CodeFormat::Executable, script.to_owned());
    Arc::make_mut(&mut source.function).strategy.reuse = Reuse::Warm;
    house.start(source).await
}

fn done(invoked: Invoked) -> (Result<Bytes, Fault>, CallEnd) {
    match invoked {
        Invoked::Done { result, end } => (result.map(|reply| reply.body), end),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_processes_of_one_sandbox() {
    let house = House::new().await;
    let script = "#!/bin/sh\necho said >&2\nread -r line\necho \"$line\" >> /tmp/lines\nsleep 1000 &\ncat /tmp/lines; ls -d /proc/[0-9]* | wc -l > /tmp/count\n";
    let instance = start(&house, script).await;
    let mut expected = String::new();
    for n in 0..5 {
        expected.push_str(&format!("line {n}\n"));
        let (result, end) = done(instance.invoke(call(Bytes::from(format!("line {n}\n")))).await);
        assert_eq!(result.unwrap(), expected);
        assert_eq!((end.reusable, end.logs.len(), end.logs[0].text.as_str()), (true, 1, "said"));
        assert!(end.usage.memory_peak.is_some());
    }
    instance.stop().await;
    instance.ended().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_fails_leaves_the_sandbox_for_the_next() {
    let house = House::new().await;
    let instance = start(&house, "#!/bin/sh\nread -r word\ncase $word in fail) exit 3;; segv) kill -SEGV $$;; esac\necho '{\"fine\":1}'\n").await;
    for _ in 0..2 {
        let (result, end) = done(instance.invoke(call(Bytes::from_static(b"fail\n"))).await);
        assert_eq!(result, Err(Fault::Developer { message: "the program ended with exit code 3".into() }));
        assert!(end.reusable);
        let (result, end) = done(instance.invoke(call(Bytes::from_static(b"segv\n"))).await);
        assert!(matches!(result, Err(Fault::Exited { .. })) && end.reusable, "{result:?}");
        assert_eq!(answer(instance.invoke(json("fine")).await).body, "{\"fine\":1}\n");
    }
    instance.stop().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_ends_the_sandbox_and_says_so() {
    let house = House::new().await;
    let instance = start(&house, "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 1000; done\n").await;
    let mut late = call(Bytes::from_static(b"x"));
    late.deadline = std::time::Instant::now() + std::time::Duration::from_millis(300);
    let (result, end) = done(instance.invoke(late).await);
    assert_eq!((result, end.reusable), (Err(Fault::Deadline), false));
    instance.ended().await;
    instance.stop().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_executed_is_the_developers_error() {
    let house = House::new().await;
    let instance = start(&house, "#!/no/such/interpreter\n").await;
    let (result, end) = done(instance.invoke(call(Bytes::from_static(b"x"))).await);
    let Err(Fault::Developer { message }) = result else { panic!("{result:?}") };
    assert!(message.contains("cannot be executed") && !end.reusable, "{message}");
    instance.stop().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_answers_stream_and_the_sandbox_serves_on() {
    let house = House::new().await;
    let instance = start(&house, "#!/bin/sh\nexec cat\n").await;
    for _ in 0..2 {
        let invoked = instance.invoke(call(Bytes::from(vec![7; 5 << 20]))).await;
        let Invoked::Streaming { body, end, .. } = invoked else { panic!("{invoked:?}") };
        assert_eq!(Body::Stream(body).collect(1 << 30).await.unwrap().len(), 5 << 20);
        let end = end.await.unwrap();
        assert_eq!((end.fault, end.reusable), (None, true));
    }
    assert_eq!(answer(instance.invoke(json("[1]")).await).body, "[1]");
    instance.stop().await;
    house.end().await;
}

/// Its last words may come with its end or after it: both orders happen in this many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_calls_one_after_the_other() {
    let house = House::new().await;
    let mut source =
        function("native", Contract::Stdio, CodeFormat::Executable, std::fs::read("/bin/cat").unwrap());
    Arc::make_mut(&mut source.function).strategy.reuse = Reuse::Warm;
    let instance = house.start(source).await;
    for n in 0..1000 {
        let text = format!("call {n}");
        let (result, end) = done(instance.invoke(call(Bytes::from(text.clone()))).await);
        assert_eq!((result.unwrap(), end.reusable), (Bytes::from(text), true));
    }
    instance.stop().await;
    house.end().await;
}
