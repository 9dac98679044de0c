//! Calls that run side by side in one instance: each has its answer and its own log.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    num::NonZeroU32,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use flint_executor::{CallEnd, Executor, Fault, FunctionSource, Instance, Invoked, ReplyHead};
use flint_model::{Contract, LogStream};
use support::{House, handler, json, side_by_side};

const CALLS: u32 = support::AT_ONCE;
const LINES: usize = 40;

/// Every call waits until all are there: it can only end when they run at once.
const NODE: &str = r#"
const here = [];
let at = 0;
const everybody = (count) => new Promise((resolve) => {
  at += 1;
  here.push(resolve);
  if (at === count) { here.splice(0).forEach((go) => go()); at = 0; }
});
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
exports.main = async ({ n, calls, lines, mode }) => {
  if (mode === 'throw') throw new Error(`no luck ${n}`);
  if (mode === 'exit') process.exit(3);
  if (mode === 'hang') return new Promise(() => {});
  await everybody(calls);
  for (let line = 0; line < lines; line += 1) {
    if (line % 3 === 0) await sleep(0);
    if (line % 3 === 1) await new Promise((resolve) => setImmediate(resolve));
    process.stdout.write(`${n} `);
    await null;
    console.log(`out ${line}`);
    console.error(`${n} err ${line}`);
  }
  process.stdout.write(`${n} unfinished`);
  return { n };
};
exports.sync = ({ mode }) => { if (mode === 'throw') throw new Error('thrown'); console.log('fine'); return {}; };
exports.stream = async function* ({ n, calls }) {
  await everybody(calls);
  for (let piece = 0; piece < 20; piece += 1) {
    console.log(`${n} piece ${piece}`);
    yield `${n}`.repeat(50000);
    await sleep(0);
  }
};
"#;

