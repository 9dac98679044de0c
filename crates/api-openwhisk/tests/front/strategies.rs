//! How actions are run: OpenWhisk's API cannot say it, so what is chosen must fit code that was written for OpenWhisk.

use flint_controller::{PutFunction, Unnamed};
use flint_model::{Reuse, SnapshotOptions, StrategyRequest, WarmupEvent};
use serde_json::json;

use crate::support::{Api, Scripted};

async fn strategy(api: &Api) -> String {
    let caller = api.server.guest().await;
    let path = "guest/f".parse().unwrap();
    api.server.controller.function(&caller, &path).await.unwrap().strategy.to_string()
}

#[tokio::test]
async fn actions_are_forked_and_keep_their_connections() {
    let api = Api::on(Scripted::forking(Ok("Landlock 7"))).await;
    api.action("f", "echo it").await;
    assert_eq!(strategy(&api).await, "process/fork/warm×1");
}

#[tokio::test]
async fn an_update_keeps_what_another_front_was_told() {
    let api = Api::on(Scripted::forking(Ok("Landlock 7"))).await;
    api.action("f", "echo it").await;
    let caller = api.server.guest().await;
    let path: flint_model::FunctionPath = "guest/f".parse().unwrap();
    let snapshot =
        SnapshotOptions { warmup: vec![WarmupEvent::Params(json!({"n": 1}))], ..SnapshotOptions::default() };
    let told = PutFunction {
        overwrite: true,
        strategy: StrategyRequest { reuse: Some(Reuse::Never), ..StrategyRequest::default() },
        unnamed: Unnamed::Default,
        snapshot: Some(snapshot.clone()),
        ..PutFunction::default()
    };
    api.server.controller.put_function(&caller, path.clone(), told, &|_| {}).await.unwrap();
    let update = json!({"parameters": [{"key": "a", "value": 1}]});
    assert_eq!(api.call("PUT", "actions/f?overwrite=true", Some(update)).await.status, 200);
    api.action("f", "echo again").await;
    assert_eq!(strategy(&api).await, "process/fork/never×1");
    let function = api.server.controller.function(&caller, &path).await.unwrap();
    assert_eq!((function.asked.reuse, &function.snapshot), (Some(Reuse::Never), &snapshot));
}
