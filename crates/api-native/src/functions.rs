//! Handlers for functions: list, read, delete.

use std::sync::Arc;

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use flint_controller::Caller;
use flint_model::{CodeFormat, FunctionPath};
use flint_request_body::Answer;
use flint_store::Page;
use serde::Deserialize;

use crate::{
    Native,
    auth::Tenant,
    error::{ApiError, Asked, Path},
    listed::{answer, listed},
    resource::{FunctionList, FunctionResource},
};

/// Maximum number of items per page.
pub(crate) const MOST: usize = 1000;

/// Which part of a list.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(crate) struct PageQuery {
    pub(crate) limit: usize,
    pub(crate) skip: usize,
}

impl Default for PageQuery {
    fn default() -> Self {
        Self { limit: 100, skip: 0 }
    }
}

impl PageQuery {
    pub(crate) fn page(&self) -> Page {
        Page { skip: self.skip, limit: self.limit.min(MOST) }
    }
}

/// `name` or `package/name` in the caller's namespace; with a leading slash, `/namespace/[package/]name`.
pub(crate) fn path_of(caller: &Caller, name: &str) -> Result<FunctionPath, ApiError> {
    let full = match name.starts_with('/') {
        true => name.to_owned(),
        false => format!("{}/{name}", caller.namespace.name),
    };
    full.parse().map_err(|error| {
        ApiError::invalid(format!("'{name}' cannot be the name of a function: {error}"))
            .hint("letters, digits, _ @ . & - and inner spaces are allowed, up to 256 characters")
    })
}

/// List functions, most recently deployed first
///
/// Parameters are left out. A list of more than 8 MiB is refused: ask for a smaller page.
#[utoipa::path(get, path = "/v1/functions", tag = "functions",
    params(("limit" = Option<usize>, Query, description = "Maximum number of entries, up to 1000; default 100"), ("skip" = Option<usize>, Query, description = "Number of entries to skip; default 0")),
    responses(
        (status = 200, description = "A page of functions", body = FunctionList),
        (status = 400, description = "Invalid request, or a list that is too large", body = crate::resource::ErrorBody),
        (status = 401, description = "Missing or invalid key", body = crate::resource::ErrorBody),
        (status = 503, description = "The server is sending too many large responses at the moment", body = crate::resource::ErrorBody),
    ))]
pub(crate) async fn list(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Asked(query): Asked<PageQuery>,
) -> Result<Response, ApiError> {
    let (controller, caller) = (&native.controller, &tenant.caller);
    let namespace = &caller.namespace.name;
    let read = |most| controller.functions(caller, namespace, None, query.page(), most);
    let (functions, room) = listed(&native, &tenant, read).await?;
    let total = controller.count_functions(caller, namespace, None).await?;
    let functions = functions.iter().map(FunctionResource::listed).collect();
    answer(&FunctionList { functions, total }, room)
}

/// Get a function
#[utoipa::path(get, path = "/v1/functions/{name}", tag = "functions",
    params(("name" = String, Path, description = "Function name: `name`, or `package%2Fname`")),
    responses(
        (status = 200, description = "The function", body = FunctionResource),
        (status = 404, description = "No such function", body = crate::resource::ErrorBody),
    ))]
pub(crate) async fn get(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Path(name): Path<String>,
) -> Result<Json<FunctionResource>, ApiError> {
    let path = path_of(&tenant.caller, &name)?;
    let function = native.controller.function(&tenant.caller, &path).await;
    let function =
        function.map_err(|error| ApiError::no_function(error, path.namespace.as_str(), &path.local()))?;
    Ok(Json(FunctionResource::with(&function, native.controller.prepared(&function).as_deref())))
}

/// Download a function's code as it was deployed
///
/// The header `X-Flint-Code-Format` gives its format.
#[utoipa::path(get, path = "/v1/functions/{name}/code", tag = "functions",
    params(("name" = String, Path, description = "Function name: `name`, or `package%2Fname`")),
    responses(
        (status = 200, description = "The code", headers(("X-Flint-Code-Format" = String, description = "`source`, `zip`, `targz`, `jar` or `executable`")),
            content(("text/plain"), ("application/zip"), ("application/gzip"), ("application/java-archive"), ("application/octet-stream"))),
        (status = 404, description = "No such function", body = crate::resource::ErrorBody),
        (status = 503, description = "The server is sending too many large responses at the moment", body = crate::resource::ErrorBody),
    ))]
pub(crate) async fn code(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    let path = path_of(&tenant.caller, &name)?;
    let missing = |error| ApiError::no_function(error, path.namespace.as_str(), &path.local());
    let function = native.controller.function(&tenant.caller, &path).await.map_err(missing)?;
    let namespace = &tenant.caller.namespace.name;
    let room = native.config.uploads.answer(namespace.as_str(), function.code.size.as_u64()).await?;
    let code = native.controller.code(&function).await?;
    let (media, word) = match function.code.format {
        CodeFormat::Source => ("text/plain; charset=utf-8", "source"),
        CodeFormat::Zip => ("application/zip", "zip"),
        CodeFormat::TarGz => ("application/gzip", "targz"),
        CodeFormat::Jar => ("application/java-archive", "jar"),
        CodeFormat::Executable => ("application/octet-stream", "executable"),
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media)),
        (HeaderName::from_static("x-flint-code-format"), HeaderValue::from_static(word)),
    ];
    let body = match room {
        Some(room) => Body::new(Answer::new(code, room)),
        None => code.into(),
    };
    Ok((headers, body).into_response())
}

/// Delete a function
///
/// Returns the deleted function.
#[utoipa::path(delete, path = "/v1/functions/{name}", tag = "functions",
    params(("name" = String, Path, description = "Function name: `name`, or `package%2Fname`")),
    responses(
        (status = 200, description = "The deleted function", body = FunctionResource),
        (status = 404, description = "No such function", body = crate::resource::ErrorBody),
    ))]
pub(crate) async fn delete(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Path(name): Path<String>,
) -> Result<Json<FunctionResource>, ApiError> {
    let path = path_of(&tenant.caller, &name)?;
    let deleted = native.controller.delete_function(&tenant.caller, &path).await;
    let deleted =
        deleted.map_err(|error| ApiError::no_function(error, path.namespace.as_str(), &path.local()))?;
    Ok(Json(FunctionResource::from(&deleted)))
}
