//! A server whose calls fail and are attempted again, by a clock that the test moves.

use std::{path::Path, sync::Arc, time::Duration};

use flint_controller::{Answer, Caller, ControllerConfig, Mode};
use flint_model::{Activation, ActivationId};
use flint_store::{ActivationQuery, DeadLetter, LetterQuery, Page};
use serde_json::{Value, json};

use super::{
    ManualClock, Server,
    composing::{deploy_with, invocation},
    config, eventually,
};

pub const ALL: Page = Page { skip: 0, limit: usize::MAX };

/// A server whose retries wait by that clock, the first one for a minute.
pub async fn start(dir: &Path, clock: &Arc<ManualClock>) -> Server {
    Server::start_by(dir, minutes(), Arc::clone(clock) as _).await
}

pub fn minutes() -> ControllerConfig {
    let mut config = config();
    config.asynchronous.retry_delay = Duration::from_secs(60);
    config
}

pub async fn deploy(server: &Server, name: &str, code: &str, retry: Value) {
    deploy_with(server, name, code, &[("flint-retry", retry), ("provide-api-key", json!(true))]).await;
}

pub async fn accept_as(server: &Server, caller: &Caller, path: &str) -> ActivationId {
    let mut invocation = invocation("x", &json!({"n": 1}), Mode::NonBlocking);
    invocation.path = path.parse().unwrap();
    invocation.api_key = Some("the key".into());
    match server.controller.invoke(caller, invocation).await.unwrap() {
        Answer::Accepted(id) => id,
        other => panic!("{other:?}"),
    }
}

pub async fn accept(server: &Server, name: &str) -> ActivationId {
    accept_as(server, &server.guest().await, &format!("guest/{name}")).await
}

pub async fn record(server: &Server, id: ActivationId) -> Activation {
    let caller = server.guest().await;
    let namespace = &caller.namespace.name;
    eventually("the record", || async { server.controller.activation(&caller, namespace, id).await.ok() })
        .await
}

/// The records of attempts at a call, in order.
pub async fn attempts(server: &Server, id: ActivationId) -> Vec<Activation> {
    let caller = server.guest().await;
    let query = ActivationQuery::default();
    let all =
        server.controller.activations(&caller, &caller.namespace.name, &query, ALL, true).await.unwrap();
    all.into_iter().rev().filter(|record| record.cause == Some(id)).collect()
}

pub async fn metric(server: &Server, name: &str, value: u64) {
    eventually(name, || async {
        let text = server.controller.render_metrics().await;
        text.lines().any(|line| line == format!("{name} {value}")).then_some(())
    })
    .await;
}

/// So many calls wait for a further attempt.
pub async fn waiting(server: &Server, calls: u64) {
    metric(server, "flint_async_retries_waiting", calls).await;
}

pub async fn letters(server: &Server) -> Vec<DeadLetter> {
    let caller = server.guest().await;
    let namespace = &caller.namespace.name;
    server.controller.dead_letters(&caller, namespace, &LetterQuery::default(), ALL).await.unwrap()
}

pub async fn letter(server: &Server, id: ActivationId) -> DeadLetter {
    let caller = server.guest().await;
    let namespace = &caller.namespace.name;
    eventually("the letter", || async { server.controller.dead_letter(&caller, namespace, id).await.ok() })
        .await
}

pub fn result(record: &Activation) -> Value {
    serde_json::from_str(record.response.result.as_ref().unwrap().get()).unwrap()
}
