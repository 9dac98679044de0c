//! Conductor actions: functions whose answers say what is called next.

use flint_model::{ByteSize, Status};
use serde_json::{Value, json};

use crate::support::{
    self, Server,
    composing::{annotation, conductor, deploy, invoke, record, result_of},
    config,
};

#[tokio::test]
async fn a_conductor_calls_and_is_called_again_with_its_state() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    conductor(&server, "c").await;
    deploy(&server, "inc", r#"answer {"n":2,"shared":"component"}"#).await;
    deploy(&server, "last", r#"answer {"done":true}"#).await;
    // The conductor answers what it gets: its state says what comes next.
    let params = json!({
        "action": "inc", "params": {"n": 1},
        "state": {"action": "/guest/last", "params": {"m": 7}, "shared": "state", "state": {"kept": 1}},
    });
    let over = invoke(&server, "c", &params).await;
    assert_eq!(result_of(&over), json!({"done": true, "kept": 1}));
    assert_eq!(server.executor.calls_of("guest/inc"), [r#"{"n":1}"#]);
    assert_eq!(server.executor.calls_of("guest/last"), [r#"{"m":7}"#]);
    let conducted = server.executor.calls_of("guest/c");
    assert_eq!(conducted.len(), 3);
    let second: Value = serde_json::from_str(&conducted[1]).unwrap();
    assert_eq!((&second["n"], &second["shared"]), (&json!(2), &json!("state")));

    assert_eq!((over.response.status, over.name.as_str()), (Status::Success, "c"));
    assert_eq!(over.kind.as_ref().unwrap().as_str(), "sequence");
    assert_eq!(annotation(&over, "conductor"), json!(true));
    assert_eq!((annotation(&over, "topmost"), over.cause), (json!(true), None));
    let stored = record(&server, over.id).await;
    assert_eq!(stored.components, over.components);
    let mut duration = 0;
    let mut names = Vec::new();
    for id in &over.components {
        let step = record(&server, *id).await;
        assert_eq!((step.cause, annotation(&step, "causedBy")), (Some(over.id), json!("sequence")));
        duration += step.duration_us;
        names.push(step.name.to_string());
    }
    assert_eq!(names, ["c", "inc", "c", "last", "c"]);
    assert_eq!(over.duration_us, duration);
    server.stop().await;
}

#[tokio::test]
async fn what_is_no_object_is_boxed_and_params_are_the_result() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    conductor(&server, "c").await;
    deploy(&server, "list", "answer [1,2]").await;
    for (params, result) in [
        (json!({"params": {"a": 1}, "more": 2}), json!({"a": 1})),
        (json!({"params": 7}), json!({"value": 7})),
        (json!({"b": 2}), json!({"b": 2})),
        (json!({"action": "list", "state": 5}), json!({"value": [1, 2], "state": 5})),
        (json!({"action": "list"}), json!({"value": [1, 2]})),
    ] {
        let over = invoke(&server, "c", &params).await;
        assert_eq!((result_of(&over), over.response.status), (result, Status::Success), "{params}");
    }
    assert!(server.executor.calls_of("guest/list").iter().all(|arguments| arguments == "{}"));
    server.stop().await;
}

#[tokio::test]
async fn errors_of_components_are_told_to_the_conductor_and_its_own_end_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    conductor(&server, "c").await;
    deploy(&server, "fails", r#"answer {"error":"mine","more":1}"#).await;
    deploy(&server, "throws", "throw boom").await;
    let package = flint_controller::PutPackage::default();
    let path = "guest/pack".parse().unwrap();
    server.controller.put_package(&server.guest().await, path, package).await.unwrap();
    for (action, error) in [
        (json!(7), "Failed to parse action name from json value 7 during composition."),
        (json!({"a": "b"}), "Failed to parse action name from json value {\"a\":\"b\"} during composition."),
        (json!("a/b/c/d"), "Failed to parse action name from json value \"a/b/c/d\" during composition."),
        (json!("none"), "Failed to resolve action with name 'guest/none' during composition."),
        (json!("pack"), "Failed to resolve action with name 'guest/pack' during composition."),
        (json!("p/none"), "Failed to resolve action with name 'guest/p/none' during composition."),
        (json!("/other/a"), "Failed entitlement check for action with name 'other/a' during composition."),
        (json!("fails"), "mine"),
        (json!("throws"), "boom"),
    ] {
        let over = invoke(&server, "c", &json!({"action": action, "state": {"kept": 1}})).await;
        // It was told, with its state, and answered that: an error of its own.
        let told = server.executor.calls_of("guest/c").pop().unwrap();
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told, json!({"error": error, "kept": 1}));
        assert_eq!(result_of(&over), json!({"error": error}));
        assert_eq!(over.response.status, Status::ApplicationError);
    }
    // A conductor that breaks ends its composition.
    support::composing::deploy_with(&server, "broken", "throw boom", &[("conductor", json!(true))]).await;
    let over = invoke(&server, "broken", &json!({})).await;
    assert_eq!((result_of(&over), over.response.status), (json!({"error": "boom"}), Status::DeveloperError));
    assert_eq!(over.components.len(), 1);
    server.stop().await;
}

/// A state that makes an answering conductor call `action` so many times.
fn nested(action: &str, times: usize) -> Value {
    (0..times).fold(json!({}), |state, _| json!({"action": action, "state": state}))
}

#[tokio::test]
async fn components_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config();
    config.limits.bounds.max_sequence = 3;
    let server = Server::start(dir.path(), config).await;
    conductor(&server, "c").await;
    deploy(&server, "f", "answer {}").await;
    let over = invoke(&server, "c", &nested("f", 3)).await;
    assert_eq!((over.response.status, over.components.len()), (Status::Success, 7));
    let over = invoke(&server, "c", &nested("f", 4)).await;
    assert_eq!(result_of(&over), json!({"error": "Too many actions in the composition."}));
    assert_eq!((over.response.status, over.components.len()), (Status::ApplicationError, 8));
    server.stop().await;
}

#[tokio::test]
async fn runs_of_the_conductor_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config();
    config.limits.bounds.max_sequence = 2;
    let server = Server::start(dir.path(), config).await;
    // It never gives up: every error is answered with the next call.
    let stubborn = r#"answer {"action":"none"}"#;
    support::composing::deploy_with(&server, "c", stubborn, &[("conductor", json!(true))]).await;
    let over = invoke(&server, "c", &json!({})).await;
    assert_eq!(result_of(&over), json!({"error": "Too many actions in the composition."}));
    assert_eq!((over.response.status, over.components.len()), (Status::ApplicationError, 5));
    server.stop().await;
}

#[tokio::test]
async fn what_nested_conductors_keep_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config();
    config.limits.bounds.max_result = ByteSize::bytes(100);
    let server = Server::start(dir.path(), config).await;
    conductor(&server, "c").await;
    deploy(&server, "f", "answer {}").await;
    let state = |length: usize| json!({"kept": "x".repeat(length)});
    let calls = |length: usize| json!({"action": "f", "state": state(length)});
    let nested = |length: usize| json!({"action": "c", "params": calls(length), "state": state(length)});
    for params in [calls(180), nested(80)] {
        let over = invoke(&server, "c", &params).await;
        assert_eq!((over.response.status, over.components.len()), (Status::Success, 3));
    }
    assert_eq!(server.executor.calls_of("guest/f").len(), 2);
    // One of these would fit.
    let text = "The state of the conductors in the composition is too large: 260 bytes, 200 allowed.";
    let over = invoke(&server, "c", &nested(120)).await;
    let inner = record(&server, over.components[1]).await;
    for ended in [&inner, &over] {
        assert_eq!(result_of(ended), json!({"error": text}));
        assert_eq!(ended.response.status, Status::ApplicationError);
    }
    assert_eq!((inner.components.len(), over.components.len()), (1, 3));
    let over = invoke(&server, "c", &calls(200)).await;
    assert_eq!((over.response.status, over.components.len()), (Status::ApplicationError, 1));
    assert_eq!(server.executor.calls_of("guest/f").len(), 2);
    server.stop().await;
}

