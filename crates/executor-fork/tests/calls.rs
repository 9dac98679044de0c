//! What clones leave to each other, and what many of them at once do.

mod support;

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use flint_executor::Executor;
use flint_executor_fork::ForkConfig;
use serde_json::json;
use support::{House, context, eventually, handler, json as call, text, warmed};

const NODE: &str = r#"
const fs = require('fs');
let calls = 0;
exports.main = (params) => {
  calls += 1;
  const seen = { calls, files: fs.readdirSync('/tmp'), left: process.env.LEFT || null, cwd: process.cwd(), global: globalThis.left || null };
  if (params.leave) {
    fs.writeFileSync('/tmp/left', 'x');
    process.env.LEFT = 'x';
    globalThis.left = 'x';
    process.chdir('/');
  }
  return seen;
};
"#;

const PYTHON: &str = r#"
import builtins, os
calls = 0
def main(params):
    global calls
    calls += 1
    seen = {"calls": calls, "files": os.listdir("/tmp"), "left": os.environ.get("LEFT"), "cwd": os.getcwd(), "global": getattr(builtins, "left", None)}
    if params.get("leave"):
        open("/tmp/left", "w").write("x")
        os.environ["LEFT"] = "x"
        builtins.left = "x"
        os.chdir("/")
    return seen
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_survives_from_one_clone_to_the_next() {
    let house = House::new().await;
    for (kind, code) in [("nodejs:default", NODE), ("python:default", PYTHON)] {
        let prepared = house.prepare(handler(kind, code)).await;
        assert_eq!(prepared.fallback, None);
        let first = house.answer_of(&prepared, r#"{"leave": true}"#).await;
        assert_eq!(first["calls"], 1);
        for _ in 0..8 {
            assert_eq!(house.answer_of(&prepared, r#"{"leave": true}"#).await, first, "{kind}");
        }
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_starts_at_once_are_served() {
    let house = House::new().await;
    let code = "exports.main = ({ n }) => ({ n, pid: process.pid });";
    let prepared = house.prepare(warmed(handler("nodejs:default", code), &[r#"{"n": 0}"#])).await;
    let starts = (0..200).map(|n| {
        let (executor, prepared) = (Arc::clone(&house.executor), Arc::clone(&prepared));
        tokio::spawn(async move {
            let instance = executor.start(&prepared, context()).await.unwrap().instance;
            let answer: serde_json::Value =
                serde_json::from_str(&text(instance.invoke(call(&json!({ "n": n }).to_string())).await))
                    .unwrap();
            assert_eq!(answer["n"], n);
            (instance, answer["pid"].as_u64().unwrap())
        })
    });
    let (mut instances, mut pids) = (Vec::new(), HashSet::new());
    for start in starts.collect::<Vec<_>>() {
        let (instance, pid) = start.await.unwrap();
        instances.push(instance);
        pids.insert(pid);
    }
    assert_eq!(pids.len(), 200, "each call has a process of its own");
    for instance in instances {
        instance.stop().await;
    }
    assert_eq!((house.counts().zygotes, house.counts().rebuilt), (1, 0));
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standby_clones_come_with_demand_and_go_without() {
    let standby_idle = Duration::from_secs(5);
    let house = House::with(ForkConfig { standby_idle, ..ForkConfig::default() }).await;
    let prepared = house.prepare(handler("nodejs:default", "exports.main = () => ({});")).await;
    house.answer_of(&prepared, "{}").await;
    assert_eq!(house.counts().standbys, 0, "one call is no rhythm");
    while house.counts().from_standby < 5 {
        house.answer_of(&prepared, "{}").await;
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    }
    eventually("the standby clones go", || house.counts().standbys == 0).await;
    eventually("only the zygote is left", || house.shims().len() == 1).await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_none_are_wanted_there_are_none() {
    let house = House::with(ForkConfig { standbys: 0, ..ForkConfig::default() }).await;
    let prepared = house.prepare(handler("python:default", "def main(params): return {}\n")).await;
    for _ in 0..30 {
        house.answer_of(&prepared, "{}").await;
    }
    assert_eq!((house.counts().from_standby, house.counts().forked), (0, 30));
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_reported_with_what_its_siblings_used() {
    let house = House::with(ForkConfig { standbys: 0, ..ForkConfig::default() }).await;
    let prepared = house.prepare(handler("nodejs:default", "exports.main = () => ({});")).await;
    let mut reported = Vec::new();
    for _ in 0..3 {
        let instance = house.start_prepared(&prepared).await.instance;
        let flint_executor::Invoked::Done { end, .. } = instance.invoke(call("{}")).await else {
            panic!("a stream")
        };
        instance.stop().await;
        reported.push(end.usage.cpu_us);
    }
    assert!(reported[1..].iter().all(|cpu| cpu.is_some_and(|us| us > 0)), "{reported:?}");
    house.end().await;
}

/// Clones that stay have no sibling that has ended: their first calls are measured, as far as the kernel is asked in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_calls_of_clones_that_stay_are_reported_with_what_they_used() {
    let house = House::with(ForkConfig { standbys: 0, ..ForkConfig::default() }).await;
    let prepared = house.prepare(handler("nodejs:default", "exports.main = () => ({});")).await;
    let (mut clones, mut reported, mut known) = (Vec::new(), Vec::new(), 0);
    let until = Instant::now() + Duration::from_secs(60);
    while known < 10 && Instant::now() < until {
        let clone = house.start_prepared(&prepared).await.instance;
        for _ in 0..4 {
            let flint_executor::Invoked::Done { end, .. } = clone.invoke(call("{}")).await else {
                panic!("a stream")
            };
            known += usize::from(end.usage.cpu_us.is_some() && end.usage.memory_peak.is_some());
            reported.push((end.usage.cpu_us, end.usage.memory_peak));
        }
        clones.push(clone);
    }
    assert!(known >= 10, "{reported:?}");
    for clone in clones {
        clone.stop().await;
    }
    house.end().await;
}
