//! Triggers: create, overwrite, read, list, delete, fire.

use std::sync::Arc;

use axum::body::Body;
use flint_controller::{ControllerError, Firing, PutTrigger};
use http::{HeaderMap, StatusCode, header::AUTHORIZATION};
use serde_json::{Map, Value, json};

use crate::{
    invoke::accepted,
    parse::{ListQuery, Name, trigger_body},
    refusal::Refusal,
    reply::Reply,
    request::{Request, json_body},
    show::{TriggerDetail, TriggerSummary},
};

const COLLECTION: &str = "triggers";

/// `PUT …/triggers/NAME?overwrite=`
pub(crate) async fn put(request: &Request<'_>, name: Name<'_>, body: Body) -> Result<Reply, Refusal> {
    let path = request.entity(name)?;
    let overwrite = request.query.flag("overwrite", false)?;
    let body = request.entity_body(body, trigger_body).await?;
    let put = PutTrigger {
        overwrite,
        parameters: body.parameters,
        annotations: body.annotations,
        publish: body.publish,
        version: body.version,
    };
    let trigger = request.controller.put_trigger(&request.caller, path, put).await?;
    Reply::json(StatusCode::OK, &TriggerDetail::new(&trigger))
}

/// `GET …/triggers/NAME`
pub(crate) async fn get(request: &Request<'_>, name: Name<'_>) -> Result<Reply, Refusal> {
    let path = request.entity(name)?;
    let trigger = request.controller.trigger(&request.caller, &path).await?;
    Reply::json(StatusCode::OK, &TriggerDetail::new(&trigger))
}

/// `DELETE …/triggers/NAME`
pub(crate) async fn delete(request: &Request<'_>, name: Name<'_>) -> Result<Reply, Refusal> {
    let path = request.entity(name)?;
    let trigger = request.controller.delete_trigger(&request.caller, &path).await?;
    Reply::json(StatusCode::OK, &TriggerDetail::new(&trigger))
}

/// `GET …/triggers?limit=&skip=&count=`
pub(crate) async fn list(request: &Request<'_>, namespace: &str) -> Result<Reply, Refusal> {
    let namespace = request.namespace(namespace)?;
    let ListQuery { page, count } = ListQuery::parse(&request.query, COLLECTION)?;
    let (controller, caller) = (request.controller, &request.caller);
    if count {
        let all = controller.count_triggers(caller, &namespace).await?;
        return Reply::json(StatusCode::OK, &json!({ COLLECTION: all.saturating_sub(page.skip) }));
    }
    let (triggers, room) = request.listed(|most| controller.triggers(caller, &namespace, page, most)).await?;
    Ok(Reply::list(triggers.iter().map(TriggerSummary::new))?.in_room(room))
}

/// `POST …/triggers/NAME`: 202 with an activation, or 204 when no rule is active.
pub(crate) async fn fire(request: &Request<'_>, name: Name<'_>, body: Body) -> Result<Reply, Refusal> {
    let path = request.entity(name)?;
    let allowed = request.caller.limits().bounds.max_payload.as_u64();
    let too_large = |size| ControllerError::TooLarge { what: "Request", size, allowed }.into();
    let firing = Firing {
        path,
        payload: json_body(request.headers, body, allowed, request.arrival(None), too_large).await?,
        headers: shown_headers(request.headers),
        transaction: Arc::clone(&request.transaction),
        arrived: request.arrived,
        api_key: Some(request.key.as_str().into()),
    };
    Ok(match request.controller.fire(&request.caller, firing).await? {
        Some(activation) => accepted(activation),
        None => Reply::no_content(),
    })
}

/// The request's headers for actions, without the key: an action may log whatever it gets.
fn shown_headers(headers: &HeaderMap) -> Value {
    let mut shown = Map::new();
    for name in headers.keys().filter(|name| *name != AUTHORIZATION) {
        let values: Vec<_> =
            headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        shown.insert(name.as_str().to_owned(), values.join(", ").into());
    }
    Value::Object(shown)
}
