//! Handlers for activation records and accepted calls.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode, response::Response};
use flint_controller::ControllerError;
use flint_model::{Activation, ActivationId, FunctionPath, LogLine, Qualifier, Timestamp};
use flint_store::{ActivationQuery, Page};
use serde::Deserialize;

use crate::{
    Native,
    auth::Tenant,
    error::{ApiError, Asked, Path},
    functions::{MOST, PageQuery, path_of},
    listed::roomy,
    resource::{ActivationList, ActivationResource, CallResource},
};

/// Which records.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ListQuery {
    limit: Option<usize>,
    skip: usize,
    function: Option<String>,
    since: Option<u64>,
    upto: Option<u64>,
    logs: bool,
}

/// List activation records, newest first
#[utoipa::path(get, path = "/v1/activations", tag = "activations",
    params(
        ("limit" = Option<usize>, Query, description = "Maximum number of entries, up to 1000; default 100"),
        ("skip" = Option<usize>, Query, description = "Number of entries to skip; default 0"),
        ("function" = Option<String>, Query, description = "Only records of this function: `name`, `package/name` or `/namespace/[package/]name`"),
        ("since" = Option<u64>, Query, description = "Only records that began at this time or later, in milliseconds since 1970"),
        ("upto" = Option<u64>, Query, description = "Only records that began at this time or earlier, in milliseconds since 1970"),
        ("logs" = Option<bool>, Query, description = "Include the logs; default false"),
    ),
    responses(
        (status = 200, description = "A page of records", body = ActivationList),
        (status = 503, body = crate::resource::ErrorBody, description = "The server is sending too many large responses at the moment"),
    ))]
pub(crate) async fn list(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Asked(query): Asked<ListQuery>,
) -> Result<Response, ApiError> {
    let page = PageQuery { limit: query.limit.unwrap_or(100).min(MOST), skip: query.skip }.page();
    let function = match &query.function {
        Some(name) => Some(listed_name(&native, &tenant, name).await?),
        None => None,
    };
    let which = ActivationQuery {
        name: function,
        since: query.since.map(Timestamp::from_millis),
        upto: query.upto.map(Timestamp::from_millis),
    };
    let read = || page_of(&native, &tenant, &which, page, query.logs);
    roomy(&native, &tenant, read).await
}

/// A page of the namespace's records, latest first.
pub(crate) async fn page_of(
    native: &Native,
    tenant: &Tenant,
    which: &ActivationQuery,
    page: Page,
    with_logs: bool,
) -> Result<ActivationList, ApiError> {
    let namespace = &tenant.caller.namespace.name;
    let records = native.controller.activations(&tenant.caller, namespace, which, page, with_logs).await?;
    Ok(ActivationList { activations: records.into_iter().map(ActivationResource::from).collect() })
}

/// The name under which a function's records are listed, from any name it may be called by.
pub(crate) async fn listed_name(native: &Native, tenant: &Tenant, name: &str) -> Result<String, ApiError> {
    let path = path_of(&tenant.caller, name)?;
    // `name@version`, even of a version that is gone, unless a function has this whole name.
    if let Some((bare, _)) = Qualifier::split(&path.name) {
        let bare = FunctionPath { name: bare, ..path.clone() };
        let found = match native.controller.function(&tenant.caller, &path).await {
            Err(ControllerError::NotFound | ControllerError::NoSuch(_)) => {
                native.controller.function(&tenant.caller, &bare).await
            }
            found => found,
        };
        if found.is_ok_and(|found| found.path.name == bare.name) {
            return Err(ApiError::invalid(format!(
                "records are listed by function, not by version: '{name}'"
            ))
            .hint(format!("ask for '{}'; each record says which version ran", bare.local())));
        }
    }
    Ok(path.local())
}

fn parse(id: &str) -> Result<ActivationId, ApiError> {
    id.parse().map_err(|_| {
        ApiError::invalid(format!("'{id}' is not an activation id: it has 32 hex digits"))
            .hint("`flint activations` lists them")
    })
}

async fn find(native: &Native, tenant: &Tenant, id: &str) -> Result<Activation, ApiError> {
    let parsed = parse(id)?;
    let namespace = &tenant.caller.namespace.name;
    native
        .controller
        .activation(&tenant.caller, namespace, parsed)
        .await
        .map_err(|error| ApiError::no_activation(error, id))
}

async fn record(native: &Native, tenant: &Tenant, id: &str) -> Result<ActivationResource, ApiError> {
    Ok(find(native, tenant, id).await?.into())
}

async fn lines(native: &Native, tenant: &Tenant, id: &str) -> Result<Vec<LogLine>, ApiError> {
    Ok(find(native, tenant, id).await?.logs)
}

/// Get an activation record with its logs
#[utoipa::path(get, path = "/v1/activations/{id}", tag = "activations",
    params(("id" = String, Path, description = "Activation id, 32 hex digits", pattern = "^[0-9a-fA-F]{32}$")),
    responses(
        (status = 200, description = "The record", body = ActivationResource),
        (status = 404, description = "No such activation", body = crate::resource::ErrorBody),
    ))]
pub(crate) async fn get(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    roomy(&native, &tenant, || record(&native, &tenant, &id)).await
}

/// Get an accepted call that has not ended, or is a dead letter
///
/// Shows the state of the call and the outcome of its attempts so far.
#[utoipa::path(get, path = "/v1/calls/{id}", tag = "activations",
    params(("id" = String, Path, description = "Activation id of the call, 32 hex digits", pattern = "^[0-9a-fA-F]{32}$")),
    responses(
        (status = 200, description = "The call", body = CallResource),
        (status = 404, body = crate::resource::ErrorBody, description = "No such call, or the call has ended: see its activation record"),
    ))]
pub(crate) async fn accepted(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Path(id): Path<String>,
) -> Result<Json<CallResource>, ApiError> {
    let namespace = &tenant.caller.namespace.name;
    let call = native.controller.accepted_call(&tenant.caller, namespace, parse(&id)?).await;
    let call = call.map_err(|error| match error {
        ControllerError::NotFound => {
            ApiError::new(StatusCode::NOT_FOUND, "not_found", format!("no accepted call {id} waits or runs"))
                .hint("when it is over, GET /v1/activations/{id} has its record")
        }
        other => other.into(),
    })?;
    Ok(Json(call.into()))
}

/// Get the log lines of an activation, in order
#[utoipa::path(get, path = "/v1/activations/{id}/logs", tag = "activations",
    params(("id" = String, Path, description = "Activation id, 32 hex digits", pattern = "^[0-9a-fA-F]{32}$")),
    responses(
        (status = 200, description = "The log lines", body = Vec<Object>),
        (status = 404, description = "No such activation", body = crate::resource::ErrorBody),
    ))]
pub(crate) async fn logs(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    roomy(&native, &tenant, || lines(&native, &tenant, &id)).await
}
