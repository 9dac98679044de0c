//! What an asynchronous runtime must be able to do, each in a clone of its own, inside the sandbox.

mod support;

use serde_json::{Value, json};
use support::{House, handler, warmed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_works_in_a_clone() {
    let house = House::new().await;
    let code = include_str!("../../../runtimes/nodejs/test/functions/battery.js");
    let prepared = house.prepare(warmed(handler("nodejs:default", code), &[r#"{"cases": true}"#])).await;
    assert_eq!(prepared.fallback, None);
    let cases = house.answer_of(&prepared, r#"{"cases": true}"#).await;
    let cases: Vec<&str> = cases["cases"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(cases.len() >= 24, "{cases:?}");
    for case in cases {
        let answer = house.answer_of(&prepared, &json!({ "case": case }).to_string()).await;
        assert_eq!(answer, json!({ "ok": true }), "{case}");
    }
    house.end().await;
}
