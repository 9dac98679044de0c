//! Rule 1: an instance is unique before user code runs.

use std::collections::HashSet;

use serde_json::json;

use super::Subject;

const INSTANCES: usize = 6;

/// Each random generator draws different values in different instances of one function.
pub async fn no_two_instances_draw_the_same(subject: &Subject) {
    let mut drawn: Vec<HashSet<String>> = Vec::new();
    for _ in 0..INSTANCES {
        let instance = subject.start().await;
        let answer = subject.call(&instance, "random", json!({})).await.json();
        instance.stop().await;
        let values = answer["values"].as_array().expect("a list");
        drawn.resize(values.len(), HashSet::new());
        for (known, value) in drawn.iter_mut().zip(values) {
            known.insert(value.to_string());
        }
    }
    assert!(drawn.iter().all(|values| values.len() == INSTANCES), "{drawn:?}");
}
