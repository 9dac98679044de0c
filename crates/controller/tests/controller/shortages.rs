//! A call that cannot run now is told which resource is short, what to do, and when to come back.

use std::{sync::Arc, time::Duration};

use flint_controller::{ControllerError, ErrorKind};
use flint_scheduler::SchedulerConfig;
use serde_json::json;

use crate::support::{
    Server,
    composing::{BLOCKING, deploy, invocation},
    config, eventually,
};

#[tokio::test]
async fn memory_that_others_have_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut queues = SchedulerConfig::default();
    queues.queue.max_wait = Duration::from_secs(1);
    // Eight instances.
    let server = Server::start_small(dir.path(), config(), queues, (256, 0)).await;
    for (name, code) in [("w", "wait"), ("f", "echo")] {
        deploy(&server, name, code).await;
    }
    let guest = server.guest().await;
    let call = |name: &str| {
        let (controller, guest, asked) =
            (Arc::clone(&server.controller), guest.clone(), invocation(name, &json!({}), BLOCKING));
        tokio::spawn(async move { controller.invoke(&guest, asked).await })
    };
    let holders: Vec<_> = (0..20).map(|_| call("w")).collect();
    // Those of them that found no room are refused like any other call.
    let refused = |error: &ControllerError| {
        assert_eq!((error.kind(), error.retry_after()), (ErrorKind::Unavailable, Some(1)), "{error:?}");
        let cause = error.cause().unwrap();
        for words in ["of guest/", "there was no memory for another one", "in use", "raise pool.memory"] {
            assert!(cause.contains(words), "{cause}");
        }
    };
    eventually("as many as fit", || async {
        holders.iter().any(tokio::task::JoinHandle::is_finished).then_some(())
    })
    .await;
    refused(&call("f").await.unwrap().unwrap_err());
    let mut ran = 0;
    eventually("the end", || async {
        server.executor.go();
        holders.iter().all(tokio::task::JoinHandle::is_finished).then_some(())
    })
    .await;
    for holder in holders {
        match holder.await.unwrap() {
            Ok(_) => ran += 1,
            Err(error) => refused(&error),
        }
    }
    assert!(ran > 0);
    server.stop().await;
}

#[tokio::test]
async fn a_full_server_is_told_from_a_full_function() {
    let dir = tempfile::tempdir().unwrap();
    let mut queues = SchedulerConfig::default();
    queues.queue.total = 2;
    let server = Server::start_small(dir.path(), config(), queues, (256, 0)).await;
    deploy(&server, "w", "wait").await;
    let guest = server.guest().await;
    let calls: Vec<_> = (0..30)
        .map(|_| {
            let (controller, guest, asked) =
                (Arc::clone(&server.controller), guest.clone(), invocation("w", &json!({}), BLOCKING));
            tokio::spawn(async move { controller.invoke(&guest, asked).await })
        })
        .collect();
    eventually("the end", || async {
        server.executor.go();
        calls.iter().all(tokio::task::JoinHandle::is_finished).then_some(())
    })
    .await;
    let mut causes = Vec::new();
    for call in calls {
        causes.extend(call.await.unwrap().err().and_then(|error| error.cause()));
    }
    let cause = causes.pop().unwrap();
    assert!(
        cause.contains("leaves no place for one more of guest") && cause.contains("queue.total"),
        "{cause}"
    );
    server.stop().await;
}
