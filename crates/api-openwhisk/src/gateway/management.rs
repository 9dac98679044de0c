//! Handlers of `wsk api create | get | list | delete`, which clients call as web actions of `whisk.system`.
//!
//! Each reads all APIs of the namespace, which may be as large as the largest list, and so holds a memory
//! permit for that.

use axum::body::Body;
use flint_controller::{DeleteApi, ErrorKind, LARGEST_LIST};
use flint_model::Api;
use http::{HeaderMap, StatusCode, header::HOST, uri::Authority};
use serde_json::json;

use super::{CreateApi, create_api, document};
use crate::{
    parse::{ListQuery, Method, RouteError},
    refusal::Refusal,
    reply::Reply,
    request::{Request, json_body},
};

/// A management operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Create,
    Get,
    Delete,
}

/// The operation that a path stands for, if any.
pub(crate) fn verb(path: &str) -> Option<Verb> {
    let action = path.strip_prefix("/api/v1/web/whisk.system/apimgmt/")?;
    match action.trim_end_matches('/').split_once('.').map_or(action, |(name, _)| name) {
        "createApi" => Some(Verb::Create),
        "getApi" => Some(Verb::Get),
        "deleteApi" => Some(Verb::Delete),
        _ => None,
    }
}

/// Executes the operation.
pub(crate) async fn manage(
    request: &Request<'_>,
    verb: Verb,
    method: Method,
    body: Body,
) -> Result<Reply, Refusal> {
    match (verb, method) {
        (Verb::Create, Method::Post) => create(request, body).await,
        (Verb::Get, Method::Get) => get(request).await,
        (Verb::Delete, Method::Delete) => delete(request).await,
        (Verb::Create, _) => Err(RouteError::Method("POST").into()),
        (Verb::Get, _) => Err(RouteError::Method("GET").into()),
        (Verb::Delete, _) => Err(RouteError::Method("DELETE").into()),
    }
}

async fn create(request: &Request<'_>, body: Body) -> Result<Reply, Refusal> {
    let (controller, caller) = (request.controller, &request.caller);
    let limit = caller.limits().bounds.max_payload.as_u64();
    let arrival = request.arrival(None);
    let body = json_body(request.headers, body, limit, arrival, |_| Refusal::body_too_large()).await?;
    let body_length = body.len();
    let _room = request.uploads.room(caller.namespace.name.as_str(), None).await;
    let response_type = request.query.get("responsetype").filter(|text| !text.is_empty());
    let (own, response_type) = (caller.namespace.name.clone(), response_type.map(str::to_owned));
    let parse = move || create_api(&body, &own, response_type.as_deref());
    let create = request.aside(body_length, parse).await?.map_err(failed)?;
    let written = match create {
        CreateApi::Api(put) => controller.put_api(caller, *put).await,
        CreateApi::Operation { base_path, title, operation } => {
            controller.put_operation(caller, &base_path, title.as_deref(), *operation).await
        }
    };
    let api = written.map_err(|error| match error.kind() {
        ErrorKind::Invalid => failed(error.to_string()),
        _ => error.into(),
    })?;
    Reply::json(StatusCode::OK, &document::shown(&api, &host(request)))
}

fn failed(why: String) -> Refusal {
    Refusal::bad_request(format!("API creation failure: {why}"))
}

async fn get(request: &Request<'_>) -> Result<Reply, Refusal> {
    let ListQuery { page, .. } = ListQuery::parse(&request.query, "apis")?;
    let asked = |name: &str| request.query.get(name).filter(|text| !text.is_empty());
    let (which, path) = (asked("basepath"), asked("relpath"));
    let method = asked("operation").map(str::to_ascii_lowercase);
    let wanted = |mut api: Api| {
        if which.is_some_and(|which| which != api.base_path && which != api.title) {
            return None;
        }
        let all = path.is_none() && method.is_none();
        api.operations.retain(|one| {
            path.is_none_or(|path| path == one.path)
                && method.as_ref().is_none_or(|method| *method == one.method)
        });
        (all || !api.operations.is_empty()).then_some(api)
    };
    let host = host(request);
    let namespace = &request.caller.namespace.name;
    let room = request.uploads.answer(namespace.as_str(), LARGEST_LIST.as_u64()).await?;
    let apis = request.controller.apis(&request.caller).await?;
    let apis = apis.into_iter().filter_map(wanted).skip(page.skip).take(page.limit);
    let apis: Vec<_> = apis.map(|api| document::listed(&api, &host)).collect();
    let reply = Reply::json(StatusCode::OK, &json!({ "apis": apis }))?;
    let room = room.filter(|_| reply.is_large());
    Ok(reply.in_room(room))
}

async fn delete(request: &Request<'_>) -> Result<Reply, Refusal> {
    let asked = |name: &str| request.query.get(name).filter(|text| !text.is_empty());
    let which = asked("basepath").ok_or_else(|| Refusal::bad_request("basepath is required."))?;
    let delete = DeleteApi { which, path: asked("relpath"), method: asked("operation") };
    if delete.path.is_none() && delete.method.is_some() {
        return Err(Refusal::bad_request("When specifying an operation, the path is required."));
    }
    let _room = request.uploads.room(request.caller.namespace.name.as_str(), None).await;
    request.controller.delete_api(&request.caller, delete).await?;
    Ok(Reply::raw_json(StatusCode::OK, "{}"))
}

/// This server's base URL as the client knows it.
fn host(request: &Request<'_>) -> String {
    known_as(request.headers).unwrap_or_else(|| request.controller.config().api_host.clone())
}

fn known_as(headers: &HeaderMap) -> Option<String> {
    let host: Authority = headers.get(HOST)?.to_str().ok()?.parse().ok()?;
    let scheme = match headers.get("x-forwarded-proto").map(|value| value.as_bytes()) {
        Some(b"https") => "https",
        _ => "http",
    };
    Some(format!("{scheme}://{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_ask_with_and_without_an_extension() {
        let of = |action: &str| verb(&format!("/api/v1/web/whisk.system/apimgmt/{action}"));
        assert_eq!(
            (of("createApi.http"), of("getApi"), of("deleteApi.json")),
            (Some(Verb::Create), Some(Verb::Get), Some(Verb::Delete))
        );
        assert_eq!((of("other.http"), of(""), verb("/api/v1/web/guest/apimgmt/getApi")), (None, None, None));
    }

    #[test]
    fn the_server_is_called_what_the_client_calls_it() {
        let headers = HeaderMap::from_iter([(HOST, "example.com:8".parse().unwrap())]);
        assert_eq!(known_as(&headers).as_deref(), Some("http://example.com:8"));
        let mut proxied = headers;
        proxied.insert("x-forwarded-proto", "https".parse().unwrap());
        assert_eq!(known_as(&proxied).as_deref(), Some("https://example.com:8"));
        assert_eq!(known_as(&HeaderMap::new()), None);
    }
}
