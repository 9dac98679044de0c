//! Contract `handler`, end to end.

mod support;

use std::time::{Duration, Instant};

use flint_executor::{Body, Executor, Fault, Invoked, ReplyHead, StartContext};
use support::{House, context, handler, json, text};

const HELLO_NODE: &str =
    "function main({ name = 'stranger' }) { console.log('hi'); return { greeting: `Hello ${name}` } }";
const HELLO_PYTHON: &str = "def main(params):\n    print('hi')\n    return {'greeting': 'Hello ' + params.get('name', 'stranger')}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_and_python_answer() {
    let house = House::new().await;
    for (kind, code) in [("nodejs:default", HELLO_NODE), ("python:default", HELLO_PYTHON)] {
        let instance = house.start(handler(kind, code)).await;
        for name in ["Ada", "Grace"] {
            let answer = text(instance.invoke(json(&format!(r#"{{"name":"{name}"}}"#))).await);
            assert_eq!(answer.replace(' ', ""), format!(r#"{{"greeting":"Hello{name}"}}"#));
        }
        instance.stop().await;
    }
    house.end().await;
}

/// As far as the kernel answers in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_call_of_a_process_is_reported_with_what_it_used() {
    let house = House::new().await;
    let prepared = house.prepare(handler("nodejs:default", HELLO_NODE)).await;
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        let started = house.executor.start(&prepared, context()).await;
        let instance = started.unwrap_or_else(|failure| panic!("{failure}")).instance;
        let Invoked::Done { end, .. } = instance.invoke(json("{}")).await else { panic!("it streams") };
        instance.stop().await;
        if end.usage.cpu_us.is_some() && end.usage.memory_peak.is_some() {
            return house.end().await;
        }
    }
    panic!("none was");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_runtime_takes_to_come_up_is_not_the_functions_time() {
    let house = House::new().await;
    let prepared = house.prepare(handler("nodejs:default", HELLO_NODE)).await;
    let mut up = Duration::MAX;
    for _ in 0..5 {
        let started = house.executor.start(&prepared, context()).await;
        let started = started.unwrap_or_else(|failure| panic!("{failure}"));
        up = up.min(started.started);
        started.instance.stop().await;
    }
    // Half of that is enough for loading, unless the machine is busy.
    for _ in 0..15 {
        let brief = StartContext { deadline: Instant::now() + up / 2, ..context() };
        if let Ok(started) = house.executor.start(&prepared, brief).await {
            started.instance.stop().await;
            return house.end().await;
        }
    }
    panic!("it never came up in time");
}

const GARBAGE: &str = "import os
def main(params):
    for fd in range(3, 64):
        try: os.write(fd, b'\\xff' * 65536)
        except OSError: pass
    return {}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_on_the_link_is_the_functions_fault() {
    let house = House::new().await;
    let instance = house.start(handler("python:default", GARBAGE)).await;
    let Invoked::Done { result, end } = instance.invoke(json("{}")).await else { panic!("it streams") };
    assert_eq!(result.unwrap_err(), Fault::Exited { end: None });
    assert!(!end.reusable);
    instance.stop().await;
    house.end().await;
}

const HEADERS: &str = "async function main({ count, length }) {
    const headers = new Headers();
    for (let n = 0; n < count; n += 1) headers.append(`x-${n}`, 'y'.repeat(length));
    return new Response('hi', { headers });
}";

/// The head of an answer is one part of one frame; the second is longer than any frame.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_headers_than_an_answer_may_have_are_the_functions_fault() {
    let house = House::new().await;
    let ask = |count: usize, length: usize| json(&format!(r#"{{"count":{count},"length":{length}}}"#));
    for length in [300 << 10, 2 << 20] {
        let instance = house.start(handler("nodejs:default", HEADERS)).await;
        let invoked = instance.invoke(ask(200, 1000)).await;
        let Invoked::Streaming { head: ReplyHead::Http { headers, .. }, body, end } = invoked else {
            panic!("{invoked:?}")
        };
        assert!(headers.contains_key("x-0") && headers.contains_key("x-199"), "{headers:?}");
        assert_eq!(Body::Stream(body).collect(100).await.unwrap(), "hi");
        assert!(end.await.unwrap().reusable);
        let Invoked::Done { result, end } = instance.invoke(ask(1, length)).await else {
            panic!("it streams")
        };
        let Err(Fault::Developer { message }) = result else { panic!("{length}: {result:?}") };
        assert!(
            message.contains("head of the answer is too large") && message.contains("262144"),
            "{message}"
        );
        assert!(!end.reusable);
        instance.stop().await;
    }
    house.end().await;
}

/// Sends a long answer in single bytes, and looks at what it is told of that when it has sent them all.
const DOES_NOT_LISTEN: &str = "import os, struct
def frame(kind, payload): return struct.pack('>IBBHI', len(payload), kind, 0, 0, 1) + payload
def put(data):
    data = memoryview(data)
    while data: data = data[os.write(3, data):]
def take(length):
    data = b''
    while len(data) < length: data += os.read(3, length - len(data))
    return data
def main(params):
    put(frame(11, bytes(4)))
    put(frame(9, b' ') * 50000)
    told = taken = 0
    while taken < 50000:
        length, kind = struct.unpack('>IBBHI', take(12))[:2]
        assert (length, kind) == (4, 7)
        taken += int.from_bytes(take(4), 'big')
        told += 1
    put(frame(9, b'[%d, %d]' % (told, taken)) + frame(10, b''))
    return {}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_listen_is_told_the_sum_in_the_end() {
    let house = House::new().await;
    let instance = house.start(handler("python:default", DOES_NOT_LISTEN)).await;
    let answer = text(instance.invoke(json("{}")).await);
    let [told, taken]: [u32; 2] = serde_json::from_str(&answer).unwrap();
    // What the socket holds, each by itself; one for each byte would be kept by whoever sends them.
    assert!(taken == 50_000 && told < 10_000, "{told} times");
    instance.stop().await;
    house.end().await;
}

const WHERE: &str = "import os, sys, json, ssl
def main(params):
    root = os.listdir('/root') if os.path.isdir('/root') else []
    return {'root': root, 'home': 'root' in sys.prefix or 'root' in sys.executable, 'std': json.__file__.startswith(sys.prefix)}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_path_of_the_host_is_seen() {
    let house = House::new().await;
    let instance = house.start(handler("python:default", WHERE)).await;
    let answer = text(instance.invoke(json("{}")).await).replace(' ', "");
    assert_eq!(answer, r#"{"root":[],"home":false,"std":true}"#);
    instance.stop().await;
    house.end().await;
}
