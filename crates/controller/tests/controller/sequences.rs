//! Sequences: functions called one after the other, each with the answer of the one before.

use std::time::Duration;

use flint_controller::{Answer, ControllerError, ErrorKind, Mode};
use flint_model::Status;
use serde_json::{Value, json};

use crate::support::{
    Server,
    composing::{accept, annotation, call, conductor, deploy, invoke, record, result_of, sequence},
    config, eventually, places_are_free,
};

fn refusal<T: std::fmt::Debug>(result: Result<T, ControllerError>) -> (ErrorKind, String) {
    let error = result.unwrap_err();
    (error.kind(), error.to_string())
}

fn text(error: &str) -> Value {
    json!({ "error": error })
}

#[tokio::test]
async fn what_is_created_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config();
    config.limits.bounds.max_sequence = 3;
    let server = Server::start(dir.path(), config).await;
    deploy(&server, "f", "echo").await;
    let made = sequence(&server, "two", &["/_/f", "guest/f"]).await.unwrap();
    assert!(made.components.iter().all(|component| component.to_string() == "guest/f"));
    assert_eq!(made.annotations.get("exec"), Some(&json!("sequence")));
    for (name, components, error) in [
        ("s", &[][..], "No component specified for the sequence."),
        ("s", &["guest/f"; 4], "Too many actions in the sequence."),
        ("s", &["guest/two", "guest/two"], "Too many actions in the sequence."),
        ("s", &["guest/f", "guest/none"], "Sequence component does not exist."),
        ("s", &["guest/p/none"], "Sequence component does not exist."),
        ("s", &["guest/s"], "Sequence may not refer to itself."),
        ("two", &["guest/f", "guest/two"], "Sequence may not refer to itself."),
    ] {
        let refused = refusal(sequence(&server, name, components).await);
        assert_eq!(refused, (ErrorKind::Invalid, error.to_owned()), "{components:?}");
    }
    let foreign = refusal(sequence(&server, "s", &["other/f"]).await);
    assert_eq!(foreign.0, ErrorKind::Forbidden);
    // Through another sequence.
    sequence(&server, "outer", &["guest/two"]).await.unwrap();
    let refused = refusal(sequence(&server, "two", &["guest/outer"]).await);
    assert_eq!(refused.1, "Sequence may not refer to itself.");
    server.stop().await;
}

