//! APIs as Swagger 2.0 documents, as clients see them.

use flint_model::{Api, Operation};
use serde_json::{Map, Value, json};

use super::{encoded, url_of};

/// An API in the response to `createApi`, and the `value` of each in that to `getApi`.
pub(super) fn shown(api: &Api, host: &str) -> Value {
    let namespace = api.namespace.as_str();
    json!({
        "namespace": namespace,
        "gwApiUrl": url_of(host, namespace, &api.base_path),
        "gwApiActivated": true,
        "tenantId": namespace,
        "apidoc": swagger(api, host),
    })
}

/// An API in the response to `getApi`.
pub(super) fn listed(api: &Api, host: &str) -> Value {
    let id = format!("API:{}:{}", api.namespace, api.base_path);
    json!({ "id": id, "key": id, "value": shown(api, host) })
}

fn swagger(api: &Api, host: &str) -> Map<String, Value> {
    let mut document = api.document.clone();
    document.entry("swagger").or_insert_with(|| "2.0".into());
    document.entry("info").or_insert_with(|| json!({ "title": api.title, "version": "1.0.0" }));
    document.insert("basePath".to_owned(), api.base_path.as_str().into());
    let mut paths = Map::new();
    for operation in &api.operations {
        let path = paths.entry(operation.path.as_str()).or_insert_with(|| Map::new().into());
        if let Value::Object(path) = path {
            path.insert(operation.method.clone(), described(operation, host).into());
        }
    }
    document.insert("paths".to_owned(), paths.into());
    document
}

fn described(operation: &Operation, host: &str) -> Map<String, Value> {
    let mut document = operation.document.clone();
    let id = || format!("{}_{}", operation.method, operation.path).into();
    match document.get("operationId") {
        Some(Value::String(text)) if !text.is_empty() => {}
        // Clients reject an operation without an id.
        _ => drop(document.insert("operationId".to_owned(), id())),
    }
    document
        .entry("responses")
        .or_insert_with(|| json!({ "default": { "description": "Default response" } }));
    let action = &operation.action;
    let package = action.package.as_ref().map_or("default", |package| package.as_str());
    let path = encoded(&format!("{}/{package}/{}", action.namespace, action.name));
    document.insert(
        "x-openwhisk".to_owned(),
        json!({
            "namespace": action.namespace,
            "package": package,
            "action": action.name,
            "url": format!("{host}/api/v1/web/{path}{}", operation.extension),
        }),
    );
    document
}
