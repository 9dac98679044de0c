//! Functions that cannot be frozen, or not be warmed up: they run all the same, and the reason is said in words.

mod support;

use std::time::Duration;

use flint_executor::{Executor, Fault, PrepareError};
use flint_model::{ByteSize, Reuse, Start};
use serde_json::json;
use support::{House, adjusted, context, handler, warmed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_the_way_is_said_and_noted() {
    let mut house = House::new().await;
    let cases = [
        ("nodejs:default", "setInterval(() => {}, 1000); exports.main = () => ({});", "timer"),
        ("nodejs:default", "require('net').createServer().listen(0); exports.main = () => ({});", "server"),
        (
            "python:default",
            "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), name='poller', daemon=True).start()\ndef main(params): return {}\n",
            "poller",
        ),
        ("python:default", "import socket\nkept = socket.socket()\ndef main(params): return {}\n", "socket"),
    ];
    for (kind, code, reason) in cases {
        let prepared = house.prepare(handler(kind, code)).await;
        let why = prepared.fallback.clone().unwrap_or_default();
        assert!(why.to_lowercase().contains(reason), "{code}: {why}");
        assert_eq!((prepared.strategy.start, prepared.strategy.reuse), (Start::Spawn, Reuse::Warm));
        assert_eq!(house.answer_of(&prepared, "{}").await, json!({}));
    }
    let counts = house.counts();
    assert_eq!((counts.fresh, counts.forked, counts.zygotes), (4, 0, 0));
    house.restart(Default::default()).await;
    for (kind, code, reason) in cases {
        let prepared = house.prepare(handler(kind, code)).await;
        assert!(prepared.fallback.as_deref().unwrap_or_default().to_lowercase().contains(reason), "{code}");
        assert_eq!(prepared.took, Duration::ZERO, "it is not tried again");
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_up_that_breaks_leaves_a_snapshot_without_warm_up() {
    let house = House::new().await;
    let node = "exports.main = ({ way }) => {\n  if (way === 'hang') for (;;);\n  if (way === 'exit') process.exit(3);\n\
        \x20 if (way === 'memory') { const kept = []; for (;;) kept.push(Buffer.alloc(1 << 20, 1)); }\n  return {};\n};";
    let python = "import os\ndef main(params):\n    way = params.get('way')\n    while way == 'hang': pass\n    if way == 'exit': os._exit(3)\n\
        \x20   kept = []\n    while way == 'memory': kept.append(bytearray(1 << 20))\n    return {}\n";
    for (kind, code) in [("nodejs:default", node), ("python:default", python)] {
        for (way, said) in [("hang", "time limit"), ("exit", "ended"), ("memory", "memory")] {
            // Only what hangs is to meet its time limit, and by hanging: where a busy machine took the time before, it gets more.
            let limits: &[u64] = if way == "hang" { &[5, 60] } else { &[60] };
            for (tries, seconds) in limits.iter().enumerate() {
                // Other code, so that it is prepared anew.
                let code = format!("{code}{}", "\n".repeat(tries));
                let source = warmed(handler(kind, &code), &["{}", &json!({ "way": way }).to_string()]);
                let source = adjusted(source, |function| {
                    function.limits.timeout = Duration::from_secs(*seconds);
                    function.limits.memory = ByteSize::mib(128);
                });
                let prepared = house.prepare(source).await;
                let first = prepared.snapshot.as_ref().and_then(|snapshot| snapshot.notes.first()).cloned();
                let is_noted = first.as_ref().is_some_and(|note| {
                    note.starts_with("not warmed up: warm-up event 2") && note.contains(said)
                });
                if !is_noted && tries + 1 < limits.len() {
                    continue;
                }
                assert_eq!(prepared.fallback, None, "{kind} {way}");
                assert!(is_noted, "{kind} {way}: {first:?}");
                assert_eq!(house.answer_of(&prepared, "{}").await, json!({}));
                break;
            }
        }
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_up_call_that_fails_in_good_order_is_noted() {
    let house = House::new().await;
    for (kind, code) in [
        ("nodejs:default", "exports.main = ({ no }) => { if (no) throw new Error('asked to'); return {}; };"),
        (
            "python:default",
            "def main(params):\n    if params.get('no'): raise ValueError('asked to')\n    return {}\n",
        ),
    ] {
        let prepared = house.prepare(warmed(handler(kind, code), &["{}", r#"{"no": true}"#])).await;
        assert_eq!(prepared.fallback, None);
        let report = prepared.snapshot.as_ref().unwrap();
        let said = report.notes.iter().filter(|note| note.contains("asked to")).count();
        assert_eq!(said, 1, "{kind}: {:?}", report.notes);
        assert_eq!(house.answer_of(&prepared, "{}").await, json!({}));
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_breaks_is_said_at_the_start_and_tried_again() {
    let mut house = House::new().await;
    let exits = || handler("nodejs:default", "process.exit(4);");
    for _ in 0..2 {
        let prepared = house.prepare(exits()).await;
        let why = prepared.fallback.clone().unwrap_or_default();
        assert!(why.contains("did not come to be frozen") && prepared.took > Duration::ZERO, "{why}");
        let failure = house.executor.start(&prepared, context()).await.err().unwrap();
        assert!(
            matches!(failure.fault, Fault::Exited { end: Some(flint_executor::EndOfProcess::Code(4)) }),
            "{failure:?}"
        );
        drop(prepared);
        house.restart(Default::default()).await;
    }
    let broken =
        house.executor.prepare(handler("nodejs:default", "throw new Error('no luck');"), &|_| {}).await;
    assert!(matches!(&broken, Err(PrepareError::Code(text)) if text.contains("no luck")), "{broken:?}");
    house.end().await;
}