#[tokio::test]
async fn results_go_from_one_to_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "a", "echo").await;
    deploy(&server, "b", r#"answer {"b":1.50}"#).await;
    deploy(&server, "c", "echo").await;
    sequence(&server, "s", &["guest/a", "guest/b", "guest/c"]).await.unwrap();
    let over = invoke(&server, "s", &json!({"x": 1})).await;
    assert_eq!(over.response.result.as_ref().unwrap().get(), r#"{"b":1.50}"#);
    assert_eq!(server.executor.calls_of("guest/a"), [r#"{"x":1}"#]);
    assert_eq!(server.executor.calls_of("guest/b"), [r#"{"x":1}"#]);
    assert_eq!((over.kind.as_ref().unwrap().as_str(), over.name.as_str()), ("sequence", "s"));
    assert_eq!((annotation(&over, "topmost"), annotation(&over, "conductor")), (json!(true), Value::Null));
    assert_eq!(annotation(&over, "limits")["memory"], json!(256));
    let mut duration = 0;
    for (id, name) in over.components.iter().zip(["a", "b", "c"]) {
        let step = record(&server, *id).await;
        assert_eq!((step.name.as_str(), step.cause), (name, Some(over.id)));
        assert_eq!(annotation(&step, "causedBy"), json!("sequence"));
        duration += step.duration_us;
    }
    assert_eq!((over.components.len(), over.duration_us), (3, duration));

    let accepted = accept(&server, "s", &json!({})).await;
    let stored = record(&server, accepted).await;
    assert_eq!((stored.components.len(), result_of(&stored)), (3, json!({"b": 1.5})));
    eventually("an empty queue", || async {
        server.controller.render_metrics().await.contains("flint_async_queue_depth 0\n").then_some(())
    })
    .await;
    places_are_free(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn it_stops_at_an_error_and_arrays_pass() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "echo", "echo").await;
    deploy(&server, "list", r#"answer [{"error":1}]"#).await;
    deploy(&server, "fails", r#"answer {"error":"mine","more":1}"#).await;
    deploy(&server, "throws", "throw boom").await;
    deploy(&server, "never", "echo").await;
    for (name, status, error) in
        [("fails", Status::ApplicationError, "mine"), ("throws", Status::DeveloperError, "boom")]
    {
        sequence(&server, "s", &["guest/echo", &format!("guest/{name}"), "guest/never"]).await.unwrap();
        let over = invoke(&server, "s", &json!({})).await;
        assert_eq!((over.response.status, result_of(&over)), (status, text(error)));
        assert_eq!(over.components.len(), 2);
    }
    assert!(server.executor.calls_of("guest/never").is_empty());
    sequence(&server, "arrays", &["guest/list", "guest/echo"]).await.unwrap();
    let over = invoke(&server, "arrays", &json!({})).await;
    assert_eq!((over.response.status, result_of(&over)), (Status::Success, json!([{"error": 1}])));
    // What the caller brings does not stop it, whatever its key.
    sequence(&server, "two", &["guest/list", "guest/list"]).await.unwrap();
    assert_eq!(invoke(&server, "two", &json!({"error": 1})).await.components.len(), 2);
    server.stop().await;
}

#[tokio::test]
async fn nested_ones_are_one_step_and_missing_ones_end_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config();
    config.limits.bounds.max_sequence = 4;
    let server = Server::start(dir.path(), config).await;
    deploy(&server, "f", "echo").await;
    conductor(&server, "c").await;
    sequence(&server, "inner", &["guest/f", "guest/f"]).await.unwrap();
    sequence(&server, "s", &["guest/inner", "guest/c", "guest/f"]).await.unwrap();
    let over = invoke(&server, "s", &json!({"action": "inner", "params": {"n": 1}})).await;
    assert_eq!((result_of(&over), over.components.len()), (json!({"n": 1}), 3));
    let inner = record(&server, over.components[0]).await;
    assert_eq!((inner.cause, inner.components.len()), (Some(over.id), 2));
    assert_eq!(
        (annotation(&inner, "topmost"), annotation(&inner, "causedBy")),
        (json!(false), json!("sequence"))
    );
    let composed = record(&server, over.components[1]).await;
    assert_eq!((annotation(&composed, "conductor"), composed.components.len()), (json!(true), 3));
    assert_eq!(
        over.duration_us,
        inner.duration_us + composed.duration_us + record(&server, over.components[2]).await.duration_us
    );

    // It grows after it was checked.
    sequence(&server, "inner", &["guest/f", "guest/f", "guest/f"]).await.unwrap();
    sequence(&server, "s2", &["guest/inner", "guest/f"]).await.unwrap();
    sequence(&server, "inner", &["guest/f"; 4]).await.unwrap();
    let over = invoke(&server, "s2", &json!({})).await;
    assert_eq!(result_of(&over), text("Too many actions in the sequence."));
    assert_eq!((over.response.status, over.components.len()), (Status::ApplicationError, 1));

    let caller = server.guest().await;
    server.controller.delete_action(&caller, &"guest/inner".parse().unwrap()).await.unwrap();
    sequence(&server, "s3", &["guest/f", "guest/s"]).await.unwrap_err();
    let over = invoke(&server, "s", &json!({})).await;
    assert_eq!(result_of(&over), text("Sequence component does not exist."));
    assert_eq!((over.response.status, over.components.len()), (Status::ApplicationError, 0));
    server.stop().await;
}

#[tokio::test]
async fn the_callers_patience_ends_and_the_sequence_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "slow", "wait").await;
    deploy(&server, "f", "echo").await;
    sequence(&server, "s", &["guest/slow", "guest/f"]).await.unwrap();
    let impatient = Mode::Blocking { wait: Duration::from_millis(50) };
    let Answer::Accepted(id) = call(&server, "s", &json!({}), impatient).await.unwrap() else {
        panic!("it waited")
    };
    eventually("the first step", || async {
        (!server.executor.calls_of("guest/slow").is_empty()).then_some(())
    })
    .await;
    server.executor.go();
    assert_eq!(result_of(&record(&server, id).await), json!({"waited": true}));
    server.stop().await;
}

#[tokio::test]
async fn slow_ones_keep_nobody_else_from_running() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config();
    config.asynchronous.running = 1;
    let server = Server::start(dir.path(), config).await;
    deploy(&server, "slow", "wait").await;
    deploy(&server, "f", "echo").await;
    sequence(&server, "s", &["guest/slow", "guest/f"]).await.unwrap();
    let slow = [accept(&server, "s", &json!({})).await, accept(&server, "s", &json!({})).await];
    let quick = accept(&server, "f", &json!({"quick": true})).await;
    assert_eq!(result_of(&record(&server, quick).await), json!({"quick": true}));
    eventually("both first steps", || async {
        (server.executor.calls_of("guest/slow").len() == 2).then_some(())
    })
    .await;
    server.executor.go();
    for id in slow {
        assert_eq!(result_of(&record(&server, id).await), json!({"waited": true}));
    }
    server.stop().await;
}

#[tokio::test]
async fn a_component_keeps_its_own_parameters_and_what_is_final_stays() {
    use flint_controller::{PutCode, PutFunction};
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "a", "echo").await;
    let caller = server.guest().await;
    let put = |fixed: bool| {
        let code = PutCode { kind: "nodejs".into(), content: "echo".into(), format: None, main: None };
        let parameters = serde_json::from_value(json!([{"key": "x", "value": 0}, {"key": "y", "value": 9}]));
        let mut put = PutFunction { overwrite: true, code: Some(code), ..PutFunction::default() };
        put.parameters = Some(parameters.unwrap());
        put.annotations.set("final", fixed);
        put
    };
    let path = || "guest/b".parse().unwrap();
    server.controller.put_function(&caller, path(), put(false), &|_| {}).await.unwrap();
    sequence(&server, "s", &["guest/a", "guest/b"]).await.unwrap();
    assert_eq!(result_of(&invoke(&server, "s", &json!({"x": 1})).await), json!({"x": 1, "y": 9}));
    server.controller.put_function(&caller, path(), put(true), &|_| {}).await.unwrap();
    let over = invoke(&server, "s", &json!({"x": 1})).await;
    let reserved = "Request defines parameters that are not allowed (e.g., reserved properties).";
    assert_eq!((over.response.status, result_of(&over)), (Status::ApplicationError, text(reserved)));
    assert_eq!(result_of(&invoke(&server, "s", &json!({"z": 1})).await), json!({"x": 0, "y": 9, "z": 1}));
    // An asynchronous call of it is merged once, when it runs.
    let id = accept(&server, "b", &json!({"z": 1})).await;
    assert_eq!(result_of(&record(&server, id).await), json!({"x": 0, "y": 9, "z": 1}));
    server.stop().await;
}

#[tokio::test]
async fn a_function_becomes_a_sequence_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "f", r#"answer {"f":1}"#).await;
    deploy(&server, "s", r#"answer {"s":1}"#).await;
    assert_eq!(result_of(&invoke(&server, "s", &json!({})).await), json!({"s": 1}));
    let made = sequence(&server, "s", &["guest/f"]).await.unwrap();
    assert_eq!(made.version.to_string(), "0.0.2");
    assert_eq!(result_of(&invoke(&server, "s", &json!({})).await), json!({"f": 1}));
    deploy(&server, "s", r#"answer {"s":2}"#).await;
    let over = invoke(&server, "s", &json!({})).await;
    assert_eq!((result_of(&over), over.version.to_string().as_str()), (json!({"s": 2}), "0.0.3"));
    server.stop().await;
}