const PYTHON: &str = r#"
import asyncio, sys, threading, time
barrier = threading.Barrier(8)
def main(args):
    n, lines = args["n"], args["lines"]
    barrier.wait(120)
    def work(start, end):
        for line in range(start, end):
            sys.stdout.write(f"{n} ")
            print("out", line)
            print(n, "err", line, file=sys.stderr)
            time.sleep(0)
    work(0, lines // 2)
    thread = threading.Thread(target=work, args=(lines // 2, lines))
    thread.start()
    thread.join()
    print(n, "unfinished", end="")
    return {"n": n}

here = []
async def everybody(calls):
    event = asyncio.Event()
    here.append(event)
    if len(here) == calls:
        for other in here:
            other.set()
        here.clear()
    await event.wait()

async def coroutine(args):
    n, lines = args["n"], args["lines"]
    await everybody(args["calls"])
    async def work(start, end):
        for line in range(start, end):
            await asyncio.sleep(0)
            sys.stdout.write(f"{n} ")
            sys.stdout.flush()
            print("out", line)
            print(n, "err", line, file=sys.stderr)
    await work(0, lines // 2)
    await asyncio.create_task(work(lines // 2, lines))
    sys.stdout.buffer.write(f"{n} unfinished".encode())
    return {"n": n}

async def stream(args):
    await everybody(args["calls"])
    for piece in range(20):
        print(args["n"], "piece", piece)
        yield str(args["n"]) * 50000
        await asyncio.sleep(0)

def failing(args):
    if args["mode"] == "throw":
        raise ValueError("thrown")
    print("fine")
    return {}
"#;

const JAVA: &str = r#"
import java.util.*;
import java.util.concurrent.*;
public class Side {
    static final CyclicBarrier BARRIER = new CyclicBarrier(8);
    static void work(int n, int start, int end) {
        for (int line = start; line < end; line++) {
            System.out.print(n + " ");
            System.out.println("out " + line);
            System.err.println(n + " err " + line);
            Thread.yield();
        }
    }
    public static Map<String, Object> main(Map<String, Object> args) throws Exception {
        int n = (Integer) args.get("n"), lines = (Integer) args.get("lines");
        BARRIER.await(120, TimeUnit.SECONDS);
        work(n, 0, lines / 2);
        Thread thread = new Thread(() -> work(n, lines / 2, lines));
        thread.start();
        thread.join();
        System.out.print(n + " unfinished");
        return Map.of("n", n);
    }
    public static Map<String, Object> failing(Map<String, Object> args) {
        if (args.get("mode").equals("throw")) throw new IllegalStateException("thrown");
        System.out.println("fine");
        return Map.of();
    }
    static final ExecutorService POOL = Executors.newSingleThreadExecutor();
    public static Map<String, Object> pooled(Map<String, Object> args) throws Exception {
        POOL.submit(() -> System.out.println("for " + args.get("n"))).get();
        return Map.of();
    }
    public static flint.Response stream(Map<String, Object> args) throws Exception {
        String n = String.valueOf(args.get("n"));
        BARRIER.await(120, TimeUnit.SECONDS);
        return flint.Response.of(new java.io.InputStream() {
            byte[] piece = n.repeat(50000).getBytes();
            int at = piece.length, pieces = 0;
            public int read() { throw new UnsupportedOperationException(); }
            public int read(byte[] into, int offset, int length) {
                if (at == piece.length) {
                    if (pieces == 20) return -1;
                    System.out.println(n + " piece " + pieces++);
                    at = 0;
                }
                int count = Math.min(length, piece.length - at);
                System.arraycopy(piece, at, into, offset, count);
                at += count;
                return count;
            }
        }, "text/plain");
    }
}
"#;

async fn together(instance: &Arc<dyn Instance>, arguments: impl Fn(u32) -> String) -> Vec<Invoked> {
    let calls = (0..CALLS).map(|n| {
        let (instance, call) = (Arc::clone(instance), json(&arguments(n)));
        tokio::spawn(async move { instance.invoke(call).await })
    });
    let calls: Vec<_> = calls.collect();
    let mut ended = Vec::new();
    for call in calls {
        ended.push(call.await.unwrap());
    }
    ended
}

fn of(end: &CallEnd, stream: LogStream) -> Vec<&str> {
    end.logs.iter().filter(|line| line.stream == stream).map(|line| line.text.as_str()).collect()
}

/// Each call's answer is its own, and so are its lines, complete and in order.
async fn keeps_logs_apart(house: &House, source: FunctionSource, main: &str, rounds: u32) {
    let instance = house.start(side_by_side(source, main)).await;
    for _ in 0..rounds {
        let ended = together(&instance, |n| format!(r#"{{"n":{n},"calls":{CALLS},"lines":{LINES}}}"#)).await;
        for (n, invoked) in ended.into_iter().enumerate() {
            let Invoked::Done { result, end } = invoked else { panic!() };
            let answer = match result {
                Ok(reply) => String::from_utf8(reply.body.to_vec()).unwrap(),
                Err(fault) => panic!("{fault:?}; logs: {:#?}", end.logs),
            };
            assert_eq!(answer.replace(' ', ""), format!(r#"{{"n":{n}}}"#));
            let mut out: Vec<_> = (0..LINES).map(|line| format!("{n} out {line}")).collect();
            out.push(format!("{n} unfinished"));
            let err: Vec<_> = (0..LINES).map(|line| format!("{n} err {line}")).collect();
            assert_eq!(of(&end, LogStream::Stdout), out);
            assert_eq!(of(&end, LogStream::Stderr), err);
            assert!(end.reusable);
        }
    }
    instance.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_calls_run_at_once_with_logs_of_their_own() {
    let house = House::new().await;
    keeps_logs_apart(&house, handler("nodejs:default", NODE), "main", 3).await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_calls_run_at_once_with_logs_of_their_own() {
    let house = House::new().await;
    keeps_logs_apart(&house, handler("python:default", PYTHON), "main", 3).await;
    keeps_logs_apart(&house, handler("python:default", PYTHON), "coroutine", 3).await;
    let instance = house.start(side_by_side(handler("python:default", PYTHON), "failing")).await;
    let ended =
        together(&instance, |n| format!(r#"{{"mode":"{}"}}"#, if n == 3 { "throw" } else { "" })).await;
    for (n, invoked) in ended.into_iter().enumerate() {
        let Invoked::Done { result, end } = invoked else { panic!() };
        let body = String::from_utf8(result.unwrap().body.to_vec()).unwrap();
        if n == 3 {
            assert!(body.contains("thrown") && end.logs.iter().any(|line| line.text.contains("ValueError")));
        } else {
            assert_eq!((body.as_str(), of(&end, LogStream::Stdout)), ("{}", vec!["fine"]));
        }
    }
    instance.stop().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn java_calls_run_at_once_with_logs_of_their_own() {
    let house = House::new().await;
    keeps_logs_apart(&house, handler("java:default", JAVA), "Side#main", 3).await;
    streams(house.start(side_by_side(handler("java:default", JAVA), "Side#stream")).await).await;
    one_fails(house.start(side_by_side(handler("java:default", JAVA), "Side#failing")).await).await;
    // The thread of a pool is not for ever the call's that had it started.
    let instance = house.start(side_by_side(handler("java:default", JAVA), "Side#pooled")).await;
    for n in 0..3 {
        let Invoked::Done { result, end } = instance.invoke(json(&format!(r#"{{"n":{n}}}"#))).await else {
            panic!()
        };
        assert!(result.is_ok() && end.reusable, "{result:?}");
        assert_eq!(of(&end, LogStream::Stdout), [format!("for {n}")]);
    }
    instance.stop().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_call_leaves_the_others_alone() {
    let house = House::new().await;
    one_fails(house.start(side_by_side(handler("nodejs:default", NODE), "sync")).await).await;
    house.end().await;
}

async fn one_fails(instance: Arc<dyn Instance>) {
    let ended =
        together(&instance, |n| format!(r#"{{"mode":"{}"}}"#, if n == 3 { "throw" } else { "" })).await;
    for (n, invoked) in ended.into_iter().enumerate() {
        let Invoked::Done { result, end } = invoked else { panic!() };
        assert!(end.reusable);
        if n == 3 {
            assert!(matches!(result, Err(Fault::Developer { message }) if message.contains("thrown")));
            assert!(end.logs.iter().any(|line| line.text.contains("thrown")));
        } else {
            assert_eq!((&result.unwrap().body[..], of(&end, LogStream::Stdout)), (&b"{}"[..], vec!["fine"]));
        }
    }
    instance.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_ends_the_process_or_its_time_takes_the_others_along() {
    let house = House::new().await;
    let source = side_by_side(handler("nodejs:default", NODE), "main");
    let instance = house.start(source.clone()).await;
    let ended =
        together(&instance, |n| format!(r#"{{"mode":"{}"}}"#, if n == CALLS - 1 { "exit" } else { "hang" }))
            .await;
    for invoked in ended {
        let Invoked::Done { result, end } = invoked else { panic!() };
        assert!(matches!(result, Err(Fault::Exited { .. })) && !end.reusable);
    }
    instance.stop().await;
    let instance = house.start(source).await;
    let mut call = json(r#"{"mode":"hang"}"#);
    call.deadline = Instant::now() + Duration::from_millis(300);
    let Invoked::Done { result, end } = instance.invoke(call).await else { panic!() };
    assert_eq!((result.unwrap_err(), end.reusable), (Fault::Deadline, false));
    instance.stop().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_and_long_bodies_run_side_by_side() {
    let house = House::new().await;
    for source in [handler("nodejs:default", NODE), handler("python:default", PYTHON)] {
        streams(house.start(side_by_side(source, "stream")).await).await;
    }
    house.end().await;
}

async fn streams(instance: Arc<dyn Instance>) {
    let filler = "x".repeat(700_000);
    let ended = together(&instance, |n| format!(r#"{{"n":{n},"calls":{CALLS},"filler":"{filler}"}}"#)).await;
    for (n, invoked) in ended.into_iter().enumerate() {
        let Invoked::Streaming { head, mut body, end } = invoked else { panic!() };
        assert!(matches!(head, ReplyHead::Http { .. }));
        let mut whole = Vec::new();
        while let Some(piece) = body.recv().await {
            let piece: Bytes = piece.unwrap();
            whole.extend_from_slice(&piece);
        }
        assert!(whole == n.to_string().repeat(50_000 * 20).as_bytes(), "{} bytes came", whole.len());
        let lines: Vec<_> = (0..20).map(|piece| format!("{n} piece {piece}")).collect();
        let end = end.await.unwrap();
        assert_eq!(of(&end, LogStream::Stdout), lines);
        assert!(end.reusable && end.fault.is_none());
    }
    instance.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_contracts_serve_one_call_at_a_time() {
    let house = House::new().await;
    let mut strategy = support::strategy();
    strategy.concurrency = NonZeroU32::new(2).unwrap();
    assert!(house.executor.handles(&strategy, Contract::Handler));
    for contract in [Contract::Http, Contract::OpenWhisk, Contract::ActionLoop, Contract::Stdio] {
        assert!(!house.executor.handles(&strategy, contract), "{contract}");
    }
    house.end().await;
}
