//! Streams of calls that run side by side: what holds up one of them does not hold up, or end, the others.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use flint_executor::{Body, BodyError, Fault, FunctionSource, Instance, Invoked};
use support::{House, handler, json, side_by_side};

/// Functions that stream as fast as they are let, and say how far they have come.
const NODE_STREAMS: &str = r#"
let produced = 0, ended = 0;
const waiting = [];
exports.main = ({ mode, size }) => {
  if (mode === 'produced') return { produced, ended };
  if (mode === 'wait') return new Promise((resolve) => waiting.push(resolve));
  if (mode === 'release') { waiting.splice(0).forEach((go) => go({ released: true })); return {}; }
  return (async function* () {
    try {
      for (let n = 0; mode === 'endless' || n < 100000; n += 1) { produced += 1; yield String(n % 10).repeat(size); }
    } finally { ended += 1; }
  })();
};
"#;

const PYTHON_STREAMS: &str = r#"
import threading
produced = ended = 0
released = threading.Event()
def main(args):
    mode = args.get("mode")
    if mode == "produced":
        return {"produced": produced, "ended": ended}
    if mode == "wait":
        released.wait(120)
        return {"released": True}
    if mode == "release":
        released.set()
        return {}
    def stream():
        global produced, ended
        n = 0
        try:
            while mode == "endless" or n < 100000:
                produced += 1
                yield str(n % 10) * args["size"]
                n += 1
        finally:
            ended += 1
    return stream()
"#;

const JAVA_STREAMS: &str = r#"
import java.util.*;
import java.util.concurrent.*;
public class Streams {
    static volatile int produced, ended;
    static final CountDownLatch RELEASED = new CountDownLatch(1);
    public static Object main(Map<String, Object> args) throws Exception {
        String mode = String.valueOf(args.get("mode"));
        if (mode.equals("produced")) return Map.of("produced", produced, "ended", ended);
        if (mode.equals("wait")) {
            RELEASED.await(120, TimeUnit.SECONDS);
            return Map.of("released", true);
        }
        if (mode.equals("release")) {
            RELEASED.countDown();
            return Map.of();
        }
        int size = (Integer) args.get("size");
        return flint.Response.of(new java.io.InputStream() {
            int n = 0;
            public int read() { throw new UnsupportedOperationException(); }
            public int read(byte[] into, int offset, int length) {
                if (!mode.equals("endless") && n == 100000) return -1;
                produced++;
                int count = Math.min(size, length);
                Arrays.fill(into, offset, offset + count, (byte) ('0' + n++ % 10));
                return count;
            }
            public void close() { ended++; }
        }, "text/plain");
    }
}
"#;

fn streaming() -> [FunctionSource; 3] {
    [
        side_by_side(handler("nodejs:default", NODE_STREAMS), "main"),
        side_by_side(handler("python:default", PYTHON_STREAMS), "main"),
        side_by_side(handler("java:default", JAVA_STREAMS), "Streams#main"),
    ]
}

/// What the function says of itself, when `enough` of it.
async fn progress(instance: &Arc<dyn Instance>, what: &str, enough: u64) {
    loop {
        let said: serde_json::Value =
            serde_json::from_str(&support::text(instance.invoke(json(r#"{"mode":"produced"}"#)).await))
                .unwrap();
        if said[what].as_u64().unwrap() >= enough {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_tiny_pieces_waits_for_its_reader() {
    let house = House::new().await;
    for source in streaming() {
        let instance = house.start(source).await;
        let invoked = instance.invoke(json(r#"{"mode":"tiny","size":5}"#)).await;
        let Invoked::Streaming { mut body, end, .. } = invoked else { panic!("{invoked:?}") };
        // Nobody reads until far more frames have come than a megabyte would have room for by itself.
        progress(&instance, "produced", 60_000).await;
        let mut whole = Vec::new();
        while let Some(piece) = body.recv().await {
            whole.extend_from_slice(&piece.unwrap());
        }
        let expected: String = (0..100_000).map(|n| (n % 10).to_string().repeat(5)).collect();
        assert!(whole == expected.as_bytes(), "{} bytes came", whole.len());
        let end = end.await.unwrap();
        assert!(end.reusable && end.fault.is_none());
        instance.stop().await;
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stalls_ends_its_own_call_only() {
    let house = House::new().await;
    for source in streaming() {
        let instance = house.start(source).await;
        let neighbour = {
            let instance = Arc::clone(&instance);
            tokio::spawn(async move { instance.invoke(json(r#"{"mode":"wait"}"#)).await })
        };
        let endless = async |seconds| {
            let mut call = json(r#"{"mode":"endless","size":60000}"#);
            call.deadline = Instant::now() + Duration::from_secs(seconds);
            instance.invoke(call).await
        };
        // It has to begin by then: where the machine was too busy for that, more time is given.
        let mut invoked = endless(6).await;
        if !matches!(invoked, Invoked::Streaming { .. }) {
            invoked = endless(60).await;
        }
        let Invoked::Streaming { mut body, end, .. } = invoked else { panic!("{invoked:?}") };
        let end = end.await.unwrap();
        assert_eq!((end.fault, end.reusable), (Some(Fault::Deadline), true));
        // Whoever reads on learns that it is not all.
        let mut last = None;
        while let Some(piece) = body.recv().await {
            last = Some(piece);
        }
        assert!(matches!(last, Some(Err(_))), "{last:?}");
        // What the function has open for it is closed, and the others go on.
        progress(&instance, "ended", 1).await;
        assert_eq!(support::text(instance.invoke(json(r#"{"mode":"release"}"#)).await).trim(), "{}");
        let said = support::text(neighbour.await.unwrap());
        assert!(said.contains("true"), "{said}");
        instance.stop().await;
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_does_not_finish_its_request_ends_its_own_call_only() {
    let house = House::new().await;
    for source in streaming() {
        let instance = house.start(source).await;
        let (sender, body) = flint_executor::body_channel();
        sender.send(Ok(Bytes::from_static(b"{\"mode\":"))).await.unwrap();
        let mut call = support::call(Body::Stream(body));
        call.deadline = Instant::now() + Duration::from_secs(6);
        let Invoked::Done { result, end } = instance.invoke(call).await else { panic!() };
        assert_eq!((result.unwrap_err(), end.reusable), (Fault::Request(BodyError::Late), true));
        progress(&instance, "produced", 0).await;
        drop(sender);
        // The same for one that goes away.
        let (sender, body) = flint_executor::body_channel();
        sender.send(Err(BodyError::Broken("gone".into()))).await.unwrap();
        let Invoked::Done { result, end } = instance.invoke(support::call(Body::Stream(body))).await else {
            panic!()
        };
        let gone = Fault::Request(BodyError::Broken("gone".into()));
        assert_eq!((result.unwrap_err(), end.reusable), (gone, true));
        progress(&instance, "produced", 0).await;
        instance.stop().await;
    }
    house.end().await;
}
