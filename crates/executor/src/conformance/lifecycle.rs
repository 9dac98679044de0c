//! An instance's life between its calls.

use std::time::{Duration, Instant};

use flint_model::ByteSize;
use serde_json::json;

use super::{
    Subject,
    subject::{AMPLE, PATIENCE, context, done, request},
};
use crate::{Fault, PrewarmTarget};

/// An instance is paused and resumed, and serves as before.
pub async fn a_paused_instance_serves_again(subject: &Subject) {
    let instance = subject.start().await;
    for n in 0..3 {
        instance.pause().await;
        instance.resume().await;
        let answer = subject.call(&instance, "state", json!({})).await.json();
        assert_eq!(answer["calls"], n);
    }
    instance.pause().await;
    instance.stop().await;
    instance.ended().await;
}

/// With concurrency 1, a second call at the same time is refused rather than mixed up with the first.
pub async fn an_instance_serves_one_call_at_a_time(subject: &Subject) {
    let instance = subject.start().await;
    let calls = (0..4).map(|n| {
        let instance = std::sync::Arc::clone(&instance);
        tokio::spawn(
            async move { (n, done(instance.invoke(request("echo", json!({ "text": n }), AMPLE)).await)) },
        )
    });
    for call in calls.collect::<Vec<_>>() {
        let (n, done) = call.await.expect("no panic");
        match &done.result {
            Ok(_) => assert_eq!(done.json(), json!({ "text": n })),
            Err(fault) => assert!(matches!(fault, Fault::Platform { .. }), "{fault:?}"),
        }
    }
    instance.stop().await;
}

/// `ended` resolves when the instance is stopped, and a call after that fails at once.
pub async fn an_ended_instance_says_so(subject: &Subject) {
    let instance = subject.start().await;
    assert!(instance.memory().await.is_none_or(|memory| memory > ByteSize::kib(64)));
    instance.stop().await;
    instance.ended().await;
    instance.stop().await;
    let done = subject.call(&instance, "echo", json!({ "text": 1 })).await;
    assert!(done.result.is_err() && !done.end.reusable);
}

/// A second `prepare` finds the result of the first.
pub async fn preparing_twice_is_a_no_op(subject: &Subject) {
    let first = subject.executor.prepare(subject.laboratory(), &|_| {}).await.expect("it can be prepared");
    let again = subject.executor.prepare(subject.laboratory(), &|_| {}).await.expect("it can be prepared");
    assert_eq!(again.took, Duration::ZERO);
    assert_eq!(first.steps, again.steps);
    // A collection leaves artefacts in use alone, whether they are wanted or not.
    subject.executor.collect(&[]).await;
    let instance = subject.executor.start(&again, context(AMPLE)).await.map(|started| started.instance);
    instance.expect("it starts").stop().await;
    drop((first, again));
    // The instance's artefacts may be released a moment after its end.
    let deadline = Instant::now() + PATIENCE;
    loop {
        subject.executor.collect(&[]).await;
        let anew = subject.executor.prepare(subject.laboratory(), &|_| {}).await.expect("it can be prepared");
        if anew.took > Duration::ZERO {
            break;
        }
        drop(anew);
        assert!(Instant::now() < deadline, "what nobody uses is not collected");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A prewarmed runtime makes a start faster, and is as good as a fresh one.
pub async fn prewarmed_runtimes_are_taken(subject: &Subject) {
    let source = subject.laboratory();
    let target =
        PrewarmTarget { kind: subject.kind.clone(), memory: source.function.limits.memory, count: 2 };
    let prepared = subject.executor.prepare(source, &|_| {}).await.expect("it can be prepared");
    subject.executor.prewarm(&[target]).await;
    let (mut taken, deadline) = (false, Instant::now() + PATIENCE);
    while Instant::now() < deadline {
        let started = subject.executor.start(&prepared, context(AMPLE)).await.expect("it starts");
        let answer = subject.call(&started.instance, "state", json!({})).await.json();
        assert_eq!(answer, json!({ "calls": 0, "tmp": false, "env": "", "greeting": "hé" }));
        started.instance.stop().await;
        // An executor that starts from snapshots does not need prewarmed runtimes.
        taken = started.started == Duration::ZERO || started.restored.is_some();
        if taken {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(taken, "no prewarmed runtime was ever taken");
    subject.executor.prewarm(&[]).await;
    subject.executor.shutdown().await;
    assert_eq!(subject.executor.prewarmed_memory().await.all, ByteSize::bytes(0));
}
