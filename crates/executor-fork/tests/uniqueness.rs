//! A clone is like no other clone before user code runs in it: in the sandbox, through the whole executor.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::{BTreeMap, HashSet};

use flint_executor::FunctionSource;
use support::{House, handler, warmed};

const CLONES: usize = 500;
/// Readings of clocks, which may be alike.
const CLOCKS: [&str; 3] = ["alsoNow", "uptime", "now"];

async fn all_values_differ(source: FunctionSource) {
    let house = House::new().await;
    let prepared = house.prepare(source).await;
    assert_eq!(prepared.fallback, None);
    let mut seen: BTreeMap<String, HashSet<String>> = BTreeMap::new();
    for _ in 0..CLONES {
        let values = house.answer_of(&prepared, "{}").await;
        for (name, value) in values.as_object().unwrap() {
            seen.entry(name.clone()).or_default().insert(value.to_string());
        }
    }
    let alike: Vec<_> = seen
        .iter()
        .filter(|(name, values)| !CLOCKS.contains(&name.as_str()) && values.len() < CLONES)
        .map(|(name, values)| (name, values.len()))
        .collect();
    assert!(alike.is_empty() && seen.len() > 12, "{alike:?} of {} values", seen.len());
    let counts = house.counts();
    assert_eq!((counts.from_standby + counts.forked) as usize, CLONES);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_clones_of_node_draw_five_hundred_values_of_each() {
    let code = include_str!("../../../runtimes/nodejs/test/functions/values.js");
    all_values_differ(warmed(handler("nodejs:default", code), &["{}"])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_clones_of_python_draw_five_hundred_values_of_each() {
    all_values_differ(warmed(handler("python:default", include_str!("functions/values.py")), &["{}"])).await;
}