#[tokio::test]
async fn nested_compositions_are_one_step_and_share_the_budget() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config();
    config.limits.bounds.max_sequence = 3;
    let server = Server::start(dir.path(), config).await;
    conductor(&server, "outer").await;
    conductor(&server, "inner").await;
    deploy(&server, "f", r#"answer {"f":1}"#).await;
    let params = json!({"action": "inner", "params": {"action": "f"}, "state": {"outer": 1}});
    let over = invoke(&server, "outer", &params).await;
    assert_eq!(result_of(&over), json!({"f": 1, "outer": 1}));
    assert_eq!(over.components.len(), 3);
    let inner = record(&server, over.components[1]).await;
    assert_eq!((inner.cause, inner.components.len()), (Some(over.id), 3));
    assert_eq!(
        (annotation(&inner, "topmost"), annotation(&inner, "causedBy")),
        (json!(false), json!("sequence"))
    );
    assert_eq!(record(&server, inner.components[1]).await.cause, Some(inner.id));
    // A composition that calls itself comes to its end.
    let itself = (0..9).fold(json!({}), |params, _| json!({"action": "outer", "params": params}));
    let over = invoke(&server, "outer", &itself).await;
    assert_eq!(result_of(&over), json!({"error": "Too many actions in the composition."}));
    server.stop().await;
}
