//! How a function comes to be run: what its user asked for, what Flint chose, and what a later deploy makes of both.

use std::sync::Arc;

use flint_controller::{ControllerError, Deployed, PutCode, PutFunction, Unnamed};
use flint_model::{
    Annotations, Function, Jit, Network, Reuse, SnapshotOptions, Start, StrategyRequest, WarmupEvent,
};
use serde_json::json;

use crate::support::{Scripted, Server};

const NO_LANDLOCK: &str = "the kernel has no Landlock: Linux 6.12 or later is needed";

fn node() -> PutFunction {
    let content = "echo it".into();
    let code = PutCode { kind: "nodejs".to_owned(), content, format: None, main: None };
    PutFunction { overwrite: true, code: Some(code), ..PutFunction::default() }
}

fn started(start: Start) -> StrategyRequest {
    StrategyRequest { start: Some(start), ..StrategyRequest::default() }
}

fn reused(reuse: Reuse) -> StrategyRequest {
    StrategyRequest { reuse: Some(reuse), ..StrategyRequest::default() }
}

async fn put(server: &Server, put: PutFunction) -> Result<Deployed, ControllerError> {
    let caller = server.guest().await;
    server.controller.put_function(&caller, "guest/f".parse().unwrap(), put, &|_| {}).await
}

async fn strategy(server: &Server, wish: PutFunction) -> String {
    put(server, wish).await.unwrap().function.strategy.to_string()
}

async fn function(server: &Server) -> Arc<Function> {
    let caller = server.guest().await;
    server.controller.function(&caller, &"guest/f".parse().unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_snapshot_is_the_default_where_the_host_can_and_what_is_said_wins() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_on(dir.path(), Scripted::forking(Ok("Landlock 7"))).await;
    assert_eq!(strategy(&server, node()).await, "process/fork/never×1");
    assert_eq!(strategy(&server, PutFunction { keep_clones: true, ..node() }).await, "process/fork/warm×1");
    for (wish, expected) in [
        (reused(Reuse::Never), "process/fork/never×1"),
        (started(Start::Spawn), "process/spawn/warm×1"),
        (started(Start::Fork), "process/fork/never×1"),
    ] {
        assert_eq!(strategy(&server, PutFunction { strategy: wish, ..node() }).await, expected);
    }
    server.stop().await;
}

#[tokio::test]
async fn without_what_it_takes_the_default_is_another_and_a_demand_is_refused_with_the_missing_piece() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_on(dir.path(), Scripted::forking(Err(NO_LANDLOCK))).await;
    assert_eq!(strategy(&server, node()).await, "process/spawn/warm×1");
    let never = PutFunction { strategy: reused(Reuse::Never), ..node() };
    assert_eq!(strategy(&server, never).await, "process/spawn/never×1");
    let error = put(&server, PutFunction { strategy: started(Start::Fork), ..node() }).await.unwrap_err();
    let text = format!("the strategy process/fork/never×1 is not available on this host: {NO_LANDLOCK}");
    assert_eq!(error.to_string(), text);
    let egress = PutFunction { network: Some(Network::Egress), ..node() };
    let error = put(&server, egress).await.unwrap_err();
    assert_eq!(error.to_string(), format!("network egress is not available on this host: {NO_LANDLOCK}"));
    server.stop().await;
}

#[tokio::test]
async fn a_deploy_begins_anew_and_an_update_keeps_what_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_on(dir.path(), Scripted::forking(Ok("Landlock 7"))).await;
    let kept = || PutFunction { unnamed: Unnamed::Kept, keep_clones: true, ..node() };
    put(&server, PutFunction { strategy: started(Start::Spawn), ..node() }).await.unwrap();
    assert_eq!(strategy(&server, kept()).await, "process/spawn/warm×1");
    assert_eq!(function(&server).await.asked, started(Start::Spawn));
    assert_eq!(strategy(&server, node()).await, "process/fork/never×1", "nothing was said this time");
    assert!(function(&server).await.asked.is_empty());
    assert_eq!(strategy(&server, kept()).await, "process/fork/never×1", "its clones are used as they were");
    server.stop().await;
}

#[tokio::test]
async fn a_host_that_lacks_what_was_chosen_elsewhere_chooses_anew_and_keeps_what_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_on(dir.path(), Scripted::forking(Ok("Landlock 7"))).await;
    put(&server, node()).await.unwrap();
    server.stop().await;
    let server = Server::start_on(dir.path(), Scripted::forking(Err(NO_LANDLOCK))).await;
    let moved = function(&server).await;
    assert_eq!(moved.strategy.start, Start::Spawn);
    server.stop().await;
    let server = Server::start_on(dir.path(), Scripted::forking(Ok("Landlock 7"))).await;
    assert_eq!(function(&server).await.strategy.start, Start::Fork, "what is stored is not changed");
    put(&server, PutFunction { strategy: started(Start::Fork), ..node() }).await.unwrap();
    server.stop().await;
    let server = Server::start_on(dir.path(), Scripted::forking(Err(NO_LANDLOCK))).await;
    assert_eq!(function(&server).await.strategy.start, Start::Fork, "it was asked for");
    server.stop().await;
}

#[tokio::test]
async fn a_fall_back_is_told_and_keeps_what_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_on(dir.path(), Scripted::forking(Ok("Landlock 7"))).await;
    let mut annotations = Annotations::default();
    annotations.set("unforkable", true);
    for (wish, expected) in [
        (StrategyRequest::default(), "process/spawn/warm×1"),
        (reused(Reuse::Never), "process/spawn/never×1"),
    ] {
        let wish = PutFunction { strategy: wish, annotations: annotations.clone(), ..node() };
        let deployed = put(&server, wish).await.unwrap();
        let prepared = deployed.prepared.unwrap();
        assert_eq!(prepared.strategy.to_string(), expected);
        assert!(prepared.fallback.as_deref().unwrap().starts_with("2 threads"));
        let known = server.controller.prepared(&deployed.function).unwrap();
        assert_eq!(known.strategy, prepared.strategy);
    }
    server.stop().await;
}

#[tokio::test]
async fn snapshot_options_are_checked_kept_by_updates_and_dropped_with_the_runtime() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_on(dir.path(), Scripted::forking(Ok("Landlock 7"))).await;
    let event = || WarmupEvent::Params(json!({"n": 20}));
    let options = SnapshotOptions { warmup: vec![event()], annotate: false, ..Default::default() };
    let with = |options: SnapshotOptions| PutFunction { snapshot: Some(options), ..node() };
    let deployed = put(&server, with(options.clone())).await.unwrap();
    assert_eq!(deployed.prepared.unwrap().snapshot.as_ref().unwrap().warmup_calls, 2000);
    put(&server, node()).await.unwrap();
    assert_eq!(function(&server).await.snapshot, options);
    let many = SnapshotOptions { warmup: (0..65).map(|_| event()).collect(), ..Default::default() };
    let error = put(&server, with(many)).await.unwrap_err();
    assert_eq!(error.to_string(), "65 warm-up events are more than the 64 that a function may have");
    let numba = SnapshotOptions { jit: Some(Jit::Numba), ..Default::default() };
    let error = put(&server, with(numba)).await.unwrap_err();
    assert_eq!(error.to_string(), "jit numba compiles Python; this function's kind is nodejs:20");
    let mut python = node();
    python.code.as_mut().unwrap().kind = "python".to_owned();
    put(&server, python).await.unwrap();
    assert!(function(&server).await.snapshot.is_default());
    server.stop().await;
}
