//! After a restart, what was called before it is made ready before it is called again.

use std::{path::Path, time::Duration};

use bytes::Bytes;
use flint_controller::{Answer, ControllerConfig, Invocation, PutCode, PutFunction};
use flint_model::{AliasName, AliasTarget};
use serde_json::json;

use crate::support::{
    Server,
    composing::{BLOCKING, deploy, invocation, invoke, sequence},
    config, eventually,
};

/// Calls of functions by a server that was then stopped.
async fn a_life(data_dir: &Path) {
    let server = Server::start(data_dir, config()).await;
    for name in ["seldom", "latest", "often", "uncalled", "deleted", "versioned"] {
        deploy(&server, name, "echo").await;
    }
    deploy(&server, "versioned", "echo again").await;
    let (caller, path) = (server.guest().await, "guest/versioned".parse().unwrap());
    let first = AliasTarget { version: "0.0.1".parse().unwrap(), weight: 1 };
    let stable = AliasName::parse("stable").unwrap();
    server.controller.set_alias(&caller, &path, stable, vec![first]).await.unwrap();
    sequence(&server, "twice", &["guest/often", "guest/often"]).await.unwrap();
    let calls = [
        ("versioned@stable", 2),
        ("versioned", 3),
        ("seldom", 1),
        ("twice", 4),
        ("deleted", 9),
        ("latest", 1),
    ];
    for (name, times) in calls {
        for _ in 0..times {
            invoke(&server, name, &json!({})).await;
        }
    }
    server.controller.delete_function(&caller, &"guest/deleted".parse().unwrap()).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn what_was_called_is_made_ready_the_most_called_first() {
    let dir = tempfile::tempdir().unwrap();
    a_life(dir.path()).await;
    let server = Server::start(dir.path(), config()).await;
    let anticipated = eventually("what was called", || async {
        let seen = server.executor.seen();
        (seen.anticipated.len() >= 5).then(|| seen.anticipated.clone())
    })
    .await;
    assert_eq!(
        anticipated,
        ["guest/often", "guest/versioned", "guest/versioned", "guest/latest", "guest/seldom"]
    );
    let mut prepared = server.executor.seen().prepared.clone();
    prepared.sort();
    prepared.dedup();
    assert_eq!(prepared.len(), 5, "two versions of one, each once: {prepared:?}");
    server.stop().await;
}

#[tokio::test]
async fn what_is_built_in_has_no_code_to_make_ready() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "f", "echo").await;
    invoke(&server, "f", &json!({})).await;
    let path = "whisk.system/alarms/alarm".parse().unwrap();
    let call = Invocation { path, ..invocation("alarm", &json!({}), BLOCKING) };
    let Answer::Finished(record) = server.controller.invoke(&server.guest().await, call).await.unwrap()
    else {
        panic!()
    };
    assert_eq!(record.kind.unwrap().as_str(), "builtin");
    // With its code, which is empty, it would be made ready, and seen here.
    server.blobs().put(Bytes::new()).await.unwrap();
    server.stop().await;
    let server = Server::start(dir.path(), config()).await;
    let anticipated = eventually("what was called", || async {
        let anticipated = server.executor.seen().anticipated.clone();
        (!anticipated.is_empty()).then_some(anticipated)
    })
    .await;
    // It was called last, and would be first.
    assert_eq!(anticipated, ["guest/f"]);
    server.stop().await;
}

#[tokio::test]
async fn a_blocked_namespace_has_nothing_made_ready() {
    let dir = tempfile::tempdir().unwrap();
    a_life(dir.path()).await;
    let server = Server::start(dir.path(), ControllerConfig { rewarm: Duration::ZERO, ..config() }).await;
    server.controller.set_blocked(&"guest".parse().unwrap(), true).await.unwrap();
    server.stop().await;
    let server = Server::start(dir.path(), config()).await;
    // The tasks of the start run meanwhile.
    let (_, key) =
        server.controller.create_namespace("other".parse().unwrap(), Default::default()).await.unwrap();
    let other = server.controller.authenticate(&key.expose()).await.unwrap();
    let code = PutCode { kind: "nodejs".into(), content: "echo".into(), format: None, main: None };
    let put = PutFunction { code: Some(code), ..PutFunction::default() };
    server.controller.put_function(&other, "other/f".parse().unwrap(), put, &|_| {}).await.unwrap();
    assert_eq!(server.executor.seen().anticipated, ["other/f"]);
    server.stop().await;
}

#[tokio::test]
async fn nothing_is_made_ready_that_was_called_too_long_ago() {
    let dir = tempfile::tempdir().unwrap();
    a_life(dir.path()).await;
    for rewarm in [Duration::ZERO, Duration::from_millis(1)] {
        tokio::time::sleep(2 * rewarm).await;
        let server = Server::start(dir.path(), ControllerConfig { rewarm, ..config() }).await;
        // The tasks of the start run meanwhile.
        deploy(&server, "new", "echo").await;
        assert_eq!(server.executor.seen().anticipated, ["guest/new"]);
        server.stop().await;
    }
}
