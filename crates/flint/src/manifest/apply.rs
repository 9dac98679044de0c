//! Executes a plan step by step. Every step is idempotent: after a failure, the next deployment finds what is
//! done.

use http::Method;
use serde_json::{Map, Value, json};

use super::{
    entity::{Entity, Feed, Operation, What, Write, list},
    facts::{DIGEST, Field, MANAGED},
    plan::{Plan, Step, Verb},
    server::{Existing, path},
};
use crate::{
    client::{Client, segment},
    commands::{api::MANAGEMENT, deploy::upload},
    failure::Failure,
    output::tell,
};

/// Executes a plan; `done` is told of every step that changed something, `told` of what is being done. The
/// failure names the step.
pub(crate) async fn apply(
    client: &Client,
    plan: &Plan,
    managed: Option<&Value>,
    mut done: impl FnMut(&Step),
    told: impl Fn(&str),
) -> Result<(), Failure> {
    for step in plan.steps.iter().filter(|step| step.verb.changes_something()) {
        told(&format!("{} {}", step.what.name(), step.name));
        let result = match (&step.verb, &step.entity) {
            (Verb::Delete, _) => delete(client, step).await,
            (_, Some(entity)) => write(client, step, entity, managed, &told).await,
            (_, None) => Ok(()),
        };
        result.map_err(|failure| Failure {
            message: format!("{} {}: {}", step.what.name(), step.name, failure.message),
            ..failure
        })?;
        done(step);
    }
    Ok(())
}

async fn write(
    client: &Client,
    step: &Step,
    entity: &Entity,
    managed: Option<&Value>,
    told: &impl Fn(&str),
) -> Result<(), Failure> {
    let existing = step.existing.as_ref().map(|(_, existing)| existing);
    // A manifest without a project name leaves the existing note.
    let managed = managed.or_else(|| existing.and_then(|existing| existing.annotations.get(MANAGED)));
    let annotations = entity.written_annotations(managed);
    match &entity.write {
        Write::Function(package) => {
            let mut package = (**package).clone();
            package.request.annotations = annotations;
            // If absent, the function would receive its caller's key.
            package.request.annotations.entry("provide-api-key").or_insert(false.into());
            let told = |doing: &str| told(&format!("{}: {doing}", package.name));
            upload(client, &package, told).await.map(drop)
        }
        Write::Put(body) => {
            let mut body = with_annotations(body, &annotations);
            if let (What::Sequence, Some(existing)) = (entity.what, existing) {
                // The server merges annotations of actions.
                let gone = existing.annotations.keys().filter(|key| !annotations.contains_key(*key));
                body["delAnnotations"] = gone.filter(|key| *key != "provide-api-key").cloned().collect();
            }
            put(client, step, &body).await?;
            if entity.what == What::Rule {
                let body = json!({ "status": "active" });
                client.entity(Method::POST, &path(What::Rule, &step.name, ""), Some(&body)).await?;
            }
            Ok(())
        }
        Write::Trigger { body, feed } => trigger(client, step, body, feed.as_ref(), annotations).await,
        Write::Operation(operation) => create_operation(client, operation, entity, managed).await,
        Write::Document(document) => {
            let mut document = document.clone();
            note(&mut document, entity, managed);
            create_api(client, "", json!({ "namespace": "_", "swagger": document })).await
        }
    }
}

async fn put(client: &Client, step: &Step, body: &Value) -> Result<(), Failure> {
    let query = format!("?overwrite={}", step.existing.is_some());
    client.entity(Method::PUT, &path(step.what, &step.name, &query), Some(body)).await.map(drop)
}

fn with_annotations(body: &Map<String, Value>, annotations: &Map<String, Value>) -> Value {
    let pairs: Vec<_> = annotations.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    let mut body = body.clone();
    body.insert("annotations".to_owned(), list(&pairs));
    body.into()
}

