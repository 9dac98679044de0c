//! Rule 2: a call never sees another call's writes, except that a warm instance keeps its own.

use serde_json::{Value, json};

use super::Subject;

/// The answer of an instance that has not served a call yet.
fn fresh() -> Value {
    json!({ "calls": 0, "tmp": false, "env": "", "greeting": "hé" })
}

/// Globals, `/tmp` and the environment of one instance are not visible to another.
pub async fn fresh_instances_share_nothing(subject: &Subject) {
    for _ in 0..2 {
        let pair = [subject.start().await, subject.start().await];
        for instance in &pair {
            assert_eq!(subject.call(instance, "state", json!({})).await.json(), fresh());
        }
        for instance in pair {
            instance.stop().await;
        }
    }
}

/// A warm instance keeps its state for its next call.
pub async fn a_warm_instance_keeps_its_own_state(subject: &Subject) {
    let instance = subject.start().await;
    assert_eq!(subject.call(&instance, "state", json!({})).await.json(), fresh());
    let next = subject.call(&instance, "state", json!({})).await;
    assert_eq!(next.json(), json!({ "calls": 1, "tmp": true, "env": "set", "greeting": "hé" }));
    assert!(next.end.reusable);
    instance.stop().await;
}
