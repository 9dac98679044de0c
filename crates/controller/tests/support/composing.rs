//! What tests of sequences and compositions share.

use std::time::{Duration, Instant};

use flint_controller::{
    Accepts, Answer, ControllerError, Invocation, Mode, PutCode, PutFunction, PutSequence,
};
use flint_executor::Body;
use flint_model::{Activation, ActivationId, Sequence};
use serde_json::{Value, json};

use super::{Server, eventually};

pub async fn deploy_with(server: &Server, name: &str, code: &str, annotations: &[(&str, Value)]) {
    let caller = server.guest().await;
    let code = PutCode { kind: "nodejs".into(), content: code.to_owned().into(), format: None, main: None };
    let mut put = PutFunction { overwrite: true, code: Some(code), ..PutFunction::default() };
    for (key, value) in annotations {
        put.annotations.set(*key, value.clone());
    }
    let path = format!("guest/{name}").parse().unwrap();
    server.controller.put_function(&caller, path, put, &|_| {}).await.unwrap();
}

pub async fn deploy(server: &Server, name: &str, code: &str) {
    deploy_with(server, name, code, &[]).await;
}

/// A conductor that answers with its arguments.
pub async fn conductor(server: &Server, name: &str) {
    deploy_with(server, name, "echo", &[("conductor", json!(true))]).await;
}

pub async fn sequence(
    server: &Server,
    name: &str,
    components: &[&str],
) -> Result<std::sync::Arc<Sequence>, ControllerError> {
    let components = components.iter().map(|path| path.parse().unwrap()).collect();
    let put = PutSequence { overwrite: true, components: Some(components), ..PutSequence::default() };
    let path = format!("guest/{name}").parse().unwrap();
    server.controller.put_sequence(&server.guest().await, path, put).await
}

pub fn invocation(name: &str, arguments: &Value, mode: Mode) -> Invocation {
    Invocation {
        path: format!("guest/{name}").parse().unwrap(),
        body: Body::Full(arguments.to_string().into()),
        head: None,
        mode,
        accepts: Accepts::Json,
        transaction: "t".into(),
        arrived: Instant::now(),
        api_key: None,
    }
}

pub const BLOCKING: Mode = Mode::Blocking { wait: Duration::from_secs(60) };

pub async fn call(
    server: &Server,
    name: &str,
    arguments: &Value,
    mode: Mode,
) -> Result<Answer, ControllerError> {
    let caller = server.guest().await;
    server.controller.invoke(&caller, invocation(name, arguments, mode)).await
}

/// Calls and waits for the end.
pub async fn invoke(server: &Server, name: &str, arguments: &Value) -> Activation {
    match call(server, name, arguments, BLOCKING).await.unwrap() {
        Answer::Finished(record) => *record,
        other => panic!("{other:?}"),
    }
}

pub async fn accept(server: &Server, name: &str, arguments: &Value) -> ActivationId {
    match call(server, name, arguments, Mode::NonBlocking).await.unwrap() {
        Answer::Accepted(id) => id,
        other => panic!("{other:?}"),
    }
}

/// The record of an activation that was accepted, when it is there.
pub async fn record(server: &Server, id: ActivationId) -> Activation {
    let caller = server.guest().await;
    let namespace = &caller.namespace.name;
    eventually("the record", || async { server.controller.activation(&caller, namespace, id).await.ok() })
        .await
}

pub fn result_of(record: &Activation) -> Value {
    serde_json::from_str(record.response.result.as_ref().unwrap().get()).unwrap()
}

pub fn annotation(record: &Activation, key: &str) -> Value {
    record.annotations.get(key).cloned().unwrap_or_default()
}