/// Writes a trigger, and has its feed created again if that changes. The digest is written last: until it is
/// there, the next deployment creates the feed again.
async fn trigger(
    client: &Client,
    step: &Step,
    body: &Map<String, Value>,
    feed: Option<&Feed>,
    mut annotations: Map<String, Value>,
) -> Result<(), Failure> {
    let existing = step.existing.as_ref().map(|(_, existing)| existing);
    let feed_changes = match &step.verb {
        Verb::Update(changes) => {
            changes.iter().any(|change| matches!(change.field, Field::Own("feed") | Field::Digest(_)))
        }
        _ => true,
    };
    if let Some(feed) = feed {
        annotations.insert("feed".to_owned(), feed.action.as_str().into());
    }
    if !feed_changes {
        return put(client, step, &with_annotations(body, &annotations)).await;
    }
    if let Some(existing) = existing {
        delete_feed(client, &step.name, existing).await;
    }
    let Some(feed) = feed else { return put(client, step, &with_annotations(body, &annotations)).await };
    let mut without = annotations.clone();
    without.remove(DIGEST);
    put(client, step, &with_annotations(body, &without)).await?;
    if let Err(failure) = client.feed(&feed.action, &full(&step.name), "CREATE", feed.inputs.clone()).await {
        if step.existing.is_none() {
            // A trigger without its feed was not requested.
            client.entity(Method::DELETE, &path(What::Trigger, &step.name, ""), None).await?;
        }
        return Err(failure);
    }
    let body = with_annotations(body, &annotations);
    client
        .entity(Method::PUT, &path(What::Trigger, &step.name, "?overwrite=true"), Some(&body))
        .await
        .map(drop)
}

/// Deletes a trigger's feed; one that is gone needs nothing.
async fn delete_feed(client: &Client, trigger: &str, existing: &Existing) {
    if let Some(action) =
        existing.annotations.get("feed").and_then(Value::as_str).filter(|action| !action.is_empty())
        && let Err(failure) = client.feed(action, &full(trigger), "DELETE", Map::new()).await
    {
        tell!("warning: {failure}");
    }
}

/// A trigger's name as feeds expect it.
fn full(trigger: &str) -> String {
    format!("/_/{trigger}")
}

async fn create_operation(
    client: &Client,
    operation: &Operation,
    entity: &Entity,
    managed: Option<&Value>,
) -> Result<(), Failure> {
    let parameters =
        operation.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    let parameters: Vec<_> = parameters
        .map(|name| json!({ "name": name, "in": "path", "required": true, "type": "string" }))
        .collect();
    let mut apidoc = json!({
        "namespace": "_", "gatewayBasePath": operation.base_path, "gatewayPath": operation.path, "gatewayMethod": operation.method,
        "apiName": operation.api,
        "action": { "name": operation.action.to_string(), "namespace": "_", "secureKey": operation.secret },
    });
    if !parameters.is_empty() {
        apidoc["pathParameters"] = parameters.into();
    }
    note(&mut apidoc, entity, managed);
    create_api(client, &format!("?responsetype={}", operation.response), apidoc).await
}

/// Stores on an API what other entities have as annotations.
fn note(document: &mut Value, entity: &Entity, managed: Option<&Value>) {
    if let Some(managed) = managed {
        document["x-whisk-managed"] = managed.clone();
    }
    if let Some(digest) = &entity.digest {
        document["x-flint-digest"] = digest.as_str().into();
    }
}

async fn create_api(client: &Client, query: &str, apidoc: Value) -> Result<(), Failure> {
    let body = json!({ "apidoc": apidoc }).to_string().into();
    client.openwhisk(Method::POST, &format!("{MANAGEMENT}/createApi{query}"), Some(body)).await.map(drop)
}

async fn delete(client: &Client, step: &Step) -> Result<(), Failure> {
    let deleted = match step.what {
        What::Api => {
            let words: Vec<_> = step.name.splitn(3, ' ').collect();
            let query = match words.as_slice() {
                [_, base] => format!("basepath={}", segment(base)),
                [method, base, relative] => {
                    format!("basepath={}&relpath={}&operation={method}", segment(base), segment(relative))
                }
                _ => return Ok(()),
            };
            client.openwhisk(Method::DELETE, &format!("{MANAGEMENT}/deleteApi?{query}"), None).await.map(drop)
        }
        what => {
            if let (What::Trigger, Some((_, existing))) = (what, &step.existing) {
                delete_feed(client, &step.name, existing).await;
            }
            client.entity(Method::DELETE, &path(what, &step.name, ""), None).await.map(drop)
        }
    };
    match deleted {
        // Deleted by somebody else meanwhile.
        Err(failure) if failure.code == "not_found" => Ok(()),
        other => other,
    }
}
